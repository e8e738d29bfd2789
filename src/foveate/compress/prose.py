"""A turn's prose without its noise: white space, typing errors, filler and repetition go, nothing else.

Code, paths, addresses, identifiers, quotes and numbers are taken out of the text first and put back untouched.
What is not clearly English only has its white space cleaned.
"""

# ruff: noqa: RUF001 (typographic quotes are what is looked for)

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from foveate.compress._wording import (
    ANSWER_FILLER,
    CHEER,
    COMMON,
    DOUBLED,
    FILLER_SENTENCE,
    FILLER_WORDS,
    FOREIGN,
    NO_SPACE_AFTER,
    PRONOUN,
    STARTERS,
    WORDY,
    WORDY_PHRASE,
    typos,
)

MAX_ROUNDS = 6
"""What one clean-up uncovers the next one finds; after so many the text is left as it is."""
MIN_REPEATED_WORDS = 5
"""Shorter sentences may be repeated on purpose."""
MAX_PROSE_CHARS = 200_000
"""A longer text is no prose; it passes as it is."""

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_INDENTED = re.compile(r"^(?: {4}|\t| {1,3}\t)")
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)]) +")
_VERBATIM = re.compile(
    r"^\s*(?:[|>#<@$%\\{}+=~]|//|/\*|\*/|--|\*\*\*|\[?\d{4}-\d\d-\d\d|\d+[:|]"
    r"|(?:import|from|def|class|function|const|var|return|export|elif|else:|SELECT|INSERT|UPDATE)\b.*[\w)'\";:,{(*]$)"
    r"|[;{}\\]\s*$|=>|==|!=|::|\w\(\)|\w = |</|/>|\S {3,}\S.* {3,}\S|\t"
)
_PROTECTED = re.compile(
    r"(`+)(?!`).+?(?<!`)\1(?!`)"
    r'|"[^"]*"|“[^”]*”|«[^»]*»|„[^“”]*[“”]|‘[^’]*’(?!\w)|(?<!\w)\'[^\'\n]+\'(?!\w)'
    r"|(?<!\S)(?![(*_]*[A-Za-z][a-z]*(?:['’-][A-Za-z]?[a-z]*)*[)*_.,;:!?…]*(?!\S))(?![,.;!?](?!\S))\S+",
    re.DOTALL,
)
_FIRST_PLACE = 0xE000
_PLACES = 0xF8FF - _FIRST_PLACE
_PLACE = re.compile("[\ue000-\uf8ff]")
_WORD = re.compile(r"(?<![\w'’-])[A-Za-z]{3,}(?![\w'’-])")
_ANY_WORD = re.compile(r"[A-Za-z][a-z'’]*")
_SENTENCE_END = re.compile(r"((?<=[.!?…])\s+)")
_SENTENCE_START = re.compile(r"(?:\A|([.!?])\s+)([a-z][a-z']*)(?=[\s,])")
_NO_END = ("e.g", "i.e", "etc", "vs", "cf", "approx", ".", "!", "?")
"""Behind these a full stop ends no sentence."""
_LOOSE_MARK = re.compile(r"([A-Za-z]+) ([,.;!?])(?=\s|\Z)")
_SPACES = re.compile(r"(?<=\S)[ \t]{2,}|(?<=\S)\t(?=\S)")
_ODD_SPACE = re.compile(r"[^\S \t\n]")
"""White space that is neither a blank, a tab nor a newline means something to whoever typed it."""
_ASCII_SHARE = 0.8
_COMMON_SHARE = 6

_Kind = Literal["verbatim", "blank", "item", "prose"]


@dataclass(slots=True)
class _Block:
    kind: _Kind
    text: str


def smooth_prose(text: str, *, is_answer: bool = False) -> str:
    """The text cleaned up; smoothing it again changes nothing. `is_answer` also drops an assistant's exclamations."""
    if len(text) > MAX_PROSE_CHARS:
        return text
    smoothed = text.replace("\r\n", "\n")
    for _ in range(MAX_ROUNDS):
        before, smoothed = smoothed, _smooth_once(smoothed, is_answer=is_answer)
        if smoothed == before:
            return smoothed
    return smoothed


def _smooth_once(text: str, *, is_answer: bool) -> str:
    lines: list[str] = []
    seen: set[str] = set()
    for block in _blocks(text):
        if block.kind == "blank":
            if lines and lines[-1]:
                lines.append("")
            continue
        shown = block.text
        if block.kind != "verbatim":
            shown = _smooth_block(block, seen, is_answer=is_answer)
        if shown:
            lines.append(shown)
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) or text.strip()


