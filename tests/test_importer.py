"""Importing through the library: nothing twice, nothing unseen, and back out again exactly."""

import asyncio
import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import foveate.sync as foveate
from foveate import formats
from foveate import importer as importing
from foveate.errors import InputError, UnknownFormat
from foveate.formats import TranscriptProblem
from foveate.importer import MAX_PROBLEMS, ImportReport
from support.paths import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
SHARED = ROOT.parent / "shared" / "data" / "transcripts"
LINES = [
    {"role": "user", "content": "Which port does the gateway use?"},
    {"role": "assistant", "content": "8443."},
    {"role": "user", "content": "And the worker?"},
]


def write_lines(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def export(session: foveate.Session, format_name: str) -> str:
    return "".join(session.export(format_name))


def test_importing_twice_adds_nothing_and_a_grown_file_only_what_is_new(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "talk.jsonl", LINES[:2])
    with foveate.open(tmp_path / "chat.db") as fov:
        first = fov.import_file(path)
        assert (first.found, first.added, first.sessions[0].turns) == (2, 2, 1)
        assert fov.import_file(path).added == 0
        write_lines(path, LINES)
        grown = fov.import_file(path)
        assert (grown.found, grown.added) == (3, 1)
        session = fov.open_session(grown.sessions[0].id)
        assert json.loads(export(session, "openai")) == LINES
        assert session.stats().turns == 2


def test_a_transcript_is_read_and_detected_outside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    def watched(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            with suppress(RuntimeError):
                loops.append(asyncio.get_running_loop())
            return function(*arguments)

        return call

    monkeypatch.setattr(formats, "detect_transcript", watched(formats.detect_transcript))
    monkeypatch.setattr(importing._Batches, "take", watched(importing._Batches.take))
    monkeypatch.setattr(importing._Import, "_dated", watched(importing._Import._dated))
    with foveate.open(tmp_path / "chat.db") as fov:
        assert fov.import_file(write_lines(tmp_path / "talk.jsonl", LINES)).added == len(LINES)
    assert loops == []


def test_a_line_without_a_time_has_that_of_the_one_before_it_or_of_the_next(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "chat.db") as fov:
        report = fov.import_file(FIXTURES / "claude_code" / "every_kind.jsonl")
        session = fov.open_session(report.sessions[0].id)
        messages = [message for turn in session.load_turns() for message in turn.messages]
        stats = session.stats()
    records: list[Any] = [message.original.data for message in messages if message.original]
    timed = [record["timestamp"] for record in records if "timestamp" in record]
    told = [f"{message.at:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z" for message in messages]
    assert set(told) == set(timed)
    assert (told[0], told[-1]) == (timed[0], timed[-1])
    assert (stats.first_at, stats.last_at) == (messages[0].at, messages[-1].at)


def test_a_file_without_any_time_has_its_own(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "talk.jsonl", LINES)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    with foveate.open(tmp_path / "chat.db") as fov:
        stats = fov.open_session(fov.import_file(path).sessions[0].id).stats()
        assert stats.first_at == stats.last_at == datetime.fromtimestamp(1_700_000_000, UTC)


def test_imported_sessions_stand_in_the_order_of_their_newest_messages(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "chat.db") as fov:
        fov.session("now").record(LINES)
        for day in (2, 3, 1):
            path = write_lines(tmp_path / f"day-{day}.jsonl", LINES)
            os.utime(path, (day * 86_400, day * 86_400))
            fov.import_file(path)
        fov.session("day-1").rename("Another title")
        assert [info.id for info in fov.sessions()] == ["now", "day-3", "day-2", "day-1"]


RULES = {"role": "system", "content": "You help."}


def texts(fov: foveate.Foveate, session_id: str) -> list[str]:
    return [message.text for turn in fov.open_session(session_id).load_turns() for message in turn.messages]


def test_another_file_of_the_same_name_is_a_session_of_its_own_and_each_grows(tmp_path: Path) -> None:
    first, second = (tmp_path / name / "talk.jsonl" for name in "ab")
    for path, prompt in ((first, "Tides?"), (second, "Lamps?")):
        path.parent.mkdir()
        write_lines(path, [RULES, {"role": "user", "content": prompt}])
    with foveate.open(tmp_path / "chat.db") as fov:
        reports = [fov.import_file(path) for path in (first, second)]
        assert [(report.sessions[0].id, report.sessions[0].name) for report in reports] == [
            ("talk", "talk"),
            ("talk-2", "talk"),
        ]
        fov.session("talk").record([{"role": "assistant", "content": "said here"}])
        for path, prompt in ((second, "Lamps?"), (first, "Tides?")):
            write_lines(
                path, [RULES, {"role": "user", "content": prompt}, {"role": "user", "content": f"More {prompt}"}]
            )
            assert fov.import_file(path).added == 1
        assert texts(fov, "talk") == ["You help.", "Tides?", "said here", "More Tides?"]
        assert texts(fov, "talk-2") == ["You help.", "Lamps?", "More Lamps?"]
        assert [fov.import_file(path).added for path in (first, second)] == [0, 0]


def test_a_file_is_not_mixed_into_a_talk_that_only_has_its_name(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "talk.jsonl", LINES)
    with foveate.open(tmp_path / "chat.db") as fov:
        fov.session("talk").record(LINES[:1])
        assert fov.import_file(path).sessions[0].id == "talk-2"
        fov.session("empty")
        assert fov.import_file(path.rename(tmp_path / "empty.jsonl")).sessions[0].id == "empty"


def test_a_trajectory_that_grew_goes_on_in_its_session(tmp_path: Path) -> None:
    whole = json.loads((FIXTURES / "swe_agent" / "sundays.traj").read_text())
    path = tmp_path / "sundays.traj"
    with foveate.open(tmp_path / "chat.db") as fov:
        for length in (3, len(whole["history"])):
            path.write_text(json.dumps({**whole, "history": whole["history"][:length], "seen": length}))
            assert [session.id for session in fov.import_file(path).sessions] == ["sundays"]
        path.write_text(json.dumps({**whole, "history": [whole["history"][0], *LINES]}))
        assert [session.id for session in fov.import_file(path).sessions] == ["sundays-2"]


def test_sessions_of_one_file_are_known_by_their_beginnings_wherever_a_batch_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH_MESSAGES", 4)
    path = tmp_path / "tuning.jsonl"
    with foveate.open(tmp_path / "chat.db") as fov:
        for prompt in ("Tides?", "Lamps?"):
            write_lines(path, [{"messages": [RULES, {"role": "user", "content": prompt}]}] * 3)
            fov.import_file(path)
        assert texts(fov, "tuning/2") == ["You help.", "Tides?"]
        assert texts(fov, "tuning/2-2") == ["You help.", "Lamps?"]
        assert len(fov.sessions()) == 6


def test_what_can_not_be_read_is_reported_by_line_and_the_rest_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    good = json.dumps(LINES[0]).encode()
    path.write_bytes(
        b"\n".join([good, b'{"role": "user", "content": "\xff"}', b"[1", b'{"role": "critic"}', good[:-5]])
    )
    with foveate.open(tmp_path / "chat.db") as fov:
        report = fov.import_file(path)
    assert report.added == 1
    assert [problem.place for problem in report.problems] == ["line 2", "line 3", "line 4", "line 5"]
    assert "invalid UTF-8" in report.problems[0].reason
    assert "critic" in report.problems[2].reason
    assert "cut off" in report.problems[3].reason


@pytest.mark.parametrize("count", [2, 3_000], ids=["one batch", "several batches"])
def test_a_line_that_a_file_repeats_is_imported_once(tmp_path: Path, count: int) -> None:
    def line(number: int) -> str:
        said = {"role": "user", "content": f"Prompt {number}"}
        at = "2026-01-01T00:00:00Z"
        return json.dumps({"type": "user", "uuid": f"u{number}", "sessionId": "s", "timestamp": at, "message": said})

    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join([line(1), line(2)] * count))

    with foveate.open(tmp_path / "chat.db") as fov:
        report = fov.import_file(path)
        assert [(one.found, one.added) for one in report.sessions] == [(2 * count, 2)]
        turns = fov.open_session("s").load_turns()
        assert [turn.messages[0].text for turn in turns] == ["Prompt 1", "Prompt 2"]


def test_a_session_can_be_named(tmp_path: Path) -> None:
    with foveate.open(tmp_path / "chat.db") as fov:
        fov.import_file(write_lines(tmp_path / "talk.jsonl", LINES), session_id="support-42")
        assert [info.id for info in fov.sessions()] == ["support-42"]


def test_a_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(1000))
    with foveate.open(tmp_path / "chat.db") as fov:
        with pytest.raises(UnknownFormat, match=r"photo\.png"):
            fov.import_file(path)
        with pytest.raises(UnknownFormat, match="no format 'nope'"):
            fov.import_file(path, format="nope")
        with pytest.raises(UnknownFormat, match="not a transcript format"):
            fov.import_file(path, format="openai")
        with pytest.raises(InputError, match="can't be read"):
            fov.import_file(tmp_path / "missing.jsonl")


