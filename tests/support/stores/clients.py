"""Conformance cases of what a store keeps for the server: tenants, keys and the places of clients' histories."""

from __future__ import annotations

from dataclasses import replace

from foveate.store import Store
from foveate.store.access import AccessKeyRow
from foveate.store.clients import PROGRAM_STATE, KnownPlace, ResponseRow
from support.stores import Case, OpenStore, draft, new_session

MANY_KEYS = 1_000


async def sessions_are_listed_by_tenant(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session("mine"))
    await store.create_session(replace(new_session("acme:theirs"), tenant="acme"))
    assert [row.id for row in await store.list_sessions(tenant="acme")] == ["acme:theirs"]
    assert [row.id for row in await store.list_sessions(tenant="")] == ["mine"]
    assert len(await store.list_sessions()) == 2


async def a_child_session_shares_no_turn(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session("parent"))
    await store.append("parent", [draft("one")])
    child = await store.fork_session(new_session("child"), "parent", 0)
    assert (child.parent_id, child.last_turn) == ("parent", 0)
    await store.append("child", [draft("two")])
    assert len(await store.read("child", 1, 9)) == 1


async def a_key_is_found_by_its_hash_until_it_is_revoked(store: Store, _: OpenStore) -> None:
    assert not await store.access.exist()
    key = AccessKeyRow("k1", "laptop", b"hash", "acme", "read write", 5, models="gpt-5* o3", routes="chat")
    await store.access.add(key)
    assert await store.access.find(b"hash") == key
    assert await store.access.find(b"other") is None
    assert await store.access.revoke("k1")
    assert not await store.access.revoke("k1")
    assert await store.access.find(b"hash") is None
    assert [row.id for row in await store.access.list_all()] == ["k1"]
    assert await store.access.exist()


async def the_longest_known_history_is_found_with_its_place(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one", key="a"), draft("yes", "assistant", key="b"), draft("two", key="c")])
    found = await store.clients.find("", ["a", "b", "x"])
    assert [replace(place, updated_us=0) for place in found] == [
        KnownPlace("b", "s", 1, is_head=False, ends_turn=True, updated_us=0)
    ]
    (head,) = await store.clients.find("", ["a", "b", "c"])
    assert head.is_head
    (first,) = await store.clients.find("", ["a"])
    assert not first.ends_turn
    assert await store.clients.find("acme", ["a"]) == []
    assert await store.clients.find("", []) == []


async def messages_without_a_key_do_not_move_the_head(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one", key="a"), draft("hidden", "assistant")])
    (place,) = await store.clients.find("", ["a"])
    assert place.is_head
    assert place.ends_turn


async def the_last_of_many_keys_is_found(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one", key="k3")])
    (place,) = await store.clients.find("", [f"k{number}" for number in range(MANY_KEYS)])
    assert place.key == "k3"


async def a_history_of_several_sessions_is_found_in_each(store: Store, _: OpenStore) -> None:
    for name in ("s", "t"):
        await store.create_session(new_session(name))
        await store.append(name, [draft("one", key="a")])
    assert {place.session_id for place in await store.clients.find("", ["a"])} == {"s", "t"}
    assert [place.session_id for place in await store.clients.find("", ["a"], "t")] == ["t"]


async def a_family_is_a_session_and_its_branches(store: Store, _: OpenStore) -> None:
    for name in ("s", "s~2", "st"):
        await store.create_session(new_session(name))
        await store.append(name, [draft("one", key="a")])
    assert {place.session_id for place in await store.clients.find("", ["a"], "s")} == {"s", "s~2"}


async def a_located_history_has_what_its_session_holds(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one", key="a"), draft("hidden", "assistant"), draft("yes", "assistant", key="b")])
    await store.fork_session(new_session("t"), "s", 1)
    await store.append("t", [draft("two", key="c")])
    nowhere = await store.clients.locate("", ["x"])
    assert (nowhere.place, nowhere.standing) == (None, None)
    found = await store.clients.locate("", ["a", "b", "c"])
    assert found.place is not None
    assert found.standing is not None
    assert (found.place.session_id, found.standing.row.id) == ("t", "t")
    assert (found.standing.messages, found.standing.keyed, found.standing.is_plain) == (4, 3, True)
    assert found.standing.tokens == await store.raw_tokens("t", 1, 2)
    await store.add_pin("t", "keep", locked=False)
    found = await store.clients.locate("", ["c"])
    assert found.standing is not None
    assert not found.standing.is_plain


async def answers_and_responses_are_found_within_their_tenant(store: Store, _: OpenStore) -> None:
    await store.create_session(replace(new_session(), tenant="acme"))
    for _time in range(2):
        await store.append("s", [draft("one", key="a")], tail="h")
    assert await store.clients.find_tails("acme", "h") == [("s", 1)]
    assert await store.clients.find_tails("", "h") == []
    await store.create_session(replace(new_session("s~b"), tenant="acme"))
    await store.create_session(replace(new_session("sb"), tenant="acme"))
    await store.append("s~b", [draft("two", key="b")])
    assert await store.clients.family("acme", "s") == ["s~b", "s"]
    assert await store.clients.family("", "s") == []
    response = ResponseRow("resp_1", "s", 1, "chain", {"output": ["…"]})
    await store.clients.add_response("s", response)
    assert await store.clients.get_response("acme", "resp_1") == response
    assert await store.clients.get_response("", "resp_1") is None
    assert not await store.clients.delete_response("", "resp_1")
    assert await store.clients.delete_response("acme", "resp_1")
    assert await store.clients.get_response("acme", "resp_1") is None
    await store.delete_session("s")
    assert await store.clients.find_tails("acme", "h") == []


async def pruned_turns_take_their_responses_along(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one", at_us=10), draft("two", at_us=20), draft("three", at_us=30)])
    for turn in (1, 2):
        await store.clients.add_response("s", ResponseRow(f"resp_{turn}", "s", turn, "", {"output": ["…"]}))
    await store.artefacts.keep_state("s", f"{PROGRAM_STATE}door", b"ids")
    await store.prune("s", before_us=15, dry_run=False)
    assert await store.clients.get_response("", "resp_1") is None
    assert await store.clients.get_response("", "resp_2") is not None
    assert await store.artefacts.state("s", f"{PROGRAM_STATE}door") == b"ids"


CASES: tuple[Case, ...] = (
    pruned_turns_take_their_responses_along,
    sessions_are_listed_by_tenant,
    a_child_session_shares_no_turn,
    a_key_is_found_by_its_hash_until_it_is_revoked,
    the_longest_known_history_is_found_with_its_place,
    messages_without_a_key_do_not_move_the_head,
    the_last_of_many_keys_is_found,
    a_history_of_several_sessions_is_found_in_each,
    a_family_is_a_session_and_its_branches,
    a_located_history_has_what_its_session_holds,
    answers_and_responses_are_found_within_their_tenant,
)
