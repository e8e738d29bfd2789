"""Cases that a store passes on every database; `tests/store/test_conformance.py` runs those of all modules here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from foveate.errors import (
    ForkInUse,
    FoveateError,
    KeyReused,
    PinLocked,
    PinNotFound,
    SessionContinued,
    SessionExists,
    SessionNotFound,
    StoreClosed,
    TurnBegun,
    TurnNotFound,
)
from foveate.store import Draft, NewSession, Place, Store, bodies
from foveate.turn import Role

OpenStore = Callable[[], Awaitable[Store]]
Case = Callable[[Store, OpenStore], Awaitable[None]]


async def run_case(case: Case, open_store: OpenStore) -> None:
    """Run one case on a new store; `open_store` opens the same one each time it is called."""
    store = await open_store()
    try:
        await case(store, open_store)
    finally:
        await store.close()


def new_session(session_id: str = "s") -> NewSession:
    return NewSession(
        id=session_id,
        title="A session",
        platform=None,
        channel=None,
        strategy="gradient",
        settings="{}",
        budget_tokens=1000,
        model=None,
        encoding="o200k_base",
    )


def draft(text: str = "hello", role: Role = "user", *, at_us: int | None = None, key: str | None = None) -> Draft:
    body = bodies.pack(text, 3)
    return Draft(
        role=role,
        kind="message",
        opens_turn=role == "user",
        is_preamble=role == "system",
        tokens=len(text),
        tool_calls=0,
        at_us=at_us,
        body=body.data,
        digest=body.digest,
        size=body.size,
        key=key,
    )


@asynccontextmanager
async def raises(kind: type[FoveateError]) -> AsyncIterator[None]:
    """The block has to raise an error of this kind."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


async def _texts(store: Store, session_id: str = "s") -> list[list[object]]:
    """The session's turns, each as the list of what was said in it."""
    turns: dict[int, list[object]] = {}
    for row in await store.read(session_id, 1, 10**9):
        assert row.body is not None
        turns.setdefault(row.turn, []).append(bodies.load(row.body))
    assert list(turns) == list(range(1, len(turns) + 1)), "turns are numbered without gaps"
    return list(turns.values())


async def a_session_is_created_once(store: Store, _: OpenStore) -> None:
    created = await store.create_session(new_session())
    assert (created.id, created.last_turn, created.head) == ("s", 0, "closed")
    assert await store.get_session("s") == created
    async with raises(SessionExists):
        await store.create_session(new_session())


async def an_unknown_session_is_not_found(store: Store, _: OpenStore) -> None:
    for call in (
        store.get_session("no"),
        store.snapshot("no"),
        store.append("no", [draft()]),
        store.read("no", 1, 2),
        store.turns("no", 1, 2),
        store.sizes("no"),
        store.update_session("no", {"title": "x"}),
        store.delete_session("no"),
        store.add_pin("no", "x", locked=False),
        store.list_pins("no"),
        store.fork_session(new_session("f"), "no", 1),
        store.prune("no", before_us=0, dry_run=True),
    ):
        async with raises(SessionNotFound):
            await call


async def a_prompt_starts_a_turn_and_the_rest_joins_it(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    said = [draft("rules", "system"), draft("q1"), draft("a1", "assistant"), draft("q2"), draft("a2", "assistant")]
    places = await store.append("s", said)
    assert places == [
        Place(1, 1, is_new=True),
        Place(1, 2, is_new=True),
        Place(1, 3, is_new=True),
        Place(2, 1, is_new=True),
        Place(2, 2, is_new=True),
    ]
    assert await store.append("s", [draft("more", "assistant")]) == [Place(2, 3, is_new=True)]
    assert await _texts(store) == [["rules", "q1", "a1"], ["q2", "a2", "more"]]


async def what_was_kept_is_there_after_reopening(store: Store, open_store: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("naïve \ud800 \x00 text"), draft("x" * 100_000, "assistant")])
    await store.close()
    again = await open_store()
    try:
        assert await _texts(again) == [["naïve \ud800 \x00 text", "x" * 100_000]]
    finally:
        await again.close()


async def a_key_is_kept_once(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one", key="k1"), draft("two", "assistant", key="k2")])
    places = await store.append("s", [draft("one", key="k1"), draft("three", "assistant", key="k3")])
    assert places == [Place(1, 1, is_new=False), Place(1, 3, is_new=True)]
    assert await _texts(store) == [["one", "two", "three"]]


async def what_belongs_to_a_turn_is_refused_once_another_has_begun(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("q1", key="k")])
    await store.append("s", [draft("a1", "assistant")], newest_turn=1)
    await store.append("s", [draft("q2")])
    async with raises(TurnBegun):
        await store.append("s", [draft("late", "assistant")], newest_turn=1)
    await store.append("s", [draft("q1", key="k")], newest_turn=1)
    assert await _texts(store) == [["q1", "a1"], ["q2"]]


