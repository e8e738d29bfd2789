"""Ranks the words of a text, so that any length of it is a rendition.

Each word has a worth: how rare it is and of what kind (numbers, identifiers and names first), times the chance that a
reader keeps it (`foveate.compress.worth`), times a factor where the part of its clause orders or forbids something. For
a price per token, the best choice of words of a clause is the one with the highest worth after the price; runs of fewer
than three words are fined, and gaps the more, the less readers begin or end one there. Falling prices give the order in
which words enter, and a rendition is the longest beginning of that order that fits. C of a turn, the units of eras and
every length in between are cut from one such ranking, T and the brief form from rankings with smaller fines.

A clause of which anything is taken keeps its negations, conditions and rates, each with the words behind it; a number
keeps its unit, a verb its particle, a quotation all its words. Nothing is reworded.
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from operator import or_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foveate.compress.cues import estimate_tokens, is_negation, look_at, quoted_places
from foveate.compress.facts import word_kinds
from foveate.compress.lexicon import QUANTITIES, RATES, as_words
from foveate.compress.marks import escape_inline
from foveate.compress.urgency import COMMANDS, FINITE_VERBS, ORDERED, is_plea, urgency
from foveate.compress.worth import HEADS, Floats, chances, load_worth
from foveate.compress.worth.features import Passage
from foveate.renditions import Count

PRICES = np.geomspace(0.8, 0.007, 16).astype(np.float32)
"""Minimum worth per token, from the shortest rendition to the longest."""
LEVELS = len(PRICES) + 1
"""Number of levels: one for each price and one for words that enter at no price."""
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
ORDER_CHANCE = 0.5
"""Minimum chance that a reader keeps a word of an order."""
MUST = 0.4
"""Minimum worth of a word that its clause may not lose."""
CUT = HEADS.index("cut")
TOLD = 2.0
"""Factor of a word that all readers keep."""
FREE_CUT, MAX_CUT = 1.0, 4.0
"""Log-odds against a gap before a word from which it costs something, and beyond which it costs no more."""
MAX_STEP_TOKENS = 16
"""Words that enter at the same price enter in parts of this size, so that a part of them can fit."""
MAX_CLAUSE_WORDS = 96
"""A longer clause is ranked in pieces."""
MAX_WHOLE_WORDS = 14
"""Maximum words of a part of a clause that stays whole because it orders, denies or limits."""
FIT_ATTEMPTS = 8
NEARLY_FULL = 3
"""Free tokens that are not worth another attempt to fill them."""
GROWTH = 0.3
"""Share of the tokens that an attempt left free which the next one always uses."""
SEPARATOR = 0.7
"""Tokens of the separator after each further clause."""

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
    """might getting going planned plan hat habe haben hatte wird werden wurde kann könnte soll sollte muss müsste darf
    will möchte a ont avait sera peut pourrait doit devrait va ha han había será puede podría debe debería"""
)
"""Words of time and doubt that stay with the verb behind them, beside the auxiliaries."""
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
_LIMITS = as_words(
    """since until till before after under over below above within between during while when whenever than least most"""
)
"""Words that stay with the word after them: a number, a date, a condition. An order may not lose them."""
_HOLDS_ONE = _LIMITS | QUANTITIES | RATES | {"too"}
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
_PARTICLES = as_words("off up out down away back over on in again")
_COMPARED = as_words("than most least")
_JOINERS = as_words("and but so because which who while then where und aber weil et mais y pero")
"""Words before which a clause may end."""
_LEADS = as_words(
    """the a an this that these those my our your his her its their every each no any some of to in on at by with from
    for into onto as per via about der die das den dem des ein eine einen einem einer le la les un une des du de au aux
    el los las una del al mit von zu zum zur bei für auf im am avec pour dans sur par con por para en"""
)
"""Words that stay with the word after them: articles and prepositions."""
_OBJECTS = as_words("it them him me us himself itself themselves")
"""Words that stay with the verb before them."""
_BEFORE_PARTS = as_words("that dass que please bitte kindly")
"""Words after which a part of a clause may begin."""
_LINKS = as_words("and but so then also und aber dann et mais y pero")
"""Words that a clause does not need at its beginning."""
_PRONOUNS = as_words(
    """i i'm i've i'd i'll we we're we've you you're he he's she she's it it's they they're can could ich wir du je nous
    il elle yo"""
)
_ASKED = as_words("you we i he she they someone somebody anyone")
_SUBJECTS = _PRONOUNS | as_words(
    "there this that the my our your his her their a an please let let's er sie der die das"
)
"""Words with which a part of a clause may begin."""
_FORBIDDEN = np.float32(-1e6)
_ENDS = ".!?。！？"
_Numbers = NDArray[np.int_]


class Order(NamedTuple):
    """The fines of a choice of words, which say how much an order of words reads as phrases."""

    short_run: float
    """For each word in a run of one or two words."""
    gap: float
    """For each unit of log-odds against a gap, at either end of it."""
    clause: float
    head: float
    """For a part that begins after its first word."""
    binds: bool
    """Parts of a clause that order, deny or limit stay whole, and articles and prepositions with what follows."""
    least: int
    """Minimum number of words of a clause, if it has as many: fewer are a fragment."""


PHRASES = Order(0.08, 0.07, 0.3, 0.4, True, 5)
"""Reads as clauses and phrases."""
LINE = Order(0.08, 0.015, 0.3, 0.4, False, 3)
"""The same for a single line: what was asked and what came of it."""
BRIEF = Order(0.03, 0.0, 0.1, 0.0, False, 1)
"""Preserves most facts and reads as a list of words."""


class _Word(NamedTuple):
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
def _look(word: str, opens: bool = False) -> _Word:
    core, _, negates, limits, counts = look_at(word)
    tokens = float(estimate_tokens(word))
    must = negates or limits or core in RATES or core in _DENIALS
    worth = max(_worth(core if opens and word.istitle() else word, tokens), ORDER_WORD * (core in _DUTIES))
    holds = 2 if negates or limits or core == "whenever" else int(counts or core in _HOLDS_ONE)
    is_glue, leans, last = not worth and not must, must or core in _PARTICLES or core in _COMPARED, word[-1:]
    worth = max(worth, MUST * must)
    names = word[:1].isupper() and last.isalnum() and (not opens or not word.istitle()) and _is_name(word)
    return _Word(core, worth, tokens, is_glue, holds, must, last in ".;:!?", last in ",;:.)", leans, names)


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


@dataclass(frozen=True, slots=True)
class Source:
    """A clause to rank."""

    text: str
    """The text, on one line and plain."""
    is_whole: bool = False
    """The clause is used whole or not at all: a line of code, a note on a tool call."""
    scores: Floats | None = None
    """What the model of worth says of its words; None: it is asked, as for a text by itself."""


class RankStep(NamedTuple):
    """Words of a clause that enter together."""

    clause: int
    words: tuple[int, ...]
    tokens: float
    is_first: bool
    """No other step of its clause comes before it."""
    level: int
    """Position in `PRICES` of the price at which they enter; beyond the last, they enter at no price."""


@dataclass(slots=True)
class Ranking:
    """The words of a text in the order of their worth."""

    words: list[list[str]]
    """The words of each clause."""
    steps: list[RankStep]
    """Steps, best first."""

    def texts(self, steps: Iterable[RankStep]) -> dict[int, str]:
        """Return the text of each clause with words in these steps, in order."""
        kept: dict[int, list[int]] = {}
        for step in steps:
            kept.setdefault(step.clause, []).extend(step.words)
        return {clause: _written(self.words[clause], set(kept[clause])) for clause in sorted(kept)}

    def fit(
        self,
        max_tokens: int,
        count: Count,
        write: Callable[[dict[int, str]], str],
        *,
        first: Iterable[RankStep] = (),
        among: Collection[int] | None = None,
        fill: bool = False,
    ) -> dict[int, str]:
        """Return the clauses of the longest rendition of at most `max_tokens` as `write` writes it; empty if none fits.

        The steps in `first` are used before all others, and only clauses in `among`. With `fill`, room that estimated
        sizes left free is used too.
        """
        scale, most, found = 1.0, 0, dict[int, str]()
        for _ in range(FIT_ATTEMPTS):
            steps = self._take(max_tokens / scale, first, among)
            texts = self.texts(steps)
            tokens = count(write(texts)) if texts else 0
            if tokens > max_tokens:
                if found:
                    break
                scale *= tokens / max_tokens * 1.02
            elif tokens <= most:
                break
            else:
                most, found = tokens, texts
                if not fill or tokens > max_tokens - NEARLY_FULL:
                    break
                scale *= (tokens + (max_tokens - tokens) * GROWTH) / max_tokens
        return found

    def _take(self, room: float, first: Iterable[RankStep], among: Collection[int] | None) -> list[RankStep]:
        """Return the best steps that fit together; after a skipped step of a clause, no later one of it is used."""
        steps = list(first)
        left = room - sum(step.tokens for step in steps)
        closed: set[int] = set()
        for step in self.steps:
            clause, _, tokens, is_first, _ = step
            if clause in closed or (among is not None and clause not in among):
                continue
            cost = tokens + SEPARATOR if is_first else tokens
            if cost <= left:
                steps.append(step)
                left -= cost
            else:
                closed.add(clause)
            if left < 1:
                break
        return steps

    def clauses(self, max_tokens: float, last_level: int = len(PRICES)) -> dict[int, str]:
        """Return each clause cut to about `max_tokens` and to a level, without those whose first words do not fit."""
        left = [max_tokens] * len(self.words)
        steps: list[RankStep] = []
        for step in self.steps:
            if step.level > last_level:
                break
            if step.tokens <= left[step.clause]:
                left[step.clause] -= step.tokens
                steps.append(step)
            else:
                left[step.clause] = 0
        return self.texts(steps)

    def phrase(self, clause: int, max_tokens: float) -> str:
        """Return a clause that reads as a sentence: whole, or its best parts in a row; empty if none can."""
        found = self.phrase_step(clause, max_tokens)
        return _written(self.words[clause], found.words) if found else ""

    def phrase_step(self, clause: int, max_tokens: float) -> RankStep | None:
        """Return the words of a clause that read as a sentence; None if none may stand alone.

        A row begins with a subject. A negation or condition outside of it belongs to another clause: what follows the
        row has its own subject, and nothing before the row is a condition.
        """
        looks = _looks(self.words[clause])
        tokens = [0.0, *accumulate(look.tokens for look in looks)]
        worths = [0.0, *accumulate(look.worth for look in looks)]
        musts = [place for place, look in enumerate(looks) if look.must]
        cuts = [place for place in range(1, len(looks)) if looks[place - 1].parts or looks[place].core in _JOINERS]
        ends = [end for end in (*cuts, len(looks)) if looks[end - 1].core not in _JOINERS]
        opening = next((place for place, look in enumerate(looks) if look.core not in _LINKS), 0)
        starts = [] if looks[opening].core in _JOINERS else [opening]
        starts += [place for place in cuts if looks[place].core in _SUBJECTS or looks[place].names]
        rows = [
            (worths[end] - worths[start], -start, end)
            for start in starts
            for end in ends
            if start + MIN_RUN <= end and tokens[end] - tokens[start] <= max_tokens
            if all(
                start <= place < end or (_has_subject(looks, end) if place >= end else is_negation(looks[place].core))
                for place in musts
            )
        ]
        if not rows:
            return None
        _, first, end = max(rows)
        return RankStep(clause, tuple(range(-first, end)), tokens[end] - tokens[-first], is_first=True, level=0)

    def core(self, clause: int) -> RankStep | None:
        """Return subject and verb of a clause, with what it may not lose; None if it has no known verb."""
        found = core_places(self.words[clause])
        if not found:
            return None
        tokens = sum(_look(self.words[clause][place]).tokens for place in found)
        return RankStep(clause, tuple(found), tokens, is_first=True, level=0)


def rank(sources: Sequence[Source], *orders: Order) -> list[Ranking]:
    """Rank the words of the clauses by worth per token, once for each of the orders."""
    words = [source.text.split(" ") for source in sources]
    if not sources:
        return [Ranking(words, []) for _ in orders]
    rows: list[_Row] = []
    for clause, source in enumerate(sources):
        scores = source.scores
        if scores is None:
            scores = load_worth().score([Passage(words[clause])])
        rows += _rows(clause, source, words[clause], scores)
    levels = _levels(rows, orders)
    return [Ranking(words, _steps(rows, words, found)) for found in levels]


def _rows(clause: int, source: Source, words: Sequence[str], scores: Floats) -> Iterator[_Row]:
    looks = _looks(words)
    cores, own, tokens, _, _, musts, _, parts, _, _ = zip(*looks, strict=True)
    duties = _urgencies(words, cores, parts)
    worths = _worths(np.array(own, np.float32), np.array(duties, np.float32), scores)
    if source.is_whole:
        yield _Row(clause, 0, worths.sum(keepdims=True), [sum(tokens)], [0.0], [True], [False], [False], [False])
        return
    if ORDERED in duties:
        limits = [duty == ORDERED and core in _LIMITS for duty, core in zip(duties, cores, strict=True)]
        musts = tuple(map(or_, musts, limits))
    joins = _joins(looks, quoted_places(source.text, len(looks)))
    opens = _opens(looks)
    binds = _binds(looks, duties, musts)
    cuts = np.clip(-scores[:, CUT] - FREE_CUT, 0, MAX_CUT)
    cuts[0] = 0
    for start in range(0, len(looks), MAX_CLAUSE_WORDS):
        part = slice(start, start + MAX_CLAUSE_WORDS)
        yield _Row(
            clause, start, worths[part], tokens[part], cuts[part], opens[part], joins[part], binds[part], musts[part]
        )


def _worths(own: Floats, duties: Floats, scores: Floats) -> Floats:
    """Return the worth of each word: its own by the chance that a reader keeps it, and more of an order."""
    told = chances(scores)
    told = np.where(duties == ORDERED, np.maximum(told, ORDER_CHANCE), told)
    return np.asarray(TOLD * told * own * duties, np.float32)


def _opens(looks: Sequence[_Word]) -> list[bool]:
    """Return before which words a gap may end that began in another part of the clause."""
    opens = [True]
    for place, (before, look) in enumerate(pairwise(looks), 1):
        after_link = before.core in _LINKS and opens[place - 1]
        opens.append(before.parts or before.ends or look.core in _JOINERS or before.core in _BEFORE_PARTS or after_link)
    return opens


def _binds(looks: Sequence[_Word], duties: Sequence[float], musts: Sequence[bool]) -> list[bool]:
    """Return which words a phrase keeps if and only if it keeps the word before.

    Those are the words after an article or a preposition, and all of a part that orders, denies or limits, unless the
    part is long.
    """
    binds = [False]
    for before, look in pairwise(looks):
        inside = not before.ends and not before.parts
        binds.append(inside and (before.core in _LEADS or look.core in _OBJECTS))
    ends = [
        place
        for place in range(1, len(looks))
        if looks[place - 1].parts or (looks[place].core in _JOINERS and duties[place] != ORDERED)
    ]
    for start, end in pairwise([0, *ends, len(looks)]):
        if end - start <= MAX_WHOLE_WORDS and (duties[start] == ORDERED or any(musts[start:end])):
            binds[start + 1 : end] = [True] * (end - start - 1)
    return binds


def _looks(words: Sequence[str]) -> list[_Word]:
    looks = [_look(words[0], True), *map(_look, words[1:])]
    for place, (look, after) in enumerate(pairwise(looks)):
        if look.core in _DOUBTS and after.core not in _ASKED:
            looks[place] = look._replace(
                worth=max(look.worth, MUST), is_glue=False, holds=max(1, look.holds), must=True
            )
    for place in [place for place, look in enumerate(looks[1:-1], 1) if look.core == "long"]:
        if looks[place - 1].core in ("as", "so") and looks[place + 1].core == "as":
            looks[place] = looks[place]._replace(worth=MUST, is_glue=False, holds=2, must=True, leans=True)
    return looks


def _joins(looks: Sequence[_Word], quoted: Collection[int]) -> list[bool]:
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
    for place, (before, look) in enumerate(pairwise(looks), 1):
        # A subject stays with its verb, and a tense or a doubt with the verb that it is about.
        if not before.ends and not before.parts and (before.core in _PRONOUNS or _is_auxiliary(before.core)):
            joins[place] = joins[place] or look.core not in _JOINERS
        if not before.ends and not before.parts and not before.is_glue and look.core in _FINITE:
            joins[place] = True
        # What a number counts or names: `Kestrel 410`, `page 2`.
        if look.core[:1].isdigit() and not (before.ends or before.parts or before.is_glue or before.core[:1].isdigit()):
            joins[place] = True
    starts = [0, *(place for place in range(1, len(looks)) if looks[place - 1].parts), len(looks)]
    for start, end in pairwise(starts):
        if start and looks[start].core in _RELATIVES and end - start <= MAX_WHOLE_WORDS and end < len(looks):
            joins[start : end + 1] = [True] * (end + 1 - start)
    for place in quoted:
        joins[place] = joins[place] or place - 1 in quoted
    # Without its name, what is said of the second would be said of the first: `Flask 2.3, SQLAlchemy 2.0`.
    for place in [place for place, look in enumerate(looks[:-1], 1) if look.names][1:]:
        joins[place] = joins[place] or not (looks[place].is_glue or looks[place].names)
    return joins


def _is_auxiliary(core: str) -> bool:
    return core in _HELPERS or core in _TENSES or core.endswith(("n't", "'s", "'re", "'ve", "'ll", "'d", "'m"))


def _leans(word: _Word, before: _Word) -> bool:
    return (
        word.core == "than"
        or (word.core in _PARTICLES and not before.is_glue and not before.ends and before.worth < 1)
        or (word.must and before.core in _BEFORE_MUSTS)
        or (word.core in _COMPARED and before.core in ("at", "the"))
    )


def _has_subject(looks: Sequence[_Word], place: int) -> bool:
    """Return whether an independent clause begins here: `and I don't know`."""
    start = place + (looks[place].core in _JOINERS)
    return start < len(looks) and looks[start].core in _PRONOUNS


class _Row(NamedTuple):
    """A clause, or a piece of a long one, as columns; a clause that is used whole is one word."""

    clause: int
    start: int
    worths: Floats
    tokens: Sequence[float]
    cuts: Sequence[float]
    """What a gap costs that begins or ends before the word."""
    opens: Sequence[bool]
    """A part of the clause begins with the word."""
    joins: Sequence[bool]
    binds: Sequence[bool]
    """The word stays with the one before it in orders that read as phrases."""
    musts: Sequence[bool]


def _steps(rows: Sequence[_Row], words: Sequence[Sequence[str]], levels: _Numbers) -> list[RankStep]:
    """Return the words of each row that enter at one price, by price and gain. `levels` has the price of each word."""
    sizes = [len(row.tokens) for row in rows]
    groups = np.repeat(np.arange(len(rows)), sizes) * LEVELS + levels
    by_group = np.argsort(groups, kind="stable")
    shifts = np.repeat([row.start for row in rows] - np.cumsum(sizes) + sizes, sizes)
    places = (by_group + shifts[by_group]).tolist()
    found, starts = np.unique(groups[by_group], return_index=True)
    worths, tokens = (
        np.bincount(groups, list(chain.from_iterable(column)))[found]
        for column in ([row.worths for row in rows], [row.tokens for row in rows])
    )
    row_of, entered = np.divmod(found, LEVELS)
    order = np.lexsort((-worths / np.maximum(tokens, 0.5), entered))
    columns = row_of, entered, tokens, np.diff(row_of, prepend=-1) > 0, starts, np.append(starts[1:], len(places))
    steps: list[RankStep] = []
    for at, level, cost, is_first, start, end in zip(*(column[order].tolist() for column in columns), strict=True):
        row = rows[at]
        if sizes[at] == 1 and not row.start:
            steps.append(RankStep(row.clause, tuple(range(len(words[row.clause]))), cost, is_first, level))
        elif cost <= MAX_STEP_TOKENS:
            steps.append(RankStep(row.clause, tuple(places[start:end]), cost, is_first, level))
        else:
            for number, (part_cost, part) in enumerate(_parts(row, [place - row.start for place in places[start:end]])):
                at_words = tuple([row.start + place for place in part])
                steps.append(RankStep(row.clause, at_words, part_cost, is_first and not number, level))
    return steps


def _parts(row: _Row, places: Sequence[int]) -> list[tuple[float, list[int]]]:
    """Divide words that enter at one price into parts of about `MAX_STEP_TOKENS`; the first has what a clause may not
    lose.

    Joined words stay in one part.
    """
    groups: list[list[int]] = []
    for place in places:
        if groups and row.joins[place]:
            groups[-1].append(place)
        else:
            groups.append([place])
    needed = [group for group in groups if any(row.musts[place] for place in group)]
    parts: list[tuple[float, list[int]]] = []
    for group in (*needed, *(group for group in groups if group not in needed)):
        cost = sum(row.tokens[place] for place in group)
        if parts and (group in needed or parts[-1][0] + cost <= MAX_STEP_TOKENS):
            parts[-1] = parts[-1][0] + cost, parts[-1][1] + group
        else:
            parts.append((cost, group))
    return parts


def _levels(rows: Sequence[_Row], orders: Sequence[Order]) -> list[_Numbers]:
    """Return the price at which each word enters, row after row: the first at which the best choice of its row has it.

    One result for each order. The words are sorted by position and the rows by length, so
    that the rows with a word at a position come first.
    """
    sizes = np.array([len(row.tokens) for row in rows])
    by_length = np.argsort(-sizes, kind="stable")
    places = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ranks = np.repeat(np.argsort(by_length), sizes)
    order = np.argsort(places * len(rows) + ranks)
    columns = [
        np.array(list(chain.from_iterable(column)), np.float32)[order, None]
        for column in [*zip(*rows, strict=True)][2:]
    ]
    kept, taken = _best_words(sizes[by_length], np.bincount(places), columns, orders)
    words = np.zeros(taken.shape, int)
    np.add.at(words, ranks[order], kept)
    least = np.repeat([one.least for one in orders], len(PRICES))
    taken &= words >= np.minimum(least, sizes[by_length, None])
    kept &= taken[ranks[order]]
    found = np.empty((len(orders), len(order)), int)
    for levels, part in zip(found, np.split(kept, len(orders), axis=1), strict=True):
        levels[order] = np.where(part.any(axis=1), part.argmax(axis=1), len(PRICES))
    return list(found)


def _best_words(
    sizes: _Numbers, counts: _Numbers, columns: Iterable[NDArray[np.float32]], orders: Sequence[Order]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the best choice of each row at each price: its words, and whether it is worth a clause.

    Dynamic programming over the positions with the length of the run so far (0, 1, 2, 3 or more) as the state, for all
    rows, prices and fines at once. `sizes` are those of the rows, the longest first; `counts` of the positions.
    """
    prices = np.tile(PRICES, len(orders))
    fines = np.array([order[:5] for order in orders], np.float32)
    short_run, gap_fine, clause_fine, head_fine, binding = np.repeat(fines.T, len(PRICES), axis=1)
    worths, tokens, cuts, opens, joins, binds, musts = columns
    joins = np.maximum(joins, binds * binding) * _FORBIDDEN
    musts = np.repeat(musts * _FORBIDDEN, len(prices), axis=1)
    heads = (1 - opens) * head_fine
    opens = opens.astype(bool)
    values = worths - tokens * prices
    cuts = cuts * gap_fine
    opening = values + (joins - cuts)
    closing = joins - cuts
    short = np.where(sizes[:, None] < MIN_RUN, np.float32(0), short_run)
    shorter = 2 * short
    leads = np.zeros(short.shape, np.float32)
    inners, ones, twos, manys = (np.full_like(leads, _FORBIDDEN) for _ in range(4))
    stays, is_many, is_two, is_long, was_inner, from_inner = (np.empty(values.shape, bool) for _ in range(6))
    spans = [(size, slice(end - size, end)) for size, end in zip(counts, np.cumsum(counts), strict=True)]
    for size, now in spans:
        value, lead, inner = values[now], leads[:size], inners[:size]
        one, two, many, new = ones[:size], twos[:size], manys[:size], opens[now]
        np.greater(inner, lead, out=was_inner[now])
        was_inner[now] &= new
        np.copyto(lead, inner, where=was_inner[now])
        np.copyto(inner, _FORBIDDEN, where=new)
        after_one, after_two = one - short[:size], two - shorter[:size]
        best = np.maximum(after_one, after_two)
        np.greater_equal(after_two, after_one, out=is_two[now])
        np.greater_equal(many, best, out=is_many[now])
        np.greater_equal(many, two, out=is_long[now])
        np.maximum(best, many, out=best)
        best += closing[now]
        np.maximum(two, many, out=many)
        many += value
        np.add(one, value, out=two)
        begun = lead - heads[now]
        np.greater_equal(inner, begun, out=from_inner[now])
        np.maximum(begun, inner, out=one)
        one += opening[now]
        np.greater_equal(np.where(new, lead, inner), best, out=stays[now])
        np.copyto(lead, np.maximum(lead, best), where=new)
        np.copyto(inner, np.maximum(inner, best), where=np.logical_not(new))
        lead += musts[now]
        inner += musts[now]
    ends = np.stack((np.maximum(leads, inners), ones - short, twos - shorter, manys))
    # Of equal ends the longest run is chosen, but in the longest rows the shortest.
    last = np.where(ends[0] >= ends.max(axis=0), 0, 3 - ends[::-1].argmax(axis=0))
    states = np.where(sizes[:, None] == sizes[0], ends.argmax(axis=0), last).astype(np.int8)
    states[(states == 0) & (inners > leads)] = _INNER
    before_gap = np.where(is_many, np.int8(3), np.int8(1) + is_two)
    is_gap = np.empty(values.shape, bool)
    for size, now in reversed(spans):
        state, new = states[:size], opens[now]
        gap = (state == 0) | (state == _INNER)
        is_gap[now] = gap
        begun = np.where(was_inner[now] | (from_inner[now] & ~new), np.int8(_INNER), np.int8(0))
        longer = state - 1 + ((state == MIN_RUN) & is_long[now])
        # What was before a kept word, and before one that is left out.
        kept = np.where(state == 1, begun, longer)
        stayed = np.where(new & was_inner[now], np.int8(_INNER), state)
        left = np.where(stays[now] | ((state == 0) & ~new), stayed, before_gap[now])
        state[...] = np.where(gap, left, kept)
    return ~is_gap, ends.max(axis=0) > clause_fine


