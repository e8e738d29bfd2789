"""Conformance cases of a store's derived half: renditions, leases, eras and plans, with forks."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from foveate.store import Store, bodies
from foveate.store.pictures import PictureRow
from foveate.store.rows import ERA_FANOUT, EraRow, NewPassages, NewRendition, PassageText
from support.stores import Case, OpenStore, draft, new_session

LONG_SECONDS = 60.0


def rendition(turn: int, text: str = "said", *, messages: int = 1, is_complete: bool = True) -> NewRendition:
    return NewRendition(
        turn=turn,
        messages=messages,
        maker="test",
        version=1,
        is_complete=is_complete,
        smoothed_tokens=30,
        compressed_tokens=20,
        tiny_tokens=10,
        tiny=f"tiny {text}",
        compressed=bodies.squeeze(f"compressed {text}"),
        smoothed=bodies.squeeze(f"smoothed {text}"),
        units=bodies.squeeze([]),
        refusals=0,
        passages=entry(turn, text, messages=messages),
        brief=bodies.squeeze(f"brief {text}"),
        brief_tokens=15,
    )


def entry(turn: int, *texts: str, messages: int = 1, maker: str = "test", tool: str | None = None) -> NewPassages:
    """A turn in the index, with a passage for each text."""
    return NewPassages(
        turn=turn,
        messages=messages,
        at_us=turn,
        maker=maker,
        texts=tuple(PassageText("user", text, tool, "") for text in texts),
        embedded=(),
        marks=b"m" * len(texts),
        vectors=b"",
    )


async def _claim(
    store: Store, session_id: str = "s", *, owner: str = "a", limit: int = 99, lease: float = LONG_SECONDS
) -> list[int]:
    claims = await store.derived.claim(session_id, owner=owner, limit=limit, lease_seconds=lease, include_open=True)
    return [claim.turn for claim in claims]


async def _closed(store: Store, session_id: str = "s") -> list[int]:
    """What can be claimed while the open turn is excluded."""
    claims = await store.derived.claim(
        session_id, owner="looker", limit=99, lease_seconds=LONG_SECONDS, include_open=False
    )
    await store.leases.release("session", "looker")
    return [claim.turn for claim in claims]


async def _talked(store: Store, turns: int, session_id: str = "s") -> None:
    await store.create_session(new_session(session_id))
    await store.append(session_id, [draft(f"q{turn}") for turn in range(1, turns + 1)])


async def _tinies(store: Store, session_id: str) -> dict[int, str]:
    return {turn: tiny for turn, tiny, _ in await store.derived.tinies(session_id, 1, 10**9)}


async def turns_without_renditions_are_claimed_once(store: Store, _: OpenStore) -> None:
    await _talked(store, 4)
    assert await _claim(store, limit=2) == [1, 2]
    assert await _claim(store, owner="b") == [3, 4]
    assert await _claim(store, owner="c") == []
    await store.leases.release("session", "a")
    assert await _claim(store, owner="c") == [1, 2]


async def concurrent_claims_share_the_turns(store: Store, _: OpenStore) -> None:
    await _talked(store, 40)
    found = await asyncio.gather(*(_claim(store, owner=str(owner), limit=7) for owner in range(8)))
    assert sorted(turn for turns in found for turn in turns) == list(range(1, 41))


async def an_expired_lease_is_free_again(store: Store, _: OpenStore) -> None:
    await _talked(store, 2)
    assert await _claim(store, lease=0.05) == [1, 2]
    await asyncio.sleep(0.1)
    assert await _claim(store, owner="b") == [1, 2]


async def renditions_of_a_worker_that_lost_its_turns_are_rejected(store: Store, _: OpenStore) -> None:
    await _talked(store, 2)
    assert await _claim(store, owner="late", lease=0.0) == [1, 2]
    assert await _claim(store, owner="b", limit=1) == [1]
    made = [rendition(1, "late"), rendition(2, "late")]
    assert await store.derived.add_renditions("s", made, owner="late") == [2]
    assert await store.derived.add_renditions("s", [rendition(1, "b")], owner="b") == [1]
    assert await store.derived.add_renditions("s", made, owner="late") == []
    assert await _tinies(store, "s") == {1: "tiny b", 2: "tiny late"}


async def attempts_at_a_turn_are_counted_until_it_is_released(store: Store, _: OpenStore) -> None:
    await _talked(store, 1)

    async def attempt(lease_seconds: float) -> list[int]:
        claims = await store.derived.claim("s", owner="a", limit=9, lease_seconds=lease_seconds, include_open=True)
        return [claim.attempts for claim in claims]

    assert [await attempt(0.0) for _ in range(3)] == [[1], [2], [3]]
    assert await attempt(LONG_SECONDS) == [4]
    assert await attempt(LONG_SECONDS) == []
    await store.leases.release("session", "a")
    assert await attempt(LONG_SECONDS) == [1]


async def the_open_turn_waits_until_asked_for_or_much_grown(store: Store, _: OpenStore) -> None:
    await _talked(store, 2)
    assert await _closed(store) == [1]
    await store.derived.add_renditions("s", [rendition(1), rendition(2)])
    assert await _claim(store) == []
    await store.append("s", [draft("more", "assistant"), draft("and more", "assistant")])
    assert await _closed(store) == [2]


async def a_rendition_is_kept_once_and_ends_its_lease(store: Store, _: OpenStore) -> None:
    await _talked(store, 3)
    await _claim(store)
    await store.derived.add_renditions("s", [rendition(1, "first"), rendition(2)])
    await store.derived.add_renditions("s", [rendition(1, "second"), rendition(3, is_complete=False)])
    assert (await _tinies(store, "s"))[1] == "tiny first"
    backlog = await store.derived.backlog("s")
    assert (backlog.pending, backlog.complete, backlog.incomplete) == (0, 2, 1)
    assert await _claim(store, owner="b") == []


async def sizes_tell_what_is_made_of_the_turn_as_it_is_now(store: Store, _: OpenStore) -> None:
    await _talked(store, 2)
    await store.derived.add_renditions("s", [rendition(1), rendition(2)])
    await store.append("s", [draft("more", "assistant")])
    first, second = await store.derived.sizes_of("s", 1, 9)
    assert (first.raw, first.smoothed, first.compressed, first.tiny) == (2, 30, 20, 10)
    assert (second.messages, second.raw, second.tiny) == (2, 6, None)
    await store.derived.add_renditions("s", [rendition(2, messages=2)])
    assert (await store.derived.sizes_of("s", 2, 2))[0].tiny == 10
    (row,) = await store.derived.renditions("s", 2, 2)
    assert bodies.expand(row.compressed) == "compressed said"
    assert (row.smoothed_tokens, row.compressed_tokens, row.tiny_tokens) == (30, 20, 10)
    assert (bodies.expand(row.brief or b""), row.brief_tokens) == ("brief said", 15)
    assert (first.brief, second.brief) == (15, None)


async def settled_is_where_the_first_gap_is(store: Store, _: OpenStore) -> None:
    await _talked(store, 5)
    assert await store.derived.settled("s") == 0
    await store.derived.add_renditions("s", [rendition(1), rendition(3)])
    assert await store.derived.settled("s") == 1
    await store.derived.add_renditions("s", [rendition(2), rendition(4)])
    assert await store.derived.settled("s") == 4
    assert await store.derived.unsettled() == ["s"]


async def raw_tokens_are_those_of_the_turns_asked_for(store: Store, _: OpenStore) -> None:
    await _talked(store, 12)
    await store.fork_session(new_session("f"), "s", 10)
    await store.append("f", [draft("own words")])
    assert await store.raw_tokens("s", 1, 12) == 9 * 2 + 3 * 3
    assert await store.raw_tokens("f", 10, 99) == 3 + 9
    assert await store.raw_tokens("s", 13, 12) == 0


async def a_fork_sees_its_ancestors_renditions_of_what_it_sees(store: Store, _: OpenStore) -> None:
    await _talked(store, 3)
    await store.fork_session(new_session("f"), "s", 3)
    await store.append("s", [draft("secret", "assistant"), draft("q4")])
    made = [rendition(1), rendition(2), rendition(3, "secret", messages=2), rendition(4, "later")]
    await store.derived.add_renditions("s", made)
    assert sorted(await _tinies(store, "f")) == [1, 2]
    assert await _claim(store, "f") == [3]
    await store.derived.add_renditions("f", [rendition(3, "mine")])
    assert (await _tinies(store, "f"))[3] == "tiny mine"
    assert (await _tinies(store, "s"))[3] == "tiny secret"


async def a_fork_does_not_see_renditions_beyond_its_fork(store: Store, _: OpenStore) -> None:
    await _talked(store, 3)
    await store.fork_session(new_session("f"), "s", 3)
    await store.derived.add_renditions("f", [rendition(3, "of f")])
    await store.fork_session(new_session("g"), "f", 1)
    await store.append("g", [draft("g2"), draft("g3")])
    assert await _tinies(store, "g") == {}


async def eras_are_found_by_level_and_place(store: Store, _: OpenStore) -> None:
    await _talked(store, 1)
    made = [EraRow(1, place, 100 + place, bodies.squeeze([place])) for place in range(3)]
    await store.derived.add_eras("s", [*made, EraRow(2, 0, 7, b"")])
    assert await store.derived.eras("s", 1, 1, 9) == made[1:]
    assert await store.derived.era_tokens("s", 1, 0, 1) == [(0, 100), (1, 101)]
    assert [await store.derived.next_era("s", level) for level in (1, 2, 3)] == [3, 1, 0]


async def a_fork_has_the_eras_that_end_before_it(store: Store, _: OpenStore) -> None:
    await _talked(store, 3 * ERA_FANOUT)
    await store.derived.add_eras("s", [EraRow(1, place, 50, b"s") for place in range(3)])
    await store.fork_session(new_session("f"), "s", 2 * ERA_FANOUT)
    assert await store.derived.next_era("f", 1) == 1
    await store.derived.add_eras("f", [EraRow(1, 1, 60, b"f")])
    assert [(era.place, era.units) for era in await store.derived.eras("f", 1, 0, 9)] == [(0, b"s"), (1, b"f")]
    assert [era.units for era in await store.derived.eras("s", 1, 0, 9)] == [b"s"] * 3


async def a_plan_is_replaced_and_its_sessions_own(store: Store, open_store: OpenStore) -> None:
    await _talked(store, 1)
    await store.fork_session(new_session("f"), "s", 1)
    assert await store.derived.plan("s", "gradient") is None
    await store.derived.keep_plan("s", "gradient", b"one")
    await store.derived.keep_plan("s", "gradient", b"two")
    assert await store.derived.plan("f", "gradient") is None
    again = await open_store()
    try:
        assert await again.derived.plan("s", "gradient") == b"two"
    finally:
        await again.close()


async def pruning_takes_what_was_made_along(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("old", at_us=10), draft("new", at_us=90), draft("open", at_us=95)])
    await store.derived.add_renditions("s", [rendition(1, "old"), rendition(2, "new"), rendition(3)])
    await store.derived.add_eras("s", [EraRow(1, 0, 50, b"old")])
    await store.derived.keep_plan("s", "gradient", b"old")
    await store.prune("s", before_us=5, dry_run=False)
    assert await store.derived.plan("s", "gradient") == b"old"
    await store.prune("s", before_us=50, dry_run=False)
    assert sorted(await _tinies(store, "s")) == [2, 3]
    assert (await store.derived.sizes_of("s", 1, 1))[0].is_pruned
    assert await store.derived.eras("s", 1, 0, 9) == []
    assert await store.derived.plan("s", "gradient") is None
    assert await store.derived.pruned("s") is not None


async def pictures_are_kept_in_order_and_the_oldest_go(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    made = [PictureRow(moment, moment, "gradient", "full", 10, 100, f"R1-{moment}") for moment in range(1, 504)]
    for picture in reversed(made):
        await store.pictures.add("s", picture)
    await store.pictures.add("s", replace(made[-1], strip="another of the same moment"))
    assert await store.pictures.list_pictures("s") == made[-500:]
    await store.delete_session("s")


CASES: tuple[Case, ...] = (
    pictures_are_kept_in_order_and_the_oldest_go,
    turns_without_renditions_are_claimed_once,
    concurrent_claims_share_the_turns,
    an_expired_lease_is_free_again,
    renditions_of_a_worker_that_lost_its_turns_are_rejected,
    attempts_at_a_turn_are_counted_until_it_is_released,
    the_open_turn_waits_until_asked_for_or_much_grown,
    a_rendition_is_kept_once_and_ends_its_lease,
    sizes_tell_what_is_made_of_the_turn_as_it_is_now,
    settled_is_where_the_first_gap_is,
    raw_tokens_are_those_of_the_turns_asked_for,
    a_fork_sees_its_ancestors_renditions_of_what_it_sees,
    a_fork_does_not_see_renditions_beyond_its_fork,
    eras_are_found_by_level_and_place,
    a_fork_has_the_eras_that_end_before_it,
    a_plan_is_replaced_and_its_sessions_own,
    pruning_takes_what_was_made_along,
)
