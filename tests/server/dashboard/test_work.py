"""Agents and the file cabinet as pages, and the purpose of each list under its title."""

from __future__ import annotations

import re
from pathlib import Path

from foveate import Foveate, sync
from support.servers import call, client_of


def test_a_page_says_its_purpose_under_its_title_also_when_it_is_not_empty(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        call(client, _fill, client.fov)
        for path, purpose in (
            ("/", "Recorded conversations"),
            ("/ui/agents", "Tasks that a model works on by itself"),
            ("/ui/prompts", "Instructions that Foveate sends to models"),
            ("/ui/cabinet", "Large tool results and fetched pages"),
        ):
            page = client.get(path).text
            assert 'class="empty"' not in page
            assert purpose in page.partition("</h1>")[2].partition("<table")[0], path


async def _fill(fov: Foveate) -> None:
    session = await fov.session("work")
    await session.cabinet.file(b"x" * 7_200, name="ports.txt", media_type="text/plain", source="exec")
    await fov.agents.spawn("List the ports.")


def test_the_task_of_an_agent_links_to_its_session_and_its_state_says_once_why_it_ended(tmp_path: Path) -> None:
    with sync.open(tmp_path / "a.db") as fov:
        top = fov.agents.spawn("List the ports.")
        below = fov.agents.spawn("Read the runbook.", parent=top.session_id)
        fov.agents.cancel(top.id)
    with client_of(tmp_path / "a.db") as client:
        page = client.get("/ui/agents").text
    for agent in (top, below):
        link = f'<a href="/ui/sessions/{agent.id}">{agent.task}</a> <code class="dim">{agent.id}</code>'
        assert link in page
        assert page.count(f'href="/ui/sessions/{agent.id}"') == 1
    said = re.findall(r'<span class="state-cancelled">cancelled</span>([^<]*)<', page)
    assert said == ["", f": {top.id} was cancelled"]


def test_a_file_of_the_cabinet_is_linked_by_its_name_and_its_size_has_a_unit(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        call(client, _fill, client.fov)
        page = client.get("/ui/cabinet").text
        path, key = re.findall(r'<a href="(/ui/cabinet/[^"]+)">ports.txt</a> <code class="dim">([^<]+)</code>', page)[0]
        assert path == f"/ui/cabinet/{key}"
        assert '<td class="right">7.2 kB</td>' in page
        assert "7.2 kB" in client.get(path).text
