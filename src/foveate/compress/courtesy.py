"""Detects greetings, thanks, apologies and offers of help, which S leaves out.

A sentence is a courtesy if each of its clauses is a polite phrase (`foveate.compress.formulas`). A polite clause is
also removed from another sentence, unless the clauses around it need it. C and T use a looser test, `is_small_talk`:
what it finds is not removed, but comes after everything else.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from functools import lru_cache

from foveate.compress.cues import bare
from foveate.compress.formulas import is_answer_phrase, is_phrase
from foveate.compress.lexicon import SPEECHLESS, as_words
from foveate.words.grammar import SENTENCE_END

MAX_WORDS = 26
"""A longer sentence is not a courtesy."""
MAX_CLAUSES = 6

_STATEMENT = re.compile("[\\d`_/@#{}<>=:\ue000-\uf8ff]|\\[")
"""Characters that no courtesy has; private characters replace protected text in `foveate.compress.smooth`."""
_EMPHASIS = re.compile(r"\*\*(\S(?:[^*\n]*\S)?)\*\*|(?<!\w)__(\S(?:[^_\n]*\S)?)__(?!\w)")
_ANSWER = re.compile(r"(?i)(?:yes|no|sure|certainly|of course|absolutely|no problem|alright|okay|ok)\.?")
"""Phrases that may answer a question if they have no exclamation mark."""
_CLAUSE_GAP = re.compile(r",? (?:and|und|et|y|–|-) |[,;!.] ")
_NAME = re.compile(r"(?![A-Za-z]{1,20}day\b)[A-ZÀ-Þ][a-zß-ÿ'-]{1,20}")
_APOLOGY = re.compile(r"(?i)sorry|apolog")
_MARKS = " .!?…,¡¿"


@lru_cache(maxsize=4_096)
def is_courtesy(text: str, *, is_answer: bool = True) -> bool:
    """Return whether a sentence, or a part of one, is only polite. A user's "Perfect!" may be consent and is kept."""
    if _STATEMENT.search(text) or _ANSWER.fullmatch(text) or not 0 < len(text.split()) <= MAX_WORDS:
        return False
    return _is_polite(text.strip(_MARKS).replace("\u2019", "'"), is_answer)


def _is_polite(text: str, is_answer: bool) -> bool:
    """Return whether a text is one polite clause or several; a name may follow the first."""
    size = len(text)
    ends = [*(gap.span() for gap in _CLAUSE_GAP.finditer(text)), (size, size)]
    starts, reached = {0}, {0}
    for _ in range(MAX_CLAUSES + 1):
        found = [
            (text[start:end], behind)
            for start in starts
            for end, behind in ends
            if start < end and _is_polite_clause(text[start:end], is_answer)
        ]
        for clause, behind in found:
            if behind == size or (_NAME.fullmatch(text, behind) and not _APOLOGY.search(clause)):
                return True
        starts = {behind for _, behind in found} - reached
        reached |= starts
    return False


def _is_polite_clause(text: str, is_answer: bool) -> bool:
    return is_phrase(text) or (is_answer and is_answer_phrase(text))


_PLEASED = as_words(
    """thanks thank thx thankful grateful appreciate appreciated hey hi hello hiya congrats congratulations wow whoa
    woah awesome amazing great good nice cool lovely wonderful fantastic incredible glad happy proud welcome bye
    goodbye cheers luck sweet yay aww woo-hoo woohoo impressive inspiring cute yum adorable perfect
    danke toll super merci gracias"""
)
"""Words of greeting, thanks and praise; small talk has at least one."""
_TALKED = _PLEASED | as_words(
    """hear hearing see seeing talk talked talking chat chatting catch catching up again soon long time ages while doing
    look looks sound sounds day week weekend everything support help kindness encouragement words advice sharing friend
    buddy man dude guys job work idea care much always too more right since last all any out absolutely exactly yep
    mean means offer compliment reminder recommendation"""
)
_CONTRACTED = re.compile(r"'(?:s|re|m|ve|ll|d)$")


@lru_cache(maxsize=4_096)
def is_small_talk(text: str) -> bool:
    """Return whether a sentence only greets, thanks or praises, by its words; a name may be addressed."""
    if is_courtesy(text):
        return True
    words = text.split()
    if _STATEMENT.search(text) or not 0 < len(words) <= MAX_WORDS:
        return False
    cores = [_CONTRACTED.sub("", bare(word)) for word in words]
    return not _PLEASED.isdisjoint(cores) and all(
        core in _TALKED or core in SPEECHLESS or _is_addressed(words, place) for place, core in enumerate(cores)
    )


def _is_addressed(words: list[str], place: int) -> bool:
    """Return whether a word is a name by which somebody is spoken to: `Good work, Sam!`"""
    word, before = words[place], words[place - 1] if place else ","
    ends = not word[-1:].isalnum() or place + 1 == len(words)
    return word[:1].isupper() and ends and (before[-1:] in ",!." or bare(before) in _PLEASED)


