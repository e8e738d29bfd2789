"""Conformance cases of artefacts: what strategies had made, goals and documents."""

from __future__ import annotations

from foveate.errors import SessionNotFound
from foveate.store import Store
from foveate.store.rows import ArtefactRow, ArtefactsMark
from support.stores import Case, OpenStore, draft, new_session


def _made(name: str, data: bytes = b"data", *, kind: str = "topic", last: int = 3) -> ArtefactRow:
    return ArtefactRow(name, kind, 1, last, 40, data)


async def _talked(store: Store, turns: int = 3) -> None:
    await store.create_session(new_session())
    for number in range(turns):
        await store.append("s", [draft(f"turn {number}", at_us=10 * (number + 1))])


async def what_was_made_is_kept_by_strategy_and_name(store: Store, open_store: OpenStore) -> None:
    await _talked(store)
    await store.artefacts.keep_made("s", "topics", [_made("b"), _made("a", b"one")])
    await store.artefacts.keep_made("s", "hybrid", [_made("a", b"other")])
    again = await open_store()
    try:
        assert await again.artefacts.made("s", "topics") == [_made("a", b"one"), _made("b")]
        assert await again.artefacts.made("s", "hybrid") == [_made("a", b"other")]
        assert await again.artefacts.made("s", "checkpoint") == []
    finally:
        await again.close()


async def what_is_made_again_replaces_the_old(store: Store, _: OpenStore) -> None:
    await _talked(store)
    assert await store.artefacts.mark("s", "topics") == ArtefactsMark(0, 0)
    await store.artefacts.keep_made("s", "topics", [_made("a", b"one")])
    before = await store.artefacts.mark("s", "topics")
    await store.artefacts.keep_made("s", "topics", [_made("a", b"two", last=4)])
    assert await store.artefacts.made("s", "topics") == [_made("a", b"two", last=4)]
    after = await store.artefacts.mark("s", "topics")
    assert after.count == before.count == 1
    assert after.newest_us > before.newest_us


async def only_what_is_still_as_it_was_is_replaced(store: Store, _: OpenStore) -> None:
    await _talked(store)
    await store.artefacts.keep_made("s", "topics", [_made("a", b"one"), _made("b")])
    before = await store.artefacts.mark("s", "topics")
    assert await store.artefacts.replace_made("s", "topics", _made("a", b"one"), _made("a", b"two"))
    assert await store.artefacts.made("s", "topics") == [_made("a", b"two"), _made("b")]
    assert await store.artefacts.mark("s", "topics") != before
    assert not await store.artefacts.replace_made("s", "topics", _made("a", b"one"), _made("a", b"three"))
    assert not await store.artefacts.replace_made("s", "hybrid", _made("a", b"two"), _made("a", b"three"))
    await store.prune("s", before_us=15, dry_run=False)
    assert not await store.artefacts.replace_made("s", "topics", _made("a", b"two"), _made("a", b"three"))
    assert await store.artefacts.made("s", "topics") == []


async def only_a_state_that_is_still_as_it_was_is_replaced(store: Store, _: OpenStore) -> None:
    await _talked(store)
    assert await store.artefacts.replace_state("s", "topics", None, b"one")
    assert not await store.artefacts.replace_state("s", "topics", None, b"two")
    assert await store.artefacts.replace_state("s", "topics", b"one", b"two")
    assert await store.artefacts.state("s", "topics") == b"two"


async def a_fork_makes_its_own(store: Store, _: OpenStore) -> None:
    await _talked(store)
    await store.artefacts.keep_made("s", "topics", [_made("a")])
    await store.fork_session(new_session("f"), "s", 2)
    assert await store.artefacts.made("f", "topics") == []


