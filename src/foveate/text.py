"""A turn as text: each part follows a mark such as `[user]`, which content cannot forge.

A line of content that begins like a mark, or like a mark with backslashes before it, gets one backslash more;
reading takes one away. Every message ends with a newline, so that the token counts of messages add up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

MARKS = ("system", "developer", "user", "assistant", "tool", "reasoning", "call", "result", "image", "audio", "video")
MARK_WORDS = "|".join((*MARKS, "file", "other", "injected"))
_MARK = rf"\[(?:{MARK_WORDS})\b"
# At the start, or behind whatever `str.splitlines` takes for the end of a line.
_LINE_START = r"(?<![^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])"
_LIKE_A_MARK = re.compile(_MARK)
_FORGED = re.compile(rf"{_LINE_START}(\\*{_MARK})")
_ESCAPED = re.compile(rf"{_LINE_START}\\(\\*{_MARK})")
# What Claude Code makes of a slash command, and of a shell command, that is typed into it.
_COMMAND_TAG = re.compile(r"\A\s*<(command-name|command-message|command-args|bash-input)>")


def escape_marks(text: str) -> str:
    """The text with one backslash before each line that could be taken for a mark."""
    return _FORGED.sub(r"\\\1", text) if _LIKE_A_MARK.search(text) else text


def unescape_marks(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def several(number: int, noun: str, plural: str | None = None) -> str:
    """A number of things: 1 session, 1,200 sessions, 2 matches."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def as_typed(text: str) -> str:
    """A command as a person typed it, `/ship it now` or `! ls`, where a program has put it into markup of its own."""
    parts: dict[str, str] = {}
    rest = text
    while opening := _COMMAND_TAG.match(rest):
        parts[opening[1]], closing, rest = rest[opening.end() :].partition(f"</{opening[1]}>")
        if not closing:
            return text
    if rest.strip():
        return text
    if "bash-input" in parts:
        return f"! {parts['bash-input'].strip()}"
    return f"{parts['command-name']} {parts.get('command-args', '')}".strip() if "command-name" in parts else text


_TERMINAL_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys, reorders by, or can't write; a line feed and a tab are not among it."""


def for_terminal(text: str) -> str:
    """The text with escape sequences, C1 and bidirectional controls as `\\u009b`, which JSON reads back as it was."""
    return _TERMINAL_CONTROL.sub(lambda char: f"\\u{ord(char[0]):04x}", text.replace("\r\n", "\n"))


def encodable(text: str) -> str:
    """The text with a mark for each lone surrogate, which no database takes as text."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def message_text(message: Message, show: Callable[[Part], str] | None = None) -> str:
    """All a model would see of a message, ending in a newline; nothing for a display-only one.

    `show` writes a part in place of `part_text`, for a rendition that says less.
    """
    if message.kind == "display":
        return ""
    show = show or part_text
    lines: list[str] = []
    speaker = f"{message.role} {_one_line(message.name)}" if message.name else message.role
    mark = f"[injected {speaker}]" if message.kind == "injection" else f"[{speaker}]"
    spoken = False
    for part in message.parts:
        # Words behind a call or a result would read as more of it.
        says_who = isinstance(part, Text) and not spoken
        lines.append(f"{mark} {show(part)}" if says_who else show(part))
        spoken = isinstance(part, Text)
    if not lines:
        lines.append(mark)
    return "\n".join(lines) + "\n"


def turn_text(messages: tuple[Message, ...]) -> str:
    return "".join(map(message_text, messages))


def part_text(part: Part, words: str | None = None) -> str:
    """A part behind its mark; `words` replace its own if given. An attachment has none to replace."""
    match part:
        case Text(text):
            return escape_marks(text if words is None else words)
        case Reasoning(text):
            return f"[reasoning] {escape_marks(text if words is None else words)}"
        case ToolCall(name, arguments):
            return f"[call {_one_line(name)}] {escape_marks(compact_json(arguments) if words is None else words)}"
        case ToolResult():
            return _result_text(part, words)
        case Attachment():
            return _attachment_text(part)
        case Opaque(format_, data):
            return f"[other {_one_line(format_)}] {escape_marks(compact_json(data) if words is None else words)}"


def _result_text(result: ToolResult, words: str | None) -> str:
    outcome = [f"exit {result.exit_code}"] if result.exit_code is not None else []
    outcome += ["error"] if result.is_error else []
    mark = " ".join(["result", *([_one_line(result.name)] if result.name else []), *outcome])
    if words is None:
        shown = [part_text(part) for part in result.content]
    else:
        kept = [part for part in result.content if not isinstance(part, Text)]
        shown = [*([escape_marks(words)] if words or not kept else []), *map(part_text, kept)]
    return f"[{mark}] " + "\n".join(shown)


def _attachment_text(attachment: Attachment) -> str:
    known = (attachment.name, attachment.media_type, attachment.uri, attachment.file_id)
    return " ".join([f"[{attachment.media}]", *(_one_line(word) for word in known if word)])


def compact_json(value: Json) -> str:
    """JSON on one line as a person would write it; text stays text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _one_line(word: str) -> str:
    """A name inside a mark, which must not end it."""
    return re.sub(r"[\]\s]+", "_", word)
