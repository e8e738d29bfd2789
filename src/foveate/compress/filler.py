"""Removes filler inside English sentences: hesitation, asides, announcements, polite detours.

A hedge that changes the claim stays (`I think`, `probably`, `about`, `if possible`). The text is masked as in
`foveate.compress.repair`.
"""

# ruff: noqa: RUF001 (typographic quotes are what is looked for)

from __future__ import annotations

import re
from functools import partial

from foveate.compress.repair import Rule, apply_rules, as_in, pairs, rule

__all__ = ["without_filler", "without_smileys"]

_SMILEY = re.compile(r" [:;](?<=([\w.!?,)…]) [:;])-?[)DP](?=(\s{1,9}[A-Z]|\s|\Z))")
"""A smiley of punctuation marks after a word."""

_BEGIN = r"(?:(?<=\A)|(?<=[.!?…;\ue000-\uf8ff] )|(?<=[.!?…;]\n)|(?<=, and )|(?<=, but )|(?<=, so )|(?<=, )|(?<=\bso ))"
"""The beginning of a clause."""
_HEDGES = r"(?:,? (?:maybe|perhaps|possibly|please|kindly))"
_THAT = r"that (?=(?:I|you|he|she|it|we|they|the|there|this|these|my|our|your|both|an?|all|any|if|some)\b)"
"""Begins a statement; in `note that number` it belongs to a noun."""

_ASIDE = (
    r"(?:as you (?:can |may |might |will |probably |surely |certainly |already ){0,2}(?:see|know|imagine|remember|guess"
    r"|recall)|needless to say|for what it's worth|truth be told|long story short|you know|i mean"
    r"|believe it or not|to be (?:perfectly |totally |completely |quite |really )?honest(?: with you)?|honestly|frankly"
    r"|(?:as|like) i (?:already |have |just ){0,2}(?:said|mentioned|explained)(?: before| earlier| above)?"
    r"|as (?:mentioned|said|explained|noted)(?: before| above| earlier)?|by the way)"
)
_FILLER = re.compile(
    r"(?i)(?:(?<=\A)|(?<=[.!?…,] ))(?:umm?|uhh?|uhm|erm|hmm?)(?! oh\b)[,.…]{0,9}(?:\s|$)"
    rf"|{_BEGIN}(?:(?:let me see|let's see|let me think)[,.…]{{1,9}}\s|{_ASIDE}, "
    rf"|(?:please note|it should be noted|it(?:'s| is) (?:worth (?:noting|mentioning)|important to note)) {_THAT}"
    r"|(?:honestly|to be (?:perfectly |totally |quite )?honest) (?=(?:i|we)\b))"
    r"|(?:(?<=\bi )|(?<=\band (?=honestly i\b)))honestly (?=[a-z])"
)
_INSERTED = re.compile(rf"(?i), (?:{_ASIDE}(?:(, )|(?=[.!]))|really(?=[.!]))")
"""An aside between commas, or after one at the end."""
_LAUGH = re.compile(r"(?i), (?:haha(?:ha)?|hehe|lol)(?=[.,!?]|\Z)|(?:(?<=\A)|(?<=[.!?] ))(?:haha(?:ha)?|hehe)[,!.]? ")
_TWICE_WORDS = "so|very|really|please|much|far"
_TWICE = re.compile(rf"(?i)(?<![\w'-])({_TWICE_WORDS}),? \1(?:,? \1)?(?![\w'’-])")
_REALLY = re.compile(
    r"(?i)(?:(?<=\A)|(?<=[.!?,] ))((?:but |and |so )?(?:(?:i|we)(?= \w+ (?:need|love|like|hope|appreciate|want|agree"
    r"|understand)\b)|it's|it was|i'm|we're|that's)) (?:really|super|totally)"
    r"(?= (?!(?:not?|never|an?|the|my|your|only|just|about)\b)[a-z]{2})"
)
"""Only at the beginning of a clause, where no negation precedes it."""

_ANNOUNCED = re.compile(
    rf"(?i){_BEGIN}(?:(?:(?:i )?(?:just )?(?:wanted|want|would like|'d like|have) to (?:let you know|tell you|mention"
    rf"|say"
    r"|point out|add|admit)|i must (?:say|admit)|let me (?:start by |begin by |just |first )?(?:saying|say)"
    rf"|what i (?:mean|meant|noticed|wanted to say|want to say|am trying to say|'m trying to say) is) {_THAT}"
    r"|before i forget[:,] )(?![^.!?]{0,300}\band that\b)"
)
_WONDERED = re.compile(
    rf"(?i){_BEGIN}(?:i|we)(?:'m| am| was| were| are|'re) (?:just |also |only |really )?(?:wondering|curious)"
    rf" (?:if|whether){_HEDGES}{{0,2}} (you|somebody|someone|anybody|anyone)"
    rf" (could|can|would){_HEDGES}{{0,2}}(?= (?!be\b|have\b|not\b)[a-z])"
)
_NICE_IF = re.compile(
    rf"(?i){_BEGIN}(?:(?:it|that)(?: would|'d) be (?:so |really |very |super |absolutely |much |greatly "
    rf"|highly ){{0,2}}"
    r"(?:great|nice|lovely|amazing|wonderful|awesome|fantastic|helpful|good|appreciated|kind of you)"
    r"|(?:i|we)(?: would|'d) (?:be (?:so |most |really |very |truly |super |more than ){0,2}(?:grateful|thankful"
    r"|obliged|happy"
    r"|glad)|(?:really |greatly |highly |very much )?appreciate it))"
    rf" if you (?:could|would|can){_HEDGES}{{0,2}}(?= (?!be\b|have\b|not\b)[a-z])"
)
_ASKED = re.compile(
    rf"(?i){_BEGIN}(?:i would like to|i'd like to|may i|might i|can i|could i|i want to) ask you to(?= (?!not\b)[a-z])"
    r"|(?<![\w'-])would you be so kind as to(?= (?!not\b)[a-z])"
)
_COULD_YOU = re.compile(
    rf"(?i)(?<![\w'-])((?:could|can|would|will) (?:you|somebody|someone)){_HEDGES}{{1,3}}(?= (?!be\b|have\b"
    rf"|not\b)[a-z])"
)

