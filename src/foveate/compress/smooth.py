"""Makes level S of a turn: what was said and done, without noise and without the sentences that matter least.

Prose is cleaned and cut to about 70 % by whole sentences (`foveate.compress.worth`), reasoning is condensed to its
conclusions, long standing instructions to their rules; arguments are described and outputs cut to their informative
lines. Marks and escapes are those of `foveate.text`.
"""

# ruff: noqa: RUF001 (typographic quotes are what is looked for)

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

import numpy as np

from foveate.compress.clauses import ClauseKind, sentences
from foveate.compress.cues import estimate_tokens
from foveate.compress.facts import find_facts
from foveate.compress.lines import clip
from foveate.compress.reader import split_label
from foveate.compress.repair import repair
from foveate.compress.tools import smooth_call, smooth_result
from foveate.compress.urgency import is_order
from foveate.compress.worth import WorthModel, chances, load_worth
from foveate.compress.worth.features import Passage
from foveate.text import compact_json, message_text, part_text
from foveate.tokens import count_tokens
from foveate.turn import Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from foveate.words import LANGUAGES, stop_words
from foveate.words.grammar import CAPITAL_GAP, FENCE, ITEM, SENTENCE_GAP

__all__ = ["conclusions", "rules", "smooth_messages", "smooth_prose"]

REASONING_WORDS = 60
"""Reasoning of at most this many words stays whole."""
REASONING_SHARE = 0.5
RULES_CHARS = 1_500
"""Longer system and injected text is condensed to its rules."""
RULES_SHARE = 0.45
OPAQUE_CHARS = 400
REPEATED_CHARS = 200
"""Minimum length of a result or a system text that is named instead of repeated in the same turn."""

_HEADING = re.compile(r"^\s*(?:#{1,6} |\*\*[^*]+\*\*:?$)")


def smooth_messages(messages: Sequence[Message], *, worth: WorthModel | None = None, cut: bool = True) -> str:
    """Write the turn at level S; no message of it takes more tokens than raw. Without `cut` no sentence is left out.

    `worth` is the model that chooses the sentences, by default the one in the package.
    """
    prose = _cut_prose(messages, worth or load_worth()) if cut else {}
    return "".join(map(_Smoother(messages, prose).message, messages))


class _Smoother:
    """The state while a turn's messages are smoothed: its calls by id, and the texts already shown."""

    def __init__(self, messages: Sequence[Message], prose: Mapping[tuple[int, str], str]) -> None:
        self._calls = {call.id: call for message in messages for call in message.tool_calls if call.id}
        self._shown: dict[bytes, str] = {}
        self._speaker: Message | None = None
        self._prose = prose

    def message(self, message: Message) -> str:
        self._speaker = message
        raw = message_text(message)
        smoothed = message_text(message, self._part)
        return smoothed if smoothed == raw or count_tokens(smoothed) <= count_tokens(raw) else raw

    def _part(self, part: Part) -> str:
        match part:
            case Text(text):
                return part_text(part, self._words(text))
            case Reasoning(text):
                return part_text(part, conclusions(text))
            case ToolCall():
                return part_text(part, smooth_call(part))
            case ToolResult():
                return part_text(part, self._result(part))
            case Opaque(_, data):
                return part_text(part, clip(compact_json(data), OPAQUE_CHARS))
            case _:
                return part_text(part)

    def _words(self, text: str) -> str:
        assert self._speaker is not None
        standing = self._speaker.role in ("system", "developer") or self._speaker.kind == "injection"
        if standing:
            return self._again(text, "text") or rules(text)
        return self._prose.get((id(self._speaker), text)) or smooth_prose(text)

    def _result(self, result: ToolResult) -> str:
        call = self._calls.get(result.call_id) if result.call_id else None
        text = "\n".join(part.text for part in result.content if isinstance(part, Text))
        return self._again(text, "output") or smooth_result(call, result)

    def _again(self, text: str, noun: str) -> str | None:
        """Return a note in place of a long text that this turn has already shown; None for a new text."""
        if len(text) < REPEATED_CHARS:
            return None
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if key in self._shown:
            return f"(the same {noun} as above: {self._shown[key]})"
        self._shown[key] = clip(" ".join(text[:200].split()), 60)
        return None