async def what_follows_a_message_is_refused_once_another_follows_it(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("q1", key="k1"), draft("a1", "assistant")], after="")
    await store.append("s", [draft("q2", key="k2")], after="k1")
    for after in ("k1", ""):
        async with raises(SessionContinued):
            await store.append("s", [draft("other", key="k3")], after=after)
    await store.append("s", [draft("q2", key="k2")], after="k1")
    assert await _texts(store) == [["q1", "a1"], ["q2"]]


async def a_key_is_for_the_same_messages_where_that_is_asked_for(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    same = [draft("one", key="k#0"), draft("two", "assistant", key="k#1")]
    await store.append("s", same, exact=True)
    assert not any(place.is_new for place in await store.append("s", same, exact=True))
    more = [*same, draft("three", key="k#2")]
    for other in (same[:1], more, [draft("another", key="k#0"), same[1]]):
        async with raises(KeyReused):
            await store.append("s", other, exact=True)
    assert await _texts(store) == [["one", "two"]]


async def concurrent_appends_are_all_kept_whole(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    pairs = [[draft(f"q{number}"), draft(f"a{number}", "assistant")] for number in range(100)]
    results = await asyncio.gather(*(store.append("s", pair) for pair in pairs))
    assert sorted(places[0].turn for places in results) == list(range(1, 101))
    for question, answer in await _texts(store):
        assert str(question)[1:] == str(answer)[1:], "a turn was torn apart"


async def a_failing_append_harms_no_other(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    calls = [store.append("s" if number % 3 else "no", [draft(f"{number}")]) for number in range(30)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    failed = [isinstance(result, SessionNotFound) for result in results]
    assert failed == [number % 3 == 0 for number in range(30)]
    assert len(await _texts(store)) == 20


async def a_fork_reads_its_parents_turns_up_to_the_fork(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("q1"), draft("q2"), draft("q3"), draft("a3", "assistant")])
    fork = await store.fork_session(new_session("f"), "s", 2)
    assert (fork.parent_id, fork.fork_turn, fork.last_turn) == ("s", 2, 2)
    await store.append("f", [draft("own", "assistant")])
    await store.append("s", [draft("later")])
    assert await _texts(store, "f") == [["q1"], ["q2"], ["own"]]
    assert await _texts(store, "s") == [["q1"], ["q2"], ["q3", "a3"], ["later"]]
    assert (await store.sizes("f")).messages == 3
    assert [row.turn for row in await store.turns("f", 1, 9)] == [1, 2, 3]


async def a_fork_of_an_open_turn_keeps_it_as_it_was(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("q1"), draft("a1", "assistant")])
    await store.fork_session(new_session("f"), "s", 1)
    await store.append("s", [draft("after", "assistant")])
    assert await _texts(store, "f") == [["q1", "a1"]]
    await store.fork_session(new_session("g"), "f", 1)
    assert await _texts(store, "g") == [["q1", "a1"]]


async def forks_of_forks_share_everything_below(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft(f"s{number}") for number in range(1, 6)])
    await store.fork_session(new_session("f"), "s", 4)
    await store.append("f", [draft("f5"), draft("f6")])
    await store.fork_session(new_session("g"), "f", 5)
    await store.append("g", [draft("g6")])
    await store.fork_session(new_session("h"), "g", 2)
    await store.append("h", [draft("h3")])
    assert await _texts(store, "g") == [["s1"], ["s2"], ["s3"], ["s4"], ["f5"], ["g6"]]
    assert await _texts(store, "h") == [["s1"], ["s2"], ["h3"]]


async def a_fork_needs_a_turn_that_is_there(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    for turn in (1, -1):
        async with raises(TurnNotFound):
            await store.fork_session(new_session("f"), "s", turn)
    assert [row.id for row in await store.list_sessions()] == ["s"]


async def what_a_fork_reads_is_not_deleted(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("q1"), draft("q2")])
    await store.fork_session(new_session("f"), "s", 1)
    async with raises(ForkInUse):
        await store.delete_session("s")
    async with raises(ForkInUse):
        await store.prune("s", before_us=2**60, dry_run=False)
    await store.delete_session("f")
    await store.delete_session("s")
    assert await store.list_sessions() == []


async def pruning_removes_old_content_and_keeps_the_ids(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("old", at_us=10), draft("new", at_us=90), draft("open", at_us=20)])
    would = await store.prune("s", before_us=50, dry_run=True)
    assert (would.turns, would.messages) == (1, 1)
    assert await _texts(store) == [["old"], ["new"], ["open"]]
    assert await store.prune("s", before_us=50, dry_run=False) == would
    rows = await store.read("s", 1, 9)
    assert [(row.turn, row.body is None) for row in rows] == [(1, True), (2, False), (3, False)]
    assert (await store.prune("s", before_us=50, dry_run=False)).turns == 0
    assert (await store.append("s", [draft("next")]))[0].turn == 4


