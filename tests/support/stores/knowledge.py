"""Conformance cases of knowledge: items, topics of turns, and runs that learn."""

from __future__ import annotations

from dataclasses import replace

from foveate.errors import RunInProgress, RunLost
from foveate.store import Store
from foveate.store.knowledge import (
    PERSON,
    KnowledgeChanges,
    KnowledgeSource,
    NewKnowledge,
    NewRun,
    Supersession,
    TurnTopicRow,
)
from support.stores import Case, OpenStore, draft, new_session, raises

SEEN = 1_800_000_000_000_000
PROJECT = "project:shop"


def item(item_id: str = "k-1", *, scope: str = PROJECT, text: str = "Run the tests with make.") -> NewKnowledge:
    return NewKnowledge(
        id=item_id,
        scope=scope,
        kind="lesson",
        state="proposed",
        title="Tests",
        text=text,
        topics=("t-1",),
        keywords=(("make", 1.0), ("tests", 0.5)),
        technologies=("make",),
        weight=0.75,
        confidence=0.5,
        maker="local",
        first_seen_us=SEEN,
        last_seen_us=SEEN + 1,
    )


def run(run_id: str = "run-1", *, owner: str = "one", watermark: str = "w", lease_seconds: float = 60) -> NewRun:
    return NewRun(
        id=run_id,
        tenant="",
        scope=PROJECT,
        watermark=watermark,
        prompt_version="1",
        owner=owner,
        lease_seconds=lease_seconds,
    )


async def an_item_keeps_its_versions(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("Run make test.")])
    first = replace(item(), sources=(KnowledgeSource("s", 1),))
    (row,) = await store.knowledge.add("", [first])
    assert NewKnowledge(**{name: getattr(row, name) for name in NewKnowledge.__slots__}) == first
    assert (row.version, row.superseded_by, row.uses, row.helped, row.last_used_us) == (1, "", 0, 0, None)
    (edited,) = await store.knowledge.add("", [replace(first, text="Run make check.", reason="it was renamed")])
    old, new = await store.knowledge.versions("", "k-1")
    assert (old.text, old.superseded_by, old.reason) == (first.text, "k-1@2", "it was renamed")
    assert (new, new.superseded_by, new.reason) == (edited, "", "")
    assert await store.knowledge.list_items("") == [edited]
    assert await store.knowledge.versions("", "k-9") == []


async def items_stay_in_their_tenant_and_scope(store: Store, _: OpenStore) -> None:
    await store.knowledge.add("", [item("k-1"), item("k-2", scope="user:anna")])
    await store.knowledge.add("acme", [item("k-1", text="Another's.")])
    assert [row.id for row in await store.knowledge.list_items("", scopes=[PROJECT])] == ["k-1"]
    assert [row.id for row in await store.knowledge.list_items("", scopes=["user:anna", "org:x"])] == ["k-2"]
    assert [row.text for row in await store.knowledge.list_items("acme")] == ["Another's."]
    assert len(await store.knowledge.list_items(None)) == 3
    assert await store.knowledge.list_items("", kind="topic") == []
    assert await store.knowledge.list_items("", scopes=[]) == []


async def a_change_of_items_changes_the_mark_of_their_scope(store: Store, _: OpenStore) -> None:
    marks = [await store.knowledge.mark("", [PROJECT])]
    for change in (
        store.knowledge.add("", [item("k-1"), item("k-2")]),
        store.knowledge.add("", [item("k-1", text="Run make check.")]),
        store.knowledge.begin_run(run()),
        store.knowledge.finish_run(
            "run-1", "one", "", KnowledgeChanges(superseded=(Supersession("k-2", "k-1", "says the same"),))
        ),
    ):
        await change
        marks.append(await store.knowledge.mark("", [PROJECT]))
    assert marks[2] == marks[3]
    assert len(set(marks)) == len(marks) - 1
    await store.knowledge.add("", [item("k-3", scope="user:anna")])
    await store.knowledge.add("acme", [item("k-4")])
    assert await store.knowledge.mark("", [PROJECT]) == marks[-1]


async def uses_are_counted_across_versions(store: Store, _: OpenStore) -> None:
    await store.knowledge.add("", [item()])
    await store.knowledge.count_uses("", ["k-1"], used=1)
    await store.knowledge.add("", [replace(item(), text="Anew.")])
    await store.knowledge.count_uses("", ["k-1"], used=1, helped=1)
    (row,) = await store.knowledge.list_items("")
    assert (row.uses, row.helped) == (2, 1)
    assert row.last_used_us is not None


async def one_run_at_a_time_learns_from_a_scope(store: Store, _: OpenStore) -> None:
    await store.knowledge.begin_run(run())
    async with raises(RunInProgress):
        await store.knowledge.begin_run(run("run-2", owner="two"))
    other = await store.knowledge.begin_run(replace(run("run-3", owner="three"), scope="user:anna"))
    assert other.state == "running"


async def an_interrupted_run_goes_on_with_its_steps(store: Store, reopen: OpenStore) -> None:
    await store.knowledge.begin_run(run(lease_seconds=0))
    await store.knowledge.keep_step("run-1", "one", "gather", b"result")
    again = await (await reopen()).knowledge.begin_run(run("run-2", owner="two"))
    assert (again.id, again.owner) == ("run-1", "two")
    assert await store.knowledge.steps("run-1") == {"gather": b"result"}
    for call in (
        store.knowledge.keep_step("run-1", "one", "late", b""),
        store.knowledge.fail_run("run-1", "one", ""),
        store.knowledge.finish_run("run-1", "one", "", KnowledgeChanges(items=(item(),))),
    ):
        async with raises(RunLost):
            await call
    assert not await store.leases.renew("run", "one", 60)
    await store.leases.release("run", "one")
    assert (await store.knowledge.get_run("run-1")).owner == "two"
    assert await store.knowledge.list_items("") == []


