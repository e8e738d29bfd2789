"""The blocking library has everything that the async one has, and never hangs."""

from __future__ import annotations

import ast
import inspect
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import foveate
from foveate import client as api
from foveate import session, sync
from foveate.errors import (
    InputError,
    InvalidMessage,
    NotADatabase,
    SessionNotFound,
    SettingsError,
    StoreClosed,
    StoreError,
    TurnNotFound,
)
from foveate.session import checkpoints, documents, exchange, goals, keys
from foveate.session import topics as topical
from support.paths import ROOT
from support.patience import PATIENCE_SECONDS

HELLO = {"role": "user", "content": "Hello"}
TWINS = [
    (api.Foveate, sync.Foveate),
    (session.Session, sync.Session),
    (documents.Documents, sync.Documents),
    (exchange.Exchange, sync.Exchange),
    (checkpoints.Checkpoints, sync.Checkpoints),
    (goals.Goals, sync.Goals),
    (keys.Keys, sync.Keys),
    (topical.SessionTopics, sync.SessionTopics),
]

SAMPLE = """
from collections.abc import Iterator
import foveate.sync as foveate

with foveate.open("chat.db", settings=foveate.load_settings()) as fov:
    session: foveate.Session = fov.session("support-42", budget_tokens=1000)
    turn: foveate.RecordedTurn = session.record([{"role": "user", "content": "Hi"}], key="a")
    content: str = session.get_turn(turn.id, "R").content
    pieces: Iterator[str] = session.export("markdown")
    again: foveate.Session = session.fork("other")
    name: str = session.id
    readers: int = fov.settings.store.readers
    infos: list[foveate.SessionInfo] = fov.sessions()
    problems = [finding.problem for finding in fov.check()]
    try:
        again.info.title.upper()
    except foveate.errors.NotFound as error:
        print(error)
"""
WRONG = """
import foveate.sync as foveate

with foveate.open("chat.db") as fov:
    fov.session("s").record(5)
    fov.session("s").recrod([])
    fov.session("s", budget=5)
"""


@pytest.fixture
def fov(tmp_path: Path) -> Iterator[sync.Foveate]:
    with sync.open(tmp_path / "chat.db") as opened:
        yield opened


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("foveate-loop")]


@pytest.mark.parametrize(("asynchronous", "blocking"), TWINS)
def test_every_public_member_has_a_blocking_twin_with_the_same_parameters(asynchronous: type, blocking: type) -> None:
    members = {name: member for name, member in vars(asynchronous).items() if not name.startswith("_")}
    assert members
    for name, member in members.items():
        twin = inspect.getattr_static(blocking, name)
        assert isinstance(twin, property) == isinstance(member, property), name
        assert not inspect.iscoroutinefunction(twin)
        assert not inspect.isasyncgenfunction(twin)
        if inspect.isfunction(member):
            assert list(inspect.signature(twin).parameters.values()) == list(
                inspect.signature(member).parameters.values()
            ), name


@pytest.mark.parametrize(("asynchronous", "blocking"), TWINS)
def test_the_blocking_class_has_nothing_of_its_own(asynchronous: type, blocking: type) -> None:
    assert {name for name in vars(blocking) if not name.startswith("_")} == {
        name for name in vars(asynchronous) if not name.startswith("_")
    }


def test_opening_takes_the_same_parameters() -> None:
    assert inspect.signature(sync.open).parameters == inspect.signature(api.open).parameters


def test_every_other_name_is_the_librarys_own() -> None:
    for name in set(foveate.__all__) - {*(blocking.__name__ for _, blocking in TWINS), "open"}:
        assert getattr(sync, name) is getattr(foveate, name)


def test_the_stub_is_current() -> None:
    stub = ROOT / "src" / "foveate" / "sync.pyi"
    assert stub.is_file(), "an install writes it, and so does `python hatch_build.py`"
    assert stub.read_text("utf-8") == generated_stub(), "run `python hatch_build.py`"


def test_the_stub_declares_every_class_with_every_public_member() -> None:
    declared = {node.name: node.body for node in ast.parse(generated_stub()).body if isinstance(node, ast.ClassDef)}
    blocking = {
        name for name, value in vars(sync).items() if inspect.isclass(value) and value.__module__ == sync.__name__
    }
    assert set(declared) == {name for name in blocking if not name.startswith("_")}
    for name, members in declared.items():
        methods = {member.name for member in members if isinstance(member, ast.FunctionDef)}
        assert {member for member in methods if not member.startswith("_")} == {
            member for member in vars(getattr(sync, name)) if not member.startswith("_")
        }


def generated_stub() -> str:
    return str(runpy.run_path(str(ROOT / "hatch_build.py"))["generate"](ROOT / "src"))


