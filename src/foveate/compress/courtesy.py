"""Greetings, thanks, apologies and offers of help: what people say to be polite, and what an S leaves out.

A sentence, or a part of one between commas, is a courtesy if it has a word of courtesy and all its other words are
of the kind that go with one. No list of phrases is needed, and a number, a name in the middle, a negation or any
other word makes it a statement.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from functools import lru_cache

from foveate.compress.cues import bare
from foveate.compress.formulas import is_about_others, is_formula, is_polite_abroad
from foveate.compress.lexicon import NEGATIONS, as_words, word_weight

MAX_WORDS = 26
"""A longer sentence says something."""
MIN_WEIGHT = 0.16
"""Words that are more common than this go with anything."""

MAX_GREETING_WORDS = 4
"""Of a greeting or farewell with a name."""

_CUES = as_words(
    """hello hi hey dear thanks thank thx cheers appreciate appreciated grateful regards wishes sincerely sorry
    apologies apologize apologise welcome hesitate glad delighted pleasure hope hoping morning afternoon evening
    goodbye bye congratulations worries hallo danke grüße bonjour merci hola gracias saludos"""
)
"""One of these makes a courtesy."""
_COMPANY = as_words(
    """good great nice lovely wonderful fantastic awesome amazing kind kindly warm warmest best yours truly quick fast
    prompt friendly helpful detailed reply response answer message mail email note description words feedback update
    question questions concern concerns help helps helped helping assist assistance support patience understanding
    cooperation time day week weekend night evening morning afternoon today yesterday advance again everyone
    everybody team guys folks friend friends all much many million really very truly long short late delay bother
    bothering trouble inconvenience confusion disturb disturbing happy pleased love hear hearing see seeing meet
    meeting talk talking speak speaking soon forward looking look writing write reach reaching contact contacting
    let know feel free ask anything something else need needed further additional unclear think well fine doing
    having slept lot lots sharing providing confirming clarifying checking waiting asking explaining happened anyway
    haha lol lifesaver appreciated worry problem mr mrs ms sir madam there greetings safe rest enjoy luck sounds
    that's it's i'm i'd you're hope everything okay ok always please so far took side update weeks effort efforts
    work stay healthy sister brother family wait moment second minute patient"""
)
"""Words that go with it."""
_HOPES = as_words("hope hoping")
_CLAIM = re.compile(r"(?i)\b(?:the|my|our|this) [a-z]{1,20} (?:is|are|was|were|has|had|will)\b")
_PHRASE = re.compile(
    r"(?:please |just |and |or |so |also |by all means |don't worry,? )*(?:"
    r"(?:let me know(?! what| which| when| where| who)|feel free|(?:don't|do not) hesitate|reach out"
    r"|get in touch)\b.{0,20}"
    r"(?:if|when|should|with|to|any ?time)?\b.{0,60}"
    r"|is there anything (?:else|more)(?: .{0,30}\b(?:help|assist|do|need|like)\b.{0,20})?"
    r"|(?:i(?:'d| would) be |i(?:'m| am) )?(?:happy|glad|delighted) to (?:help|assist)\b.{0,40}"
    r"|(?:that's |what )?(?:an? )?(?:great|good|excellent|lovely|interesting) (?:question|idea|point|occasion)"
    r"|(?:i )?hope (?:this|that|it) helps\b.{0,20}|happy coding|no (?:problem|worries)(?: at all)?|my pleasure"
    r"|sounds (?:good|great|wonderful|lovely|fantastic)|let(?:'s| me) (?:see|check|think)"
    r"|i (?:completely |totally |fully )?understand(?: your (?:frustration|concern|situation)s?)?"
    r"|(?:please )?(?:hold on|bear with me|wait)(?: for)?(?: just)? (?:a|one) (?:moment|second|minute)"
    r"|(?:sure|certainly|of course|absolutely|great|perfect|excellent|awesome|alright|okay|ok|yes of course)"
    r")[ .!?…]*",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"(?:and )?(?:have an? (?:very |really )?(?:great|good|nice|wonderful|lovely|pleasant|safe|fantastic|relaxing)"
    r" (?:day|week|weekend|evening|night|morning|afternoon|time|trip|flight|journey|party|holidays?|vacation|start|rest"
    r"|one)\b(?-i:[a-z ]){0,20}"
    r"|(?:i(?:'m| am) )?(?:so |very |really )?sorry (?:to hear|for the (?:trouble|inconvenience|delay|confusion))\b"
    r"[^,;]{0,60})[ .!?…]*",
    re.IGNORECASE,
)
_PLAIN_WORDS = as_words(
    """know need anything else questions question help assist hesitate reach touch ask unclear changes occasion idea
    point sure certainly course absolutely perfect excellent alright interesting check"""
)
_VERDICTS = re.compile(
    r"(?:yes|no|(?:ok|okay)(?!,? so\b)|sure|perfect|great(?! question)|sounds|agreed|fine|exactly|correct|right"
    r"|absolutely|(?:that's )?(?:an? )?(?:good|great|excellent|lovely|interesting) (?:idea|point))\b",
    re.IGNORECASE,
)
"""From a user these can be consent, so they stay."""
_STATEMENT = re.compile("[\\d`_/@#{}<>=\ue000-\uf8ff]|\\[")
"""Signs that no courtesy has; private characters stand for protected text in `foveate.compress.smooth`."""
_EMPHASIS = re.compile(r"\*\*(\S(?:[^*\n]*\S)?)\*\*|(?<!\w)__(\S(?:[^_\n]*\S)?)__(?!\w)")


@lru_cache(maxsize=4_096)
def is_courtesy(text: str, *, is_answer: bool = True) -> bool:
    """Whether a sentence, or a part of one, is only polite. A user's "Perfect!" may be consent and is kept."""
    words = text.split()
    if not words or len(words) > MAX_WORDS or _STATEMENT.search(text) or not (is_answer or not _VERDICTS.match(text)):
        return False
    if _PHRASE.fullmatch(text) and all(_goes_along(word) or bare(word) in _PLAIN_WORDS for word in words):
        return True
    return _WISH.fullmatch(text) is not None or _is_polite(words) or is_formula(text, is_answer=is_answer)