_INNER = 4
"""The state of a gap that began inside the part of the clause that it is in."""
MIN_RUN = 3
"""Minimum number of words in a readable run."""


def core_places(words: Sequence[str]) -> list[int]:
    """Return the positions of a clause's first subject and verb and of all that it may not lose, in order; empty
    without a verb."""
    looks = _looks(words)
    for place, look in enumerate(looks[:CORE_WORDS]):
        is_order = place == 0 and look.core in COMMANDS
        if not is_order and (not place or not _is_verb(look.core)):
            continue
        start = place
        while start and not looks[start - 1].ends and place - start < MIN_RUN:
            start -= 1
        end = place + 1
        while end < len(looks) and (looks[end - 1].is_glue or end - place < MIN_RUN) and not looks[end - 1].ends:
            end += 1
        return sorted({*range(start, end), *_with_joined(looks, (at for at, one in enumerate(looks) if one.must))})
    return []


CORE_WORDS = 16
"""Number of first words of a clause among which its verb is searched."""


def _with_joined(looks: Sequence[_Word], places: Iterable[int]) -> set[int]:
    joins = _joins(looks, ())
    found: set[int] = set()
    for place in places:
        if place in found:
            continue
        start, end = place, place + 1
        while joins[start]:
            start -= 1
        while end < len(joins) and joins[end]:
            end += 1
        found.update(range(start, end))
    return found


