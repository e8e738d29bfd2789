"""Statements in a person's prompts: rules, preferences, conventions, decisions and facts. Pure.

Only the person's own words count. Questions, stories, quotations, hypotheticals and reports of others are ignored, and
so are instructions for one task. A doubtful statement is omitted. How each language states things is in `LANGUAGE.txt`,
in the notation of `foveate.knowledge.statements.phrases`.

    [openers]  may precede a statement               [reminders] what follows is one, unless a veto applies
    [verbs]    begin an instruction, anywhere        [orders]    others, in the language's own phrases
    [rule] [preference] [convention] [decision] [fact]  phrases of each kind
    [correction] says that something is different now  [now] words that announce it
    [fiction]  a whole prompt with one states nothing  [vetoes] [hearsay] a clause with one states nothing
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from foveate.compress.clauses import cut_text, without_answers
from foveate.compress.model.checks import structure_in
from foveate.compress.orders import is_standing_order
from foveate.knowledge.statements.phrases import KINDS, LANGUAGES, StatementLanguage, load
from foveate.recall.questions import is_question, likely_languages
from foveate.words.grammar import QUESTION_MARKS

StatementKind = Literal["rule", "preference", "convention", "decision", "fact"]

MAX_CHARS = 400
MIN_WORDS, MAX_WORDS = 3, 60
MIN_UNSPACED_CHARS = 5
"""Minimum length in scripts without spaces."""
QUOTED = "Qq"
"""Stands for a quoted span while a clause is matched."""
COMMA = " , "

_SPAN = re.compile(
    r"`[^`\n]+`|\"[^\"\n]+\"|“[^“”\n]+”|«[^«»\n]+»|„[^„“”\n]+[“”]|「[^「」\n]+」|(?<!\w)'[^'\n]+'(?!\w)|‘[^‘’\n]+’"
)
_LEAD_END = re.compile(r":\s+|\s[–—-]{1,2}\s")
"""Ends words that announce a statement: `Two things for this repository: …`."""
_PART_END = re.compile(r",\s+|;\s+|\s\(|\)|\s[–—-]{1,2}\s|:\s+|\.\s+|!\s+|\s(?=(?:and|und|et|y)\s)")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Statement:
    """A clause as the person wrote it."""

    kind: StatementKind
    text: str
    is_standing: bool = False
    """True if it explicitly applies to the future: `always`, `never`, `from now on`, `remember`."""
    is_change: bool = False
    """True if it says that something was different before."""


def statements_in(typed: str) -> tuple[Statement, ...]:
    """Find the statements that a person makes in their own words, in order.

    Pasted text is excluded from a prompt by `own_words`.
    """
    if not typed.strip():
        return ()
    languages = [load(name) for name in likely_languages(typed) if name in LANGUAGES]
    begins = _SPAN.sub(QUOTED, typed[:MAX_CHARS])
    if any(_is_fiction(language.read(begins), language) for language in languages):
        return ()
    found: dict[str, Statement] = {}
    before = ""
    for clause in cut_text(typed):
        text = " ".join(clause.text.split())
        if clause.kind in ("prose", "item") and _is_readable(text):
            statement = _statement(text, languages)
            if statement is None and (statement := _continued(before, text, languages)):
                found.pop(before.casefold(), None)
            if statement:
                found.setdefault(statement.text.casefold(), statement)
        before = text
    return tuple(found.values())


def _is_fiction(read: str, language: StatementLanguage) -> bool:
    return any(language.fiction.search(text) is not None for text in (read, language.openers.sub("", read, count=1)))


def _continued(before: str, text: str, languages: Sequence[StatementLanguage]) -> Statement | None:
    """Return a statement in two sentences: something has changed, and what it is now."""
    if not before or before.endswith(QUESTION_MARKS):
        return None
    for language in languages:
        has_changed = language.correction.search(language.read(before)) and language.changed.search(
            language.read(before)
        )
        if has_changed and language.continued.search(language.read(text)):
            together = f"{before} {text}"
            if not any(each.vetoes.search(each.read(together)) for each in languages):
                return Statement("fact", together, is_change=True)
    return None


def _is_readable(text: str) -> bool:
    """Return whether a clause is a sentence of ordinary length, and not a question."""
    words = len(text.split())
    is_unspaced = len(_UNSPACED.findall(text)) >= MIN_UNSPACED_CHARS
    if not (MIN_WORDS <= words <= MAX_WORDS or is_unspaced) or len(text) > MAX_CHARS:
        return False
    return not (any(mark in text for mark in QUESTION_MARKS) or text.endswith((":", "：")) or structure_in(text, ""))


def _statement(text: str, languages: Sequence[StatementLanguage]) -> Statement | None:
    """Return the statement of a clause in the first language that has one, or None; a veto in any of them counts."""
    unquoted = _SPAN.sub(QUOTED, text)
    for language in languages:  # a short answer before it may be what makes it another's: "He said."
        read = language.read(unquoted)
        if language.vetoes.search(read) or (language.hearsay.search(read) and not language.own.search(read)):
            return None
    text = without_answers(text)
    unquoted = _SPAN.sub(QUOTED, text)
    found = (_statement_in(text, unquoted, language) for language in languages)
    return next((statement for statement in found if statement), None)


def _statement_in(text: str, unquoted: str, language: StatementLanguage) -> Statement | None:
    """Return the statement of a sentence in one language, or of one of its parts; quoted spans are ignored."""
    parts = [part for part in _PART_END.split(unquoted) if len(part.split()) >= MIN_WORDS]
    is_change = any(language.correction.search(_bare(language.read(part), language)[0]) for part in (unquoted, *parts))

    def stated(found: _Reading, said: str) -> Statement:
        return Statement(found.kind, said, is_standing=found.is_standing, is_change=is_change)

    if whole := _reading(unquoted, language):
        return stated(whole, text)
    for match in reversed([*_LEAD_END.finditer(unquoted)]):
        behind = unquoted[match.end() :]
        if found := _reading(behind, language):
            return stated(found, text if QUOTED in behind else text[len(text) - len(behind) :])
    found = next((one for part in parts if (one := _reading(part, language))), None)
    return stated(found, text) if found else None


class _Reading(NamedTuple):
    """How a clause was understood."""

    kind: StatementKind
    is_standing: bool


def _reading(clause: str, language: StatementLanguage) -> _Reading | None:
    read = language.read(clause)
    bare, is_reminded = _bare(read, language)
    if not bare:
        return None
    kind = _kind(read, language) or _kind(bare, language)
    is_order = is_standing_order(bare) or is_standing_order(clause)
    if kind is None and (is_reminded or is_order):
        kind = "rule" if is_order else "fact"
    if kind is None and all(each.search(bare) for each in (language.correction, language.changed, language.value)):
        kind = "fact"
    # "When you write SQL, use capitals" begins like a question.
    if kind is None or (is_question(bare) and not (kind == "rule" and COMMA in read)):
        return None
    return _Reading(kind, is_reminded or is_order)


def _bare(read: str, language: StatementLanguage) -> tuple[str, bool]:
    """Return a clause without the words before the statement, and whether they ask to remember it."""
    bare = language.openers.sub("", read, count=1)
    rest = language.reminders.sub("", bare, count=1)
    return (language.openers.sub("", rest, count=1), True) if rest != bare else (bare, False)


def _kind(bare: str, language: StatementLanguage) -> StatementKind | None:
    return cast("StatementKind | None", next((kind for kind in KINDS if language.kinds[kind].search(bare)), None))
