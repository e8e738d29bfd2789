"""Characters that a reader takes for a letter or a sign of a tag, and characters that nobody sees. Pure.

What is invisible, and which letters are styled or accented forms of another, follows from the properties of a character
in Python's Unicode data. The look-alikes in other alphabets are those of Unicode's `confusables.txt`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain
from typing import NamedTuple

OPENERS = "<\u02c2\u1438\u16b2\u2039\u27e8\u2329\u276e\u3008\ufe64\uff1c\U0001d236"
"""Characters that look like `<`."""
_SLASHES = "/\u1735\u2041\u2044\u2215\u2571\u27cb\u29f8\u2cc6\u2f03\u3033\u30ce\u31d3\u4e3f\uff0f\U0001d23a"
SOFT_HYPHEN = "\xad"
"""Invisible in the middle of a line and a hyphen at its end."""
_HYPHENS = f"-{SOFT_HYPHEN}\u02d7\u2010\u2011\u2043\u2212\u2796\u2cba"
_CONFUSABLE = {
    "a": "\u0251\u03b1\u0430\u13aa\u15c5\u237a\ua4ee\U000102a0\U00016f40",
    "b": "\u0185\u03b2\u0432\u044c\u13cf\u13f4\u1472\u15af\u15f7\ua4d0\ua7b5\U00010282\U000102a1\U00010301",
    "c": "\u0441\u13df\u1d04\u2ca5\ua4da\U000102a2\U00010302\U0001043d\U0001051c\U000118e9\U000118f2\U0001f74c",
    "d": "\u0501\u13a0\u13e7\u146f\u15de\u15ea\ua4d2\ua4d3",
    "e": "\u03b5\u0435\u04bd\u13ac\u212e\u22ff\u2d39\ua4f0\uab32\U00010286\U000118c6\U000118ce",
    "g": "\u018d\u0261\u050d\u0581\u13c0\u13f3\u1d83\ua4d6",
    "i": "\u0131\u01c0\u0269\u026a\u03b9\u0456\u04cf\u06f1\u13a5\u16c1\u2223\u2373\u23fd\u2c93\u2d4f\ua4f2\ua647"
    "\U0001028a\U00010309\U00010320\U000118c3\U00016f28",
    "k": "\u03ba\u043a\u13e6\u16d5\u2c95\ua4d7\U00010518",
    "l": "iI1|\u01c0\u0269\u03b9\u0456\u04cf\u06f1\u13de\u14aa\u16c1\u2223\u23fd\u2c93\u2cd1\u2d4f\ua4e1\ua4f2"
    "\U0001028a\U00010309\U00010320\U00010443\U00010526\U000118c3\U000118d2\U00016f16\U00016f28\U0001d22a",
    "m": "\u03bc\u03fb\u043c\u13b7\u15f0\u16d6\u2c99\ua4df\U000102b0\U00010311",
    "n": "\u03b7\u03bd\u0578\u057c\u2c9b\ua4e0\U00010513",
    "o": "0\u03bf\u03c3\u043e\u0585\u06f5\u0966\u09e6\u0a66\u0ae6\u0b20\u0b66\u0be6\u0c02\u0c66\u0c82\u0ce6\u0d02"
    "\u0d20\u0d66\u0d82\u0e50\u0ed0\u101d\u1040\u10ff\u12d0\u1d0f\u1d11\u2c9f\u2d54\u3007\ua4f3\uab3d\U00010292"
    "\U000102ab\U0001042c\U000104ea\U00010516\U000114d0\U000118c8\U000118d5\U000118d7\U000118e0",
    "p": "\u03c1\u0440\u13e2\u146d\u2374\u2ca3\ua4d1\U00010295",
    "r": "\u0433\u13a1\u13b1\u13d2\u1587\u1d26\u2c85\ua4e3\uab47\uab48\U000104dc\U00016f35\U0001d216",
    "s": "\u01bd\u0282\u0455\u057f\u13d5\u13da\ua4e2\U00010296\U00010448\U000118c1\U00016f3a",
    "t": "\u03c4\u0442\u13a2\u22a4\u27d9\u2ca7\ua4d4\U00010297\U000102b1\U00010315\U000118dc\U00016f0a\U0001f768",
    "x": "\u00d7\u03c7\u0445\u1541\u157d\u166e\u16b7\u2573\u292b\u292c\u2a2f\u2cad\u2d5d\ua4eb\ua7b3\U00010290"
    "\U000102b4\U00010317\U00010322\U00010527\U000118ec",
    "y": "\u0263\u03b3\u03c5\u0443\u04af\u10e7\u13a9\u13bd\u1d8c\u1eff\u2ca9\ua4ec\uab5a\U000102b2\U000118c4"
    "\U000118dc\U00016f43",
}
"""Letters and signs of other alphabets, folded, by the letter that they look like (`confusables.txt`, Unicode 15)."""

_UNSEEN_CATEGORIES = frozenset(("Cc", "Cf", "Mn", "Me"))
"""Control and format characters, and marks that sit on another character or change it."""
_FILLERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and a symbol without a shape: those of Hangul, and the empty cell of Braille."""
_RESERVED = (range(0x2065, 0x2066), range(0xFFF0, 0xFFF9), range(0xE0000, 0xE1000))
"""Unicode ignores these by default even where no character is assigned yet."""
_SCANNED = (range(0x3400), range(0xA000, 0xAC00), range(0xF900, 0x18B00), range(0x1B000, 0x20000), *_RESERVED)
"""Where letters, marks and format characters are; the rest is ideographs, syllables and private use."""
_LATIN = (
    range(0x80, 0x2B0),
    range(0x1D00, 0x1F00),
    range(0x2C60, 0x2C80),
    range(0xA720, 0xAB70),
    range(0x1F100, 0x1F200),
)
"""Where letters have a name with that of the plain one, but are not made of it."""
_LATIN_NAME = re.compile(r"\b(?:LATIN|INDICATOR)\b.*\bLETTER (?:SMALL CAPITAL |SMALL )?([A-Z])(?: WITH .*)?$")