PROSE_SHARE = 0.63
"""Share of the tokens of prose that S aims at, over all messages of a turn."""
WHOLE_TOKENS = 40
"""Prose of fewer tokens stays whole."""
KEPT_CHANCE = 0.3
"""A sentence whose words readers keep at least this often stays, as do all with a number, path, identifier, negation or
limit: the largest chance at which no annotated fact of the development sets is lost. Readers prefer a longer S to one
that lacks a short sentence which reports or asks something."""
SOUGHT_KINDS = frozenset("i#@/u!-q")
"""Kinds of such facts (`foveate.compress.facts`)."""


@dataclass(slots=True)
class _Piece:
    """A sentence of a message."""

    message: int
    text: str
    kind: ClauseKind
    is_fixed: bool
    """It may not be left out: it orders something, or introduces what follows."""


def _cut_prose(messages: Sequence[Message], worth: WorthModel) -> dict[tuple[int, str], str]:
    """Leave out of a turn's prose the clauses that a reader would miss least; by message and text as it was."""
    pieces: list[_Piece] = []
    written = [
        (message, part.text, _paragraphs(part.text, number, message.role, pieces))
        for number, message in enumerate(messages)
        if message.kind not in ("display", "injection") and message.role in ("user", "assistant")
        for part in message.parts
        if isinstance(part, Text) and part.text.strip()
    ]
    left_out = _least_worth(pieces, [message.role for message in messages], worth)
    return {(id(message), text): _joined(paragraphs, pieces, left_out) for message, text, paragraphs in written}


def _paragraphs(text: str, message: int, role: str, pieces: list[_Piece]) -> list[list[str | int]]:
    """Return the lines of a smoothed text: fixed strings, and the numbers of its pieces."""
    lines: list[list[str | int]] = []
    for block in _blocks(smooth_prose(text)):
        if block.kind in ("verbatim", "blank"):
            lines.append([block.text])
            continue
        kind: ClauseKind = "item" if block.kind == "item" else "prose"
        for line in _unwrapped(block.text):
            mark = ITEM.match(line) if block.kind == "item" else re.match(r"[ \t]*", line)
            lead = mark[0] if mark else ""
            label, said = split_label(line[len(lead) :], is_answer=role == "assistant")
            row: list[str | int] = [lead + label]
            for clause in sentences(said):
                row.append(len(pieces))
                is_fixed = clause.endswith(":") or (role == "user" and is_order(clause))
                pieces.append(_Piece(message, clause, kind, is_fixed))
            lines.append(row)
    return lines


def _unwrapped(text: str) -> Iterator[str]:
    """Yield the lines of a paragraph, with those that an editor wrapped joined again."""
    waiting = ""
    for line in text.split("\n"):
        if waiting and line[:1].islower() and waiting[-1:] not in ".!?:;":
            waiting += f" {line}"
            continue
        if waiting:
            yield waiting
        waiting = line
    yield waiting


def _least_worth(pieces: Sequence[_Piece], roles: Sequence[str], worth: WorthModel) -> set[int]:
    """Return the pieces to leave out, until the rest has its share of the tokens; each message keeps its best."""
    if not pieces:
        return set()
    final = max((place for place, role in enumerate(roles) if role == "assistant"), default=-1)
    passages = []
    for piece in pieces:
        role = roles[piece.message]
        speaker = "narration" if role == "assistant" and piece.message != final else role
        passages.append(Passage(piece.text.split(" "), speaker, piece.kind, piece.message))
    scores = chances(worth.score(passages), slice(0, 1))
    sizes = np.array([len(passage.words) for passage in passages])
    kept = (np.add.reduceat(scores, np.cumsum(sizes) - sizes) / sizes).tolist()
    tokens = [estimate_tokens(piece.text) for piece in pieces]
    best = {piece.message: place for place, piece in sorted(enumerate(pieces), key=lambda one: kept[one[0]])}
    over = sum(tokens) * (1 - PROSE_SHARE) if sum(tokens) >= WHOLE_TOKENS else 0.0
    left_out: set[int] = set()
    for place in sorted(range(len(pieces)), key=kept.__getitem__):
        if over <= 0 or kept[place] >= KEPT_CHANCE:
            break
        piece = pieces[place]
        if piece.is_fixed or best[piece.message] == place:
            continue
        if _sought(piece.text):
            continue
        left_out.add(place)
        over -= tokens[place]
    return left_out


