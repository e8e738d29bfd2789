"""Conformance cases of the file cabinet and of stored prompts."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from foveate.store import Store
from foveate.store.cabinet import NewContent, pack
from support.stores import Case, OpenStore, draft, new_session

NOW = 1_800_000_000_000_000
LIFE = 1_000
AFTER = NOW + LIFE
"""When a key that was filed at `NOW` has expired."""
BINARY = b"\x28\xb5\x2f\xfd looks compressed and is not"
TEXT = b"a line of a page\n" * 1_000


def content(data: bytes = TEXT, *, tenant: str = "", session_id: str | None = None) -> NewContent:
    packed = pack(data, 3)
    return NewContent(
        tenant=tenant,
        digest=hashlib.sha256(data).digest(),
        size=len(data),
        is_packed=packed.is_packed,
        data=packed.data,
        name="page",
        media_type="text/plain",
        source="https://example.org/",
        expires_us=NOW + LIFE,
        session_id=session_id,
    )


async def a_content_is_found_by_its_key(store: Store, _: OpenStore) -> None:
    for data in (TEXT, BINARY, b""):
        row = await store.cabinet.file(content(data), now_us=NOW)
        assert row.key == f"f-{row.digest.hex()[:12]}"
        assert (row.size, row.expires_us, row.removed_us) == (len(data), NOW + LIFE, None)
        assert await store.cabinet.find("", row.key) == row
        assert await store.cabinet.read("", row.digest) == data
    assert await store.cabinet.find("", "f-000000000000") is None
    assert len(await store.cabinet.list_keys("", now_us=NOW)) == 3


async def filing_again_keeps_one_key_that_lives_longer(store: Store, _: OpenStore) -> None:
    first = await store.cabinet.file(content(), now_us=NOW)
    second = await store.cabinet.file(replace(content(), expires_us=NOW + 9 * LIFE, name="again"), now_us=NOW + 1)
    assert (second.key, second.name, second.expires_us) == (first.key, "again", NOW + 9 * LIFE)
    assert len(await store.cabinet.list_keys("", now_us=NOW)) == 1


async def tenants_have_cabinets_of_their_own(store: Store, _: OpenStore) -> None:
    own = await store.cabinet.file(content(tenant="acme"), now_us=NOW)
    assert await store.cabinet.find("", own.key) is None
    assert await store.cabinet.read("", own.digest) is None
    assert await store.cabinet.find(None, own.key) == own
    assert await store.cabinet.list_keys("other", now_us=NOW) == []
    assert await store.cabinet.renew("other", [own.key], expires_us=NOW + 9 * LIFE) == 0


async def an_expired_key_is_removed_with_its_bytes(store: Store, _: OpenStore) -> None:
    row = await store.cabinet.file(content(), now_us=NOW)
    assert await store.cabinet.expired(None, now_us=NOW) == []
    assert await store.cabinet.list_keys("", now_us=AFTER) == []
    assert [gone.key for gone in await store.cabinet.expired(None, now_us=AFTER)] == [row.key]
    assert [gone.key for gone in await store.cabinet.remove_expired("", now_us=AFTER)] == [row.key]
    assert await store.cabinet.read("", row.digest) is None
    noted = await store.cabinet.find("", row.key)
    assert noted is not None
    assert noted.removed_us == AFTER
    assert await store.cabinet.renew("", [row.key], expires_us=NOW + 9 * LIFE) == 0


async def bytes_that_a_turn_refers_to_outlive_their_key(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one")])
    row = await store.cabinet.file(content(session_id="s"), now_us=NOW)
    assert (row.session_id, row.turn) == ("s", 1)
    await store.cabinet.remove_expired("", now_us=AFTER)
    assert await store.cabinet.read("", row.digest) == TEXT
    assert await store.cabinet.references("", row.digest) == [("s", 1)]
    assert [(held.turn, held.key) for held in await store.cabinet.of_turns("s", 1, 9)] == [(1, row.key)]
    assert await store.cabinet.renew("", [row.key], expires_us=NOW + 9 * LIFE) == 1
    assert [live.key for live in await store.cabinet.list_keys("", now_us=AFTER)] == [row.key]


async def a_fork_has_the_contents_of_the_turns_it_shares(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one")])
    await store.cabinet.file(content(session_id="s"), now_us=NOW)
    await store.append("s", [draft("two")])
    await store.cabinet.file(content(b"later", session_id="s"), now_us=NOW)
    await store.fork_session(new_session("fork"), "s", 1)
    assert [held.size for held in await store.cabinet.of_turns("fork", 1, 9)] == [len(TEXT)]


async def pruned_turns_take_their_contents_along(store: Store, _: OpenStore) -> None:
    for name in ("s", "other"):
        await store.create_session(new_session(name))
        await store.append(name, [draft("one", at_us=1)])
    only = await store.cabinet.file(content(session_id="s"), now_us=NOW)
    shared = await store.cabinet.file(content(b"shared", session_id="s"), now_us=NOW)
    await store.cabinet.file(content(b"shared", session_id="other"), now_us=NOW)
    await store.append("s", [draft("two", at_us=9)])
    before = await store.prune("s", before_us=5, dry_run=True)
    assert before.raw_bytes > len(TEXT)
    assert await store.prune("s", before_us=5, dry_run=False) == before
    assert await store.cabinet.find("", only.key) is None
    assert await store.cabinet.read("", only.digest) is None
    kept = await store.cabinet.find("", shared.key)
    assert kept is not None
    assert (kept.session_id, kept.turn) == ("other", 1)


async def a_deleted_session_takes_its_contents_along(store: Store, _: OpenStore) -> None:
    for name in ("s", "other"):
        await store.create_session(new_session(name))
        await store.append(name, [draft("one")])
    by_hand = await store.cabinet.file(content(b"by hand"), now_us=NOW)
    only = await store.cabinet.file(content(session_id="s"), now_us=NOW)
    await store.cabinet.file(content(b"shared", session_id="other"), now_us=NOW)
    shared = await store.cabinet.file(content(b"shared", session_id="s"), now_us=NOW)
    await store.delete_session("s")
    assert await store.cabinet.read("", only.digest) is None
    assert {row.key for row in await store.cabinet.list_keys("", now_us=NOW)} == {by_hand.key, shared.key}


async def prompts_have_versions_and_nothing_is_edited(store: Store, _: OpenStore) -> None:
    assert [(await store.prompts.add("", "greeting", text)).version for text in ("one", "two", None)] == [1, 2, 3]
    await store.prompts.add("acme", "greeting", "theirs")
    assert [row.text for row in await store.prompts.history("", "greeting")] == ["one", "two", None]
    assert [(row.key, row.version, row.text) for row in await store.prompts.newest("")] == [("greeting", 3, None)]
    assert [row.text for row in await store.prompts.newest("acme")] == ["theirs"]
    assert await store.prompts.newest("other") == []


CASES: tuple[Case, ...] = (
    a_content_is_found_by_its_key,
    filing_again_keeps_one_key_that_lives_longer,
    tenants_have_cabinets_of_their_own,
    an_expired_key_is_removed_with_its_bytes,
    bytes_that_a_turn_refers_to_outlive_their_key,
    a_fork_has_the_contents_of_the_turns_it_shares,
    pruned_turns_take_their_contents_along,
    a_deleted_session_takes_its_contents_along,
    prompts_have_versions_and_nothing_is_edited,
)