def _blocks(text: str) -> Iterator[_Block]:
    """The text cut where Markdown cuts it: fences, indented code, list items, paragraphs."""
    prose: list[str] = []
    fence: list[str] = []
    for line in text.split("\n"):
        opened = _FENCE.match(line)
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
    if _ITEM.match(line):
        return "item"
    return "verbatim" if _INDENTED.match(line) or _VERBATIM.search(line) else "prose"


def _smooth_block(block: _Block, seen: set[str], *, is_answer: bool) -> str:
    text = block.text
    if _PLACE.search(text) or text.count('"') % 2 or text.count("`") % 2 or _ODD_SPACE.search(text):
        return text
    mark = _ITEM.match(text) if block.kind == "item" else re.match(r"[ \t]*", text)
    lead = mark[0] if mark else ""
    taken: list[str] = []

    def take(found: re.Match[str]) -> str:
        taken.append(found[0])
        return chr(_FIRST_PLACE + min(len(taken) - 1, _PLACES))

    masked = _PROTECTED.sub(take, text[len(lead) :])
    if len(taken) > _PLACES:
        return text
    masked = "\n".join(_SPACES.sub(" ", line.strip(" \t")) for line in masked.split("\n"))
    if _is_english(masked, taken):
        masked = _repair(masked, is_sentence=block.kind == "prose")
        masked = _drop_sentences(masked, taken, seen if block.kind == "prose" else None, is_answer=is_answer)
    if not masked:
        return ""
    return lead + _PLACE.sub(lambda found: taken[ord(found[0]) - _FIRST_PLACE], masked)


def _is_english(masked: str, taken: list[str]) -> bool:
    words = [word.lower() for word in _ANY_WORD.findall(masked)]
    letters = sum(map(len, words))
    others = sum(len(span) for span in taken if not span.isascii())
    common = sum(word in COMMON for word in words)
    foreign = sum(word in FOREIGN and word not in COMMON for word in words)
    return (
        common * _COMMON_SHARE >= len(words) > 0 and foreign < common and letters >= _ASCII_SHARE * (letters + others)
    )


def _repair(masked: str, *, is_sentence: bool) -> str:
    known = typos()

    def spelled(found: re.Match[str]) -> str:
        word = found[0]
        right = known.get(word.lower())
        if right is None or not (word.islower() or word.istitle()):
            return word
        return right if word.islower() else right[0].upper() + right[1:]

    if not known.keys().isdisjoint(_WORD.findall(masked.lower())):
        masked = _WORD.sub(spelled, masked)
    masked = FILLER_WORDS.sub("", masked)
    masked = WORDY_PHRASE.sub(_plainer, masked)
    masked = DOUBLED.sub(r"\1", masked)
    masked = PRONOUN.sub("I", masked)
    masked = _LOOSE_MARK.sub(_tightened, masked)
    if is_sentence:
        masked = _SENTENCE_START.sub(_capitalised, masked)
    return masked.strip(" \t\n")


def _plainer(found: re.Match[str]) -> str:
    right = WORDY[found[0].lower()]
    return right.capitalize() if found[0][0].isupper() else right


def _tightened(found: re.Match[str]) -> str:
    return found[0] if found[1].lower() in NO_SPACE_AFTER else f"{found[1]}{found[2]}"


def _capitalised(found: re.Match[str]) -> str:
    word, start = found[2], found.start()
    if word not in STARTERS or found.string[max(start - 8, 0) : start].lower().endswith(_NO_END):
        return found[0]
    return found[0][: -len(word)] + word[0].upper() + word[1:]


def _drop_sentences(masked: str, taken: list[str], seen: set[str] | None, *, is_answer: bool) -> str:
    """The sentences that say something not yet said; `seen` has those before."""
    pieces = _SENTENCE_END.split(masked)
    sentences, gaps = pieces[::2], [*pieces[1::2], ""]
    kept: list[str] = []
    for index, sentence in enumerate(sentences):
        if not _PLACE.search(sentence) and _is_filler(sentence, is_answer, is_last=index + 1 == len(sentences)):
            continue
        # A line without an end, such as a label, may stand under several headings.
        if seen is not None and sentence.endswith((".", "!", "?")):
            full = _PLACE.sub(lambda found: taken[ord(found[0]) - _FIRST_PLACE], sentence)
            key = " ".join(full.lower().split()).rstrip(".!?…")
            if key in seen and key.count(" ") + 1 >= MIN_REPEATED_WORDS:
                continue
            seen.add(key)
        kept += [sentence, gaps[index]]
    return "".join(kept).strip(" \t\n")


def _is_filler(sentence: str, is_answer: bool, *, is_last: bool) -> bool:
    if FILLER_SENTENCE.fullmatch(sentence):
        return True
    return is_answer and bool(ANSWER_FILLER.fullmatch(sentence) or (not is_last and CHEER.fullmatch(sentence)))