def _sought(text: str) -> int:
    """Return the number of facts of the kinds that S keeps."""
    return sum(key[0] in SOUGHT_KINDS for key in find_facts(text))


def _joined(lines: Sequence[Sequence[str | int]], pieces: Sequence[_Piece], left_out: Collection[int]) -> str:
    """Write the lines with the pieces that stay; a line of which nothing stays goes with its mark."""
    found: list[str] = []
    for lead, *places in lines:
        kept = [pieces[place].text for place in places if isinstance(place, int) and place not in left_out]
        if kept or not places:
            line = f"{lead}{' '.join(kept)}"
            if line or (found and found[-1]):
                found.append(line)
    return "\n".join(found).rstrip("\n")


def conclusions(text: str) -> str:
    """Reduce reasoning to its last paragraph and the last sentences that decide, deny or name something."""
    text = smooth_prose(text)
    if len(text.split()) <= REASONING_WORDS:
        return text
    before, _, last = text.rpartition("\n\n")
    sentences = [sentence for part in before.split("\n") for sentence in CAPITAL_GAP.split(part) if sentence.strip()]
    if not before:
        *sentences, last = CAPITAL_GAP.split(last)
    room = int(len(text) * REASONING_SHARE) - len(last)
    chosen: list[str] = []
    for sentence in reversed(sentences):
        if _sought(sentence) and len(sentence) < room:
            chosen.append(sentence.strip())
            room -= len(sentence)
    return " ".join(reversed(chosen)) + ("\n" if chosen else "") + last


@lru_cache(maxsize=32)
def rules(text: str) -> str:
    """Condense long standing instructions to headings and the sentences that order, forbid or limit.

    The last results are cached, since an agent sends the same instructions with every conversation.
    """
    text = smooth_prose(text)
    if len(text) <= RULES_CHARS:
        return text
    lines = [line for line in text.split("\n") if line.strip()]
    sentences = [
        (index, sentence)
        for index, line in enumerate(lines)
        if not _HEADING.match(line)
        for sentence in CAPITAL_GAP.split(line)
    ]
    room = int(len(text) * RULES_SHARE)
    chosen = _choose(sentences, room)
    said: dict[int, list[str]] = {}
    for place in sorted(chosen):
        said.setdefault(sentences[place][0], []).append(sentences[place][1])
    kept = [
        line if _HEADING.match(line) else " ".join(said[index])
        for index, line in enumerate(lines)
        if index in said or _HEADING.match(line)
    ]
    return "\n".join([*kept, f"(… {len(sentences) - len(chosen)} of {len(sentences)} sentences left out)"])


def _choose(sentences: Sequence[tuple[int, str]], room: int) -> set[int]:
    """Return the sentences with the most sought facts and orders for their length, up to the room; always the first."""
    worth = {
        place: (_sought(sentence) + is_order(sentence) + 0.5) / (len(sentence) + 40)
        for place, (_, sentence) in enumerate(sentences)
    }
    chosen: set[int] = set()
    for place in sorted(worth, key=lambda place: (place > 0, -worth[place], place)):
        length = len(sentences[place][1])
        if length <= room:
            chosen.add(place)
            room -= length
    return chosen


MAX_ROUNDS = 6
"""Limit of the passes: each may uncover something for the next."""
MIN_REPEATED_WORDS = 5
"""Shorter sentences may be repeated on purpose."""
MAX_PROSE_CHARS = 200_000
"""A longer text is not prose; it is returned unchanged."""
MAX_PROSE_LINES = 5_000
"""A text of more lines is not prose either; each line would be smoothed separately."""