async def pins_are_kept_in_order_and_locked_ones_held(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.add_pin("s", "first", locked=False)
    await store.add_pin("s", "never on Fridays", locked=True)
    async with raises(PinLocked):
        await store.remove_pin("s", 2, even_if_locked=False)
    await store.remove_pin("s", 1, even_if_locked=False)
    async with raises(PinNotFound):
        await store.remove_pin("s", 1, even_if_locked=True)
    assert (await store.add_pin("s", "third", locked=False)).number == 3
    assert [(pin.number, pin.text, pin.locked) for pin in await store.list_pins("s")] == [
        (2, "never on Fridays", True),
        (3, "third", False),
    ]


async def a_text_is_pinned_once_and_locked_if_it_ever_was_to_be(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    first = await store.add_pin("s", "rule", locked=False)
    assert await store.add_pin("s", "rule", locked=False) == first
    assert (await store.add_pin("s", "rule ", locked=False)).number == 2
    assert await store.add_pin("s", "rule", locked=True) == replace(first, locked=True)
    assert await store.add_pin("s", "rule", locked=False) == replace(first, locked=True)
    assert [(pin.number, pin.locked) for pin in await store.list_pins("s")] == [(1, True), (2, False)]
    await store.remove_pin("s", 1, even_if_locked=True)
    assert (await store.add_pin("s", "rule", locked=False)).number == 3


async def a_fork_takes_its_parents_pins_along(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft()])
    await store.add_pin("s", "rule", locked=True)
    await store.fork_session(new_session("f"), "s", 1)
    await store.remove_pin("s", 1, even_if_locked=True)
    assert [pin.text for pin in await store.list_pins("f")] == ["rule"]


async def calibration_is_kept(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    assert (await store.update_session("s", {"calibration": 1.4})).calibration == 1.4
    assert (await store.update_session("s", {"calibration": 0.8})).calibration == 0.8


async def sessions_are_listed_by_use_and_label(store: Store, _: OpenStore) -> None:
    for name in "abc":
        await store.create_session(new_session(name))
    await store.update_session("a", {"platform": "irc", "channel": "#x"})
    await store.append("b", [draft()])
    assert [row.id for row in await store.list_sessions()] == ["b", "c", "a"]
    assert [row.id for row in await store.list_sessions(limit=2)] == ["b", "c"]
    assert [row.id for row in await store.list_sessions(platform="irc", channel="#x")] == ["a"]
    assert await store.list_sessions(platform="irc", channel="#y") == []
    await store.update_session("a", {"scope": "user:anna"})
    assert [row.id for row in await store.list_sessions(scope="user:anna")] == ["a"]


async def a_session_was_used_when_its_newest_message_was_said(store: Store, _: OpenStore) -> None:
    for name in "ab":
        await store.create_session(new_session(name))
    await store.append("b", [draft(at_us=30), draft(at_us=10)])
    await store.append("b", [draft(at_us=20)])
    assert (await store.get_session("b")).updated_us == 30
    assert (await store.update_session("b", {"title": "x"})).updated_us == 30
    await store.append("a", [draft(at_us=29)])
    assert [row.id for row in await store.list_sessions()] == ["b", "a"]
    await store.append("a", [draft()])
    assert [row.id for row in await store.list_sessions()] == ["a", "b"]


async def keys_are_told_in_order_without_what_is_for_display(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    shown = replace(draft("shown", key="k2"), kind="display", opens_turn=False, is_preamble=True)
    await store.append("s", [draft(key="k1"), shown, draft("live"), draft("three", key="k3")])
    assert await store.keys("s", 1, 9) == ["k1", None, "k3"]
    assert await store.keys("s", 1, 1) == ["k1"]


async def a_clean_store_checks(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("q1"), draft("a1", "assistant"), draft("q2")])
    await store.fork_session(new_session("f"), "s", 1)
    findings = [finding async for finding in store.check()]
    assert [finding.problem for finding in findings if finding.problem] == []
    assert findings[-1].done == findings[-1].total == 3


async def a_closed_store_says_so(store: Store, _: OpenStore) -> None:
    await store.close()
    await store.close()
    async with raises(StoreClosed):
        await store.create_session(new_session())
    async with raises(StoreClosed):
        await store.list_sessions()


CASES: tuple[Case, ...] = (
    a_session_is_created_once,
    an_unknown_session_is_not_found,
    a_prompt_starts_a_turn_and_the_rest_joins_it,
    what_was_kept_is_there_after_reopening,
    a_key_is_kept_once,
    what_belongs_to_a_turn_is_refused_once_another_has_begun,
    what_follows_a_message_is_refused_once_another_follows_it,
    a_key_is_for_the_same_messages_where_that_is_asked_for,
    concurrent_appends_are_all_kept_whole,
    a_failing_append_harms_no_other,
    a_fork_reads_its_parents_turns_up_to_the_fork,
    a_fork_of_an_open_turn_keeps_it_as_it_was,
    forks_of_forks_share_everything_below,
    a_fork_needs_a_turn_that_is_there,
    what_a_fork_reads_is_not_deleted,
    pruning_removes_old_content_and_keeps_the_ids,
    pins_are_kept_in_order_and_locked_ones_held,
    a_text_is_pinned_once_and_locked_if_it_ever_was_to_be,
    a_fork_takes_its_parents_pins_along,
    calibration_is_kept,
    sessions_are_listed_by_use_and_label,
    a_session_was_used_when_its_newest_message_was_said,
    keys_are_told_in_order_without_what_is_for_display,
    a_clean_store_checks,
    a_closed_store_says_so,
)
