"""Lessons and references that a prompt brings up: by words and meaning, from the scopes of the session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foveate import Foveate
from foveate.recall.index import Query
from foveate.recall.knowledge import ItemTable, best_items, stems
from foveate.store.knowledge import KnowledgeMark, KnowledgeRow, NewKnowledge
from support.engine import with_store
from support.stores.knowledge import item

COMMITS = "Write commit messages in the imperative, without issue numbers."
PORT = "The staging server listens on port 8443 and restarts at night."


def lesson(item_id: str, title: str, text: str, **given: Any) -> NewKnowledge:
    plain = replace(item(item_id), title=title, text=text, keywords=(), technologies=(), state="approved")
    return replace(plain, scope="project:shop", **given)


def found(path: Path, items: list[NewKnowledge], prompt: str, **limits: float) -> list[str]:
    """Ids of the items that a prompt brings up in a session of the project."""

    async def job(fov: Foveate) -> list[str]:
        session = await fov.session("s", channel="shop")
        await fov._store.knowledge.add("", items)
        searcher, row = fov._searcher, session.engine.row
        query = replace(Query.of(prompt), session=row, items=searcher.items)
        measured = await searcher.measure(searcher.index(row), query, prompt, words_seconds=None, vectors_seconds=None)
        given: Mapping[str, Any] = {"least": 0.8, "confidence": 0.6, "limit": 10, **limits}
        assert measured.look
        assert measured.look.items
        return [each.row.id for each in best_items(measured.look.items, measured.items, **given)]

    return asyncio.run(with_store(path / "chat.db", job))


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("What should a commit message look like?", ["k-1"]),
        ("On which port does the staging server listen?", ["k-2"]),
        ("What is the capital of France?", []),
        ("How was your weekend?", []),
        ("…", []),
    ],
)
def test_a_prompt_brings_up_what_is_about_it(tmp_path: Path, prompt: str, ids: list[str]) -> None:
    items = [lesson("k-1", "Commit messages", COMMITS), lesson("k-2", "Staging", PORT, kind="reference")]
    assert found(tmp_path, items, prompt) == ids


def test_only_decided_and_confident_items_of_shown_kinds_count(tmp_path: Path) -> None:
    items = [
        lesson("k-approved", "Commit messages", COMMITS),
        lesson("k-pinned", "Commit messages", COMMITS, state="pinned", confidence=0.1),
        lesson("k-retired", "Commit messages", COMMITS, state="retired"),
        lesson("k-sure", "Commit messages", COMMITS, state="proposed", confidence=0.6),
        lesson("k-unsure", "Commit messages", COMMITS, state="proposed", confidence=0.59),
        lesson("k-topic", "Commit messages", COMMITS, kind="topic"),
        replace(lesson("k-other", "Commit messages", COMMITS), scope="project:other"),
    ]
    assert found(tmp_path, items, "What should a commit message look like?") == ["k-approved", "k-pinned", "k-sure"]


def test_a_change_is_seen_at_once_and_unchanged_items_are_read_once(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        row = (await fov.session("s", channel="shop")).engine.row
        index = fov._searcher.index(row)

        async def items() -> ItemTable:
            query = replace(Query.of("commit message"), session=row, items=fov._searcher.items)
            found = (await index.look(query)).items
            assert found
            return found

        await fov._store.knowledge.add("", [lesson("k-1", "Commit messages", COMMITS)])
        first = await items()
        assert await items() is first
        await fov._store.knowledge.add("", [lesson("k-1", "Staging", PORT)])
        assert (await items()).by_words("staging port")["k-1"] == 1.0

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_one_measure_is_enough_and_the_heavier_comes_first_among_equals() -> None:
    given: dict[str, Any] = {name: getattr(item(), name) for name in NewKnowledge.__slots__} | {"state": "approved"}
    stored: dict[str, Any] = {"tenant": "", "version": 1, "created_us": 0, "superseded_by": "", "uses": 0, "helped": 0}
    rows = [
        KnowledgeRow(**{**given, "id": name, "weight": weight}, **stored, last_used_us=None)
        for name, weight in (("k-light", 0.1), ("k-heavy", 0.9))
    ]
    items = ItemTable.of(KnowledgeMark(2, 2, 0), rows)
    best = best_items(items, [{"k-light": 0.9, "k-heavy": 0.9}], least=0.8, confidence=0.6, limit=1)
    assert [each.row.id for each in best] == ["k-heavy"]
    assert best_items(items, [], least=0.0, confidence=0.0, limit=9) == []


def test_forms_of_a_word_are_one_word() -> None:
    assert stems("Commits and tested servers") == stems("commit testing server")
    assert "utf8" in stems("utf8 files")
