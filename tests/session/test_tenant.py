"""A tenant's view of the store: the same methods, and nothing of another tenant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from foveate import sync
from foveate.agents.chat import Chat
from foveate.errors import InputError, Refused, SessionExists, SessionNotFound, TurnNotFound
from foveate.events import Event
from foveate.testing.scripted import Says, ScriptedModel
from support.chats import finished, scripted_store

HELLO = [{"role": "user", "content": "The port is 8443."}, {"role": "assistant", "content": "Noted."}]


@pytest.fixture
def fov(tmp_path: Path) -> Iterator[sync.Foveate]:
    with sync.open(tmp_path / "a.db") as opened:
        yield opened


def test_two_tenants_and_the_owner_have_sessions_of_the_same_id(fov: sync.Foveate) -> None:
    views = {"": fov, "acme": fov.tenant("acme"), "other": fov.tenant("other")}
    for name, view in views.items():
        session = view.session("chat", title=f"of {name}")
        session.record(HELLO)
        assert (session.id, session.info.id) == ("chat", "chat")
    for name, view in views.items():
        assert view.open_session("chat").info.title == f"of {name}"
    assert [info.id for info in views["acme"].sessions()] == ["chat"]
    assert {info.id for info in fov.sessions()} == {"chat", "acme:chat", "other:chat"}
    assert fov.open_session("acme:chat").info.title == "of acme"


@pytest.mark.databases
def test_what_belongs_to_another_does_not_exist(fov: sync.Foveate) -> None:
    fov.session("mine").record(HELLO)
    fov.tenant("acme").session("theirs").record(HELLO)
    other = fov.tenant("other")
    unknown = _message(other, "unknown")
    for name in ("mine", "theirs", "acme:theirs", ":mine"):
        assert _message(other, name) == unknown.replace("'unknown'", repr(name))
        with pytest.raises(SessionNotFound):
            other.delete_session(name)
        with pytest.raises(SessionNotFound):
            other.search("port", session_id=name)
        with pytest.raises(SessionNotFound):
            other.costs(name)
        with pytest.raises(SessionNotFound):
            other.reliability(name)
        with pytest.raises(SessionNotFound):
            other.find_session(name)
    assert other.sessions() == []
    assert other.search("port 8443") == []
    assert other.search("port 8443", session_ids=["theirs", "acme:theirs", "mine"]) == []


def _message(view: sync.Foveate, name: str) -> str:
    with pytest.raises(SessionNotFound) as caught:
        view.open_session(name)
    return str(caught.value)


@pytest.mark.databases
def test_everything_of_a_session_works_in_a_view(fov: sync.Foveate) -> None:
    view = fov.tenant("acme")
    chat = view.session("chat", strategy="topics")
    turn = chat.record(HELLO)
    view.settle()
    view.settle(session_id="chat")
    assert (turn.session_id, turn.id) == ("chat", "T-1")
    assert "8443" in chat.context("Which port?").text
    assert chat.get_turn("T-1", "T").content
    assert [hit.session_id for hit in chat.search("port")] == ["chat"]
    assert [hit.session_id for hit in view.search("port")] == ["chat"]
    assert [hit.session_id for hit in view.search("port", session_ids=["chat"])] == ["chat"]
    chat.pin("Never on a Friday.")
    chat.goals.add("Ship it")
    assert chat.topics.seal_current_topic().summary
    assert chat.topics.get_context().topics
    assert json.loads("".join(chat.export()))["session"]["id"] == "chat"
    assert view.find_session("cha").id == "chat"
    assert view.costs() == []
    with pytest.raises(TurnNotFound, match="in session 'chat'"):
        chat.get_turn("T-9")


def test_a_fork_stays_with_its_tenant(fov: sync.Foveate) -> None:
    view = fov.tenant("acme")
    view.session("chat").record(HELLO)
    fork = view.open_session("chat").fork("branch")
    assert (fork.id, fork.info.parent_id) == ("branch", "chat")
    assert fov.open_session("acme:branch").info.parent_id == "acme:chat"
    with pytest.raises(SessionExists, match="session 'branch' already exists"):
        view.open_session("chat").fork("branch")
    by_owner = fov.open_session("acme:chat").fork("second")
    assert by_owner.id == "acme:second"
    assert view.open_session("second").info.turns == 1


def test_checkpoints_conversations_and_imports_are_the_tenants(fov: sync.Foveate, tmp_path: Path) -> None:
    view = fov.tenant("acme")
    chat = view.session("cp", strategy="checkpoint")
    chat.record(HELLO)
    assert chat.checkpoints.list() == ()
    talk = view.conversation("slack", "#help")
    assert talk.id == "slack:#help"
    assert view.conversation("slack", "#help").id == talk.id
    transcript = tmp_path / "talk.jsonl"
    transcript.write_text('{"role": "user", "content": "Hello"}\n')
    fov.import_file(transcript)
    assert [one.id for one in view.import_file(transcript).sessions] == ["talk"]
    assert {"talk", "acme:talk"} <= {info.id for info in fov.sessions()}


def test_a_view_gets_the_events_of_its_tenant(fov: sync.Foveate) -> None:
    told: list[Event] = []
    view = fov.tenant("acme")
    with view.subscribe(told.append, ["turn-recorded"]) as subscription:
        fov.session("chat").record(HELLO)
        fov.tenant("other").session("chat").record(HELLO)
        view.session("chat").record(HELLO)
        subscription.drain()
    assert [event.session_id for event in told] == ["chat"]


def test_a_view_can_not_do_what_is_the_owners(fov: sync.Foveate) -> None:
    view = fov.tenant("acme")
    for forbidden in (lambda: view.keys, lambda: view.tenant("other"), view.rebuild_index, lambda: list(view.check())):
        with pytest.raises(Refused, match="for the owner of the store"):
            forbidden()
    with pytest.raises(InputError, match="can't be a tenant's name"):
        fov.tenant("")
    view.close()
    assert fov.sessions() == []


def test_compression_again_is_of_the_tenants_sessions_only(fov: sync.Foveate) -> None:
    fov.session("mine").record(HELLO)
    view = fov.tenant("acme")
    view.session("chat").record(HELLO)
    view.settle()
    assert view.compress_again() == 0
    assert view.prune("chat", before="2000-01-01").turns == 0
    assert view.unsearched_turns() == 0
    view.prepare("chat")
    view.delete_session("chat")
    assert [info.id for info in fov.sessions()] == ["mine"]


def test_a_chat_of_a_tenant_is_booked_to_its_session(tmp_path: Path) -> None:
    async def job() -> None:
        async with scripted_store(tmp_path / "a.db", ScriptedModel(Says("The port is 8443."))) as fov:
            views = fov.tenant("acme"), fov.tenant("other")
            session = await views[0].session("chat")
            await finished(Chat(session, fov.caller, ["scripted:test"]).say("Which port?"))
            assert session.engine.stored_id == "acme:chat"
            assert [row.session_id for row in await views[0].costs()] == ["chat"]
            assert [row.session_id for row in await views[0].costs("chat")] == ["chat"]
            assert [row.session_id for row in await fov.costs()] == ["acme:chat"]
            assert await views[1].costs() == []

    asyncio.run(job())
