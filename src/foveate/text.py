"""A turn as text: each part follows a mark such as `[user]`, which content cannot forge.

A line of content that begins like a mark, or like a mark with backslashes before it, gets one more backslash; reading
removes one. Every message ends with a newline, so that the token counts of messages add up.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import AnyStr

from foveate.turn import Attachment, Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

MARKS = ("system", "developer", "user", "assistant", "tool", "reasoning", "call", "result", "image", "audio", "video")
MARK_WORDS = "|".join((*MARKS, "file", "other", "injected"))
_MARK = rf"\[(?:{MARK_WORDS})\b"
# Matches at the start, or after anything that `str.splitlines` takes for the end of a line.
_LINE_START = r"(?<![^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])"
_LIKE_A_MARK = re.compile(_MARK)
_FORGED = re.compile(rf"{_LINE_START}(\\*{_MARK})")
_ESCAPED = re.compile(rf"{_LINE_START}\\(\\*{_MARK})")
SLICE_CHARS = 1 << 18
"""Longer texts are processed in slices, so that other threads, such as the event loop's, can run in between."""
_MARK_CHARS = 16
"""Maximum length of a mark, without the backslashes before it."""
_SCALAR_CHARS = 4
"""The assumed length of a number or a truth value."""
OBJECTS = (dict, Mapping)
LISTS = (list, Sequence)
"""The class of most values comes first: the check of an abstract class is ten times slower."""
json_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Encodes JSON without spaces, all at once; see `json_slices`."""


def escape_marks(text: str) -> str:
    """Put one backslash before each line that could be mistaken for a mark."""
    if len(text) > SLICE_CHARS:
        return "".join(_escaped_slices(text))
    return _FORGED.sub(r"\\\1", text) if _LIKE_A_MARK.search(text) else text


def _escaped_slices(text: str) -> Iterator[str]:
    """Yield the slices of `escape_marks`. No slice ends inside a mark."""
    start = 0
    while start < len(text):
        end = min(start + SLICE_CHARS, len(text))
        while end < len(text) and not {"[", "\\"}.isdisjoint(text[end - _MARK_CHARS : end]):
            end = min(end + _MARK_CHARS, len(text))
        copied = start
        if _LIKE_A_MARK.search(text, start, end):
            for found in _FORGED.finditer(text, start, end):
                yield f"{text[copied : found.start()]}\\"
                copied = found.start()
        yield text[copied:end]
        start = end


def unescape_marks(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


THOUSAND = 1_000


def amount(number: float) -> str:
    """Write a number for people: 950, 12.3k, 4.1M."""
    for unit in ("", "k", "M", "G"):
        if abs(number) < THOUSAND or unit == "G":
            return f"{number:.0f}" if unit == "" else f"{number:.1f}{unit}"
        number /= THOUSAND
    raise AssertionError("unreachable")


def several(number: int, noun: str, plural: str | None = None) -> str:
    """Write a number of things: 1 session, 1,200 sessions, 2 matches."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


_TERMINAL_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal obeys, reorders by, or can't write, except the line feed and the tab."""


def for_terminal(text: str) -> str:
    """Write escape sequences, C1 and bidirectional controls as `\\u009b`, which JSON reads back unchanged."""
    return _TERMINAL_CONTROL.sub(lambda char: f"\\u{ord(char[0]):04x}", text.replace("\r\n", "\n"))


