"""What holds for every format that keeps conversations as objects or rows: read, written and read again, they stay."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import foveate.sync as foveate
from foveate.formats import HEAD_BYTES, DatabaseFormat, detect_transcript, files, load_transcript
from foveate.turn import Message
from support.databases import agents_database, cursor_database, opencode_database
from support.transcripts import FIXTURES, Imported, foreign_messages, import_bytes, written

FILES = {
    "gemini-cli": "gemini_cli/session-2026-11-16T08-36-659bffd9.jsonl",
    "cline": "cline/1794818214860_s9vfm.messages.json",
    "claude-ai": "claude_ai/conversations.json",
    "copilot-chat": "copilot_chat/3c1e0f52-5f0a-4a6b-8c1d-0a4d6b1f3f10.json",
    "langsmith": "langsmith/runs.jsonl",
}
DATABASES: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "opencode": ("opencode.db", opencode_database),
    "cursor": ("state.vscdb", cursor_database),
    "openai-agents": ("sessions.db", agents_database),
}
FORMATS = [*FILES, *DATABASES]


def file_of(format_: str, folder: Path) -> Path:
    """The fixture of a format; a database is made in the folder, once."""
    if format_ in FILES:
        return FIXTURES / FILES[format_]
    name, make = DATABASES[format_]
    return folder / name if (folder / name).exists() else make(folder / name)


def imported(format_: str, folder: Path) -> Imported:
    path = file_of(format_, folder)
    return import_bytes(format_, path.read_bytes(), path.name) if format_ in FILES else imported_file(format_, path)


def spoken(messages: list[Message]) -> list[tuple[object, ...]]:
    return [(one.role, one.kind, one.parts, one.model, one.usage) for one in messages if one.kind != "display"]


@pytest.mark.parametrize("format_", FORMATS)
def test_a_file_is_recognised_and_comes_in_whole(format_: str, tmp_path: Path) -> None:
    path = file_of(format_, tmp_path)
    assert detect_transcript(path.read_bytes()[:HEAD_BYTES], path.name) == format_
    got = imported(format_, tmp_path)
    assert got.problems == []
    assert got.found


@pytest.mark.parametrize("format_", FORMATS)
def test_a_conversation_written_and_read_again_is_the_same(format_: str, tmp_path: Path) -> None:
    for messages in imported(format_, tmp_path).sessions.values():
        again = import_bytes(format_, written(format_, messages).encode(), "again.jsonl")
        assert again.problems == []
        assert spoken(again.only()) == spoken(messages)


@pytest.mark.parametrize("format_", FORMATS)
def test_messages_of_other_formats_keep_their_words_and_calls(format_: str) -> None:
    text = written(format_, foreign_messages())
    got = import_bytes(format_, text.encode(), "other.jsonl")
    assert got.problems == []
    messages = [one for one in got.only() if one.kind != "display"]
    calls = [(call.name, call.arguments, call.id) for one in messages for call in one.tool_calls]
    assert calls == [("tide", {"day": "today"}, "call_1")]
    words = "\n".join(one.text for one in messages)
    assert "Tide?\nToday." in words
    assert "At 11:30." in words
    assert "11:30" in text


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"{}", b"null", b'{"a": 1}\n{"b"', b'[1, {"x": []}]', b"\xff\xfe"])
def test_junk_is_reported_or_empty_and_never_raises(format_: str, junk: bytes) -> None:
    import_bytes(format_, junk, "junk.json")


@pytest.mark.parametrize("format_", DATABASES)
def test_a_database_imported_twice_adds_nothing(format_: str, tmp_path: Path) -> None:
    path = file_of(format_, tmp_path)
    with foveate.open(tmp_path / "chat.db") as fov:
        first = fov.import_file(path)
        assert first.format == format_
        assert first.added == first.found > 0
        assert fov.import_file(path).added == 0


def test_tool_calls_and_results_are_pairs_in_every_format(tmp_path: Path) -> None:
    for format_ in FORMATS:
        if format_ == "cline":
            continue
        folder = tmp_path / format_
        folder.mkdir()
        messages = [
            one for found in imported(format_, folder).sessions.values() for one in found if one.kind != "display"
        ]
        calls = [call.id for one in messages for call in one.tool_calls]
        results = [result.call_id for one in messages for result in one.tool_results]
        assert calls == results != [], format_


def test_gemini_keeps_the_first_form_of_a_message_when_a_session_is_resumed() -> None:
    got = imported("gemini-cli", Path())
    (session,) = got.headers
    assert session == "659bffd9-bb14-48b5-bf46-2e4648cb59c3"
    assert got.headers[session].channel == "/home/anna/shop"
    assert got.headers[session].model == "gemini-2.5-flash"
    messages = [one for one in got.only() if one.kind != "display"]
    assert [one.role for one in messages] == ["user", *["user", "assistant", "tool", "assistant"] * 2]
    assert messages[0].kind == "injection"
    assert messages[3].tool_results[0].content[0].text.startswith("<untrusted_context>\nOutput: hello")  # type: ignore[union-attr]


def test_opencode_reads_the_journal_of_a_database_that_is_open(tmp_path: Path) -> None:
    path = opencode_database(tmp_path / "opencode.db")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        with writer:
            writer.execute("UPDATE part SET data = replace(data, 'Scripted answer 14.', 'Changed.')")
        got = imported_file("opencode", path)
    assert got.only()[-1].text == "Changed."
    (header,) = got.headers.values()
    assert (header.channel, header.model) == ("/home/anna/shop", "scripted")
    result = next(one.tool_results[0] for one in got.only() if one.tool_results)
    assert (result.exit_code, result.is_error) == (0, False)


def imported_file(format_: str, path: Path) -> Imported:
    loaded = load_transcript(format_)
    assert isinstance(loaded, DatabaseFormat)
    return Imported(list(loaded.read_file(path)))


def test_what_is_not_finished_is_read_another_time(tmp_path: Path) -> None:
    cursor = imported("cursor", tmp_path).sessions
    assert [one.text for one in cursor["c-1"]][-1] == "The table says 11:30; fixed."
    assert [one.text for one in cursor["c-0"] if one.kind != "display"] == ["An old question", "An old answer"]
    assert set(cursor) == {"c-0", "c-1"}
    copilot = imported("copilot-chat", tmp_path).only()
    assert "And now?" not in [one.text for one in copilot]


def test_the_two_files_of_copilot_say_the_same() -> None:
    first = imported("copilot-chat", Path()).only()
    log = FIXTURES / "copilot_chat/4d1e0f52-5f0a-4a6b-8c1d-0a4d6b1f3f10.jsonl"
    assert detect_transcript(log.read_bytes(), log.name) == "copilot-chat"
    assert spoken(import_bytes("copilot-chat", log.read_bytes(), log.name).only()) == spoken(first)
    said = [(one.role, one.text) for one in first if one.kind != "display" and not one.tool_results]
    assert said == [
        ("user", "Run the tests"),
        ("assistant", "I run them."),
        ("assistant", "All pass."),
        ("user", "Thanks"),
        ("assistant", "You are welcome."),
    ]


def test_runs_of_langsmith_repeat_a_history_that_is_taken_once() -> None:
    got = imported("langsmith", Path())
    assert list(got.headers) == ["thread-7"]
    assert [(one.role, one.text) for one in got.only() if not one.tool_results] == [
        ("system", "Be brief."),
        ("user", "When is high tide?"),
        ("assistant", "Let me look."),
        ("assistant", "At 11:30."),
        ("user", "And tomorrow?"),
        ("assistant", "At 12:20."),
    ]


@pytest.mark.parametrize("name", ["history.json", "dumped.jsonl"])
def test_both_ways_in_which_langchain_writes_messages_are_read(name: str) -> None:
    path = FIXTURES / "langsmith" / name
    assert detect_transcript(path.read_bytes(), path.name) == "langsmith"
    messages = import_bytes("langsmith", path.read_bytes(), path.name).only()
    assert [one.role for one in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert messages[2].usage
    assert messages[2].model == "gpt-5"


def test_the_zip_of_claude_ai_is_not_taken_for_chatgpts() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("users.json", json.dumps([{"uuid": "a-1", "full_name": "Anna"}]))
        archive.writestr("conversations.json", (FIXTURES / FILES["claude-ai"]).read_text("utf-8"))
    raw = packed.getvalue()
    assert detect_transcript(raw[:HEAD_BYTES], "data-2026-11-01.zip") == "claude-ai"
    got = import_bytes("claude-ai", raw, "data-2026-11-01.zip")
    messages = got.sessions["5f0a3a54-0c7e-4be1-9a0e-1d9f5c3c0a11"]
    assert [one.role for one in messages if one.kind != "display"] == ["user", "assistant", "tool", "assistant", "user"]
    assert "Hamburg" in messages[1].text


@pytest.mark.parametrize("format_", ["gemini-cli", "cline", "copilot-chat", "langsmith", "opencode", "cursor"])
def test_a_file_beyond_the_limit_is_reported_and_nothing_of_it_is_read(
    format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 10)
    got = import_bytes(format_, b'{"a": 1}\n' * 2, "a.json")
    assert ["longer than 10 bytes" in problem.reason for problem in got.problems] == [True]
    assert not got.found


@pytest.mark.parametrize("format_", ["cline", "opencode", "cursor"])
def test_a_file_that_is_no_object_is_reported(format_: str) -> None:
    (problem,) = import_bytes(format_, b"[1]", "a.json").problems
    assert problem.reason == "is not an object"