_PART = re.compile(r"((?:,| –| -|;)\s+)")
_SUBJECT = re.compile(
    r"(?:I|we|you|he|she|it|they|there|this|that|these|the|my|our|your|his|her|their|please|but|and|so|or|if|when|what"
    r"|because|since|as|which|who|can|could|would|how|just|an?)\b",
    re.IGNORECASE,
)
_SUBORDINATE = re.compile(
    r"(?i)\b(?:if|when|whenever|any ?time|while|since|because|although|unless|once|as|before|after|should|until|wenn"
    r"|falls|sobald|si|quand"
    r"|cuando)\b"
)
"""A clause with one of these may need the one after it."""
_ALWAYS_LOOSE = re.compile(r"(?i)(?:and )?(?:many |a lot of )?(?:thank|sorry|i hope|i really|i appreciate)")
_FIRST = re.compile(r"(?i)\b(?:thank|appreciate|sorry|apolog|hope|understand|regards|wishes|know)")
"""A first part that may be removed; an exhortation may be the condition of what follows."""
_SPEAKER = re.compile(r"(?:I|we|please)\b", re.IGNORECASE)
_LINK = re.compile(r"(?:but|and|so) (?=\w)", re.IGNORECASE)
_JOINED = re.compile(r"(?i)(?:but|or|and(?! (?:thank|many|sorry|I|feel free|don't hesitate|have an?)\b))\b")
"""How a part begins that belongs to a contrast or a list."""
_OPEN_END = re.compile(r"(?i)\b(?:so|very|be|is|are|to|the|an?|for|of|with|and|or|not|no)\Z")
"""Something must follow after these."""
_FULL_NAME = re.compile(r"[A-Z][a-z'-]{1,20} [A-Z][\w'-]{1,20}[.!]?")
"""A signature with the writer's full name is kept."""
_OPENER = re.compile(
    r"(?:(?:to whom it may concern|well|so|anyway|anyhow|ha|hiya|yo|first of all|honestly|to be honest|as you know"
    r"|by the way|oh no|oh|ah|wow|aww|yay|oops|phew|haha"
    r"|okay|ok|of course|sure|certainly|absolutely|great|perfect|alright|needless to say"
    r"|as you can see|as i said|for what it's worth|(?:hi|hello|hey|dear|good (?:morning|afternoon|evening))"
    r"(?-i: [A-Z][\w.-]*| hey| hello| again| there| team| all| everyone| everybody| folks){0,2})[,!.]+ +)+(?=\S)",
    re.IGNORECASE,
)
_VERDICT = re.compile(r"(?i)\b(?:okay|ok|of course|sure|certainly|absolutely|great|perfect|alright)\b")
"""Phrases that are kept from a user, because they can be consent."""


_MARKED_NAME = re.compile(r"(?<![\w`])`(?=[^`]*(?:[\d_./()]|[a-z][A-Z]))([\w./()-]+)`(?![\w`])")


def plain(text: str) -> str:
    """Return the text on one line, without marks of emphasis, unneeded marks of code, polite openers and small talk
    before another sentence."""
    text = " ".join(text.split())
    if "**" in text or "__" in text:
        text = _EMPHASIS.sub(lambda found: found[1] or found[2], text)
    if "`" in text:
        text = _MARKED_NAME.sub(r"\1", text)
    while (end := SENTENCE_END.search(text)) and end.end() < len(text) and is_small_talk(text[: end.end()].strip()):
        text = text[end.end() :].lstrip()
    if (opener := _OPENER.match(text)) is not None:
        text = text[opener.end() :]
    return text


def without_courtesy(sentence: str, *, is_answer: bool = True) -> str:
    """Remove the polite parts of a sentence; empty if it has no others."""
    if is_courtesy(sentence, is_answer=is_answer):
        return ""
    opener = _OPENER.match(sentence)
    if opener and (is_answer or not _VERDICT.search(opener[0])):
        sentence = _capital(sentence[opener.end() :])
        if is_courtesy(sentence, is_answer=is_answer):
            return ""
    pieces = _PART.split(sentence)
    if len(pieces) == 1:
        return sentence
    text, end = _without_polite_parts(pieces, is_answer=is_answer)
    return f"{text}{'.' if end == '!' else end}" if end else text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if text[:1].isascii() and (text[:2].isalpha() or text[:2] == "a ") else text


def _is_bound(before: str, part: str, *, is_conditional: bool) -> bool:
    """Return whether a part belongs to what is before it, so that it is no courtesy: `If it fails, let me know`."""
    return (
        len(part.split()) == 1
        or _JOINED.match(part) is not None
        or _OPEN_END.search(before, len(before) - 5) is not None
        or (is_conditional and _ALWAYS_LOOSE.match(part) is None)
    )


def _without_polite_parts(pieces: list[str], *, is_answer: bool) -> tuple[str, str]:
    """Return the informative parts of a sentence, and the mark of a polite part that was its end."""
    kept, end = [pieces[0]], ""
    is_conditional = _SUBORDINATE.search(pieces[0]) is not None
    for gap, part in zip(pieces[1::2], pieces[2::2], strict=True):
        if not _is_bound(kept[-1], part, is_conditional=is_conditional) and is_courtesy(part, is_answer=False):
            end = part[-1] if part[-1:] in ".!?" else ""
            continue
        kept += [gap, part]
        end = ""
        is_conditional = is_conditional or _SUBORDINATE.search(part) is not None
    if len(kept) > 1 and _FIRST.search(pieces[0]) and is_courtesy(pieces[0], is_answer=is_answer):
        rest = kept[2][link.end() :] if (link := _LINK.match(kept[2])) else kept[2]
        is_apart = link is None or link[0].lower() != "and " or _SPEAKER.match(rest)
        if is_apart and len(pieces[0].split()) > 1 and (link or _SUBJECT.match(rest) or _FULL_NAME.fullmatch(rest)):
            kept = [rest[:1].upper() + rest[1:], *kept[3:]]
    return "".join(kept), end
