"""Checks for faults that only models make: loops, structure, mixed-up speakers, another language.

Each check returns a reason to reject, or an empty text.
"""

# ruff: noqa: RUF001 (letters that look like others, and letters of many languages)

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from foveate.compress.clauses import sentences
from foveate.compress.facts import Facts, find_facts
from foveate.compress.guard import CLAIMS, GuardSource
from foveate.compress.reader import read_turn
from foveate.text import MARK_WORDS, part_text, turn_text
from foveate.turn import Attachment, Message, Text
from foveate.words import stop_words

FAINT = 1e-6
"""The weight of facts that only the full text has: an answer may name them, but need not."""
GROUNDED_SHARE = 0.5
"""Minimum share of a clause's facts in its source; below it, the clause is invented, or somebody else's."""
MIN_CLAUSE_WEIGHT = 3.0
"""A clause whose facts weigh less is too short to be judged."""
ROOT_CHARS = 5
"""Words with this many first letters in common are forms of one word."""
LOOP_TIMES = 4
"""Repetitions of a few words in a row that are a loop, unless the source has it."""
MAX_LOOP_WORDS = 16
SAID_OFTEN, SAID_OFTEN_WORDS = 3, 5
"""Repetitions and words of a sentence that is a loop; the same short note on a tool may be repeated."""
MAX_CLAUSES = 500

_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")
_LOOKALIKES = str.maketrans("ТΤꓔтаеорсѕ‹〈《«", "TTTtaeopcs<<<<")
"""Cyrillic, Greek and Lisu letters, and other angle brackets."""
_STRUCTURE = (
    (re.compile(r"<[\s\\]*/?[\s\\]*(?:T-\s*\d|P-\s*\d|board\b|memory\b)", re.IGNORECASE), "a tag"),
    (re.compile(r"<[\s\\]*/?[\s\\]*(?:source|known|refused)-", re.IGNORECASE), "an envelope"),
    (re.compile(rf"\[\s*(?:{MARK_WORDS})\b[^\]\n]{{0,80}}\]", re.IGNORECASE), "a mark"),
    (re.compile(r"\bTurn\s+\d+\s*:", re.IGNORECASE), "the head of a turn"),
    (
        re.compile(r"^[\W_]*(?:user|human|assistant|system|developer|ai)[*_`\"']*\s*:", re.IGNORECASE | re.MULTILINE),
        "a speaker's label",
    ),
    (re.compile(r"<\|[^|>\n]{1,40}\|>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>"), "a model's control word"),
)


@dataclass(frozen=True, slots=True)
class SourceWords:
    """A turn, prepared for comparison with a model's text."""

    text: str
    source: GuardSource
    tool_calls: int
    user: Facts

    @property
    def has_user(self) -> bool:
        return bool(self.user)


def read_original(messages: Sequence[Message]) -> SourceWords:
    """Read what was said, by whom. Facts of the full text count as known, though only a reading's have weight."""
    shown = tuple(message for message in messages if message.kind != "display")
    text = turn_text(shown)
    reading = read_turn(shown)
    every = dict.fromkeys(find_facts(text), FAINT)
    clauses = [candidate.text for candidate in reading.candidates]
    user = find_facts("\n".join(part for message in shown for part in _own_words(message)))
    return SourceWords(text, GuardSource({**every, **reading.facts}, clauses), reading.tool_calls, user)


def _own_words(message: Message) -> Iterator[str]:
    """Yield the user's words and attachments, without a program's additions and tool results in the user's name."""
    if message.role != "user" or message.kind != "message":
        return
    yield from (part_text(part) for part in message.parts if isinstance(part, Text | Attachment))


def visible(text: str) -> str:
    """Remove invisible characters, which could hide or reorder others, and normalise line ends."""
    return "\n".join(_INVISIBLE.sub("", text).splitlines())


def wrong_in(text: str, original: SourceWords, nonce: str) -> str:
    """Return the first fault that no answer may have, for any speaker."""
    return (
        structure_in(text, nonce)
        or _controls(text)
        or loop_in(text, original.text)
        or _foreign(foreign_language(text, original.text))
    )


def structure_in(text: str, nonce: str) -> str:
    """Return a fault if a text has anything like the frame around texts, also in lookalike letters."""
    if nonce and nonce.casefold() in text.casefold():
        return "it has the envelope's random word"
    forms = {text, unicodedata.normalize("NFKC", text), unicodedata.normalize("NFKC", text).translate(_LOOKALIKES)}
    for pattern, noun in _STRUCTURE:
        if any(pattern.search(form) for form in forms):
            return f"it has {noun} of its own"
    return ""


def _controls(text: str) -> str:
    found = next((one for one in text if one not in "\n\t" and unicodedata.category(one) in ("Cc", "Cs")), "")
    return f"it has the control character U+{ord(found):04X}" if found else ""


def _foreign(language: str) -> str:
    return f"it is in another language ({language.title()}) than the turn" if language else ""


