"""Finds the facts of a text, each with a weight: what a rendition of a turn should preserve.

A fact is a key such as `#:30min`, `i:max_tokens` or `-:deploy` ("not deploy"). Before the colon is its kind (`KINDS`),
after it a normal form, so that `Deployed` and `deploys` are one fact.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Literal, NamedTuple

from foveate.compress.lexicon import (
    CONDITIONS,
    DAY_WORDS,
    DECISIONS,
    ERRORS,
    MONTHS,
    NEGATIONS,
    NUMBER_WORDS,
    PERIOD_OPENERS,
    PERIODS,
    QUANTITIES,
    STRICT_CONDITIONS,
    UNIT_KEYS,
    stem,
    word_weight,
)

Facts = dict[str, float]
"""Weights by key."""

MAX_TEXT_CHARS = 400_000
"""Limit of the characters of a text that are read."""
MAX_PIECE_CHARS = 200
"""A longer run without spaces is read in pieces of this length, so that no pattern meets a longer one."""
MAX_RUN_PIECES = 20
"""Limit in pieces for a run without spaces; the rest of a longer one is ignored, since it is not language."""
MAX_KEY_CHARS = 80
MIN_NAME_WEIGHT = 0.45
"""A capitalised word inside a sentence is a name if its weight is above this."""
BLOB_CHARS = 64
"""A longer word is data."""

KINDS: Mapping[str, str] = {
    "i": "identifier",
    "#": "number",
    "@": "date",
    "/": "path",
    "u": "url",
    "q": "quoted",
    "n": "name",
    "e": "error",
    "!": "decision",
    "-": "negation",
    "?": "condition",
    "w": "word",
}
PLAIN_WEIGHT = 0.4
"""Weight of a word that is not known to be rare, or of a fact whose kind this version does not know."""
WEIGHTS: Mapping[str, float] = {
    "i": 2.2,
    "#": 1.8,
    "@": 1.6,
    "/": 2.2,
    "u": 1.6,
    "q": 1.0,
    "n": 1.6,
    "e": 1.6,
    "!": 0.7,
    "-": 0.8,
    "?": 0.5,
    "w": 1.0,
}

CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff\uf900-\ufaff"
_EXTENSIONS = (
    "py|js|ts|tsx|jsx|json|jsonl|ya?ml|toml|md|txt|csv|sql|sh|go|rs|java|rb|c|h|cpp|html|css|log|cfg|ini|db|lock"
    "|png|jpg|pdf|xml|zip|gz|env|diff|patch|ipynb"
)
_UNIT_SYMBOL = r"%|°[CF]?|[a-zA-Zµ€$£]{1,7}(?:/[a-z]{1,2})?"

_TOKEN = re.compile(
    rf"""
      (?P<url>(?:https?|ftp|file|wss?)://[^\s<>"'`)\]}}]+ | www\.[^\s<>"'`)\]}}]+
        | (?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w)
    | (?P<date>\d{{4}}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?)? | \d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}
        | \d{{1,2}}:\d\d(?::\d\d)?(?:[AaPp]\.?[Mm]\b)?)
    | (?P<path>(?:~|\.{{1,2}}|[A-Za-z]:)?(?:[/\\][\w.@+*-]+){{2,}}[/\\]? | (?:~|\.{{1,2}})/[\w.@+-]+
        | (?<![\w@+-])[\w@+-][\w.@+-]*(?:/[\w.@+-]+)*/[\w@+-]*\.\w+ | (?<![\w@+-])[\w@+-]+(?:/[\w.@+-]+){{2,}}
        | \b[\w-]+(?:\.[\w-]+)*\.(?:{_EXTENSIONS})\b)
    | (?P<number>[$€£¥]\d[\d,.]*(?:[kKMBb]\b)? | (?<![\w.])[-+~]?\d+(?:[.,]\d+)*(?:{_UNIT_SYMBOL})?(?![\w-]))
    | (?P<ident>(?<![A-Za-z0-9-])(?=[A-Za-z-]*\d)[A-Za-z0-9]+(?:-[A-Za-z0-9]+)+
        | (?<![\w-])--?[A-Za-z][\w-]*(?:=[\w./-]+)?
        | \w*[^\W_]_\w+ | __\w+ | \$?[A-Za-z]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+(?:\(\))? | \w+\(\) | [a-z]+[A-Z]\w*
        | (?:[A-Z][a-z0-9]+){{2,}}\b | [A-Z][A-Z0-9]+\b | (?=[A-Za-z]*\d)[A-Za-z0-9.]*\w | \#\d+ | @\w+)
    | (?P<cjk>[{CJK}]+)
    | (?P<word>[^\W\d_{CJK}]+(?:['’][^\W\d_]+)*)
    | (?P<stop>[.!?:;。！？]+)
    """,
    re.VERBOSE,
)
_SPAN = re.compile(r"[`\"“«„「](?:(?<=`)([^`\n]{2,60} [^`\n]{1,60})`|(?<!`)([^\"“”«»„「」\n]{2,80})[\"”»“」])")
_ERROR_NAME = re.compile(r"[A-Z]\w*(?:Error|Exception|Warning|Fault)|E[A-Z]{3,}|[A-Z]+_ERR\w*|SIG[A-Z]{3,}")
_NUMBER = re.compile(r"([$€£¥]?)([-+~]?\d[\d.,]*)\s?(.*)", re.DOTALL)
_BULLETS = frozenset({"-", "*", "•", "#", "##", "###", "####", ">", "|", "–"})

Op = Literal["fact", "name?", "negation", "condition", "stop", "number", "period"]


class _Sign(NamedTuple):
    """The fact of one piece of text without its context."""

    op: Op
    key: str = ""
    weight: float = 0.0


def find_facts(text: str) -> Facts:  # noqa: C901, PLR0912 - a call per word takes as long again
    """Find the facts of a text by key."""
    facts: Facts = {}
    negated, condition, at_start = False, "", True
    number = period = ""
    for sign in chain.from_iterable(map(_signs, _chunks(text))):
        op, key, weight = sign
        if op == "fact" and not (number or period or negated or condition or at_start):
            if weight > facts.get(key, 0.0):
                facts[key] = weight
            continue
        if number and op != "stop":
            key, weight = _joined(facts, number, key, weight)
        if period and key[2:] in PERIODS:
            key, weight = f"@:{period} {key[2:]}", WEIGHTS["@"]
        number = key if op == "number" else ""
        period = key[2:] if op == "period" else ""
        if op == "stop":
            negated, condition, at_start = False, condition if key == ":" else "", True
            continue
        if op == "negation":
            negated, at_start = True, False
            continue
        if op == "condition":
            condition, at_start = key or condition, False
            continue
        if op == "name?":
            key, weight = _name_or_word(key, weight, is_name=weight > (1.0 if at_start else MIN_NAME_WEIGHT))
        at_start = False
        if weight <= 0:
            continue
        if weight > facts.get(key, 0.0):
            facts[key] = weight
        if negated:
            facts[f"-:{key[2:]}"] = WEIGHTS["-"]
            negated = False
        if condition:
            facts[f"?:{condition} {key[2:]}"] = WEIGHTS["?"]
            condition = ""
    for match in _SPAN.finditer(text, 0, MAX_TEXT_CHARS):
        facts[f"q:{' '.join((match[1] or match[2]).casefold().split())}"[:MAX_KEY_CHARS]] = WEIGHTS["q"]
    return facts


def _chunks(text: str) -> list[str]:
    chunks = text[:MAX_TEXT_CHARS].replace("\n", " \n ").split(" ")
    is_short = max(map(len, chunks)) <= MAX_PIECE_CHARS
    return chunks if is_short else [piece for chunk in chunks for piece in _pieces(chunk)]


def _pieces(chunk: str) -> list[str]:
    is_data = len(chunk) > MAX_PIECE_CHARS * MAX_RUN_PIECES and chunk.isascii()
    end = MAX_PIECE_CHARS if is_data else len(chunk)
    return [chunk[start : start + MAX_PIECE_CHARS] for start in range(0, end, MAX_PIECE_CHARS)]


@lru_cache(maxsize=50_000)
def _signs(chunk: str) -> tuple[_Sign, ...]:
    if chunk == "\n" or chunk in _BULLETS:
        return (_Sign("stop", "."),)
    signs: list[_Sign] = []
    for match in _TOKEN.finditer(chunk):
        kind, token = match.lastgroup, match.group()
        if kind == "stop":
            signs.append(_Sign("stop", token))
        elif kind == "word":
            signs.append(_word_sign(token))
        elif kind == "cjk":
            signs.extend(_cjk_signs(token))
        elif kind == "number" and (number := number_key(token)):
            signs.append(_Sign("number", f"#:{number}", WEIGHTS["#"] if len(number) > 1 else 1.2))
        elif kind == "ident" and _is_shouted(token):
            signs.append(_word_sign(token.casefold()))
        else:
            signs.append(_Sign("fact", *_typed_fact(kind or "", token)))
    return tuple(signs)


def _is_shouted(token: str) -> bool:
    """Return whether a token is an ordinary word in capitals, which is no identifier."""
    word = token.casefold()
    return token.isalpha() and token.isupper() and (word in CONDITIONS or word in NEGATIONS or word_weight(word) < 1)


def _word_sign(token: str) -> _Sign:
    word = token.casefold().replace("’", "'")
    if word in MONTHS and token[0].isupper():
        return _Sign("fact", f"@:{word[:3]}", 1.2)
    if word in NEGATIONS or word.endswith("n't"):
        return _Sign("negation")
    if word in CONDITIONS:
        return _Sign("condition", word if word in STRICT_CONDITIONS else "")
    if token[0].isupper() and len(word) > 1 and "'" not in word.removesuffix("'s"):
        return _Sign("name?", f"w:{word}", word_weight(word))
    return _Sign("period" if word in PERIOD_OPENERS else "fact", *_word_fact(word))


def _word_fact(word: str) -> tuple[str, float]:
    root = stem(word)
    if word in NUMBER_WORDS:
        return f"#:{NUMBER_WORDS[word]}", 0.9
    if word in DAY_WORDS:
        return f"@:{word}", 1.2
    if word in ERRORS:
        return f"e:{root}", WEIGHTS["e"]
    if word in DECISIONS:
        return f"!:{root}", WEIGHTS["!"]
    if word in QUANTITIES:
        return f"w:{root}", 0.3
    return f"w:{root}", word_weight(word)


def _name_or_word(key: str, weight: float, *, is_name: bool) -> tuple[str, float]:
    word = key[2:]
    return (f"n:{stem(word)}", WEIGHTS["n"]) if is_name else _word_fact(word) if weight > 0 else (key, weight)


def _typed_fact(kind: str, token: str) -> tuple[str, float]:
    token = token.rstrip(".,;:")
    if kind == "ident" and _ERROR_NAME.fullmatch(token):
        return f"e:{token.casefold()}", WEIGHTS["i"]
    if len(token) > BLOB_CHARS and kind == "ident":
        return f"i:{token.casefold()[:MAX_KEY_CHARS]}", 0.3
    prefix = {"url": "u", "path": "/", "date": "@"}.get(kind, "i")
    return f"{prefix}:{token.casefold()[:MAX_KEY_CHARS]}", WEIGHTS[prefix]


def _joined(facts: Facts, number: str, key: str, weight: float) -> tuple[str, float]:
    """Add the unit after a number to its key, so that a bare number is another fact."""
    unit = UNIT_KEYS.get(key[2:])
    if unit is None or not number[-1].isdigit():
        return key, weight
    facts.pop(number, None)
    return f"{number}{unit}", WEIGHTS["#"]


def number_key(token: str) -> str:
    """Normalise a number: `1,500min` as `1500min`, `16th` as `16`; empty for what only begins like one, such as
    `2FBBAH`."""
    match = _NUMBER.match(token)
    if match is None:
        return ""
    currency, value, unit = match.groups()
    value = value.strip("+~").rstrip(".,")
    if re.fullmatch(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?", value):
        value = value.replace(",", "")
    unit = unit.casefold()
    known = "" if unit in ("", "st", "nd", "rd", "th", "b", "%") else UNIT_KEYS.get(unit, UNIT_KEYS.get(stem(unit)))
    if known is None:
        return ""
    return f"{value}{currency or (unit if unit in ('%', 'b') else known)}"


def _cjk_signs(run: str) -> Iterator[_Sign]:
    """Yield pairs of neighbouring characters, which replace words in scripts without spaces."""
    if len(run) == 1:
        yield _Sign("fact", f"w:{run}", 0.3)
    for start in range(len(run) - 1):
        yield _Sign("fact", f"w:{run[start : start + 2]}", 0.5)


def names_error(text: str) -> bool:
    """Return whether a text has the name of an error, such as `KeyError` or `ENOENT`."""
    return _ERROR_NAME.search(text) is not None


def word_kinds(word: str) -> Iterator[tuple[str, float]]:
    """Yield the kinds of facts (`KINDS`) of one word without its context, and the weight of each."""
    for op, key, weight in _signs(word[:MAX_PIECE_CHARS]):
        if op == "negation":
            yield "-", weight
        elif op == "name?":
            yield ("n" if weight > MIN_NAME_WEIGHT else "w"), weight
        elif op not in ("stop", "condition"):
            yield key[:1], weight


@lru_cache(maxsize=50_000)
def base_weight(key: str) -> float:
    """Return the weight of a fact from its key alone, approximately that of `find_facts`."""
    return word_weight(key[2:]) or PLAIN_WEIGHT if key[:1] == "w" else WEIGHTS.get(key[:1], PLAIN_WEIGHT)
