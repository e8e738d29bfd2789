"""Words and phrases inside an English sentence that say nothing: hesitation, asides, announcements, polite detours.

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
"""A smiley of punctuation marks behind a word."""

_BEGIN = r"(?:(?<=\A)|(?<=[.!?…;\ue000-\uf8ff] )|(?<=[.!?…;]\n)|(?<=, and )|(?<=, but )|(?<=, so )|(?<=, )|(?<=\bso ))"
"""Where a clause begins."""
_HEDGES = r"(?:,? (?:maybe|perhaps|possibly|please|kindly|just))"

_ASIDE = (
    r"(?:as you (?:can |may |might |will |probably |surely |certainly |already ){0,2}(?:see|know|imagine|remember|guess"
    r"|recall)|needless to say|for what it's worth|at the end of the day|truth be told|long story short|you know|i mean"
    r"|believe it or not|between you and me|generally speaking|to be (?:perfectly |totally |completely |quite"
    r" |really )?honest(?: with you)?|honestly|frankly|(?:as|like) i (?:think i |already |have |just ){0,2}(?:said"
    r"|mentioned"
    r"|wrote|explained|told you)(?: (?:yesterday|before|earlier|above|already|on the phone|last (?:week|time|month)"
    r"|in my (?:last|first) (?:mail|message|email))){0,2}|as (?:mentioned|said|explained|noted)"
    r"(?: (?:before|above|earlier|already|yesterday)){0,1}|by the way|if i may(?: be so bold)?|if you don't mind)"
)
_FILLER = re.compile(
    rf"(?i)(?<![\w'-])(?:(?:umm?|uhh?|uhm|erm|hmm?)[,.…]{{0,9}}(?:\s|$)"
    r"|(?:let me see|let's see|let me think)[,.…]{1,9}\s"
    rf"|{_ASIDE}, "
    r"|(?:please note|it should be noted|it(?:'s| is) (?:worth (?:noting|mentioning)|important to note)"
    r"|please be (?:aware|advised|informed)) that "
    r"|(?<!not )(?:basically|super|totally|literally) (?=(?-i:[a-z]))"
    r"|(?<=i )honestly (?=[a-z])|(?:honestly|between you and me|to be (?:perfectly |totally |quite )?honest)"
    r" (?=(?:i|we|it|the|my|only)\b))"
)
_INSERTED = re.compile(rf"(?i), {_ASIDE}(?:(, )|(?=[.!?]))")
"""An aside between commas, or behind one at the end."""
_LAUGH = re.compile(r"(?i)(?:,? |(?<=\A))(?:haha(?:ha)?|hehe|hihi|lol)(?=[.,!?]|\Z)|(?<![\w'-])(?:haha|hehe|lol),? ")
_TWICE_WORDS = "so|very|really|please|much|far"
_TWICE = re.compile(rf"(?i)(?<![\w'-])({_TWICE_WORDS}),? \1(?:,? \1)?(?![\w'’-])")
_REALLY_LAST = re.compile(r"(?i), really(?=[.!])")
_YOU_KNOW = re.compile(r"(?i), you know\?")
_REALLY = re.compile(
    r"(?i)(?<![\w'-])((?:i|we|it's|is|are|was|were|an?|do|does|would|'d)) really"
    r"(?= (?:nice|good|great|strange|weird|annoying|need|love|like|hope|appreciate|want|well|bad|hard|easy|helpful"
    r"|happy"
    r"|cool|useful|important)(?!\w))"
)

_ANNOUNCED = re.compile(
    rf"(?i){_BEGIN}(?:(?:i )?(?:just )?(?:wanted|want|would like|'d like|have) to (?:let you know|tell you|mention|say"
    r"|point out|add|admit) that|i must (?:say|admit) that|let me (?:start by |begin by |just |first )?(?:saying"
    r"|say) that"
    r"|what i (?:mean|meant|noticed|wanted to say|want to say|am trying to say|'m trying to say) is(?: that|,)"
    r"|the (?:thing|fact|good news|point) is(?: that|,)|before i forget[:,]"
    r"|long story short,) (?![^.!?]{0,300}\band that\b)"
)
_WONDERED = re.compile(
    rf"(?i){_BEGIN}(?:i|we)(?:'m| am| was| were| are|'re) (?:just |also |only |really )?(?:wondering|curious)"
    rf" (?:if|whether){_HEDGES}{{0,2}} (you|we|i|they|he|she|it|somebody|someone|anybody|anyone|there)"
    rf" (could|can|would|might|may){_HEDGES}{{0,2}}(?= [a-z])"
)
_NICE_IF = re.compile(
    rf"(?i){_BEGIN}(?:(?:it|that)(?: would|'d) be (?:so |really |very |super |absolutely |much |greatly "
    rf"|highly ){{0,2}}"
    r"(?:great|nice|lovely|amazing|wonderful|awesome|fantastic|helpful|good|appreciated|kind of you)"
    r"|(?:i|we)(?: would|'d) (?:(?:be|feel) (?:so |most |really |very |truly |more than ){0,2}(?:grateful|thankful"
    r"|obliged"
    r"|happy"
    r"|glad)"
    r"|(?:really |greatly |highly |very much )?appreciate it))"
    rf" if (?:you|somebody|someone) (?:could|would|can|might){_HEDGES}{{0,2}}(?= [a-z])"
)
_ASKED = re.compile(
    rf"(?i){_BEGIN}(?:i would like to|i'd like to|may i|might i|can i|could i|i want to) ask you to(?= [a-z])"
    r"|(?<![\w'-])would you be so kind as to(?= [a-z])"
)
_COULD_YOU = re.compile(
    rf"(?i)(?<![\w'-])((?:could|can|would|will) (?:you|we|i|somebody|someone)){_HEDGES}{{1,3}}(?= [a-z])"
)

_WORDY = {
    "in order to": "to",
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
    "in the near future": "soon",
    "at your earliest convenience": "soon",
    "each and every": "every",
    "at the moment": "now",
    "a little bit": "a bit",
}
_WORDY_PHRASE = re.compile(rf"(?i)(?<![\w'-])(?:{'|'.join(sorted(_WORDY, key=len, reverse=True))})(?![\w'-])")

_NEEDS_NO_COMMA = ("which", " that", " who", " and", " but", "because", " if", " is", " are", " was", " were", " be")


def _closed(found: re.Match[str]) -> str:
    """What remains of the commas around an aside: none in `which, to be honest, I doubt`."""
    before = found.string[max(found.start() - 8, 0) : found.start()].lower()
    return " " if found[1] and before.endswith(_NEEDS_NO_COMMA) else found[1] or ""


def without_smileys(text: str) -> str:
    """The text without smileys; one that ended a sentence becomes a full stop."""

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
    """The text without what the pattern finds; the word behind gets the capital letter of what went."""
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
    *("like i", "needless to", "it's worth", "the day", "truth be", "long story", "you know", "i mean", "believe it"),
    *("between you", "generally speaking", "honest", "honestly", "frankly", "by the", "i may", "you don't"),
)
_RULES: tuple[Rule, ...] = (
    rule(_YOU_KNOW, ".", "you know"),
    rule(_INSERTED, _closed, *_ASIDES),
    (
        frozenset(
            (
                *_ASIDES,
                *["um", "umm", "uh", "uhh", "uhm", "erm", "hm", "hmm", "basically", "super", "totally", "literally"],
                *pairs("note noted noting mentioning aware advised informed", "that"),
                *("let me", "let's see"),
            )
        ),
        partial(_without, _FILLER),
    ),
    rule(_LAUGH, "", "haha", "hahaha", "hehe", "hihi", "lol"),
    rule(_TWICE, r"\1", *(f"{word} {word}" for word in _TWICE_WORDS.split("|"))),
    rule(_REALLY, r"\1", "really"),
    rule(_REALLY_LAST, "", "really"),
    (
        frozenset(
            (
                *pairs("know you mention say saying out add admit", "that"),
                *("what i", "thing is", "fact is", "news is", "point is", "i forget", "story short"),
            )
        ),
        partial(_without, _ANNOUNCED),
    ),
    rule(_WONDERED, _inverted, *pairs("wondering curious", "if whether")),
    rule(_NICE_IF, _please, *pairs("if", "you somebody someone")),
    rule(_ASKED, _please, "ask you", "so kind"),
    rule(_COULD_YOU, r"\1", "maybe", "perhaps", "possibly", "please", "kindly", "just"),
    rule(
        _WORDY_PHRASE,
        lambda found: as_in(found[0], _WORDY[found[0].lower()]),
        *(" ".join(each.split()[-2:]) for each in _WORDY),
    ),
)


def without_filler(masked: str) -> str:
    """The text without what says nothing; a sentence that lost its beginning has a capital letter again."""
    return apply_rules(_RULES, masked)