def _is_polite(words: list[str]) -> bool:
    """Whether there is a word of courtesy, and only such as go with it; a name may follow a greeting."""
    cores = [bare(word) for word in words]
    is_affirmed = NEGATIONS.isdisjoint(cores) or "hesitate" in cores
    if not _CUES.isdisjoint(cores) and is_affirmed and not _is_claim(words, cores):
        is_short = len(words) <= MAX_GREETING_WORDS and (cores[0] in _CUES or cores[0] in _COMPANY)
        names = [word for word in words if not _goes_along(word)]
        if not names or (is_short and len(names) == 1 and names[0][:1].isupper()):
            return True
    return is_polite_abroad(words, cores)


def _is_claim(words: list[str], cores: list[str]) -> bool:
    """Whether something is said of a thing or of others: `Sorry, the update is late`."""
    text = " ".join(words)
    return is_about_others(text) or (_HOPES.isdisjoint(cores) and _CLAIM.search(text) is not None)


def _goes_along(word: str) -> bool:
    core = bare(word)
    return core in _CUES or core in _COMPANY or word_weight(core) < MIN_WEIGHT


_PART = re.compile(r"((?:,| and| –| -|;)\s+)")
_SUBJECT = re.compile(
    r"(?:I|we|you|he|she|it|they|there|this|that|these|the|my|our|your|his|her|their|please|but|and|so|or|if|when|what"
    r"|because|since|as|which|who|can|could|would|how|just|an?)\b",
    re.IGNORECASE,
)
_SUBORDINATE = re.compile(
    r"(?:and |but |so |or )?(?:if|when|while|since|because|although|unless|once|as|before|after|should)\b",
    re.IGNORECASE,
)
"""A clause that begins so needs the one behind it."""
_ALWAYS_LOOSE = re.compile(
    r"(?:and |but )?(?:many |a lot of )?(?:thank|sorry|i hope|i really|i appreciate|haha)", re.IGNORECASE
)
_SPEAKER = re.compile(r"(?:I|we|please)\b", re.IGNORECASE)
_LINK = re.compile(r"(?:but|and|so) (?=\w)", re.IGNORECASE)
_OPEN_END = re.compile(r"(?i)\b(?:so|very|be|is|are|to|the|an?|for|of|with|and|or|not|no)\Z")
"""Behind these something must follow."""
_LINKS = as_words("and but so or")
_CLAUSE = re.compile(
    r"(?:I|we|you(?:'re| are)|thanks?|many|sorry|please|best|let me|don't|do not|keep up|hope you|enjoy your"
    r"|merci|talk to you|see you|for|muchas|vielen|happy)\b",
    re.IGNORECASE,
)
"""How a polite clause begins behind `and`."""
_FULL_NAME = re.compile(r"[A-Z][a-z'-]{1,20} [A-Z][\w'-]{1,20}[.!]?")
"""A signature that names the writer in full is kept."""
_OPENER = re.compile(
    r"(?:(?:well|so|anyway|anyhow|ha|hiya|yo|first things first|honestly|to be honest|as you know|by the way"
    r"|first of all|oh no|oh|ah|wow|aww|yay"
    r"|oops|phew|haha|okay|ok|of course|sure"
    r"|certainly|absolutely|great|perfect|alright|actually|basically|needless to say|as you can see|as i said"
    r"|for what it's worth|at the end of the day|(?:hi|hello|hey|dear|good (?:morning|afternoon|evening))"
    r"(?-i: [A-Z][\w.-]*| hey| hello| again| there| team| all| everyone| everybody| folks){0,2})[,!.]+ +)+(?=\S)",
    re.IGNORECASE,
)


