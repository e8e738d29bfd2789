"""Statements in a person's prompts: rules, preferences, conventions, decisions and facts. Pure.

Only the person's own words count. Questions, stories, quotations, hypotheticals and reports of others are ignored, and
so are instructions for one task. A doubtful statement is omitted.

A small model decides (`model`), by the words of a sentence and of the one before (`features`), and by phrases of each
language (`reading`). It was trained on English, German, French and Spanish; in other languages the phrases decide. They
are in `LANGUAGE.txt`, in the notation of `foveate.knowledge.statements.phrases`:

    [openers]  may precede a statement               [reminders] what follows is one, unless a veto applies
    [verbs]    begin an instruction, anywhere        [orders]    others, in the language's own phrases
    [rule] [preference] [convention] [decision] [fact]  phrases of each kind
    [correction] says that something is different now  [now] words that announce it
    [fiction]  a prompt that asks for a text         [vetoes] [hearsay] a clause with one seldom states anything
    [continued] begins with a pronoun for what the sentence before it names
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from foveate.compress.clauses import cut_text, without_answers
from foveate.knowledge.statements.features import rows_of
from foveate.knowledge.statements.model import load_model
from foveate.knowledge.statements.phrases import KINDS, LANGUAGES, load
from foveate.knowledge.statements.reading import LEAD_END, PhraseReading, StatementKind, is_readable, read_phrases
from foveate.recall.questions import likely_languages
from foveate.words.grammar import QUESTION_MARKS

TRAINED = ("en", "de", "fr", "es")
"""Languages of the labels that the model was trained on."""
LEAST_SCORE = 40
"""Least score of a statement: a precision of .90 and a recall of .75 with authors that were not trained on."""
SURE_SCORE = 107
"""The same, of a sentence that ends with a question: a precision of .98."""
TENTATIVE_SCORE = -22
"""Least score of a change that counts if it replaces a statement: most orders for one task have less."""
JOINED_SCORE = -22
"""The same, of a sentence that goes on with what the statement before it is about."""
LEAST_CHANGE = -40
"""Least score of a change: a precision of .95 and a recall of .63 in the three parts that nothing is trained on."""
DOUBTS = frozenset(("vetoes", "hearsay", "fiction", "question"))
"""Signals of a sentence that names the subject of no statement, and of a short answer after which nothing is stated."""
__all__ = ["Statement", "StatementKind", "says_change", "statements_in"]

_REQUEST = re.compile(r",\s+|\s[–—-]{1,2}\s|;\s+")


@dataclass(frozen=True, slots=True)
class Statement:
    """A clause as the person wrote it."""

    kind: StatementKind
    text: str
    is_standing: bool = False
    """True if it explicitly applies to the future: `always`, `never`, `from now on`, `remember`."""
    is_change: bool = False
    """True if it says that something was different before."""
    is_tentative: bool = False
    """True for a change that is doubtful as a statement: it counts if it replaces an earlier one."""


def statements_in(typed: str) -> tuple[Statement, ...]:
    """Find the statements that a person makes in their own words, in order.

    Pasted text is excluded from a prompt by `own_words`.
    """
    if not typed.strip():
        return ()
    clauses = [(clause.kind, " ".join(clause.text.split())) for clause in cut_text(typed)]
    texts = [without_request(text) for _, text in clauses]
    found: dict[str, Statement] = {}
    before: Statement | None = None
    for at, (kind, text) in enumerate(clauses):
        statement = None
        if kind in ("prose", "item") and is_readable(texts[at]):
            subject = _subject(texts, at, before)
            goes_on = bool(subject) and (before is not None or read_phrases(subject).is_change)
            least = SURE_SCORE if texts[at] != text else JOINED_SCORE if goes_on else LEAST_SCORE
            statement = _statement(texts, at, least)
            if statement and subject:
                found.pop(subject.casefold(), None)
                is_change = statement.is_change or read_phrases(subject).is_change
                statement = replace(statement, text=f"{subject} {statement.text}", is_change=is_change)
        if statement:
            found.setdefault(statement.text.casefold(), statement)
        before = statement
    return tuple(found.values())


def _subject(texts: Sequence[str], at: int, before: Statement | None) -> str:
    """Return what names the subject of a sentence that begins with a pronoun: a statement or sentence before it."""
    if not at or not _refers_back(texts[at]):
        return ""
    if before:
        return before.text
    return texts[at - 1] if DOUBTS.isdisjoint(read_phrases(texts[at - 1]).signals) else ""


def without_request(text: str) -> str:
    """Remove the question at the end of a sentence that states something first: `We use Redis, can you …?`"""
    if not text.endswith(QUESTION_MARKS):
        return text
    ends = [match.start() for match in _REQUEST.finditer(text)]
    return next((text[:end] for end in reversed(ends) if is_readable(text[:end])), text)


def _refers_back(text: str) -> bool:
    """Return whether a sentence begins with a pronoun for what the sentence before it names."""
    languages = [load(name) for name in likely_languages(text) if name in LANGUAGES]
    return any(language.continued.search(language.read(text)) for language in languages)


def _statement(texts: Sequence[str], at: int, least: float) -> Statement | None:
    """Return what a sentence of a prompt states."""
    said = without_answers(texts[at])
    reading = read_phrases(said)
    if likely_languages(" ".join(texts))[0] not in TRAINED:
        return Statement(reading.kind, said, reading.is_standing, reading.is_change) if reading.kind else None
    # A short answer before it may be what makes it another's: "He said."
    if not DOUBTS.isdisjoint(read_phrases(texts[at][: len(texts[at]) - len(said)]).signals):
        return None
    scores = _scores(texts, at, said)
    if JOINED_SCORE <= scores["stated"] < least:  # what is behind `Two things for this repository:` may be clearer
        tails = (said[match.end() :] for match in LEAD_END.finditer(said))
        said = next((tail for tail in tails if _scores(texts, at, tail)["stated"] >= LEAST_SCORE), said)
        scores = _scores(texts, at, said)
    is_change, is_sure = _is_change(scores, reading), scores["stated"] >= least
    is_doubtful = not is_sure and not (is_change and scores["stated"] >= TENTATIVE_SCORE and texts[at] == said)
    if is_doubtful or not is_readable(said):
        return None
    signs = reading.is_standing, is_change, not is_sure
    return Statement(max(KINDS, key=scores.__getitem__), said, *signs)


def says_change(text: str) -> bool:
    """Return whether a statement says that something was different before."""
    return _is_change(_scores([text], 0, text), read_phrases(text))


def _is_change(scores: Mapping[str, float], reading: PhraseReading) -> bool:
    return scores["change"] > LEAST_CHANGE or reading.is_change


def _scores(texts: Sequence[str], at: int, said: str) -> Mapping[str, float]:
    return load_model().score(rows_of([*texts[:at], said, *texts[at + 1 :]], at, read_phrases(said).signals))
