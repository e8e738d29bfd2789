"""A small language of phrases, and the language files written in it: how people state things, as data. Pure.

A phrase is a row of words that a clause has in this order, wherever it is; `^` binds it to the beginning.

    a/b_c      one of several: `a`, or `b c`       word?    optional
    *          at the end of a word: any ending    _        any word or mark
    …          up to twelve others                 <class>  a class of words, such as <number>, <name>, <order>

Languages without spaces have their phrases anywhere in a clause, character by character.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from foveate.recall.questions import UNSPACED

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "ru", "zh", "ja")
KINDS: Final = ("rule", "preference", "convention", "decision", "fact")
GAP = 12
WORD_LISTS = (
    "times", "deictic", "states", "transient", "roles", "past", "pronouns", "articles", "noplural", "since", "shared"
)  # fmt: skip

_RUN = r"[\w@#$€£`/~+<>=&%*.-]*[\w`/]"
_NO_SUFFIX = r"(?!(?:s|re|ve|ll|d|m)\b)"
_TOKEN = re.compile(
    r"https?://\S*[\w/]|(?:[jldncsmt]|qu)'(?=\w)|'(?:s|re|ve|ll|d|m)\b"
    rf"|{_RUN}(?:n't(?!\w))?(?:[.:'@+-]{_NO_SUFFIX}[\w`/](?:[\w@#$€£`/~+<>=&%*.-]*[\w`/])?)*[%+#€$£]*|[,;:()–—-]",
    re.IGNORECASE,
)
_WORD = r"[^\s,;:()–—]+"
_MARKS = "[,;:–—-] "
_CLASSES = {
    "number": r"\S*\d\S*",
    "code": r"(?:https?://\S+|\S*[`@_/]\S*|\w[\w-]*\.[a-z]\S*)",
    "ing": r"\w{2,}ing",
    "possessive": r"(?-i:[A-ZÀ-Þ])[\w-]+ 's",
    "word": _WORD,
}


def tokens_of(text: str, spelling: Mapping[str, str]) -> str:
    """Return the words and marks of a clause, separated by single spaces, in the usual spelling."""
    plain = text.replace("\u2019", "'").replace("\u2018", "'")
    found: list[str] = []
    for token in _TOKEN.findall(plain):
        usual = spelling.get(token.lower())
        found += _TOKEN.findall(usual) if usual else [token]
    return "".join(f"{token} " for token in found)


@dataclass(frozen=True)
class StatementLanguage:
    """How one language states things."""

    name: str
    is_spaced: bool
    spelling: Mapping[str, str]
    openers: re.Pattern[str]
    reminders: re.Pattern[str]
    kinds: Mapping[str, re.Pattern[str]]
    correction: re.Pattern[str]
    fiction: re.Pattern[str]
    vetoes: re.Pattern[str]
    hearsay: re.Pattern[str]
    own: re.Pattern[str]
    """The person repeats what they said themselves."""
    continued: re.Pattern[str]
    """The beginning of a sentence about what the one before names."""
    changed: re.Pattern[str]
    """Words that announce that something is different from now on."""
    value: re.Pattern[str]
    """A number, time or path."""
    lead_words: tuple[str, ...]
    """Words that introduce a statement or say that something has changed, and do not name its subject."""
    old: re.Pattern[str]
    """What stands before a value that is outdated."""
    slots: Mapping[str, re.Pattern[str]]
    """Facts that a person has one of, by name."""
    times: frozenset[str]
    roles: frozenset[str]
    """Words for people: `sister`, `boss`."""
    negations: frozenset[str]
    orders: frozenset[str]
    """Verbs that begin an instruction."""

    def read(self, text: str) -> str:
        """Return a clause in the form that the patterns match."""
        return tokens_of(text, self.spelling) if self.is_spaced else text


@cache
def load(name: str) -> StatementLanguage:
    """Read a language and compile its phrases."""
    sections = _sections(name)
    listed = {key: _entries(lines) for key, lines in sections.items()}
    is_spaced = name not in UNSPACED
    compiler = _Compiler(sections, is_spaced=is_spaced)
    openers = compiler.any(listed.get("openers", ()))
    return StatementLanguage(
        name=name,
        is_spaced=is_spaced,
        spelling=dict(_pair(entry) for entry in listed.get("spelling", ())),
        openers=re.compile(rf"\A(?:(?:{openers}|{_MARKS}))*", re.IGNORECASE),
        reminders=re.compile(rf"\A(?:{compiler.any(listed.get('reminders', ()))})(?:{_MARKS})*", re.IGNORECASE),
        kinds={kind: compiler.phrases(sections.get(kind, ())) for kind in KINDS},
        correction=compiler.phrases(sections.get("correction", ())),
        fiction=compiler.phrases(sections.get("fiction", ())),
        vetoes=compiler.phrases(sections.get("vetoes", ())),
        hearsay=compiler.phrases(sections.get("hearsay", ())),
        own=compiler.phrases(sections.get("self", ())),
        continued=compiler.phrases(sections.get("continued", ())),
        changed=compiler.phrases(listed.get("now", ())),
        value=compiler.phrases(["^ _ … <number>/<time>/<code>"]),
        lead_words=tuple(entry for key in ("openers", "reminders", "now") for entry in listed.get(key, ())),
        old=compiler.phrases(listed.get("old", ())),
        slots=compiler.slots(sections.get("slots", ())),
        times=frozenset(_words(sections.get("times", ()))),
        roles=frozenset(_words(sections.get("roles", ()))),
        negations=frozenset(_words(sections.get("negations", ()))),
        orders=compiler.orders,
    )


@cache
def order_verbs() -> frozenset[str]:
    """Return the verbs that begin an instruction, of all languages."""
    return frozenset().union(*(_words(_sections(name).get("verbs", ())) for name in LANGUAGES))


@cache
def _sections(name: str) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    section: list[str] = []
    for line in files(__package__).joinpath(f"{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), [])
        elif line.strip():
            section.append(line.strip())
    return found


def _entries(lines: Iterable[str]) -> list[str]:
    return [entry.strip() for line in lines for entry in line.split(",") if entry.strip()]


def _pair(entry: str) -> tuple[str, str]:
    sloppy, _, usual = entry.partition(" = ")
    return sloppy, usual


def _words(lines: Iterable[str]) -> list[str]:
    return [word for line in lines for word in line.split()]


class _Compiler:
    """Compiles the phrases of a language."""

    def __init__(self, sections: Mapping[str, Sequence[str]], *, is_spaced: bool) -> None:
        self._is_spaced = is_spaced
        lists = {key: _words(sections.get(key, ())) for key in WORD_LISTS}
        self.orders = frozenset([*_words(sections.get("verbs", ())), *_words(sections.get("orders", ()))])
        times = _alternatives(lists["times"])
        no_names = [*lists["times"], *lists["pronouns"], *lists["deictic"], *lists["articles"], "i"]
        self._classes = {
            **_CLASSES,
            "time": times,
            "role": _alternatives(lists["roles"]),
            "name": rf"(?!{_alternatives(no_names)} )(?-i:[A-ZÀ-Þ])[\w&-]*",
            "order": _alternatives(self.orders),
            "free": rf"(?!{_alternatives([*lists['deictic'], *lists['pronouns'], *lists['articles']])} ){_WORD}",
            "plural": rf"(?!{_alternatives(lists['noplural'])} )\w[\w-]+(?:s|ing)",
            "present": rf"(?!(?:{_alternatives(lists['past'])}|\w+ed) ){_WORD}",
            "stable": rf"(?!{_alternatives([*lists['transient'], *lists['deictic']])} ){_WORD}",
            "stative": rf"(?!{_alternatives(lists['states'])} ){_WORD}",
        }
        self._classes["local"] = rf"(?!{_alternatives(lists['shared'])} ){_WORD}"
        self._classes["passing"] = rf"(?!{_alternatives(lists['since'])} )\S+"
        outside = [*lists["transient"], *lists["deictic"], *lists["pronouns"], *lists["articles"]]
        self._classes["fixed"] = rf"(?!{_alternatives(outside)} ){_WORD}"
        self._classes["value"] = "(?:{number}|{time}|{code}|{name})".format(**self._classes)

    def any(self, entries: Iterable[str]) -> str:
        """Return an alternation of plain entries, the longest first."""
        listed = sorted(set(entries), key=lambda entry: (-len(entry), entry))
        ends = " " if self._is_spaced else "[ ,，、：:]*"
        return "|".join(re.escape(self._plain(entry)) + ends for entry in listed) or "(?!)"

    def phrases(self, lines: Iterable[str]) -> re.Pattern[str]:
        """Compile phrases into one pattern."""
        found = [self._phrase(line) if self._is_spaced else _unspaced(line) for line in lines]
        return re.compile("|".join(found) or "(?!)", re.IGNORECASE)

    def slots(self, lines: Iterable[str]) -> dict[str, re.Pattern[str]]:
        """Compile lines such as `home: ^ i live in`."""
        named: dict[str, list[str]] = {}
        for line in lines:
            name, _, phrase = line.partition(": ")
            named.setdefault(name, []).append(phrase)
        return {name: self.phrases(phrases) for name, phrases in named.items()}

    def _phrase(self, line: str) -> str:
        is_first = line.startswith("^")
        parts = line.removeprefix("^").split()
        return (r"\A" if is_first else r"(?:\A|(?<= ))") + "".join(map(self._part, parts))

    def _part(self, part: str) -> str:
        if part == "…":
            return rf"(?:\S+ ){{0,{GAP}}}?"
        if part in ("$", "?$"):
            return r"\Z"
        is_last, part = part.endswith("$"), part.removesuffix("$")
        is_optional, part = len(part) > 1 and part.endswith("?"), part.removesuffix("?")
        joined = "|".join(self._word(word) for word in part.split("/") if word)
        return f"(?:(?:{joined}) )" + ("?" if is_optional else "") + (r"\Z" if is_last else "")

    def _word(self, word: str) -> str:
        if word == "_":
            return r"[^\s,;]+"
        if word.startswith("<"):
            return self._classes[word.strip("<>")]
        plain = re.escape(self._plain(word.replace("_", " ")))
        return plain.replace(r"\*", r"[\w'-]*")

    def _plain(self, text: str) -> str:
        is_whole = not self._is_spaced or "*" in text or text.endswith("'")  # `j'` is a word only before another
        return text if is_whole else " ".join(_TOKEN.findall(text))


def _alternatives(words: Iterable[str]) -> str:
    listed = sorted({" ".join(_TOKEN.findall(word)) or word for word in words}, key=lambda word: (-len(word), word))
    return f"(?:{'|'.join(map(re.escape, listed))})" if listed else "(?!)"


def _unspaced(line: str) -> str:
    begins = r"\A" if line.startswith("^") else ""
    return begins + re.escape(line.removeprefix("^").strip()).replace("…", ".{0,40}?")