_INDENTED = re.compile(r"^(?: {4}|\t| {1,3}\t)")
_VERBATIM = re.compile(
    r"^\s*(?:[|>#<@$%\\{}+=~]|//|/\*|\*/|--|\*\*\*|\[?\d{4}-\d\d-\d\d|\d+[:|]"
    r"|(?:import|from|def|class|function|const|var|return|export|elif|else:|SELECT|INSERT|UPDATE)\b.*[\w)'\";:,{(*]$)"
)
"""The beginning of a line of code, of a table or of a log."""
_CODE_SIGN = re.compile(
    r"[;{}\\=!:(</\t](?:(?<=[;{}\\])\s*$|(?<==)[>=]|(?<=!)=|(?<=:):|(?<=\w\()\)|(?<=\w =) |(?<=<)/|(?<=/)>|(?<=\t))"
)
_CODE_SPAN = re.compile(r"`[^`\n]{1,500}`")
"""Code in a sentence; the line around it may be prose."""
_QUOTED = (
    r"(`+)(?!`).{1,2000}?(?<!`)\1(?!`)"
    r'|"[^"]{0,2000}"|“[^”]{0,2000}”|«[^»]{0,2000}»|„[^“”]{0,2000}[“”]|‘[^’]{0,2000}’(?!\w)'
    r"|(?<!\w)'[^'\n]{1,2000}'(?!\w)"
)


_PLAIN_WORD = r"[(*_]*[A-Za-z][a-z]*(?:['’-][A-Za-z]?[a-z]*)*[)*_.,;:!?…]*"
_PROTECTED = re.compile(
    rf"(?:(?<!\S)|(?=[`\"“«„‘']))(?:{_QUOTED}|(?<!\S)(?!{_PLAIN_WORD}(?!\S))(?![,.;!?](?!\S))\S+)", re.DOTALL
)
"""Quotations, and every run of characters that is no plain word; tried only where one can begin."""
_FIRST_PLACE = 0xE000
_PLACES = 0xF8FF - _FIRST_PLACE
_PLACE = re.compile("[\ue000-\uf8ff]")
_ANY_WORD = re.compile(r"[A-Za-z][a-z'’]*")
_SPACES = re.compile(r" (?<=\S )[ \t]+|\t(?<=\S\t)(?:[ \t]+|(?=\S))")
_ODD_SPACE = re.compile(r"[^\S \t\n]")
"""White space other than a blank, a tab or a newline was typed on purpose."""
_ASCII_SHARE = 0.8
_COMMON_SHARE = 6
COMMON = stop_words("prose", "en")
FOREIGN = stop_words("prose", *(language for language in LANGUAGES if language != "en"))
_ONLY_FOREIGN = FOREIGN - COMMON

_Kind = Literal["verbatim", "blank", "item", "prose"]


@dataclass(slots=True)
class _Block:
    kind: _Kind
    text: str


def smooth_prose(text: str) -> str:
    """Clean up a text; smoothing it again changes nothing."""
    if len(text) > MAX_PROSE_CHARS or text.count("\n") > MAX_PROSE_LINES:
        return text
    smoothed = text.replace("\r\n", "\n")
    clean: dict[str, frozenset[str]] = {}
    for _ in range(MAX_ROUNDS):
        before, smoothed = smoothed, _smooth_once(smoothed, clean)
        if smoothed == before:
            return smoothed
    return smoothed


def _smooth_once(text: str, clean: dict[str, frozenset[str]]) -> str:
    """Do one pass. `clean` has the blocks that an earlier pass did not change, with their sentences."""
    lines: list[str] = []
    seen: set[str] = set()
    for block in _blocks(text):
        if block.kind == "blank":
            if lines and lines[-1]:
                lines.append("")
            continue
        shown = block.text
        if block.kind != "verbatim":
            own = clean.get(shown)
            if own is None or not seen.isdisjoint(own):
                said: set[str] = set()
                shown = _smooth_block(block, seen, said)
                own = frozenset(said)
                if shown == block.text:
                    clean[shown] = own
            seen |= own
        if shown:
            lines.append(shown)
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) or text.strip()


