"""Splits a turn into clauses that can be kept or left out one by one without changing what is said.

Nothing is cut inside code spans, quotes, brackets, numbers, paths or addresses. A clause stays with the condition,
negation or contrast that governs it.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from foveate.compress.cues import bare, is_negation
from foveate.compress.lexicon import CJK_CONDITIONS, CJK_NEGATIONS, MONTHS, STRICT_CONDITIONS, as_words
from foveate.words.grammar import ABBREVIATIONS, LOOSE_ITEM, OTHER_ENDS, SENTENCE_END, WIDE_ENDS, is_fence

ClauseKind = Literal["prose", "item", "heading", "code", "row", "caption"]

MAX_TEXT_CHARS = 120_000
"""A longer text is reduced to its first two thirds and last third of this."""
MAX_LINE_CHARS = 6_000
"""A longer line is cut: it was not written by hand."""
MAX_CLAUSES = 3_000
LONG_WORDS = 16
"""A longer sentence is split into clauses where that is safe."""
MIN_CLAUSE_WORDS = 5
MAX_LEAD_WORDS = 14
MAX_GROUP_WORDS = 60

_HEADING = re.compile(r"\A\s*#{1,6}\s+|\A\s*\*\*[^*]{1,80}\*\*:?\s*$")
_ROW = re.compile(r"\A\s*\|.*\|\s*$")
_RULE = re.compile(r"\A[\s|:=_*+-]*$")
_CODE_LINE = re.compile(
    r"\A\s*(?:[\w.]+\(.*\)[;{]?\s*$|(?:def|class|import|from|return|const|let|var|function|public|private|if|for|while)\b.*[:{;(]\s*$|[$>]\s|[}\])]|</?\w|@\w+|[\w.\[\]]+\s*[+-]?=\s)|\A.*[{;]\s*$"
)
_PROTECTED = re.compile(
    r"`[^`\n]{1,300}`|\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|«[^»\n]{1,300}»|„[^“\n]{1,300}“|\([^()\n]{1,300}\)"
)
_CLAUSE_END = re.compile(
    r";\s+|(?<!\s)\s+(?:[—–]|--?)\s+|,\s+(?=(?:and|so|then|und|et|y)\s+(?:I|we|you|he|she|it|they|the|this|that|there|my|our|your|his|her|their|a|an)\b)|，|；"
)
ABBREVIATION = re.compile(
    rf"(?:(?<!\d )\b(?:sec|ms|min|max)|\b(?:{'|'.join(map(re.escape, ABBREVIATIONS))}"
    r"|no|nos|fig|eq|mr|mrs|dr|prof|st|jr|sr|inc|ltd|co|dept|est|al|ca|bzw"
    r"|usw|z\.\s?b|d\.\s?h|u\.\s?a|nr|bspw|p\.\s?ex|sra?|dra|a\.m|p\.m|u\.s|approx)|\b[A-Za-z])\.$",
    re.IGNORECASE,
)
"""An abbreviation at the end of a text, whose dot ends no sentence."""
_WORD_END = re.compile(r"[^\W\d_]{3}$")
"""A whole word before the end of a sentence, for text without capital letters."""
_DEPENDENT = as_words(
    """otherwise unless except instead rather nor not though only or sonst außer sondern statt sauf sinon salvo excepto
    иначе кроме"""
)
"""Words that bind a sentence to the one before it."""
_BEFORE_ORDINALS = as_words("am ab vom zum bis der den dem im seit nr")
_CONTRAST = as_words("but however yet although though aber jedoch mais pero però но")


@dataclass(frozen=True, slots=True)
class Clause:
    """A piece of a text that makes sense on its own."""

    kind: ClauseKind
    text: str
    """The text, on one line."""


def cut_text(text: str) -> list[Clause]:
    """Split a text into its clauses, in order."""
    if len(text) > MAX_TEXT_CHARS:
        head = MAX_TEXT_CHARS * 2 // 3
        text = f"{text[:head]}\n{text[head - MAX_TEXT_CHARS :]}"
    clauses: list[Clause] = []
    lead = ""
    items: list[str] = []
    for kind, line in _lines(text):
        if kind == "item" and lead:
            items.append(line)
            continue
        if lead:
            clauses.extend(_governed(lead, items))
            lead, items = "", []
        if kind in ("prose", "item", "heading") and _governs(line):
            *before, lead = sentences(line)
            clauses.extend(Clause(kind, sentence) for sentence in before)
        elif kind in ("prose", "item"):
            clauses.extend(Clause(kind, clause) for sentence in sentences(line) for clause in split_clauses(sentence))
        else:
            clauses.append(Clause(kind, line))
    if lead:
        clauses.extend(_governed(lead, items))
    if len(clauses) > MAX_CLAUSES:
        del clauses[MAX_CLAUSES * 2 // 3 : MAX_CLAUSES * 2 // 3 - MAX_CLAUSES]
    return clauses


def _lines(text: str) -> Iterator[tuple[ClauseKind, str]]:
    """Yield lines by kind; those of a hand-wrapped paragraph are joined again."""
    in_fence, waiting = False, ""
    for raw in text.splitlines():
        line = raw[:MAX_LINE_CHARS]
        if is_fence(line):
            in_fence = not in_fence
            continue
        stripped = line.strip()
        kind = "code" if in_fence else _line_kind(line, stripped)
        if kind == "prose" and waiting and stripped[:1].islower() and waiting[-1:] not in ".!?:;":
            waiting += f" {stripped}"
            continue
        if waiting:
            yield "prose", waiting
            waiting = ""
        if not stripped or (kind != "code" and _RULE.fullmatch(stripped)):
            continue
        if kind == "prose":
            waiting = stripped.removeprefix("> ")
        else:
            yield kind, _tidy(kind, stripped)
    if waiting:
        yield "prose", waiting


def _line_kind(line: str, stripped: str) -> ClauseKind:
    if LOOSE_ITEM.match(line):
        return "item"
    if _ROW.match(line):
        return "row"
    if _HEADING.match(line):
        return "heading"
    if line.startswith(("    ", "\t")) or (_CODE_LINE.match(stripped) and stripped[-1:] not in ".!?"):
        return "code"
    return "prose"


def _tidy(kind: ClauseKind, line: str) -> str:
    if kind == "item":
        return LOOSE_ITEM.sub("", line)
    if kind == "heading":
        return re.sub(r"^\d{1,2}[.)]\s+", "", line.strip("#* ")) or line
    if kind == "row":
        return " | ".join(cell.strip() for cell in line.strip("| ").split("|"))
    return " ".join(line.split())


def _governs(line: str) -> bool:
    """Return whether the list after a line would have another meaning without it: `Never do these:`."""
    if not line.endswith(":"):
        return False
    words = [bare(word) for word in sentences(line)[-1].split()]
    return any(is_negation(word) or word in STRICT_CONDITIONS for word in words)


def _governed(lead: str, items: list[str]) -> Iterator[Clause]:
    # With full stops inside, a reader would take the later sentences for separate claims.
    items = [SENTENCE_END.sub(", ", item).rstrip(".;, ") for item in items]
    joined = f"{lead} {', '.join(items)}" if items else lead
    if len(joined.split()) <= MAX_GROUP_WORDS or len(lead.split()) > MAX_LEAD_WORDS:
        yield Clause("item" if items else "prose", joined)
        return
    for item in items:
        yield Clause("item", f"{lead} {item}")


def _protected(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in _PROTECTED.finditer(text)]


def _is_inside(place: int, spans: list[tuple[int, int]]) -> bool:
    return any(start < place < end for start, end in spans)


def sentences(text: str) -> list[str]:
    """Split a paragraph into sentences; one that begins with a dependent condition stays with the one before."""
    spans = _protected(text)
    found: list[str] = []
    start = 0
    for match in SENTENCE_END.finditer(text):
        end = match.end()
        if end >= len(text):
            break
        if _is_inside(match.start(), spans) or not _ends_sentence(text, match):
            continue
        _append_sentence(found, text[start:end].strip())
        start = end
    _append_sentence(found, text[start:].strip())
    return found


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    mark, behind = match.group()[0], text[match.end() : match.end() + 1]
    if mark in WIDE_ENDS + OTHER_ENDS:
        return True
    if behind.islower() and mark in ".…" and not _WORD_END.search(text, max(0, match.start() - 3), match.start()):
        return False
    if mark == "." and text[match.start() - 1 : match.start()].isdigit() and _is_ordinal(text, match):
        return False
    return not (mark == "." and ABBREVIATION.search(text, max(0, match.start() - 8), match.start() + 1))


def _is_ordinal(text: str, match: re.Match[str]) -> bool:
    """Return whether the dot belongs to the number: `am 1. Oktober`."""
    before = text[max(0, match.start() - 12) : match.start()].split()
    behind = text[match.end() : match.end() + 20].split(None, 1)
    return (len(before) > 1 and before[-2].casefold() in _BEFORE_ORDINALS) or (
        bool(behind) and bare(behind[0]) in MONTHS
    )


def _append_sentence(found: list[str], sentence: str) -> None:
    if not sentence:
        return
    words = sentence.split(None, 6)
    first = bare(words[0])
    answers = bool(found) and _is_answer(found[-1])
    depends = first in _DEPENDENT or (first in _CONTRAST and len(words) <= 6)  # noqa: PLR2004
    if found and (depends or answers):
        found[-1] += f" {sentence}"
    else:
        found.append(sentence)


def _is_answer(sentence: str) -> bool:
    """Return whether a sentence is a short answer that says nothing alone: `No.`"""
    return len(sentence.split()) <= 2 and len(sentence) <= (16 if sentence.isascii() else 4)  # noqa: PLR2004


def without_answers(clause: str) -> str:
    """Remove the short answers at the beginning of a clause: `Looks good. Never deploy on a Friday.`"""
    while (end := SENTENCE_END.search(clause)) and end.end() < len(clause) and _is_answer(clause[: end.end()]):
        clause = clause[end.end() :]
    return clause


def split_clauses(sentence: str) -> list[str]:
    """Split a long sentence into clauses, if no condition, contrast or earlier negation spans the cut."""
    if len(sentence.split()) <= LONG_WORDS and len(sentence) < LONG_WORDS * (8 if sentence.isascii() else 2):
        return [sentence]
    words = [*map(bare, sentence.split())]
    if not (STRICT_CONDITIONS.isdisjoint(words) and _CONTRAST.isdisjoint(words)):
        return [sentence]
    if any(cue in sentence for cue in CJK_CONDITIONS):
        return [sentence]
    spans = _protected(sentence)
    clauses: list[str] = []
    start = 0
    for match in _CLAUSE_END.finditer(sentence):
        before = sentence[start : match.start()]
        if _is_inside(match.start(), spans) or _has_negation(before):
            continue
        if (
            min(len(before.split()), len(sentence[match.end() :].split())) < MIN_CLAUSE_WORDS
            and match.group() not in "，；"
        ):
            continue
        clauses.append(before.strip())
        start = match.end()
    clauses.append(sentence[start:].strip())
    return [clause for clause in clauses if clause]


def _has_negation(text: str) -> bool:
    return any(map(is_negation, map(bare, text.split()))) or any(cue in text for cue in CJK_NEGATIONS)