@pytest.mark.parametrize(
    "path",
    sorted(path for path in FIXTURES.rglob("*") if path.is_file() and path.parent.name not in ("clients", "databases")),
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_every_fixture_goes_in_and_comes_out_through_the_store(path: Path, tmp_path: Path) -> None:
    with foveate.open(tmp_path / "chat.db") as fov:
        report = fov.import_file(path)
        assert report.added > 0
        name = report.format
        before = _records(name, path)
        after: list[Any] = []
        for imported in report.sessions:
            session = fov.open_session(imported.id)
            after += [message.original for turn in session.load_turns() for message in turn.messages]
        assert sorted(map(repr, before)) == sorted(map(repr, after))
        assert fov.import_file(path).added == 0
        assert [finding.problem for finding in fov.check() if finding.problem] == []


def _records(name: str, path: Path) -> list[Any]:
    with path.open("rb") as stream:
        items = list(formats.load_transcript(name).read(stream, path.name))
    found = {
        (item.session, item.key): item.message.original for item in items if isinstance(item, formats.TranscriptMessage)
    }
    return list(found.values())


@pytest.mark.skipif(not SHARED.is_dir(), reason="the transcripts in ../shared/data are not here")
@pytest.mark.parametrize(
    "name", ["pi-large-session.jsonl", pytest.param("aider-chat-history.md", marks=pytest.mark.thorough)]
)
def test_a_real_transcript_comes_back_out_of_the_store_as_it_was(name: str, tmp_path: Path) -> None:
    path = SHARED / name
    with foveate.open(tmp_path / "chat.db") as fov:
        report = fov.import_file(path)
        written = export(fov.open_session(report.sessions[0].id), report.format)
    if report.format == "aider":
        assert written == path.read_text()
    else:
        assert [json.loads(line) for line in written.splitlines()] == list(
            map(json.loads, path.read_text().splitlines())
        )


def test_problems_beyond_the_limit_are_counted() -> None:
    report = ImportReport("x", "jsonl")
    for number in range(MAX_PROBLEMS + 3):
        report.note(TranscriptProblem(f"line {number}", "bad"))
    assert (len(report.problems), report.unlisted_problems) == (MAX_PROBLEMS, 3)


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "talk.jsonl", LINES * 1000)
    told: list[int] = []
    with foveate.open(tmp_path / "chat.db") as fov:
        report = fov.import_file(path, progress=told.append)
    assert told[-1] == path.stat().st_size == report.bytes_read