def common_length(left: AnyStr, right: AnyStr, start: int = 0) -> int:
    """Return how many characters or bytes are equal from the beginning; the first `start` are known to be."""
    low, high = start, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def encodable(text: str) -> str:
    """Replace each lone surrogate, which no database accepts as text, by a mark."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def message_text(message: Message, show: Callable[[Part], str] | None = None) -> str:
    """Return everything a model would see of a message, ending in a newline; empty for a display-only one.

    `show` replaces `part_text`, for a shorter rendition.
    """
    return "".join(_message_pieces(message, (lambda part: (show(part),)) if show else _part_pieces))


def message_pieces(message: Message) -> Iterator[str]:
    """Yield `message_text` in pieces; a long text is several."""
    return _message_pieces(message, _part_pieces)


def _message_pieces(message: Message, show: Callable[[Part], Iterable[str]]) -> Iterator[str]:
    if message.kind == "display":
        return
    speaker = f"{message.role} {one_line(message.name)}" if message.name else message.role
    mark = f"[injected {speaker}]" if message.kind == "injection" else f"[{speaker}]"
    spoken = False
    if not message.parts:
        yield f"{mark}\n"
    for part in message.parts:
        # Words after a call or a result would read as part of it.
        if isinstance(part, Text) and not spoken:
            yield f"{mark} "
        yield from show(part)
        yield "\n"
        spoken = isinstance(part, Text)


def turn_text(messages: Iterable[Message], attached: Callable[[Attachment], str] | None = None) -> str:
    """Return the text of all messages; `attached` replaces `attachment_text`."""
    if attached is None:
        return "".join(map(message_text, messages))
    return "".join(message_text(message, lambda part: part_text(part, attached=attached)) for message in messages)


def attachment_text(attachment: Attachment, note: str = "") -> str:
    """Name an attachment behind its mark, on one line."""
    known = (attachment.name, attachment.media_type, attachment.uri, attachment.file_id)
    return " ".join([f"[{attachment.media}]", *(one_line(word) for word in known if word), *([note] if note else [])])


def part_text(part: Part, words: str | None = None, attached: Callable[[Attachment], str] = attachment_text) -> str:
    """Write a part after its mark; `words` replace its own, except in an attachment, which has none."""
    return "".join(_part_pieces(part, words, attached))


def _part_pieces(
    part: Part, words: str | None = None, attached: Callable[[Attachment], str] = attachment_text
) -> Iterable[str]:
    match part:
        case Text(text):
            return _escaped(text if words is None else words)
        case Reasoning(text):
            return "[reasoning] ", *_escaped(text if words is None else words)
        case ToolCall(name, arguments):
            return f"[call {one_line(name)}] ", *_escaped(compact_json(arguments) if words is None else words)
        case ToolResult():
            return _result_pieces(part, words, attached)
        case Attachment():
            return (attached(part),)
        case Opaque(format_, data):
            return f"[other {one_line(format_)}] ", *_escaped(compact_json(data) if words is None else words)


def _escaped(text: str) -> Iterable[str]:
    return (escape_marks(text),) if len(text) <= SLICE_CHARS else _escaped_slices(text)


def _result_pieces(result: ToolResult, words: str | None, attached: Callable[[Attachment], str]) -> Iterator[str]:
    outcome = [f"exit {result.exit_code}"] if result.exit_code is not None else []
    outcome += ["error"] if result.is_error else []
    mark = " ".join(["result", *([one_line(result.name)] if result.name else []), *outcome])
    yield f"[{mark}] "
    shown: Sequence[Part] = result.content
    if words is not None:
        kept = [part for part in result.content if not isinstance(part, Text)]
        shown = [*([Text(words)] if words or not kept else []), *kept]
    for index, part in enumerate(shown):
        yield from ["\n"] if index else []
        yield from _part_pieces(part, attached=attached)


def weigh_json(value: object, most: int = sys.maxsize) -> int:
    """Estimate the characters of a JSON value without writing it. Counting stops above `most`."""
    weight = 0
    pending = [value]
    while pending and weight <= most:
        node = pending.pop()
        if isinstance(node, str):
            weight += len(node)
        elif isinstance(node, OBJECTS):
            weight += len(node) + sum([len(key) for key in node if isinstance(key, str)])
            pending += node.values()
        elif isinstance(node, LISTS):
            weight += len(node)
            pending += node
        else:
            weight += _SCALAR_CHARS
    return weight


def json_slices(value: Json) -> Iterator[str]:
    """Yield JSON without spaces, in pieces: the encoder lets no other thread run while it writes one."""
    if weigh_json(value, SLICE_CHARS) <= SLICE_CHARS:
        yield json_text(value)
    elif isinstance(value, str):
        yield '"'
        for start in range(0, len(value), SLICE_CHARS):
            yield json_text(value[start : start + SLICE_CHARS])[1:-1]
        yield '"'
    elif isinstance(value, Mapping):
        before = "{"
        for key, inner in value.items():
            yield f"{before}{json_text(key)}:"
            yield from json_slices(inner)
            before = ","
        yield "}"
    elif isinstance(value, Sequence):
        before = "["
        for inner in value:
            yield before
            yield from json_slices(inner)
            before = ","
        yield "]"


def compact_json(value: Json) -> str:
    """Write JSON on one line with spaces; text stays text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def call_text(name: str, *values: str, **named: str | int | None) -> str:
    """Write a call of a tool as a model can repeat it: `get_turns("T-1", "T-9", "C", page=2)`."""
    given = [json_text(value) for value in values]
    given += [f"{key}={json_text(value)}" for key, value in named.items() if value is not None]
    return f"{name}({', '.join(given)})"


def one_line(word: str) -> str:
    """Make a name safe inside a mark, so that it can't end it."""
    return re.sub(r"[\]\s]+", "_", word)


_TERMINAL_CODES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


def without_terminal_codes(text: str) -> str:
    """Remove colours, cursor movements and control characters, which would act on a terminal."""
    return _TERMINAL_CODES.sub("", text)


def without_password(url: str) -> str:
    """Remove the password and the options from a database URL; other texts are unchanged."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    account, at, place = rest.partition("?")[0].rpartition("@")
    return f"{scheme}://{account.partition(':')[0]}{at}{place}"
