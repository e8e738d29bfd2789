"""The page of what was learned: each item once, paging, decisions in place, and what was rejected and why."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from foveate import Foveate
from foveate.knowledge.run import learn
from foveate.store.knowledge import KnowledgeSource, NewKnowledge
from foveate.store.rows import DAY_US
from foveate.store.sql import now_us
from support.servers import ServerClient, call, client_of

RULES = [f"Never deploy service number {number} on a Friday." for number in range(12)]
HTMX = {"hx-request": "true"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[ServerClient]:
    """A server of a store with 12 proposed rules, a fact, and an approved reference without a project."""
    with client_of(tmp_path / "a.db") as made:
        call(made, _fill, made.fov)
        yield made


async def _fill(fov: Foveate) -> None:
    session = await fov.session("work", channel="shop")
    await session.record([{"role": "user", "content": "Never deploy on a Friday."}])
    now = now_us()
    items = [
        NewKnowledge(
            id=f"k-{number:02}",
            scope="project:shop",
            kind="lesson",
            state="proposed",
            title=f"{rule[:20]}…",
            text=rule,
            form="rule",
            sources=(KnowledgeSource("work", 1),),
            maker="local",
            first_seen_us=now,
            last_seen_us=now,
        )
        for number, rule in enumerate(RULES)
    ]
    await fov.store.knowledge.add("", items)
    await fov.knowledge.add("Ports", "The shop listens on 8443.")


def listed(text: str) -> list[str]:
    """The ids of the items on a page, in their order."""
    return re.findall(r'class="what"><a href="/ui/knowledge/([^"]+)"', text)


def rest(client: ServerClient, text: str) -> list[str]:
    """The items that `Show more` loads, up to the end of the list."""
    found: list[str] = []
    while link := re.search(r'hx-get="(/ui/knowledge\?section=[^"]+)"', text):
        text = client.get(link[1].replace("&amp;", "&"), headers=HTMX).text
        found += listed(text)
    return found


def test_every_item_is_on_the_page_once_with_its_whole_text(client: ServerClient) -> None:
    text = client.get("/ui/knowledge").text
    assert re.sub(r'aria-label="[^"]*"', "", text).count(RULES[0]) == 1
    assert len(listed(text)) == len(set(listed(text))) == 6
    assert f"{RULES[0][:20]}…" not in text
    assert "project:<" not in text
    assert "no project" in text


def test_a_long_list_is_shown_in_parts_without_a_gap(client: ServerClient) -> None:
    text = client.get("/ui/knowledge").text
    assert "Show more (7)" in text
    first = [name for name in listed(text) if name in {f"k-{number:02}" for number in range(12)}]
    assert first + rest(client, text) == [f"k-{number:02}" for number in range(12)]
    whole = client.get("/ui/knowledge?section=new&after=k-04").text
    assert "<h1>Learned since yesterday</h1>" in whole
    assert listed(whole) == [f"k-{number:02}" for number in range(5, 10)]


def test_a_decision_in_place_leaves_no_item_out_of_the_next_part(client: ServerClient) -> None:
    text = client.get("/ui/knowledge").text
    for name in ("k-00", "k-04"):
        answer = client.post(f"/ui/knowledge/{name}/approve", headers=HTMX)
        assert answer.text.startswith('<li class="decided" role="status">Approved: ')
        assert "autofocus" in answer.text
    assert rest(client, text) == [f"k-{number:02}" for number in range(5, 12)]


def test_what_is_in_force_is_grouped_by_project_and_kind(client: ServerClient) -> None:
    for name in ("k-00", "k-01"):
        client.post(f"/ui/knowledge/{name}/pin")
    text = client.get("/ui/knowledge").text
    force = text[text.index('id="force"') :]
    assert "<b>3</b> in force" in text
    assert '<b>shop</b> <span class="dim">2 rules</span>' in force
    assert '<b>no project</b> <span class="dim">1 reference</span>' in force
    assert re.findall(r"<h3>(\w+)</h3>", force)[:2] == ["Rules", "References"]
    only = client.get("/ui/knowledge?scope=project:shop").text
    assert "<b>2</b> in force" in only


def test_what_was_rejected_is_shown_with_the_reason(client: ServerClient) -> None:
    call(client, client.fov.knowledge.retire, "k-03", "that was a joke")
    text = client.get("/ui/knowledge").text
    rejected = text[text.index('id="rejected"') :]
    assert "that was a joke" in rejected
    assert "rejected by a person" in rejected
    client.post("/ui/knowledge/k-03/approve")
    assert "that was a joke" not in client.get("/ui/knowledge").text


def test_proposals_of_earlier_days_are_not_listed_as_new(client: ServerClient, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("UPDATE knowledge SET created_us = created_us - ? WHERE id < 'k-10'", (3 * DAY_US,))
    text = client.get("/ui/knowledge").text
    assert "<b>2</b> learned since yesterday" in text
    assert "<b>10</b> earlier proposals to decide" in text
    assert listed(text)[:3] == ["k-10", "k-11", "k-00"]


def test_a_replaced_statement_names_the_one_that_replaced_it(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        call(client, _say, client.fov, "production runs PostgreSQL 15.")
        call(client, _say, client.fov, "We've upgraded, production runs PostgreSQL 16 now.")
        text = client.get("/ui/knowledge").text
        assert "<del>" in text
        assert "PostgreSQL 16" in text


async def _say(fov: Foveate, text: str) -> None:
    session = await fov.session("work", channel="shop")
    await session.record([{"role": "user", "content": f"For context: {text}"}])
    await learn(fov, quick=True)