_WORDY = {
    "due to the fact that": "because",
    "in the event that": "if",
    "at this point in time": "now",
    "a large number of": "many",
    "for the purpose of": "for",
    "despite the fact that": "although",
    "in spite of the fact that": "although",
    "with regard to": "about",
    "with regards to": "about",
    "until such time as": "until",
    "at your earliest convenience": "soon",
    "each and every": "every",
    "at the moment": "now",
    "a little bit": "a bit",
}
_WORDY_PHRASE = re.compile(rf"(?i)(?<![\w'-])(?:{'|'.join(sorted(_WORDY, key=len, reverse=True))})(?![\w'-]| of\b)")

_NEEDS_NO_COMMA = ("which", " that", " who", " and", " but", "because", " if", " is", " are", " was", " were", " be")


def _closed(found: re.Match[str]) -> str:
    """Return what remains of the commas around an aside: none in `which, to be honest, I doubt`."""
    before = found.string[max(found.start() - 8, 0) : found.start()].lower()
    return " " if found[1] and before.endswith(_NEEDS_NO_COMMA) else found[1] or ""


def without_smileys(text: str) -> str:
    """Remove smileys; one that ended a sentence becomes a full stop."""

    def ended(found: re.Match[str]) -> str:
        return "." if found[1] not in ".!?,…" and found[2] not in (" ", "\n", "\t") else ""

    return _SMILEY.sub(ended, text) if ":" in text or ";" in text else text


def _is_start(found: re.Match[str]) -> bool:
    before = found.string[max(found.start() - 2, 0) : found.start()].rstrip()[-1:]
    return before in ("", *".!?…") or (before > "\ue000" and found[0][:1].isupper() and found[0][1:2] not in " '")


def _please(found: re.Match[str]) -> str:
    return "Please" if _is_start(found) else "please"


def _inverted(found: re.Match[str]) -> str:
    verb = found[2].lower()
    return f"{verb.capitalize() if _is_start(found) else verb} {found[1]}"


def _without(pattern: re.Pattern[str], masked: str) -> str:
    """Remove the matches of a pattern; the next word gets the capital letter of the removed text."""
    kept: list[str] = []
    end, is_capital = 0, False
    for found in pattern.finditer(masked):
        between = masked[end : found.start()]
        kept.append(between[:1].upper() + between[1:] if is_capital else between)
        end, is_capital = found.end(), _is_start(found) and not found[0][:1].islower()
    rest = masked[end:]
    return "".join(kept) + (rest[:1].upper() + rest[1:] if is_capital else rest)


_ASIDES = (
    *pairs("as", "you i mentioned said explained noted"),
    *("like i", "needless to", "it's worth", "truth be", "long story", "you know", "i mean", "believe it"),
    *("honest", "honestly", "frankly", "by the"),
)
_RULES: tuple[Rule, ...] = (
    rule(_INSERTED, _closed, "really", *_ASIDES),
    (
        frozenset(
            (
                *_ASIDES,
                *["um", "umm", "uh", "uhh", "uhm", "erm", "hm", "hmm"],
                *pairs("note noted noting mentioning", "that"),
                *("let me", "let's see"),
            )
        ),
        partial(_without, _FILLER),
    ),
    rule(_LAUGH, "", "haha", "hahaha", "hehe", "lol"),
    rule(_TWICE, r"\1", *(f"{word} {word}" for word in _TWICE_WORDS.split("|"))),
    rule(_REALLY, r"\1", "really", "super", "totally"),
    (
        frozenset(
            (
                *pairs("know you mention say saying out add admit", "that"),
                *("what i", "i forget"),
            )
        ),
        partial(_without, _ANNOUNCED),
    ),
    rule(_WONDERED, _inverted, *pairs("wondering curious", "if whether")),
    rule(_NICE_IF, _please, "if you"),
    rule(_ASKED, _please, "ask you", "so kind"),
    rule(_COULD_YOU, r"\1", "maybe", "perhaps", "possibly", "please", "kindly"),
    rule(
        _WORDY_PHRASE,
        lambda found: as_in(found[0], _WORDY[found[0].lower()]),
        *(" ".join(each.split()[-2:]) for each in _WORDY),
    ),
)


def without_filler(masked: str) -> str:
    """Remove filler; a sentence that lost its beginning gets a capital letter again."""
    return apply_rules(_RULES, masked)