def loop_in(text: str, source: str) -> str:
    """Return a fault with the words that a text repeats like a stuck model."""
    words = text.split()
    for size in range(1, MAX_LOOP_WORDS + 1):
        run = 0
        for place in range(size, len(words)):
            run = run + 1 if words[place] == words[place - size] else 0
            if run >= size * (LOOP_TIMES - 1) and run >= LOOP_TIMES:
                looped = " ".join(words[place - size + 1 : place + 1])
                if " ".join([looped] * LOOP_TIMES) not in " ".join(source.split()):
                    return f"it repeats itself: {looped[:80]}"
    said: dict[str, int] = {}
    for clause in _clauses(text):
        key = " ".join(clause.split()).rstrip(".;,!? ")
        said[key] = said.get(key, 0) + 1
        is_long = len(key.split()) >= SAID_OFTEN_WORDS and not key.startswith("{")
        if is_long and said[key] >= SAID_OFTEN and source.count(key) < SAID_OFTEN:
            return f"it repeats itself: {key[:80]}"
    run_of = re.search(r"(\S{2,24}?)\1{7,}", text)
    return f"it repeats itself: {run_of[1]}" if run_of and run_of[1] * 4 not in source else ""


def made_up(text: str, known: Facts) -> str:
    """Return the first clause of a text with mostly unknown facts; empty if there is none."""
    forms = _forms(known)
    roots = {form[:ROOT_CHARS] for form in forms if len(form) >= ROOT_CHARS}
    for clause in _clauses(text):
        facts = {key: weight for key, weight in find_facts(clause).items() if key[0] not in "-?!q"}
        total = sum(facts.values())
        if total < MIN_CLAUSE_WEIGHT:
            continue
        kept = sum(weight for key, weight in facts.items() if key[2:] in forms or key[2 : 2 + ROOT_CHARS] in roots)
        if kept < GROUNDED_SHARE * total:
            return clause
    return ""


def said_by_another(text: str, user: Facts) -> str:
    """Return a number, identifier or clause in the user's part that the user's own words do not have; empty if there is
    none."""
    forms = _forms(user)
    claim = next((key[2:] for key in find_facts(text) if key[0] in CLAIMS and key[2:] not in forms), "")
    return claim or made_up(text, user)


def _forms(facts: Iterable[str]) -> set[str]:
    return {key[2:] for key in facts}


def _clauses(text: str) -> list[str]:
    lines = [part for line in text.split("\n") for part in re.split(r";\s", line) if part.strip()]
    return [sentence for line in lines[:MAX_CLAUSES] for sentence in sentences(line)][:MAX_CLAUSES]


MIN_LETTERS = 20
"""With fewer letters the script is not determined."""
CLEAR_SHARE = 0.6
"""Minimum share of the letters in one script that determines a text's script."""
PRESENT_SHARE = 0.03
"""Minimum share of a script, or a language, in a source that contains it."""
MIN_COMMON_WORDS = 4
"""With fewer everyday words the language is not determined."""
MAX_CHARS = 50_000

_TECHNICAL = re.compile(
    r"(?<![A-Za-z0-9_])[A-Za-z0-9_]*[\d/_\\.@-][A-Za-z0-9_/.\\@-]*|\b[a-z]+[A-Z]\w*|\b(?:[A-Z][a-z0-9]+){2,}\b"
)
"""Paths and identifiers, which are in no language."""
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_LANGUAGES = {
    "English": "en",
    "German": "de",
    "French": "fr",
    "Spanish": "es",
    "Italian": "it",
    "Portuguese": "pt",
    "Dutch": "nl",
}
_COMMON = {name: stop_words("language", code) for name, code in _LANGUAGES.items()}


def foreign_language(text: str, source: str) -> str:
    """Return the language or script that a text clearly has and its source clearly does not; else an empty text."""
    return _foreign_script(text, source[:MAX_CHARS]) or _foreign_words(text, source[:MAX_CHARS])


def _foreign_script(text: str, source: str) -> str:
    found = _scripts(text)
    letters = sum(found.values())
    if letters < MIN_LETTERS:
        return ""
    script, times = found.most_common(1)[0]
    own = _scripts(source)
    is_there = own[script] >= PRESENT_SHARE * sum(own.values())
    return "" if is_there or times < CLEAR_SHARE * letters else script


def _foreign_words(text: str, source: str) -> str:
    words = _WORD.findall(text.casefold().replace("’", "'"))
    known = {name: sum(word in common for word in words) for name, common in _COMMON.items()}
    language, times = max(known.items(), key=lambda item: item[1])
    if times < MIN_COMMON_WORDS or times < 2 * max(n for name, n in known.items() if name != language):
        return ""
    of_source = _WORD.findall(source.casefold().replace("’", "'"))
    own = {name: sum(word in common for word in of_source) for name, common in _COMMON.items()}
    enough = max(own.values()) >= MIN_COMMON_WORDS
    return language if enough and own[language] < max(own.values()) / 3 else ""


def _scripts(text: str) -> Counter[str]:
    return Counter(_script(letter) for letter in _TECHNICAL.sub(" ", text) if letter.isalpha())


@lru_cache(maxsize=10_000)
def _script(letter: str) -> str:
    """Return the first word of a letter's name: LATIN, CYRILLIC, CJK; Japanese and Chinese share one."""
    name = unicodedata.name(letter, "OTHER").split()[0].removesuffix("-")
    return "CJK" if name in ("HIRAGANA", "KATAKANA", "CJK", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH") else name