class Lookalikes(NamedTuple):
    """The insides of character classes."""

    unseen: str
    """What nobody sees, without the soft hyphen."""
    hyphens: str
    slashes: str
    letters: Mapping[str, str]
    """By small letter: the letter in every case and style, and its look-alikes."""


@cache
def lookalikes(*, is_ascii: bool) -> Lookalikes:
    """Collect the look-alikes; for a text that is ASCII only those in ASCII, since all others take 50 ms."""
    scanned = (range(0x80),) if is_ascii else _SCANNED
    plain = {sign: small for small, signs in _CONFUSABLE.items() for sign in signs}
    alike: dict[str, set[int]] = {small: set() for small in _CONFUSABLE}
    dashes: set[int] = set()
    invisible: set[int] = set()
    for code in chain(*scanned):
        sign = chr(code)
        category = unicodedata.category(sign)
        if category == "Pd" or sign in _HYPHENS:
            dashes.add(code)
        elif category in _UNSEEN_CATEGORIES or sign in _FILLERS or _is_reserved(code, category):
            invisible.add(code)
        elif category not in ("Cn", "Zs"):
            base = _base(sign)
            for small in {base, plain.get(base, ""), plain.get(sign, "")} & alike.keys():
                alike[small].add(code)
    letters = {small: _ranges(codes) for small, codes in alike.items()}
    slashes = _ranges(ord(sign) for sign in _SLASHES if sign.isascii() or not is_ascii)
    return Lookalikes(_ranges(invisible), _ranges(dashes), slashes, letters)


def _is_reserved(code: int, category: str) -> bool:
    return category == "Cn" and any(code in reserved for reserved in _RESERVED)


def _base(sign: str) -> str:
    """Return the small letter that a sign is a styled, accented or boxed form of; else the sign, folded."""
    folded = unicodedata.normalize("NFKD", sign).casefold()
    if len(folded) > 1:
        folded = "".join(one for one in folded if unicodedata.category(one) not in _UNSEEN_CATEGORIES)
    if len(folded) == 1 and folded.isascii():
        return folded
    is_latin = any(ord(sign) in block for block in _LATIN)
    named = _LATIN_NAME.search(unicodedata.name(sign, "")) if is_latin else None
    return named[1].lower() if named else folded


def _ranges(codes: Iterable[int]) -> str:
    """Write code points as the inside of a character class."""
    runs: list[list[int]] = []
    for code in sorted(codes):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(re.escape(chr(low)) + (f"-{re.escape(chr(high))}" if high > low else "") for low, high in runs)