async def goals_are_numbered_and_changed_in_place(store: Store, _: OpenStore) -> None:
    await _talked(store)
    first = await store.artefacts.add_goal("s", b"first")
    second = await store.artefacts.add_goal("s", b"second")
    assert (first.number, second.number) == (1, 2)
    changed = await store.artefacts.update_goal("s", 1, b"changed")
    assert changed is not None
    assert (changed.data, changed.created_us) == (b"changed", first.created_us)
    assert [goal.data for goal in await store.artefacts.goals("s")] == [b"changed", b"second"]
    assert await store.artefacts.update_goal("s", 9, b"none") is None


async def a_document_is_replaced(store: Store, _: OpenStore) -> None:
    await _talked(store)
    await store.artefacts.keep_document("s", "tasks", "- one")
    await store.artefacts.keep_document("s", "epic", "All of it.")
    await store.artefacts.keep_document("s", "tasks", "- two")
    found = await store.artefacts.documents("s")
    assert [(document.name, document.text) for document in found] == [("epic", "All of it."), ("tasks", "- two")]


async def a_fork_takes_goals_and_documents_along(store: Store, _: OpenStore) -> None:
    await _talked(store)
    await store.artefacts.add_goal("s", b"first")
    await store.artefacts.keep_document("s", "epic", "All of it.")
    await store.fork_session(new_session("f"), "s", 2)
    await store.artefacts.update_goal("f", 1, b"the fork's")
    await store.artefacts.keep_document("f", "epic", "Another.")
    assert [goal.data for goal in await store.artefacts.goals("s")] == [b"first"]
    assert [goal.data for goal in await store.artefacts.goals("f")] == [b"the fork's"]
    assert [document.text for document in await store.artefacts.documents("s")] == ["All of it."]


async def pruning_takes_what_was_made_and_leaves_what_was_given(store: Store, _: OpenStore) -> None:
    await _talked(store)
    await store.artefacts.keep_made("s", "topics", [_made("a")])
    await store.artefacts.add_goal("s", b"first")
    await store.artefacts.keep_document("s", "epic", "All of it.")
    await store.prune("s", before_us=15, dry_run=False)
    assert await store.artefacts.made("s", "topics") == []
    assert len(await store.artefacts.goals("s")) == len(await store.artefacts.documents("s")) == 1


async def a_deleted_session_leaves_nothing(store: Store, _: OpenStore) -> None:
    await _talked(store)
    await store.artefacts.keep_made("s", "topics", [_made("a")])
    await store.artefacts.add_goal("s", b"first")
    await store.artefacts.keep_document("s", "epic", "All of it.")
    await store.delete_session("s")
    try:
        await store.artefacts.goals("s")
    except SessionNotFound:
        pass
    else:
        raise AssertionError("a session that is gone has no goals")
    await store.create_session(new_session())
    assert await store.artefacts.made("s", "topics") == []
    assert await store.artefacts.goals("s") == []
    assert await store.artefacts.documents("s") == []


async def outlines_tell_of_messages_without_bodies(store: Store, _: OpenStore) -> None:
    await _talked(store)
    await store.append("s", [draft("an answer", "assistant", at_us=40), draft("a result", "tool", at_us=50)])
    found = await store.outlines("s", 2, 9)
    assert [(row.turn, row.role, row.at_us) for row in found] == [
        (2, "user", 20),
        (3, "user", 30),
        (3, "assistant", 40),
        (3, "tool", 50),
    ]
    assert {row.tool_results for row in found} == {0}
    await store.fork_session(new_session("f"), "s", 2)
    assert [row.turn for row in await store.outlines("f", 1, 9)] == [1, 2]


CASES: tuple[Case, ...] = (
    what_was_made_is_kept_by_strategy_and_name,
    what_is_made_again_replaces_the_old,
    only_what_is_still_as_it_was_is_replaced,
    only_a_state_that_is_still_as_it_was_is_replaced,
    a_fork_makes_its_own,
    goals_are_numbered_and_changed_in_place,
    a_document_is_replaced,
    a_fork_takes_goals_and_documents_along,
    pruning_takes_what_was_made_and_leaves_what_was_given,
    a_deleted_session_leaves_nothing,
    outlines_tell_of_messages_without_bodies,
)