async def a_run_whose_input_changed_is_replaced(store: Store, _: OpenStore) -> None:
    await store.knowledge.begin_run(run())
    await store.knowledge.keep_step("run-1", "one", "gather", b"old")
    await store.leases.release("run", "one")
    fresh = await store.knowledge.begin_run(run("run-2", owner="two", watermark="w2"))
    assert fresh.id == "run-2"
    assert (await store.knowledge.get_run("run-1")).state == "replaced"
    assert await store.knowledge.steps("run-1") == {}


async def a_run_stores_all_its_changes_at_its_end(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one")])
    await store.knowledge.add("", [item("k-old")])
    await store.knowledge.begin_run(run())
    changes = KnowledgeChanges(
        items=(replace(item(), sources=(KnowledgeSource("s", 1),)),),
        superseded=(Supersession("k-old", "k-1", "says the same"),),
        turn_topics=(("s", TurnTopicRow(1, "t-1", 0.5)), ("s", TurnTopicRow(1, "t-2", 0.75))),
        topic_sessions=("s",),
    )
    await store.knowledge.finish_run("run-1", "one", '{"kept": 1}', changes)
    assert [row.id for row in await store.knowledge.list_items("")] == ["k-1"]
    (old,) = await store.knowledge.versions("", "k-old")
    assert (old.superseded_by, old.reason) == ("k-1", "says the same")
    topics = await store.knowledge.turn_topics("s", 1, 9)
    assert topics == [TurnTopicRow(1, "t-2", 0.75), TurnTopicRow(1, "t-1", 0.5)]
    (done,) = await store.knowledge.list_runs("", scope=PROJECT)
    assert (done.state, done.report, done.owner) == ("done", '{"kept": 1}', "")
    await store.knowledge.begin_run(run("run-2", owner="two", watermark="w2"))
    await store.knowledge.finish_run("run-2", "two", "{}", KnowledgeChanges(topic_sessions=("s",)))
    assert await store.knowledge.turn_topics("s", 1, 9) == []


async def a_run_does_not_replace_what_a_person_decided_on_meanwhile(store: Store, _: OpenStore) -> None:
    await store.knowledge.add("", [item("k-1"), item("k-2"), item("k-3")])
    await store.knowledge.begin_run(run())
    pinned = replace(item("k-1", text="As the person wrote it."), maker=PERSON, state="pinned")
    await store.knowledge.add("", [pinned, replace(item("k-2"), maker=PERSON, state="approved")])
    changes = KnowledgeChanges(
        items=(item("k-1", text="By the run."), item("k-3", text="By the run.")),
        superseded=(Supersession("k-2", "k-3", "says the same"),),
    )
    await store.knowledge.finish_run("run-1", "one", "{}", changes)
    found = {row.id: (row.text, row.version) for row in await store.knowledge.list_items("")}
    assert found == {
        "k-1": ("As the person wrote it.", 2),
        "k-2": (item().text, 2),
        "k-3": ("By the run.", 2),
    }


async def a_run_keeps_the_topics_that_another_scope_gave_a_turn(store: Store, _: OpenStore) -> None:
    await store.create_session(new_session())
    await store.append("s", [draft("one")])
    for scope, topic in ((PROJECT, "t-1"), ("user:anna", "t-2"), (PROJECT, "t-3")):
        await store.knowledge.begin_run(replace(run(topic, watermark=topic), scope=scope))
        changes = KnowledgeChanges(
            items=(replace(item(topic, scope=scope), kind="topic"),),
            turn_topics=(("s", TurnTopicRow(1, topic, 0.5)),),
            topic_sessions=("s",),
        )
        await store.knowledge.finish_run(topic, "one", "{}", changes)
    assert [row.topic for row in await store.knowledge.turn_topics("s", 1, 9)] == ["t-2", "t-3"]


async def what_was_learned_from_a_deleted_session_alone_goes_with_it(store: Store, _: OpenStore) -> None:
    for name in ("s", "other"):
        await store.create_session(replace(new_session(), id=name))
        await store.append(name, [draft("Run make.")])
    own, both, persons = (KnowledgeSource("s", 1),), (KnowledgeSource("s", 1), KnowledgeSource("other", 1)), PERSON
    learned = [
        replace(item("k-own"), sources=own),
        replace(item("k-both"), sources=both),
        replace(item("k-person"), sources=own, maker=persons),
    ]
    await store.knowledge.add("", learned)
    await store.knowledge.count_uses("", ["k-own"], used=1)
    await store.delete_session("s")
    left = await store.knowledge.list_items("")
    assert [(row.id, row.sources) for row in left] == [
        ("k-both", (KnowledgeSource("other", 1),)),
        ("k-person", ()),
    ]


CASES: tuple[Case, ...] = (
    an_item_keeps_its_versions,
    items_stay_in_their_tenant_and_scope,
    a_change_of_items_changes_the_mark_of_their_scope,
    uses_are_counted_across_versions,
    one_run_at_a_time_learns_from_a_scope,
    an_interrupted_run_goes_on_with_its_steps,
    a_run_whose_input_changed_is_replaced,
    a_run_stores_all_its_changes_at_its_end,
    a_run_does_not_replace_what_a_person_decided_on_meanwhile,
    a_run_keeps_the_topics_that_another_scope_gave_a_turn,
    what_was_learned_from_a_deleted_session_alone_goes_with_it,
)
