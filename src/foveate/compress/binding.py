"""Which words of a clause belong together, so that none can be left out without another.

A negation, a condition, a rate and a doubt stay with the words behind them, a number with its unit, a verb with its
particle, a tense and a subject with the verb, a quotation with all its words. In an order that reads as phrases, an
article or a preposition also stays with what follows, and a part between commas stays whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from foveate.compress.cues import estimate_tokens, look_at
from foveate.compress.facts import word_kinds
from foveate.compress.lexicon import QUANTITIES, RATES, as_words
from foveate.compress.urgency import COMMANDS, FINITE_VERBS

WORTH: Mapping[str, float] = {
    "i": 0.7,
    "/": 0.7,
    "u": 0.5,
    "#": 0.55,
    "@": 0.65,
    "n": 0.3,
    "e": 0.3,
    "!": 0.4,
    "-": 0.4,
}
"""Worth by kind of fact (`foveate.compress.facts`): approximately the chance that a reader wants the word."""
COMMON_WORD, RARE_WORD, MAX_WORTH = 0.1, 0.4, 2.4
"""Worth of a common word, the addition for the rarest word, and the maximum of any word."""
LONG = 0.16
"""Addition for each token after the second of a number, an identifier or a name."""
ORDER_WORD = 0.2
"""Minimum worth of a word that makes a sentence an order, such as `must`."""
MUST = 0.4
"""Minimum worth of a word that its clause may not lose."""
MAX_WHOLE_TOKENS = 20
"""Maximum tokens of a part of a clause that stays whole."""
MAX_WHOLE_WORDS = 14
"""Maximum words of a part such as `who joined later` that stays with the words around it."""
_DUTIES = as_words("must always muss müssen darf siempre")
_HELPERS = as_words(
    """do does did is are was were am be been has have had will would can could may might must should shall need"""
)
"""Words that stay with the negation after them."""
_FINITE = as_words(
    "is are was were has have had will won't isn't aren't wasn't weren't hasn't ist sind war est sont es son"
)
"""Verbs that stay with the last word of their subject."""
_TENSES = as_words(
    """might may could would should must will can getting going planned plan hat habe haben hatte wird werden wurde kann
    könnte soll sollte muss müsste darf will möchte a ont avait sera peut pourrait doit devrait va ha han había será
    puede podría debe debería"""
)
"""Words of time, duty and doubt that stay with the verb behind them however short a text is."""
_BEFORE_MUSTS = _HELPERS | {"as", "so"}
_VERBS = (
    (_HELPERS - as_words("be been"))
    | FINITE_VERBS
    | as_words(
        """goes comes come takes gets makes gives says shows needs wants wanted found finds means meant works runs fails
    keeps kept lets left leaves stays writes wrote sent sends reads put set knows knew thinks thought sees saw lasts
    holds held brings brought buys bought pays paid sells sold begins starts stops breaks loses lost wins won meets met
    moves uses tells told asks I'm we want like love use see think know hope prefer agree"""
    )
)
"""Verbs that make a sentence with the words before them; some of them can also be the object of an order."""
LIMITS = as_words(
    """since until till before after under over below above within between during while when whenever than least most"""
)
"""Words that stay with the word after them: a number, a date, a condition. An order may not lose them."""
_HOLDS_ONE = LIMITS | QUANTITIES | RATES | {"too"}
_DENIALS = as_words("false untrue incorrect myth rumour rumor supposedly allegedly too whenever falsch faux falso")
"""Words without which a clause claims what it denies, or more than it says."""
_DOUBTS = as_words(
    """might may could would probably perhaps maybe apparently seems seem appears likely suspect suspects almost nearly
    planning planned plans hopes wants supposed reportedly vielleicht wahrscheinlich vermutlich offenbar angeblich fast
    soll beinahe peut-être probablement presque quizás quizá probablemente podría casi"""
)
"""Words without which a clause claims what is only possible, planned or said; not in a request: `Could you …`."""
_RELATIVES = as_words("who which whose whom")
"""Words that begin a part inside a clause: its subject stands before the part, and its verb behind."""
_BEFORE_UNITS = as_words("working business calendar more new other further consecutive full square cubic to")
"""Words between a number and its unit."""
PARTICLES = as_words("off up out down away back over on in again")
_COMPARED = as_words("than most least")
JOINERS = as_words("and but so because which who while then where und aber weil et mais y pero")
"""Words before which a clause may end."""
_ARTICLES = as_words(
    """the a an this that these those my our your his her its their every each no any some der die das den dem des ein
    eine einen einem einer le la les un une el los las una"""
)
LEADS = _ARTICLES | as_words(
    """of to in on at by with from for into onto as per via about du de au aux del al mit von zu zum zur bei für auf im
    am avec pour dans sur par con por para en"""
)
"""Words that stay with the word after them: articles and prepositions."""
_OBJECTS = as_words("it them him me us himself itself themselves")
"""Words that stay with the verb before them."""
_BEFORE_PARTS = as_words("that dass que please bitte kindly")
"""Words after which a part of a clause may begin."""
LINKS = as_words("and but so then also und aber dann et mais y pero")
"""Words that a clause does not need at its beginning."""
_PRONOUNS = as_words(
    """i i'm i've i'd i'll we we're we've you you're he he's she she's it it's they they're can could ich wir du je nous
    il elle yo nobody everybody somebody everyone someone niemand jeder jemand"""
)
_ASKED = as_words("you we i he she they someone somebody anyone")
SUBJECTS = _PRONOUNS | as_words(
    "there this that the my our your his her their a an please let let's er sie der die das"
)
"""Words with which a part of a clause may begin."""
AUXILIARIES = (_HELPERS | _TENSES | _FINITE) - {"a"}
SUBORDINATES = LIMITS | as_words(
    "if unless because although though as once where despite wenn falls weil obwohl als nachdem bevor si quand lorsque"
    " parce cuando aunque porque"
)
"""Words with which a sentence begins that says nothing before its first comma."""
MIN_RUN = 3
"""Minimum number of words in a readable run."""