def _is_verb(core: str) -> bool:
    return (
        core in _VERBS
        or core.endswith(("n't", "'s", "'re", "'ve", "'ll", "'d", "'m"))
        or (
            core.endswith("ed") and len(core) > 4  # noqa: PLR2004
        )
    )


def _written(words: Sequence[str], places: Iterable[int]) -> str:
    return " ".join([words[place] for place in sorted(places)]).strip(" ,;:—–-")


def _urgencies(words: Sequence[str], cores: Sequence[str], parts: Sequence[bool]) -> list[float]:
    """Return the factor of each word of a clause, by the part between commas that it is in."""
    ends = [place for place, ends in enumerate(parts[:-1], 1) if ends]
    urgencies: list[float] = []
    after_plea = False
    for start, end in pairwise([0, *ends, len(words)]):
        part = cores[start:end]
        urgencies += [urgency(words[start:end], part, after_plea=after_plea)] * (end - start)
        after_plea = is_plea(part)
    return urgencies


def cut_clause(text: str, max_tokens: float) -> str:
    """Cut a clause to its best words, about `max_tokens`; unchanged if it fits or cannot be cut that far."""
    if estimate_tokens(text) <= max_tokens:
        return text
    (ranking,) = rank([Source(text)], PHRASES)
    return ranking.clauses(max_tokens).get(0, "") or text


def written(texts: dict[int, str], speakers: Sequence[str]) -> str:
    """Write clauses as sentences, with a mark where the speaker changes."""
    lines: list[str] = []
    speaker = ""
    for place, text in texts.items():
        said = sentence(escape_inline(text))
        if speakers[place] != speaker:
            speaker = speakers[place]
            lines.append(f"{speaker} {said}".strip())
        elif lines:
            lines[-1] += f" {said}"
        else:
            lines.append(said)
    return "\n".join(lines)


def sentence(text: str) -> str:
    """End the text with a full stop if it has no end mark."""
    return text if text[-1:] in _ENDS or text.endswith("}") else f"{text}."
