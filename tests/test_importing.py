"""Importing through the library: nothing twice, nothing unseen, and back out again exactly."""

import json
from pathlib import Path
from typing import Any

import pytest

import foveate.sync as foveate
from foveate import formats
from foveate.errors import InputError, UnknownFormat
from foveate.formats import Problem
from foveate.importing import MAX_PROBLEMS, ImportReport

FIXTURES = Path(__file__).parent / "fixtures"
SHARED = Path(__file__).parents[2] / "shared" / "data" / "transcripts"
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
    sorted(path for path in FIXTURES.rglob("*") if path.is_file()),
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
    found = {(item.session, item.key): item.message.original for item in items if isinstance(item, formats.Found)}
    return list(found.values())


@pytest.mark.skipif(not SHARED.is_dir(), reason="the transcripts in ../shared/data are not here")
@pytest.mark.parametrize("name", ["pi-large-session.jsonl", "aider-chat-history.md"])
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
        report.note(Problem(f"line {number}", "bad"))
    assert (len(report.problems), report.unlisted_problems) == (MAX_PROBLEMS, 3)


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "talk.jsonl", LINES * 1000)
    told: list[int] = []
    with foveate.open(tmp_path / "chat.db") as fov:
        report = fov.import_file(path, progress=told.append)
    assert told[-1] == path.stat().st_size == report.bytes_read
