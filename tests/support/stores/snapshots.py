"""Conformance cases of snapshots: all that a context needs of a session, read in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from foveate.store import Store, bodies
from foveate.store.database import Database
from foveate.store.rows import ArtefactRow, ArtefactsMark
from foveate.store.snapshot import AGENT_STATE, MAX_NEW_TURNS, KnownTurns, SessionSnapshot
from foveate.store.sql import Connection
from support.stores import Case, OpenStore, draft, new_session
from support.stores.derived import rendition

T = TypeVar("T")


@contextmanager
def _counted_reads() -> Iterator[list[str]]:
    """The read transactions of every store meanwhile."""
    read = Database.read
    begun: list[str] = []

    async def counted(self: Database, job: Callable[[Connection], T]) -> T:
        begun.append(getattr(job, "__qualname__", ""))
        return await read(self, job)

    Database.read = counted  # type: ignore[method-assign]
    try:
        yield begun
    finally:
        Database.read = read  # type: ignore[method-assign]


async def _talk(store: Store, session_id: str, *turns: int) -> None:
    """A prompt and an answer for each of these numbers."""
    for turn in turns:
        at_us = 10 * turn
        await store.append(
            session_id,
            [draft(f"q{turn}", at_us=at_us), draft(f"a{turn}", "assistant", at_us=at_us)],
        )


def _said(snapshot: SessionSnapshot) -> list[object]:
    """What the messages of a snapshot say; None where one was pruned."""
    return [None if row.body is None else bodies.load(row.body) for row in snapshot.messages]


async def _since(store: Store, session_id: str, known: KnownTurns) -> list[object]:
    """The messages after those that are known of the session as it is now."""
    origin = (await store.snapshot(session_id)).origin
    return _said(await store.snapshot(session_id, known=replace(known, origin=origin)))


async def a_snapshot_is_read_in_one_transaction(store: Store, _: OpenStore) -> None:
    await store.create_session(replace(new_session(), tenant="acme"))
    await _talk(store, "s", 1, 2, 3)
    await store.derived.add_renditions("s", [rendition(1, messages=2), rendition(2, messages=2)])
    await store.add_pin("s", "Never on Fridays.", locked=True)
    await store.artefacts.keep_document("s", "goals", "Ship it.")
    await store.artefacts.keep_made("s", "gradient", [ArtefactRow("a", "topic", 1, 2, 40, b"made")])
    for name in ("gradient", "topics"):
        await store.derived.keep_plan("s", name, f"plan of {name}".encode())
        await store.artefacts.keep_state("s", name, f"state of {name}".encode())
    await store.artefacts.keep_state("s", AGENT_STATE, b"lease")
    await store.artefacts.keep_board("s", b"board")
    await store.derived.keep_recalled("s", b"memory")
    await store.prompts.add("", "explain/gradient", "the owner's")
    await store.prompts.add("", "chat/system", "everyone's")
    await store.prompts.add("acme", "explain/gradient", "the tenant's")
    expected = SessionSnapshot(
        session=await store.get_session("s"),
        settled_turn=await store.derived.settled("s"),
        pins=await store.list_pins("s"),
        documents={"goals": "Ship it."},
        prompts={"explain/gradient": "the owner's", "chat/system": "everyone's"},
        tenant_prompts={"explain/gradient": "the tenant's", "chat/system": "everyone's"},
        plan=b"plan of gradient",
        state=b"state of gradient",
        made=await store.artefacts.mark("s", "gradient"),
        agent=b"lease",
        board=b"board",
        memory=b"memory",
        messages=await store.read("s", 1, 3),
    )
    assert expected.settled_turn == 2
    with _counted_reads() as reads:
        snapshot = await store.snapshot("s")
        other = await store.snapshot("s", strategy=lambda row: "topics" if row.id == "s" else "")
    assert len(reads) == 2
    assert snapshot == expected
    named = {"plan": b"plan of topics", "state": b"state of topics", "made": ArtefactsMark(0, 0)}
    assert other == replace(expected, **named)  # type: ignore[arg-type]


async def a_new_session_has_an_empty_snapshot(store: Store, _: OpenStore) -> None:
    created = await store.create_session(new_session())
    assert await store.snapshot("s") == SessionSnapshot(session=created, pins=[], made=ArtefactsMark(0, 0), messages=[])


async def a_snapshot_reads_only_messages_that_are_not_known(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await _talk(store, "s", 1, 2)
    assert await _since(store, "s", KnownTurns()) == ["q1", "a1", "q2", "a2"]
    assert await _since(store, "s", KnownTurns(2, 2)) == []
    await store.append("s", [draft("more", "assistant")])
    assert await _since(store, "s", KnownTurns(2, 2)) == ["more"]
    await _talk(store, "s", 3)
    assert await _since(store, "s", KnownTurns(2, 2)) == ["more", "q3", "a3"]
    assert await _since(store, "s", KnownTurns(2, 3)) == ["q3", "a3"]
    assert await _since(store, "s", KnownTurns(3, 1)) == ["a3"]


async def of_many_new_turns_a_snapshot_reads_the_newest_one(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    last = 2 + MAX_NEW_TURNS
    await _talk(store, "s", *range(1, last + 1))
    assert await _since(store, "s", KnownTurns(2, 2)) == [f"q{last}", f"a{last}"]
    nearly = await _since(store, "s", KnownTurns(3, 2))
    assert nearly == [f"{who}{turn}" for turn in range(4, last + 1) for who in "qa"]


async def a_forks_snapshot_has_its_parents_turns_up_to_the_fork(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await _talk(store, "s", 1, 2, 3)
    await store.derived.add_renditions("s", [rendition(turn, messages=2) for turn in (1, 2)])
    await store.fork_session(new_session("f"), "s", 2)
    await store.append("s", [draft("later", "assistant")])
    fork = await store.snapshot("f")
    assert (fork.session.last_turn, fork.settled_turn) == (2, await store.derived.settled("f"))
    assert _said(fork) == ["q1", "a1", "q2", "a2"]
    await store.append("f", [draft("mine"), draft("yours", "assistant")])
    assert await _since(store, "f", KnownTurns(1, 2)) == ["q2", "a2", "mine", "yours"]
    with _counted_reads() as reads:
        known = await store.snapshot("f", known=KnownTurns(2, 2, fork.origin))
    assert (_said(known), len(reads)) == (["mine", "yours"], 1)
    assert await _since(store, "s", KnownTurns(2, 2)) == ["q3", "a3", "later"]


async def after_a_prune_nothing_counts_as_known(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await _talk(store, "s", 1, 2, 3)
    await store.derived.keep_plan("s", "gradient", b"plan")
    before = (await store.snapshot("s")).origin
    assert before.pruned_us is None
    await store.prune("s", before_us=15, dry_run=False)
    with _counted_reads() as reads:
        snapshot = await store.snapshot("s", known=KnownTurns(3, 1, before))
    assert len(reads) == 1
    assert snapshot.pruned_us == await store.derived.pruned("s")
    assert snapshot.pruned_us is not None
    assert snapshot.plan is None
    assert _said(snapshot) == [None, None, "q2", "a2", "q3", "a3"]
    assert await _since(store, "s", KnownTurns(3, 1)) == ["a3"]
    for keep in (store.derived.keep_plan, store.derived.keep_offer, store.artefacts.keep_state):
        await keep("s", "gradient", b"of removed turns", before)
    await store.derived.keep_recalled("s", b"of removed turns", before)
    row = ArtefactRow("a", "topic", 1, 2, 40, b"of removed turns")
    assert await store.artefacts.keep_made("s", "gradient", [row], origin=before) is None
    after = await store.snapshot("s")
    assert (after.plan, after.state, after.memory, after.made.count) == (None, None, None, 0)
    assert await store.derived.offer("s", "gradient") is None


CASES: tuple[Case, ...] = (
    a_snapshot_is_read_in_one_transaction,
    a_new_session_has_an_empty_snapshot,
    a_snapshot_reads_only_messages_that_are_not_known,
    of_many_new_turns_a_snapshot_reads_the_newest_one,
    a_forks_snapshot_has_its_parents_turns_up_to_the_fork,
    after_a_prune_nothing_counts_as_known,
)