class Look(NamedTuple):
    """Properties of a word without its context."""

    core: str
    worth: float
    tokens: float
    is_glue: bool
    """The word carries no information and leads to the next word."""
    holds: int
    """Number of words with content that stay with it."""
    must: bool
    ends: bool
    """The range of words that it holds ends with it."""
    parts: bool
    """A part of the clause ends with it."""
    leans: bool
    """The word may have to stay with the word before it."""
    names: bool
    """The word is a name: what follows is said about it."""


@lru_cache(maxsize=50_000)
def look_of(word: str, opens: bool = False) -> Look:
    core, _, negates, limits, counts = look_at(word)
    tokens = float(estimate_tokens(word))
    must = negates or limits or core in RATES or core in _DENIALS
    worth = max(_worth(core if opens and word.istitle() else word, tokens), ORDER_WORD * (core in _DUTIES))
    holds = 2 if negates or limits or core == "whenever" else int(counts or core in _HOLDS_ONE)
    is_glue, leans, last = not worth and not must, must or core in PARTICLES or core in _COMPARED, word[-1:]
    worth = max(worth, MUST * must)
    names = word[:1].isupper() and last.isalnum() and (not opens or not word.istitle()) and _is_name(word)
    return Look(core, worth, tokens, is_glue, holds, must, last in ".;:!?", last in ",;:.)", leans, names)


def _is_name(word: str) -> bool:
    return any(kind in "ni" for kind, _ in word_kinds(word))


def _worth(word: str, tokens: float) -> float:
    worth = 0.0
    for kind, weight in word_kinds(word):
        if kind == "w":
            worth += COMMON_WORD + RARE_WORD * weight if weight > 0 else 0.0
        else:
            worth += WORTH.get(kind, RARE_WORD) + LONG * max(0, tokens - 2)
    return min(worth, MAX_WORTH)


def opens_of(looks: Sequence[Look]) -> list[bool]:
    """Return before which words a gap may end that began in another part of the clause."""
    opens = [True]
    for place, (before, look) in enumerate(pairwise(looks), 1):
        after_link = before.core in LINKS and opens[place - 1]
        opens.append(before.parts or before.ends or look.core in JOINERS or before.core in _BEFORE_PARTS or after_link)
    return opens


def binds_of(looks: Sequence[Look]) -> list[bool]:
    """Return for each word whether it stays with the word before in an order that reads as phrases.

    A part between punctuation marks stays whole. In a long one a word stays with the article or the preposition before
    it, and a subject with its verb.
    """
    binds, after_article = [False], False
    for before, look in pairwise(looks):
        inside = not before.ends and not before.parts
        bound = inside and (before.core in LEADS or look.core in _OBJECTS or (after_article and binds[-1]))
        binds.append(bound)
        after_article = before.core in _ARTICLES
    ends = [place for place in range(1, len(looks)) if looks[place - 1].parts]
    for start, end in pairwise([0, *ends, len(looks)]):
        if sum(look.tokens for look in looks[start:end]) <= MAX_WHOLE_TOKENS:
            binds[start + 1 : end] = [True] * (end - start - 1)
    _bind_subjects(looks, binds)
    return binds


