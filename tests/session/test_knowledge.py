"""Knowledge as people read, decide on and write it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

import foveate
from foveate.client import Foveate
from foveate.errors import InputError, KnowledgeNotFound, NotFound, Refused
from foveate.session.knowledge import KnowledgeDraft
from foveate.store.knowledge import KnowledgeChanges, KnowledgeSource, Supersession
from support.stores.knowledge import item
from support.stores.knowledge import run as new_run


def run(folder: Path, job: Callable[[Foveate], Awaitable[None]]) -> None:
    """A store with a session, and two lessons that a run made."""

    async def work() -> None:
        async with foveate.open(folder / "chat.db") as fov:
            session = await fov.session("chat", channel="shop")
            await session.record([{"role": "user", "content": "Run make test."}])
            made = replace(item("k-1a2b3c4d5e"), sources=(KnowledgeSource("chat", 1),))
            await fov._store.knowledge.add("", [made, item("k-1f00000000")])
            await job(fov)

    asyncio.run(work())


def test_each_decision_is_a_new_version_by_a_person_with_a_reason(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await fov.knowledge.approve("k-1a")
        await fov.knowledge.edit("k-1a", text="Run make check.\r\n", title="How to\ntest", reason="it was renamed")
        await fov.knowledge.pin("k-1a")
        await fov.knowledge.retire("k-1a", "the tests are gone")
        versions = await fov.knowledge.versions("k-1a")
        assert [(each.version, each.state, each.maker, each.reason) for each in versions] == [
            (1, "proposed", "local", "approved"),
            (2, "approved", "person", "it was renamed"),
            (3, "approved", "person", "pinned"),
            (4, "pinned", "person", "the tests are gone"),
            (5, "retired", "person", ""),
        ]
        assert [each.superseded_by for each in versions] == [f"k-1a2b3c4d5e@{number}" for number in (2, 3, 4, 5)] + [""]
        assert {each.sources for each in versions} == {("chat/T-1",)}
        newest = versions[-1]
        assert (newest.title, newest.text, newest.topics) == ("How to test", "Run make check.", ("t-1",))
        assert (await fov.knowledge.approve("k-1a")).version == 6

    run(tmp_path, job)


def test_a_decision_that_changes_nothing_adds_no_version(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        assert (await fov.knowledge.edit("k-1a", text="Run the tests with make.")).version == 1
        assert (await fov.knowledge.approve("k-1a")).version == 2
        assert (await fov.knowledge.approve("k-1a")).version == 2
        await fov._store.knowledge.add("", [replace(item("k-2"), state="approved")])
        assert (await fov.knowledge.approve("k-2")).maker == "person"

    run(tmp_path, job)


def test_an_item_is_found_by_a_unique_beginning_of_its_id(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        assert (await fov.knowledge.get("k-1a")).id == "k-1a2b3c4d5e"
        with pytest.raises(KnowledgeNotFound, match="2 items match it, such as k-1a2b3c4d5e, k-1f00000000"):
            await fov.knowledge.get("k-1")
        for unknown in ("k-9", "", "nobody:k-1a"):
            with pytest.raises(KnowledgeNotFound, match="'foveate knowledge list'"):
                await fov.knowledge.get(unknown)

    run(tmp_path, job)


def test_lists_leave_out_what_is_retired_unless_it_is_asked_for(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await fov.knowledge.retire("k-1f")
        await fov.knowledge.add("Ports", "The shop listens on 8443.", scope="project:shop")

        async def ids(**wanted: str) -> list[str]:
            return [each.title for each in await fov.knowledge.list(**wanted)]  # type: ignore[arg-type]

        assert await ids() == ["Tests", "Ports"]
        assert await ids(state="retired") == ["Tests"]
        assert len(await ids(state="all", scope="project:shop")) == 3
        assert await ids(kind="reference", state="approved") == ["Ports"]
        assert await ids(scope="user:anna") == []
        for wrong in ({"state": "new"}, {"kind": "rule"}, {"scope": "shop"}):
            with pytest.raises(InputError):
                await ids(**wrong)

    run(tmp_path, job)


def test_a_person_writes_references_and_the_same_title_again_is_a_new_version(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        first = await fov.knowledge.add("Ports", "8443", technologies=["nginx", "nginx"], sources=["chat/T-1"])
        assert (first.kind, first.state, first.maker, first.scope) == ("reference", "approved", "person", "project:")
        assert (first.technologies, first.sources) == (("nginx",), ("chat/T-1",))
        assert first.last_seen < first.created
        again = await fov.knowledge.add("ports", "8444")
        assert (again.id, again.version) == (first.id, 2)
        assert (await fov.knowledge.add("ports", "8444\n")).version == 2
        await fov.knowledge.pin(first.id)
        assert (await fov.knowledge.add("ports", "8445")).state == "pinned"
        with pytest.raises(InputError, match="can't be written by hand"):
            await fov.knowledge.add("Ports", "8443", kind="topic")
        for source in ("T-1", "chat/12x", "chat"):
            with pytest.raises(InputError, match="is not a turn"):
                await fov.knowledge.add("Ports", "8443", sources=[source])
        for source in ("chat/T-2", "other/T-1"):
            with pytest.raises(NotFound):
                await fov.knowledge.add("Ports", "8443", sources=[source])

    run(tmp_path, job)


@pytest.mark.parametrize(("title", "text"), [(" ", "x"), ("x", " \n"), ("x" * 201, "x"), ("x", "x" * 100_001)])
def test_empty_and_endless_texts_are_rejected(tmp_path: Path, title: str, text: str) -> None:
    async def job(fov: Foveate) -> None:
        with pytest.raises(InputError):
            await fov.knowledge.add(title, text)
        with pytest.raises(InputError):
            await fov.knowledge.edit("k-1a", title=title, text=text)

    run(tmp_path, job)


def test_a_change_made_from_an_older_version_or_of_a_merged_item_is_rejected(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        await fov.knowledge.pin("k-1a")
        with pytest.raises(Refused, match="is at version 2 now, but the change is based on version 1"):
            await fov.knowledge.edit("k-1a", text="Mine.", version=1)
        run_row = await fov._store.knowledge.begin_run(new_run(owner="me"))
        merged = KnowledgeChanges(superseded=(Supersession("k-1f00000000", "k-1a2b3c4d5e", "the same"),))
        await fov._store.knowledge.finish_run(run_row.id, "me", '{"items": 1}', merged)
        with pytest.raises(Refused, match="was replaced by k-1a2b3c4d5e"):
            await fov.knowledge.approve("k-1f00000000")
        assert (await fov.knowledge.get("k-1f00000000")).reason == "the same"
        (ended,) = await fov.knowledge.runs(scope="project:shop")
        assert (ended.id, ended.state, ended.report) == ("run-1", "done", {"items": 1})

    run(tmp_path, job)


def test_of_several_changes_with_a_wrong_one_none_is_stored(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        drafts = [KnowledgeDraft(id="k-1a", state="pinned"), KnowledgeDraft(title="New", text=" ")]
        with pytest.raises(InputError):
            await fov.knowledge.save(drafts)
        assert (await fov.knowledge.get("k-1a")).version == 1

    run(tmp_path, job)


def test_tenants_see_and_change_only_their_own_and_the_owner_all(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        acme, other = fov.tenant("acme"), fov.tenant("other")
        await (await acme.session("chat")).record([{"role": "user", "content": "The port is 8443."}])
        ported = await acme.knowledge.add("Ports", "8443", sources=["chat/T-1"])
        await other.knowledge.add("Ports", "8443")
        assert [each.sources for each in await acme.knowledge.list()] == [("chat/T-1",)]
        for foreign in ("k-1a2b3c4d5e", f"acme:{ported.id}"):
            with pytest.raises(KnowledgeNotFound):
                await other.knowledge.get(foreign)
        with pytest.raises(NotFound):
            await other.knowledge.add("Theirs", "8443", sources=["acme:chat/T-1"])
        with pytest.raises(NotFound):
            await fov.knowledge.add("Theirs", "8443", sources=["acme:chat/T-1"])
        listed = {each.id: each.sources for each in await fov.knowledge.list(kind="reference")}
        assert listed == {f"acme:{ported.id}": ("acme:chat/T-1",), f"other:{ported.id}": ()}
        with pytest.raises(KnowledgeNotFound, match="2 items match it, such as acme:"):
            await fov.knowledge.pin(ported.id)
        await fov.knowledge.pin(f"acme:{ported.id}")
        assert [each.state for each in await acme.knowledge.list()] == ["pinned"]
        assert [each.state for each in await other.knowledge.list()] == ["approved"]

    run(tmp_path, job)
