"""A turn cut into passages: a few sentences each, of one speaker, small enough that one vector says what it is about.

Pure: what is cut is what a model would see of the messages. A passage never crosses from one part of a message to the
next, so that who said it is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from foveate.recall.embed import STATIC, STATIC_NAME, index_maker
from foveate.recall.words import extra_words
from foveate.store.rows import NewPassages, PassageText, Speaker
from foveate.text import encodable, part_text
from foveate.turn import Message, Part, Text, ToolCall, ToolResult
from foveate.words.grammar import index_borders

PASSAGE_CHARS = 300
"""About 75 tokens of English; passages of what people and models say are no longer."""
TOOL_PASSAGE_CHARS = 1_000
"""Of what tools say, which has less meaning to a line."""
LEAST_CHARS = 80
"""A shorter rest joins the passage before it."""
MAX_TURN_CHARS = 100_000
"""How much of a turn is indexed; of longer ones the head and the tail of each of the longest parts."""
TOOL_SHARE = 0.25
"""Tools get at least this much of it, however much is said."""
HEAD_SHARE = 0.75
"""How much of what is kept of a long part is its head."""
MAX_PASSAGES = 4_096
"""Passages of a turn; the limit of the numbers in a passage's key."""
EMBEDDED_CHARS = 400
"""Of a passage; those of tools are longer, and say by their beginning what they are about."""
WITHOUT_VECTORS = index_maker("")
"""Who makes entries whose vectors another model makes later."""

_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Passage:
    """Some sentences of a turn; `tool` is the tool's name where a tool is the speaker."""

    speaker: Speaker
    text: str
    tool: str | None = None
    part: int = 0
    """Which part of the turn it was cut from."""


def cut_turn(messages: Sequence[Message]) -> list[Passage]:
    """The passages of a turn, in order. Messages come without what history tools recalled."""
    pieces = [replace(piece, part=part) for part, piece in enumerate(_pieces(messages))]
    passages = [passage for piece in _shortened(pieces) for passage in _cut(piece)]
    return passages[:MAX_PASSAGES]


def index_turn(turn: int, messages: Sequence[Message], *, at_us: int, embeddings: str) -> NewPassages:
    """The entry of a turn whose messages come without what history tools recalled."""
    # numpy loads in the process that indexes, and not before.
    from foveate.recall.embed import static  # noqa: PLC0415
    from foveate.recall.table import pack, pack_marks  # noqa: PLC0415

    passages = cut_turn(messages)
    numbers = tuple(_embedded(passages))
    is_static = embeddings == STATIC
    return NewPassages(
        turn=turn,
        messages=len(messages),
        at_us=at_us,
        maker=index_maker(STATIC_NAME) if is_static else WITHOUT_VECTORS,
        texts=tuple(map(passage_text, passages)),
        embedded=numbers,
        marks=pack_marks(passages),
        vectors=pack(static.embed([passages[number].text[:EMBEDDED_CHARS] for number in numbers]), numbers)
        if is_static
        else b"",
    )


def passage_text(passage: Passage) -> PassageText:
    """A passage as a store takes it."""
    text = encodable(passage.text)
    return PassageText(passage.speaker, text, passage.tool and encodable(passage.tool), extra_words(text))


def _embedded(passages: Sequence[Passage]) -> Iterator[int]:
    """The numbers of the passages that get a vector: all but the middle of what a tool said."""
    for (speaker, _), group in groupby(enumerate(passages), key=lambda each: (each[1].speaker, each[1].part)):
        numbers = [number for number, _ in group]
        yield from numbers if speaker != "tool" else sorted({numbers[0], numbers[-1]})


def _pieces(messages: Sequence[Message]) -> Iterator[Passage]:
    """The parts of messages, uncut."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    called: Passage | None = None
    called_id: str | None = None
    for message in messages:
        for part in message.parts if message.kind != "display" else ():
            if called and isinstance(part, ToolResult) and part.call_id == called_id:
                # What was asked and what came of it are found together.
                yield replace(called, text=f"{called.text}\n{part_text(part)}")
                called = None
                continue
            if called:
                yield called
                called = None
            match part:
                case ToolCall(name, id=called_id):
                    called = Passage("tool", part_text(part), name)
                case ToolResult(call_id, name=name):
                    yield Passage("tool", part_text(part), name or names.get(call_id))
                case _:
                    yield Passage(_speaker(message), _said(message, part))
    if called:
        yield called


def _speaker(message: Message) -> Speaker:
    if message.kind == "injection":
        return "system"
    match message.role:
        case "user" | "assistant" | "tool" as role:
            return role
        case _:
            return "system"


def _said(message: Message, part: Part) -> str:
    """Words as they are; a speaker who has a name is named."""
    if not isinstance(part, Text):
        return part_text(part)
    return f"{message.name}: {part.text}" if message.name else part.text


def _shortened(pieces: list[Passage]) -> list[Passage]:
    """The pieces, the longest of them cut so that the turn is within its limit; what was said comes before tools."""
    said = [len(piece.text) for piece in pieces if piece.speaker != "tool"]
    done = [len(piece.text) for piece in pieces if piece.speaker == "tool"]
    if sum(said) + sum(done) <= MAX_TURN_CHARS:
        return pieces
    said_chars = MAX_TURN_CHARS - min(sum(done), int(MAX_TURN_CHARS * TOOL_SHARE))
    most_said = _most_each(said, said_chars)
    left_chars = MAX_TURN_CHARS - sum(min(length, most_said) for length in said)
    most = {"tool": _most_each(done, left_chars)}
    return [replace(piece, text=_ends(piece.text, most.get(piece.speaker, most_said))) for piece in pieces]


def _most_each(lengths: Sequence[int], room: int) -> int:
    """The largest length at which all of them, none longer than it, fit the room."""
    for index, length in enumerate(ordered := sorted(lengths)):
        share = room // (len(ordered) - index)
        if length > share:
            return share
        room -= length
    return max(lengths, default=0)


def _ends(text: str, most: int) -> str:
    """The head and the tail of a long text."""
    if len(text) <= most:
        return text
    head = int(most * HEAD_SHARE)
    return f"{text[:head]}\n…\n{text[len(text) - (most - head) :]}"


def _cut(piece: Passage) -> Iterator[Passage]:
    most = TOOL_PASSAGE_CHARS if piece.speaker == "tool" else PASSAGE_CHARS
    starts = list(_starts(piece.text, most))
    for start, end in zip(starts, [*starts[1:], len(piece.text)], strict=True):
        text = piece.text[start:end].strip()
        if text:
            yield replace(piece, text=text)


def _starts(text: str, most: int) -> Iterator[int]:
    """Where each passage of a text begins."""
    yield 0
    start = last = 0
    for border in (*index_borders(text), len(text)):
        while border - start > most:
            # The sentence does not fit any more: the passage ends before it, or inside it where it is too long alone.
            start = last if last > start else _break(text, start, most)
            if len(text) - start < LEAST_CHARS:
                return
            yield start
        last = border


def _break(text: str, start: int, most: int) -> int:
    """A place inside a long sentence: behind the last space, else wherever the room ends."""
    window = text[start + most // 2 : start + most]
    spaces = [match.end() for match in _SPACE.finditer(window)]
    return start + most // 2 + spaces[-1] if spaces else start + most
