"""Detects which parts of a clause order or forbid something.

An order is found by its form, since no list of verbs is complete: a part between commas that begins with a content word
and an object directly after it has no subject ("Postpone the launch"), so it is an imperative. Function words are a
closed class, so a word that is neither one of them nor a name or an adverb is assumed to be a verb. Words and phrases
of duty and prohibition are listed for English and, less completely, for German, French and Spanish.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from foveate.compress.cues import bare
from foveate.compress.lexicon import (
    CONDITIONS,
    DAY_WORDS,
    MONTHS,
    NEGATIONS,
    NUMBER_WORDS,
    OPENERS,
    PERIOD_OPENERS,
    QUANTITIES,
    SPEECHLESS,
    as_words,
)
from foveate.words import stop_words

ORDERED = 2.2
"""Factor of a part of a clause that orders or forbids."""

COMMANDS = as_words(
    """add allow answer apply ask assume avoid bake be block book bring build call cancel change check choose clear
    clean close commit compare compute confirm convert copy create cut define delete describe do don't drop ensure
    explain feed file fill find fix follow format generate give ignore implement include install keep label leave
    let limit list log look make mark measure mention merge migrate move never note open order pay pick plan
    post prepare print publish put read record refactor refuse reject remember remove rename repeat replace reply
    report reset restart return reuse review revert rewrite run save schedule send set show sign skip split start
    stick stop store summarise summarize switch take tell test transfer translate treat turn update upgrade use verify
    wait warn work write"""
)
"""Verbs that begin an order whatever follows."""
FINITE_VERBS = as_words(
    """is are was were has had came went fell rose grew took got made gave said showed arrived failed broke began ran
    cost costs will would can could did does"""
)
"""Verbs after a noun that show that it is the subject of a statement."""
_BEFORE_ORDERS = as_words(
    """please also and then but so or just now next first second third finally kindly always if possible bitte dann"""
)
_ORDERS = as_words(
    """must mustn't never don't please avoid always forbidden prohibited banned mandatory obligatory compulsory refrain
    can't cannot ensure required should shouldn't nicht nie niemals muss müssen bitte darf dürfen soll sollen sollte
    sollten keinesfalls nunca siempre jamais veuillez doit doivent devez debe deben debes"""
)
_ORDER_PHRASE = re.compile(
    r"(?<!\w)(?:do not |may (?:not|only) |(?:not|\w+n't) (?:allowed|permitted)|off limits|nobody |no one may"
    r"|(?<!\bi )(?<!\bwe )(?:ha(?:s|ve)|needs?) to |(?:is|are) (?:not )?to be |are (?:not )?to |make sure"
    r"|nothing may|(?:had|\w+'d) better "
    r"|like you to |(?:want|need|expect|prefer) (?:you|it|them|the|this|that|all|every|no) "
    r"|due (?:on|by|at|until|before) |not before|at (?:most |least |the latest)|no more than"
    r"|(?:under|in) no (?:circumstances|case)|on no account"
    r"|auf keinen fall|il faut |merci de |prière de |no debe|hay que |tienen? que )"
)
"""Words and phrases of a part that orders or forbids."""
_PHRASE_WORDS = as_words(
    """not allowed permitted only limits nobody no nothing to sure better want need expect prefer due before most least
    latest keinen faut merci prière que"""
)
"""Words of which each of the phrases has one."""
_OBJECTS = as_words(
    """the a an this that these those my our your his her their its it them him us me all every each any both
    everything everyone nothing den die das dem ein eine einen keine keinen alle nur le la les un une des ce cette tous
    toutes el los las una unos todos todas"""
)
"""Words that begin the object after the verb of an order."""
_NO_VERBS = (
    stop_words("search")
    | SPEECHLESS
    | CONDITIONS
    | NEGATIONS
    | DAY_WORDS
    | MONTHS
    | OPENERS
    | PERIOD_OPENERS
    | QUANTITIES
    | as_words(
        """near past down last even still right behind beside across along despite toward towards through throughout
        inside outside around upon onto off via like plus minus such what how quite later soon today tomorrow
        meanwhile maybe perhaps overall back here there thus hence therefore anyway besides sometimes often together
        hope guess love wish think thank thanks bet see mean suppose believe else worth given taken seen"""
    )
)
"""Words that can precede an object without being the verb of an order: function words, times, and verbs of feeling
whose subject is often omitted."""
_PARTICIPLES = ("ly", "ing", "ed")
_WITHOUT_VERB = as_words("only no ne")
"""Words that begin an order of any form: "Only small files", "No calls after nine", "Ne touchez pas"."""
_PLEAS = as_words("please bitte por favor kindly si s'il te vous plaît")


def urgency(words: Sequence[str], cores: Sequence[str], *, after_plea: bool = False) -> float:
    """Return the factor of a part of a clause; `cores` are its words as `cues.bare` returns them."""
    if after_plea or not _ORDERS.isdisjoint(cores) or (words[-1][-1:] != "?" and _is_imperative(words, cores)):
        return ORDERED
    if not _PHRASE_WORDS.isdisjoint(cores) and _ORDER_PHRASE.search(f"{' '.join(cores)} "):
        return ORDERED
    return 1.0


def is_order(text: str) -> bool:
    """Return whether a part of a clause orders or forbids something."""
    words = text.split()
    cores = [*map(bare, words)]
    ends = [place for place, word in enumerate(words[:-1], 1) if word[-1] in ",;:)"]
    parts = pairwise([0, *ends, len(words)])
    return any(urgency(words[start:end], cores[start:end]) == ORDERED for start, end in parts)


def is_plea(cores: Sequence[str]) -> bool:
    """Return whether a part only requests what the next part says: "Por favor, …"."""
    return _PLEAS.issuperset(cores)


def _is_imperative(words: Sequence[str], cores: Sequence[str]) -> bool:
    place = next((place for place, core in enumerate(cores) if core not in _BEFORE_ORDERS), len(cores))
    if place == len(cores):
        return False
    core, rest = cores[place], cores[place + 1 :]
    following = rest[0] if rest else ""
    if core in COMMANDS:
        return True
    if core in _WITHOUT_VERB:
        return core != "no" or (not place and bool(rest) and FINITE_VERBS.isdisjoint(rest))
    if following == "sie":
        return core.endswith("en") and core not in _NO_VERBS
    is_name = place > 0 and words[place][:1].isupper()
    return following in _OBJECTS and not is_name and _may_be_verb(core)


@lru_cache(maxsize=50_000)
def _may_be_verb(core: str) -> bool:
    """Return whether a word is neither a function word nor an adverb, a participle, a plural or a number."""
    return (
        core.isalpha()
        and len(core) > 2  # noqa: PLR2004
        and core not in _NO_VERBS
        and core not in NUMBER_WORDS
        and not core.endswith(_PARTICIPLES)
        and (not core.endswith("s") or core.endswith("ss"))
    )