@pytest.mark.thorough  # `make check` looks at every use in these tests
def test_mypy_accepts_a_right_use_and_refuses_a_wrong_one(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(SAMPLE)
    (tmp_path / "wrong.py").write_text(WRONG)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}"]
    run = subprocess.run([*mypy, "right.py", "wrong.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    told = [line for line in run.stdout.splitlines() if "error:" in line]
    assert [line.partition(": error")[0] for line in told] == ["wrong.py:5", "wrong.py:6", "wrong.py:7"], run.stdout


def test_a_conversation_goes_in_and_comes_back(fov: sync.Foveate) -> None:
    session_ = fov.session("support-42", title="Login")
    turn = session_.record([HELLO, {"role": "assistant", "content": "Good day"}])
    assert isinstance(session_, sync.Session)
    assert session_.id == "support-42"
    assert fov.settings.store.readers == 4
    assert session_.get_turn(turn.id, format="plain").content == "[user] Hello\n[assistant] Good day\n"
    assert isinstance(session_.fork("other"), sync.Session)
    assert [info.id for info in fov.sessions()] == ["other", "support-42"]
    assert "".join(session_.export("markdown")).startswith("# Login\n")
    assert [finding for finding in fov.check() if finding.problem] == []


def test_errors_come_as_themselves(fov: sync.Foveate) -> None:
    with pytest.raises(SessionNotFound) as caught:
        fov.open_session("nobody")
    assert caught.value.session_id == "nobody"
    with pytest.raises(SettingsError):
        fov.session("s", budget_tokens=0)
    session_ = fov.session("s")
    with pytest.raises(InvalidMessage):
        session_.record([{"role": "user"}, 5])  # type: ignore[list-item]
    with pytest.raises(TurnNotFound):
        session_.load_turn("T-9")
    with pytest.raises(InputError, match="no format"):
        list(session_.export("nonsense"))
    with pytest.raises(TypeError, match="unexpected keyword"):
        fov.session("s", budget=5)  # type: ignore[call-arg]


def test_several_threads_may_use_one_store(fov: sync.Foveate) -> None:
    sessions = [fov.session("s0"), fov.session("s1")]

    def talk(thread: int) -> list[str]:
        session_ = sessions[thread % 2]
        return [session_.record({"role": "user", "content": f"{thread}/{number}"}).id for number in range(20)]

    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(talk, range(8)))
    for parity in (0, 1):
        mine = [turn for thread in range(parity, 8, 2) for turn in ids[thread]]
        assert sorted(mine, key=lambda turn: int(turn[2:])) == [f"T-{number}" for number in range(1, 81)]
        said = {turn.messages[0].text for turn in fov.session(f"s{parity}").load_turns()}
        assert said == {f"{thread}/{number}" for thread in range(parity, 8, 2) for number in range(20)}


def test_leaving_the_block_closes_the_store_and_ends_its_thread(tmp_path: Path) -> None:
    before = loop_threads()
    with sync.open(tmp_path / "chat.db") as fov:
        session_ = fov.session("s")
        assert len(loop_threads()) == len(before) + 1
    assert loop_threads() == before
    with pytest.raises(StoreClosed):
        session_.record(HELLO)


def test_everything_after_closing_says_that_the_store_is_closed(tmp_path: Path) -> None:
    fov = sync.open(tmp_path / "chat.db")
    session_ = fov.session("s")
    session_.record(HELLO)
    begun = session_.export()
    next(begun)
    fov.close()
    for use in (
        lambda: session_.record(HELLO),
        lambda: session_.get_turn("T-1"),
        lambda: fov.session("s"),
        fov.sessions,
        lambda: list(session_.export()),
        lambda: list(begun),
        lambda: list(fov.check()),
        fov.settle,
    ):
        with pytest.raises(StoreClosed, match=r"chat\.db: the store is closed; open it again"):
            use()
    assert session_.info.id == "s"


def test_closing_twice_or_from_several_threads_is_closing_once(tmp_path: Path) -> None:
    before = loop_threads()
    fov = sync.open(tmp_path / "chat.db")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: fov.close(), range(8)))
    fov.close()
    assert loop_threads() == before


def test_closing_under_other_threads_ends_their_calls_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    fov = sync.open(tmp_path / "chat.db")
    session_ = fov.session("s")
    started = threading.Barrier(5)

    def talk(_: int) -> list[str]:
        done: list[str] = []
        started.wait()
        while True:
            try:
                done.append(session_.record(HELLO).id)
            except StoreClosed:
                return done

    with ThreadPoolExecutor(4) as threads:
        talks = [threads.submit(talk, number) for number in range(4)]
        started.wait()
        while fov.open_session("s").info.turns < 8:
            pass
        fov.close()
        acknowledged = {turn for talk_ in talks for turn in talk_.result(timeout=PATIENCE_SECONDS)}
    with sync.open(tmp_path / "chat.db") as again:
        assert acknowledged <= {turn.id for turn in again.session("s").load_turns()}


def test_an_iterator_that_is_left_early_is_closed(fov: sync.Foveate) -> None:
    session_ = fov.session("s")
    for _ in range(5):
        session_.record(HELLO)
    pieces = session_.export()
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert list(pieces) == []


@pytest.mark.parametrize(
    ("name", "error"), [("missing/chat.db", StoreError), (".", NotADatabase), ("text.db", NotADatabase)]
)
def test_a_path_that_cannot_be_opened_leaves_no_thread_behind(
    name: str, error: type[Exception], tmp_path: Path
) -> None:
    (tmp_path / "text.db").write_text("just some words, and not a database at all")
    before = loop_threads()
    with pytest.raises(error):
        sync.open(tmp_path / name)
    with pytest.raises(InputError):
        sync.open("mysql://nowhere/db")
    assert loop_threads() == before


def test_an_interrupted_call_leaves_a_store_that_can_be_used_and_closed(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        path = tmp_path / "talk.jsonl"
        path.write_text('{"role": "user", "content": "Hello"}\n' * 3000)

        def interrupt(_: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fov.import_file(path, progress=interrupt)
        assert fov.import_file(path).found == 3000
