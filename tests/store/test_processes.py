"""Several processes write one file, from its very first moment on, and no lock error reaches anyone."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import foveate.sync

PROCESSES = 4
RECORDER = Path(__file__).with_name("recorder.py")


class Recorders:
    """Processes that have all they need in memory, and go at the same moment."""

    def __init__(self, children: list[subprocess.Popen[str]]) -> None:
        self.children = children

    def record(self, path: Path, sessions: list[str], *, turns: int) -> list[list[int]]:
        """Each child records into its session; returned are the turn numbers that each was told."""
        chosen = self.children[: len(sessions)]
        for child, session in zip(chosen, sessions, strict=True):
            assert child.stdin
            child.stdin.write(json.dumps([str(path), session, turns]) + "\n")
        for child in chosen:
            assert child.stdin
            child.stdin.flush()
        answers = [json.loads(line_of(child)) for child in chosen]
        assert [answer for answer in answers if isinstance(answer, str)] == []
        return answers


def line_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    assert child.stderr
    line = child.stdout.readline()
    assert line, child.stderr.read()
    return line


@pytest.fixture(scope="module")
def processes() -> Iterator[Recorders]:
    pipe = subprocess.PIPE
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(
                subprocess.Popen([sys.executable, str(RECORDER)], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
            )
            for _ in range(PROCESSES)
        ]
        assert [line_of(child) for child in children] == ["ready\n"] * PROCESSES
        yield Recorders(children)
        for child in children:
            assert child.communicate() == ("", "")
            assert child.returncode == 0


def faults(fov: foveate.sync.Foveate) -> list[str]:
    return [finding.problem for finding in fov.check() if finding.problem]


def test_four_processes_record_in_sessions_of_their_own(processes: Recorders, tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    sessions = ["a", "b", "c", "d"]
    assert processes.record(path, sessions, turns=60) == [list(range(1, 61))] * 4
    with foveate.sync.open(path) as fov:
        assert sum(info.turns for info in fov.sessions()) == 240
        for session_id in sessions:
            outline = fov.session(session_id).outline()
            assert [turn.number for turn in outline] == list(range(1, 61))
            assert {turn.messages for turn in outline} == {2}
            content = fov.session(session_id).get_turn(60, format="plain").content
            assert content == f"[user] {session_id} prompt 60\n[assistant] {session_id} answer 60\n"
        assert faults(fov) == []


def test_four_processes_share_a_session_without_a_gap_or_a_turn_taken_twice(
    processes: Recorders, tmp_path: Path
) -> None:
    path = tmp_path / "new.db"
    told = processes.record(path, ["shared"] * 4, turns=40)
    assert sorted(number for numbers in told for number in numbers) == list(range(1, 161))
    assert all(numbers == sorted(numbers) for numbers in told)
    with foveate.sync.open(path) as fov:
        turns = fov.session("shared").load_turns()
        assert [turn.number for turn in turns] == list(range(1, 161))
        assert {len(turn.messages) for turn in turns} == {2}
        assert faults(fov) == []


def test_several_processes_open_the_same_new_file_at_once(processes: Recorders, tmp_path: Path) -> None:
    sessions = [f"s{index}" for index in range(PROCESSES)]
    for attempt in range(3):
        path = tmp_path / f"new{attempt}.db"
        assert processes.record(path, sessions, turns=0) == [[]] * PROCESSES
        with foveate.sync.open(path) as fov:
            assert sorted(info.id for info in fov.sessions()) == sessions
            assert faults(fov) == []


def test_several_processes_create_the_same_session_at_once(processes: Recorders, tmp_path: Path) -> None:
    for attempt in range(3):
        told = processes.record(tmp_path / f"new{attempt}.db", ["shared"] * PROCESSES, turns=1)
        assert sorted(told) == [[number] for number in range(1, PROCESSES + 1)]