def _blocks(text: str) -> Iterator[_Block]:
    """Yield the Markdown blocks of the text: fences, indented code, list items, paragraphs."""
    prose: list[str] = []
    fence: list[str] = []
    for line in text.split("\n"):
        opened = FENCE.match(line)
        if fence:
            fence.append(line)
            if opened and opened[1].startswith(fence[0].strip()[:3]) and line.strip() == opened[1]:
                yield _Block("verbatim", "\n".join(fence))
                fence = []
            continue
        kind = _kind(line, bool(opened))
        if kind != "prose" and prose:
            yield _Block("prose", "\n".join(prose))
            prose = []
        if opened:
            fence = [line]
        elif kind == "prose":
            prose.append(line)
        else:
            yield _Block(kind, line)
    if prose or fence:
        yield _Block("verbatim" if fence else "prose", "\n".join(fence or prose))


def _kind(line: str, is_fence: bool) -> _Kind:
    if is_fence:
        return "verbatim"
    if not line.strip():
        return "blank"
    if ITEM.match(line):
        return "item"
    if _INDENTED.match(line):
        return "verbatim"
    outside = _CODE_SPAN.sub("x", line) if "`" in line else line
    return "verbatim" if _VERBATIM.match(outside) or _CODE_SIGN.search(outside) else "prose"


def _smooth_block(block: _Block, seen: set[str], said: set[str]) -> str:
    """Clean up a block. `seen` has the sentences before it, `said` gets its own."""
    text = block.text
    if _PLACE.search(text) or text.count('"') % 2 or text.count("`") % 2 or _ODD_SPACE.search(text):
        return text
    mark = ITEM.match(text) if block.kind == "item" else re.match(r"[ \t]*", text)
    lead = mark[0] if mark else ""
    body = text[len(lead) :]
    masked, taken = _mask(body)
    if len(taken) > _PLACES:
        return text
    before = seen if block.kind == "prose" else None
    if _is_english(masked, taken):
        masked = repair(masked, is_sentence=block.kind == "prose").strip(" \t\n")
    masked = _drop_sentences(masked, taken, before, said)
    if not masked:
        return ""
    return lead + _PLACE.sub(lambda found: taken[ord(found[0]) - _FIRST_PLACE], masked)


def _mask(text: str) -> tuple[str, list[str]]:
    """Replace each part that must not change by one private character; also return those parts."""
    taken: list[str] = []

    def take(found: re.Match[str]) -> str:
        taken.append(found[0])
        return chr(_FIRST_PLACE + min(len(taken) - 1, _PLACES))

    masked = _PROTECTED.sub(take, text)
    return "\n".join(_SPACES.sub(" ", line.strip(" \t")) for line in masked.split("\n")), taken


def _is_english(masked: str, taken: list[str]) -> bool:
    words = [*map(str.lower, _ANY_WORD.findall(masked))]
    letters = sum(map(len, words))
    others = sum([len(span) for span in taken if not span.isascii()])
    common = sum(map(COMMON.__contains__, words))
    foreign = sum(map(_ONLY_FOREIGN.__contains__, words))
    return (
        common * _COMMON_SHARE >= len(words) > 0 and foreign < common and letters >= _ASCII_SHARE * (letters + others)
    )


def _drop_sentences(masked: str, taken: list[str], seen: set[str] | None, said: set[str]) -> str:
    """Drop sentences that were said before."""
    pieces = SENTENCE_GAP.split(masked)
    said_here, gaps = pieces[::2], [*pieces[1::2], ""]
    kept: list[str] = []
    for index, sentence in enumerate(said_here):
        # A line without an end, such as a label, may repeat under several headings.
        if seen is not None and sentence.endswith((".", "!", "?")):
            whole = _PLACE.sub(lambda found: taken[ord(found[0]) - _FIRST_PLACE], sentence)
            key = " ".join(whole.lower().split()).rstrip(".!?…")
            if (key in seen or key in said) and key.count(" ") + 1 >= MIN_REPEATED_WORDS:
                continue
            said.add(key)
        kept += [sentence, gaps[index]]
    return "".join(kept).strip(" \t\n")
