"""What a prompt asks for, by how it is put: whether it needs anything recalled, and how much of the conversation. Pure.

What a prompt brings up changes from turn to turn, so each recall costs the cached end of a prompt. Small talk, an
answer, or "go on" need none of it.

How questions, orders and small talk are put differs by language: `LANGUAGE.txt` has the words, separated by commas.

    [openers]  what may precede a question           [asks]    what a question begins with, without a question mark
    [polite]   what may precede a request            [orders]  what it must also say, where the language has it
    [tells]    what an order to tell begins with     [memory]  what speaks of the past of the conversation
    [you]      what is asked of the other one        [order]   what asks for an order of events or for all mentions
    [whole]    what asks for a summary or comparison [answers] what asks for what the other one said
    [advice]   what asks for advice, which depends on what the user said
    [secrets]  names of secrets: passwords, keys, numbers of cards

`…` between two words stands for up to twelve others. Small talk is what has only the `chat` words of `foveate.words`.
A language without spaces has its words anywhere in a sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from importlib.resources import files

from foveate.recall.words import STOP_WORDS
from foveate.words import stop_words
from foveate.words.grammar import PROMPT_SENTENCE, QUESTION_MARKS

MAX_CHARS = 4_000
"""Of a longer prompt the end is read: there is what it asks for."""
LEAST_TELLING = 2
"""A question with fewer words that tell something may be small talk."""
LEAST_ASKING = 0.5
"""A prompt with a smaller share of sentences that ask may not ask for the past."""
ENGLISH = "en"
SPACED = (ENGLISH, "de", "fr", "es", "it", "pt", "nl")
"""In the Latin alphabet; of two that fit as well, the earlier."""
SCRIPTS = (("ja", "\u3040-\u30ff"), ("zh", "\u3400-\u9fff"), ("ru", "\u0400-\u04ff"))
"""Languages that are detected by their letters, the most certain first."""
UNSPACED = ("ja", "zh")
MAX_OPENERS = 4
GAP = r"\s+…\s+", r"\s+(?:\S+\s+){0,12}?"
"""Words left open in an entry, as it is escaped and as a pattern."""
APOSTROPHE = "\u2019"

_SCRIPTS = tuple((language, re.compile(f"[{letters}]")) for language, letters in SCRIPTS)
_WORD = re.compile(rf"[^\W_]+(?:['{APOSTROPHE}][^\W_]+)*")
_NOTHING = re.compile(r"(?!)")
_OPENS_A_QUESTION = "\u00bf"
_IDENTIFIER = re.compile(r"\b(?:[A-Za-z]+[-_/.:]?\d[\w./:-]*|\w+_\w+|[\w-]+/[\w./-]+|[a-z]+[A-Z]\w*|[A-Z]{3,}\w*)\b")


class Need(Enum):
    """How much a prompt needs what was said before."""

    NONE = 0
    PERHAPS = 1
    SURE = 2


class Breadth(Enum):
    """How much of the conversation an answer to a prompt draws on."""

    POINT = 0
    """A fact or a few."""
    WHOLE = 1
    """A summary, or a comparison."""
    ORDER = 2
    """An order of events, or all mentions of something: mostly what the user said."""


@dataclass(frozen=True, slots=True)
class Language:
    """How a language asks."""

    polite: re.Pattern[str]
    asks: re.Pattern[str]
    orders: re.Pattern[str] | None
    tells: re.Pattern[str]
    memory: re.Pattern[str]
    you: re.Pattern[str]
    answers: re.Pattern[str]
    advice: re.Pattern[str]
    order: re.Pattern[str]
    whole: re.Pattern[str]
    secrets: re.Pattern[str]
    small: frozenset[str]
    small_in_runs: re.Pattern[str] | None
    """Of a language without spaces."""

    def telling_words(self, text: str) -> list[str]:
        """The words that say what a text is about."""
        words = [match[0].lower().replace(APOSTROPHE, "'") for match in _WORD.finditer(text)]
        if self.small_in_runs:
            # Two characters are about a word.
            runs = (run for word in words for run in self.small_in_runs.split(word))
            return [run[start : start + 2] for run in runs for start in range(0, len(run), 2)]
        return [word for word in words if word not in self.small and len(word) > 1]


@dataclass(frozen=True, slots=True)
class _Read:
    """A text cut into sentences, those of them that ask, and its language."""

    text: str
    sentences: list[str]
    asking: list[str]
    language: Language


@lru_cache(maxsize=256)
def breadth_of(prompt: str) -> Breadth:
    """By the words of its questions and requests alone."""
    read = _read(prompt)
    for breadth, pattern in ((Breadth.ORDER, read.language.order), (Breadth.WHOLE, read.language.whole)):
        # "Compare both plans" begins with the word, and is no question by its form.
        if any(pattern.search(each) and (each in read.asking or pattern.match(each)) for each in read.sentences):
            return breadth
    return Breadth.POINT


@lru_cache(maxsize=256)
def need_of(prompt: str) -> Need:
    """By its words alone."""
    read = _read(prompt)
    language = read.language
    if not language.telling_words(read.text):
        return Need.NONE
    if language.memory.search(read.text) or asks_for_answers(prompt) or breadth_of(prompt) is not Breadth.POINT:
        return Need.SURE
    asked = [language.polite.sub("", sentence) for sentence in read.asking]
    telling = [len(language.telling_words(question)) for question in asked]
    # A question at the end of a report is mostly about the report; a long paste is there to be asked about.
    is_asking = len(asked) >= LEAST_ASKING * len(read.sentences) or len(prompt) > MAX_CHARS
    if is_asking and any(
        count >= LEAST_TELLING and (not language.you.search(question) or language.advice.search(sentence))
        for sentence, question, count in zip(read.asking, asked, telling, strict=True)
    ):
        return Need.SURE
    return Need.PERHAPS if any(telling) or _IDENTIFIER.search(read.text) else Need.NONE


@lru_cache(maxsize=256)
def asks_for_answers(prompt: str) -> bool:
    """Whether it asks for what the assistant said: "What did you recommend?"."""
    read = _read(prompt)
    return any(read.language.answers.search(each) for each in read.asking)


@lru_cache(maxsize=256)
def asks_for_secret(prompt: str) -> bool:
    """Whether it names a secret: a password, a key, the number of a card."""
    read = _read(prompt)
    return read.language.secrets.search(read.text) is not None or load(ENGLISH).secrets.search(read.text) is not None


def is_question(text: str) -> bool:
    """Whether a text consists of questions alone, with question marks or without."""
    read = _read(text)
    return bool(read.sentences) and len(read.asking) == len(read.sentences)


def has_question_marks(text: str) -> bool:
    """Whether every sentence of a text ends with a question mark. Needs no language, so it is quick."""
    sentences = prompt_sentences(text[-MAX_CHARS:])
    return bool(sentences) and all(sentence.endswith(QUESTION_MARKS) for sentence in sentences)


def prompt_sentences(text: str) -> list[str]:
    """The sentences of a prompt with their marks."""
    return [sentence for each in PROMPT_SENTENCE.findall(text) if (sentence := each.strip())]


@lru_cache(maxsize=8)
def _read(prompt: str) -> _Read:
    text = prompt[-MAX_CHARS:].strip()
    language, sentences = language_of(text), prompt_sentences(text)
    asking = []
    for sentence in sentences:
        plain = language.polite.sub("", sentence)
        if (
            sentence.endswith(QUESTION_MARKS)
            or _OPENS_A_QUESTION in sentence
            or language.tells.search(plain)
            or (language.asks.search(plain) and (language.orders is None or language.orders.search(plain)))
        ):
            asking.append(sentence)
    return _Read(text, sentences, asking, language)


def language_of(text: str) -> Language:
    """The language of a text; English if nothing tells."""
    return load(language_name(text) or ENGLISH)


def language_name(text: str) -> str | None:
    """The language of a text by its letters, or by its most common words; None if nothing tells."""
    script = _script(text)
    if script:
        return script
    counts = _counts(text)
    best = max(SPACED, key=counts.__getitem__)
    return best if counts[best] else None


def likely_languages(text: str) -> tuple[str, ...]:
    """The languages that a text may be in, the likeliest first: a short text may have words of several, or of none."""
    script = _script(text)
    if script:
        return (script, ENGLISH)
    counts = _counts(text)
    most = max(counts.values())
    return tuple(sorted((name for name in SPACED if counts[name] >= most - 1), key=lambda name: -counts[name]))


def _script(text: str) -> str | None:
    return next((name for name, letters in _SCRIPTS if letters.search(text)), None)


def _counts(text: str) -> dict[str, int]:
    words = Counter(match[0].lower().replace(APOSTROPHE, "'") for match in _WORD.finditer(text))
    return {name: sum(words[word] for word in _known(name) & words.keys()) for name in SPACED}


@cache
def _known(name: str) -> frozenset[str]:
    """The words that tell that a text is in this language."""
    return _small(name).union(_sections(name)["asks"])


def _small(name: str) -> frozenset[str]:
    return stop_words("chat", name) | (STOP_WORDS if name == ENGLISH else frozenset())


@cache
def _sections(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    section: list[str] = []
    for line in files("foveate.recall").joinpath("questions", f"{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), [])
        else:
            section += [entry.strip() for entry in line.split(",") if entry.strip()]
    return found


@cache
def load(name: str) -> Language:
    """A language with its patterns, which take a while to compile."""
    found, small = _sections(name), _small(name)
    is_spaced = name not in UNSPACED
    openers = _any(found.get("openers", ()))
    begins = rf"^[\u00bf\u00a1]*(?:(?:{openers}),?\s+){{0,{MAX_OPENERS}}}" if is_spaced else ""
    return Language(
        polite=_pattern(found.get("polite", ()), r"^[\u00bf\u00a1]*(?:(?:{})[\s,]+){{1,2}}"),
        asks=_pattern(found["asks"], rf"{_doubled(begins)}(?:{{}})" + (r"(?!\w)" if is_spaced else "")),
        orders=_pattern(found["orders"], r"\b(?:{})\b") if "orders" in found else None,
        tells=_pattern(found["tells"], r"^[\u00bf\u00a1]*(?:{})(?!\w)" if is_spaced else "(?:{})"),
        memory=_pattern(found["memory"], r"(?<!\w)(?:{})(?!\w)" if is_spaced else "(?:{})"),
        you=_pattern(found["you"], r"(?<!\w)(?:{})(?!\w)" if is_spaced else "(?:{})"),
        answers=_pattern(found["answers"], r"(?<!\w)(?:{})(?!\w)" if is_spaced else "(?:{})"),
        advice=_pattern(found["advice"], r"(?<!\w)(?:{})(?!\w)" if is_spaced else "(?:{})"),
        order=_pattern(found["order"], r"(?<!\w)(?:{})(?!\w)" if is_spaced else "(?:{})"),
        whole=_pattern(found["whole"], r"(?<!\w)(?:{})(?!\w)" if is_spaced else "(?:{})"),
        secrets=_pattern(found.get("secrets", ()), r"(?<!\w)(?:{})(?!\w)" if is_spaced else "(?:{})"),
        small=small,
        small_in_runs=None if is_spaced else re.compile(_any(small)),
    )


def _pattern(entries: Collection[str], form: str) -> re.Pattern[str]:
    return re.compile(form.format(_any(entries)), re.IGNORECASE) if entries else _NOTHING


def _any(entries: Collection[str]) -> str:
    """The longest first, so that none hides a longer one."""
    listed = sorted(entries, key=lambda entry: (-len(entry), entry))
    patterns = (re.escape(entry).replace(r"\ ", r"\s+").replace(*GAP) for entry in listed)
    return "|".join(pattern.replace("'", f"['{APOSTROPHE}]") for pattern in patterns) or "(?!)"


def _doubled(text: str) -> str:
    """With braces that `format` leaves as they are."""
    return text.replace("{", "{{").replace("}", "}}")
