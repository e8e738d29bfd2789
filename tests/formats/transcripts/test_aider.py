"""Aider's chat history comes in stretch by stretch and goes out again byte for byte."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.errors import InvalidMessage
from foveate.formats import TranscriptMessage, detect_transcript
from foveate.formats.transcripts import aider
from foveate.turn import Json, Message, Text
from support.transcripts import FIXTURES, Imported, foreign_messages, import_bytes, import_fixture, written
from support.turns import split_turns

CONTENT = (FIXTURES / "aider" / "history.md").read_bytes()
FIRST_RUN = datetime(2026, 3, 2, 9, tzinfo=UTC)
SECOND_RUN = datetime(2026, 3, 3, 10, 30, tzinfo=UTC)


def read(content: bytes) -> Imported:
    return import_bytes("aider", content, "history.md")


def types(messages: list[Message]) -> list[Json]:
    return [cast("dict[str, Json]", message.original.data)["type"] for message in messages if message.original]


def test_a_history_is_recognised_by_its_name_or_its_first_run() -> None:
    assert detect_transcript(CONTENT, "history.md") == "aider"
    assert aider.detect(b"", ".aider.chat.history.md")
    assert not aider.detect(b"# Aider\n\nHow to start a chat\n", "README.md")


def test_a_history_is_prompts_replies_output_and_starts() -> None:
    messages = import_fixture("aider", "history.md").only()
    assert types(messages) == [
        *("start", "output", "prompt", "reply", "output", "prompt", "output"),
        *("start", "output", "prompt", "reply"),
    ]
    roles = {"start": "system", "output": "system", "prompt": "user", "reply": "assistant"}
    assert [message.role for message in messages] == [roles[str(type_)] for type_ in types(messages)]
    assert {message.kind for message in messages if message.role == "system"} == {"display"}
    assert len(split_turns(messages)) == 3


def test_a_prompt_is_what_the_user_wrote() -> None:
    assert import_fixture("aider", "history.md").only()[2].text == "Why is high water late?\nIt is summer."


def test_headings_quotations_and_code_in_a_reply_belong_to_it() -> None:
    reply = import_fixture("aider", "history.md").only()[3].text
    assert reply.startswith("The offset is fixed.")
    assert "#### What I would change\n\n> A quotation in the reply.\n\n```python\n# a comment" in reply
    assert reply.endswith("OFFSET = 1\n\n\ndef shift(): ...\n```")


def test_further_lines_of_an_output_belong_to_it() -> None:
    messages = import_fixture("aider", "history.md").only()
    assert messages[4].text.endswith("zone database\n\nThe offset came from a constant.\nYou can use /undo.")
    assert messages[6].text == "tides\n\nzone.py\ntable.py"


def test_everything_has_the_time_and_replies_the_model_of_their_run() -> None:
    messages = import_fixture("aider", "history.md").only()
    assert [message.at for message in messages] == [FIRST_RUN] * 7 + [SECOND_RUN] * 4
    assert [message.model for message in messages if message.role == "assistant"] == ["claude-sonnet-4-5", "gpt-4o"]
    (header,) = import_fixture("aider", "history.md").headers.values()
    assert (header.model, header.platform) == ("gpt-4o", "aider")


def test_the_file_comes_back_byte_for_byte() -> None:
    assert written("aider", import_fixture("aider", "history.md").only()).encode() == CONTENT


line_strategy = st.sampled_from(
    [
        "\n",
        "  \n",
        "\r\n",
        "#### prompt  \n",
        "#### heading\n",
        "####   \n",
        "#### windows  \r\n",
        "> output  \n",
        "> quotation\n",
        "> Main model: gpt-4o  \n",
        ">  \n",
        ">\n",
        "reply\n",
        "reply  \n",
        "\x0b\x0c\u2028\x85\n",
        "# aider chat started at 2026-03-02 09:00:00\n",
        "# aider chat started at noon\n",
        "the end",
    ]
)


@given(st.lists(line_strategy, max_size=30))
def test_any_text_comes_back_byte_for_byte(lines: list[str]) -> None:
    content = "".join(lines).encode()
    imported = read(content)
    assert not imported.problems
    assert "".join(written("aider", messages) for messages in imported.sessions.values()).encode() == content


def test_a_file_without_the_two_spaces_is_read_by_its_line_beginnings() -> None:
    stripped = b"\n# aider chat started at 2026-03-02 09:00:00\n\n> Aider v0.80.0\n\n#### Hello\n\nHi.\n\n> Bye.\n"
    assert types(read(stripped).only()) == ["start", "output", "prompt", "reply", "output"]


def test_what_stands_before_anything_of_aiders_is_display_only() -> None:
    first = read(b"-*- mode: fundamental -*-\n" + CONTENT).only()[0]
    assert (first.kind, first.text) == ("display", "-*- mode: fundamental -*-")


APPENDED = (b"\n# aider chat started at 2026-03-03", b"\n#### !ls", b"\n#### And", b"\nIt was right", b"> Tokens")
"""Where the file once ended, between two things that Aider appended."""


@pytest.mark.parametrize("end", APPENDED)
def test_a_grown_file_keeps_its_session_and_the_keys_of_what_it_had(end: bytes) -> None:
    before, after = read(CONTENT[: CONTENT.index(end)]).keys, read(CONTENT).keys
    assert after[: len(before)] == before


def test_invalid_utf8_is_reported_with_its_line_and_the_rest_is_as_it_was() -> None:
    broken = CONTENT.replace(b"OFFSET = 1", b"OFFSET = \xff\xfe")
    imported = read(broken)
    (problem,) = imported.problems
    assert problem.place == f"line {CONTENT[: CONTENT.index(b'OFFSET')].count(10) + 1}"
    assert "invalid UTF-8 at byte 9" in problem.reason
    assert written("aider", imported.only()).encode() == CONTENT.replace(b"OFFSET = 1\n", b"")


def test_a_line_beyond_the_limit_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aider, "MAX_LINE_BYTES", 50)
    imported = read(b"#### short  \n\n" + b"long " * 100 + b"\nreply\n")
    assert [problem.place for problem in imported.problems] == ["line 3"]
    assert [message.text for message in imported.only()] == ["short", "reply"]


def test_a_stretch_beyond_the_limit_is_kept_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aider, "MAX_STRETCH_CHARACTERS", 100)
    content = b"#### go  \n\n" + b"a reply line\n" * 40
    messages = read(content).only()
    assert types(messages)[0] == "prompt"
    assert set(types(messages)[1:]) == {"reply"}
    assert len(messages) > 4
    assert written("aider", messages).encode() == content


def test_an_empty_file_holds_nothing() -> None:
    assert read(b"").items == []


def test_a_record_of_another_shape_is_refused() -> None:
    for record in ("text", {}, {"type": "prompt"}, {"type": "song", "text": "la"}):
        with pytest.raises(InvalidMessage):
            aider.parse(cast("Json", record), "record")


def test_messages_of_other_formats_read_back_as_what_was_said() -> None:
    content = written("aider", foreign_messages()).encode()
    messages = [message for message in read(content).only() if message.kind == "message"]
    assert [message.role for message in messages] == ["user", "assistant", "assistant"]
    assert messages[0].text.startswith("Tide?\nToday.")
    assert [message.text for message in messages[1:]] == [
        "A moment.",
        "At 11:30.\n[hologram of elsewhere, not readable here]",
    ]
    assert b"> tide" in content


def test_a_lone_surrogate_can_be_written() -> None:
    assert "\\ud800" in written("aider", [Message("user", (Text("\ud800"),))]).encode().decode()


class Repeated:
    """A history of many runs that is never in memory as a whole."""

    def __init__(self, times: int) -> None:
        self._lines = (line for _ in range(times) for line in CONTENT.splitlines(keepends=True))

    def readline(self, size: int = -1, /) -> bytes:
        return next(self._lines, b"")


def peak_bytes(times: int) -> int:
    tracemalloc.start()
    try:
        found = sum(isinstance(item, TranscriptMessage) for item in aider.read(Repeated(times), "history.md"))  # type: ignore[arg-type]
        assert found == times * 11
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_file() -> None:
    peak_bytes(100)  # so that what is made once, such as compiled patterns, is made
    assert peak_bytes(500) < peak_bytes(100) + 20_000