_MARKED_NAME = re.compile(r"(?<![\w`])`(?=[^`]*(?:[\d_./()]|[a-z][A-Z]))([\w./()-]+)`(?![\w`])")


def plain(text: str) -> str:
    """One line, without marks of emphasis, marks of code around names that need none, and polite openers."""
    text = " ".join(text.split())
    if "**" in text or "__" in text:
        text = _EMPHASIS.sub(lambda found: found[1] or found[2], text)
    if "`" in text:
        text = _MARKED_NAME.sub(r"\1", text)
    if (opener := _OPENER.match(text)) is not None:
        text = text[opener.end() :]
    return text


def without_courtesy(sentence: str, *, is_answer: bool = True) -> str:
    """A sentence without its polite parts; nothing if it has no others."""
    if is_courtesy(sentence, is_answer=is_answer):
        return ""
    opener = _OPENER.match(sentence)
    if opener and (is_answer or not _VERDICTS.match(sentence)):
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


def _is_bound(kept: list[str], gap: str, part: str) -> bool:
    """Whether a part belongs to what is before it, so that its words are no courtesy: `to escape and feel free`."""
    words = part.split()
    return (
        len(words) < 2 + (words[0] in _LINKS)
        or _OPEN_END.search(kept[-1], len(kept[-1]) - 5) is not None
        or (any(map(_SUBORDINATE.match, kept[::2])) and _ALWAYS_LOOSE.match(part) is None)
        or (gap.strip() == "and" and part.isascii() and _CLAUSE.match(part) is None)
    )


def _without_polite_parts(pieces: list[str], *, is_answer: bool) -> tuple[str, str]:
    """The parts of a sentence that say something, and the mark of a polite part that was its end."""
    kept, end, was_aside = [pieces[0]], "", False
    for gap, part in zip(pieces[1::2], pieces[2::2], strict=True):
        if not _is_bound(kept, gap, part) and is_courtesy(part, is_answer=is_answer):
            end, was_aside = part[-1] if part[-1:] in ".!?" else "", part.lower() == "of course"
            continue
        is_aside = was_aside and gap.startswith(",") and part[:1].islower()
        kept += [" " if is_aside and not _SUBJECT.match(part) else gap, part]
        end, was_aside = "", False
    if len(kept) == 1 and end and is_courtesy(pieces[0], is_answer=is_answer):
        return "", ""
    if len(kept) > 1 and len(pieces[0].split()) > 1 and is_courtesy(pieces[0], is_answer=is_answer):
        rest = kept[2][link.end() :] if (link := _LINK.match(kept[2])) else kept[2]
        is_apart = kept[1].strip() != "and" or _SPEAKER.match(rest)
        if is_apart and (link or _SUBJECT.match(rest) or _FULL_NAME.fullmatch(rest)):
            kept = [rest[:1].upper() + rest[1:], *kept[3:]]
    return "".join(kept), end