def looks_of(words: Sequence[str]) -> list[Look]:
    looks = [look_of(words[0], True), *map(look_of, words[1:])]
    for place, (look, after) in enumerate(pairwise(looks)):
        if look.core in _DOUBTS and after.core not in _ASKED:
            looks[place] = look._replace(
                worth=max(look.worth, MUST), is_glue=False, holds=max(1, look.holds), must=True
            )
    for place in [place for place, look in enumerate(looks[1:-1], 1) if look.core == "long"]:
        if looks[place - 1].core in ("as", "so") and looks[place + 1].core == "as":
            looks[place] = looks[place]._replace(worth=MUST, is_glue=False, holds=2, must=True, leans=True)
    return looks


def joins_of(looks: Sequence[Look], quoted: Collection[int]) -> list[bool]:
    """Return which words are kept if and only if the word before is."""
    joins = [False] * len(looks)
    holds = 0
    for place, look in enumerate(looks):
        core, _, _, is_glue, own, _, ends, _, leans, _ = look
        if place and (holds or (leans and _leans(look, looks[place - 1]))):
            joins[place] = True
        if holds and not is_glue and core not in _BEFORE_UNITS:
            holds -= 1
        holds = 0 if ends else max(own, holds)
    for place in quoted:
        joins[place] = joins[place] or place - 1 in quoted
    # A doubt, a plan or a progress stays with its verb: `might move`, `is getting married`.
    for place, (before, look) in enumerate(pairwise(looks), 1):
        tells = before.core in _TENSES or (_is_auxiliary(before.core) and look.core.endswith("ing"))
        if tells and not before.ends and not before.parts and look.core not in JOINERS:
            joins[place] = True
    # Without its name, what is said of the second would be said of the first: `Flask 2.3, SQLAlchemy 2.0`.
    for place in [place for place, look in enumerate(looks[:-1], 1) if look.names][1:]:
        joins[place] = joins[place] or not (looks[place].is_glue or looks[place].names)
    return joins


def _bind_subjects(looks: Sequence[Look], binds: list[bool]) -> None:
    """Keep a subject with its verb, also around a part such as `who joined later`, and a number with what it counts."""
    for place, (before, look) in enumerate(pairwise(looks), 1):
        if before.ends or before.parts:
            continue
        leads = (before.core in _PRONOUNS or _is_auxiliary(before.core)) and look.core not in JOINERS
        # What a number counts or names: `Kestrel 410`, `page 2`.
        counts = look.core[:1].isdigit() and not before.core[:1].isdigit()
        if leads or (not before.is_glue and (look.core in _FINITE or counts)):
            binds[place] = True
    starts = [0, *(place for place in range(1, len(looks)) if looks[place - 1].parts), len(looks)]
    for start, end in pairwise(starts):
        if start and looks[start].core in _RELATIVES and end - start <= MAX_WHOLE_WORDS and end < len(looks):
            binds[start : end + 1] = [True] * (end + 1 - start)


def _is_auxiliary(core: str) -> bool:
    return core in _HELPERS or core in _TENSES or core.endswith(("n't", "'s", "'re", "'ve", "'ll", "'d", "'m"))


def _leans(word: Look, before: Look) -> bool:
    return (
        word.core == "than"
        or (word.core in PARTICLES and not before.is_glue and not before.ends and before.worth < 1)
        or (word.must and before.core in _BEFORE_MUSTS)
        or (word.core in _COMPARED and before.core in ("at", "the"))
    )


def has_subject(looks: Sequence[Look], place: int) -> bool:
    """Return whether an independent clause begins here: `and I don't know`."""
    start = place + (looks[place].core in JOINERS)
    return start < len(looks) and looks[start].core in _PRONOUNS


def is_verb(core: str, *, opens: bool) -> bool:
    """Return whether a word is known as a verb; at the beginning of a clause only as an order."""
    if opens:
        return core in COMMANDS
    return (
        core in _VERBS
        or core in AUXILIARIES
        or core.endswith(("n't", "'s", "'re", "'ve", "'ll", "'d", "'m"))
        or (
            core.endswith("ed") and len(core) > 4  # noqa: PLR2004
        )
    )
