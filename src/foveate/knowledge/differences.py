"""How a clause of a proposed lesson differs from its sources: another word or value, the opposite, a wider rule. Pure.

A clause may leave words out and add common ones. It may not replace one word by another, join a name with the value
of another clause, turn `before` into `after`, say `every` where its source does not, or lose a condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from foveate.compress.cues import look_at
from foveate.compress.lexicon import as_words, common_words, stem
from foveate.knowledge.statements.phrases import LANGUAGES, load
from foveate.knowledge.truth import CONDITIONS, read_claim

PLAIN_LINE = 36
"""Words up to this line of the table of common words may be added: `chosen`, `written`, `asking`."""
LIGHT_LINE = 27
"""Words up to this line may be left out for another: `have`, `go`."""
FORM_CHARS = 5
"""Letters that all forms of a longer word begin with."""
SAME_WORDS = 3
"""Words that a part shares with its source for one common word to stand for another: `belong` for `live`."""
OPPOSITES = tuple(
    (as_words(one), as_words(other))
    for one, other in (
        ("before earlier vor bevor früher avant antes", "after later nach nachdem später après después"),
        ("above over more über mehr plus más", "under below less fewer unter weniger moins menos"),
        ("until till bis jusque jusqu hasta", "from since ab seit depuis desde"),
        ("open opens opened öffnet ouvre abre", "close closes closed shut schließt ferme cierra"),
        ("start starts begins beginnt commence empieza", "end ends stops endet finit termina acaba"),
        ("first erste erster premier première primero primera", "last letzte letzter dernier dernière último última"),
        ("allow allows allowed may erlaubt permis permitido", "forbid forbids forbidden verboten interdit prohibido"),
        ("inside internal innen dedans dentro", "outside external außen dehors fuera"),
        ("buy buys bought kauft achète compra", "sell sells sold verkauft vend vende"),
        ("day morning tag morgens matin mañana", "night evening nacht abends soir nuit noche"),
        ("cheap cheaper cheapest", "expensive dearer"),
    )
)
"""Words of which one may not stand for the other."""
RELATIONS = 3
"""The first of them are prepositions."""
UNIVERSALS = as_words(
    "all every each any always whole entire whenever alle jede jeder jedes jeden immer sämtliche tous toutes chaque"
    " toujours todos todas cada siempre"
)
"""Words that widen a rule, which a source must have."""
COUNTED = as_words("every each jede jeder jedes jeden chaque cada")
"""Those of them whose next word must be the same: `every second weekend`."""
COMPARED = as_words("than over from to als statt von nach zu plutôt que vers desde hacia instead")
"""Words around which the order counts: `from Jenkins to Actions`."""
EXCEPTIONS = CONDITIONS | as_words("except besides during while pendant durante während")
"""Words of a statement that does not hold in general."""
ORDINALS = as_words(
    "first second third fourth last next half double erste zweite dritte letzte halbe premier première deuxième"
    " troisième dernier dernière primero primera segundo segunda tercero tercera último última"
)
SPEAKER = as_words(
    "user user's person they myself yourself personally nutzer benutzer selbst utilisateur utilisatrice usuario usuaria"
)
"""Words for who stated it, who says `I`."""
CHOICES = as_words("choose chose chosen pick picked opted settled went prefer prefers preferred want wants")
"""Words of a choice, which may stand for each other."""
_FUNCTION = (
    CHOICES | EXCEPTIONS | UNIVERSALS | frozenset().union(*(one | other for one, other in OPPOSITES[:RELATIONS]))
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A clause, or several of a sentence, prepared for comparison."""

    words: tuple[str, ...]
    roots: frozenset[str]
    content: tuple[str, ...]
    """Words that may not stand for each other."""
    whole: frozenset[str]
    """Stems of the sentence that it is in."""
    named: frozenset[str]
    """Stems of its names and values, which may not be left out."""
    is_negated: bool
    is_bound: bool
    """True if it holds in some case only."""

    @classmethod
    def read(cls, text: str, sentence: str) -> Unit:
        looks = [look for word in text.split() if (look := look_at(word)).core and look.core not in SPEAKER]
        whole = [look_at(word) for word in sentence.split()]
        return cls(
            words=tuple(look.core for look in looks),
            roots=frozenset(look.root for look in looks) - {""},
            content=tuple(look.core for look in looks if look.root and _is_telling(look.core)),
            whole=frozenset(look.root for look in whole),
            named=frozenset(look_at(word).root for word in text.split() if _is_named(word, sentence)) - {""},
            is_negated=any(look.negates for look in looks),
            is_bound=any(look.core in EXCEPTIONS for look in whole),
        )

    def has(self, words: frozenset[str]) -> bool:
        return not words.isdisjoint(self.words)

    def tells_apart(self, word: str) -> bool:
        """Return whether a word is a name, or one that differs however common it is."""
        return look_at(word).root in self.named or word in _told_apart()

    def order(self, other: Unit) -> list[str]:
        """Return the stems shared with another unit in the order of this one."""
        return [root for word in self.content if (root := look_at(word).root) in other.roots]


def units_of(sentence: str, clauses: Sequence[str]) -> Iterator[Unit]:
    """Yield the clauses of a sentence; those that negate, and those that do not, also together, unless each has a value
    or name of its own."""
    units = [Unit.read(clause, sentence) for clause in clauses]
    yield from units
    for is_negated in (False, True):
        alike = [number for number, unit in enumerate(units) if unit.is_negated == is_negated]
        if len(alike) > 1 and not all(units[number].named for number in alike):
            yield Unit.read(" ".join(clauses[number] for number in alike), sentence)


def difference(part: Unit, sources: Sequence[Unit], *, is_heading: bool) -> str:
    """Return how a part differs from the sources that it is nearest to; empty if it says no more and nothing else.

    A heading may leave everything out.
    """
    fits = [len(part.roots & unit.roots) for unit in sources]
    if part.content and not max(fits, default=0):
        return f"its sources do not say {part.content[0]!r}"
    near = [unit for fit, unit in zip(fits, sources, strict=True) if fit == max(fits)]
    problems = [
        _added(part, unit, sources) or ("" if is_heading else _omitted(part, unit)) or _turned(part, unit)
        for unit in near
    ]
    return "" if "" in problems else next(iter(problems), "")


def _added(part: Unit, unit: Unit, sources: Sequence[Unit]) -> str:
    added = [word for word in part.content if not _is_in(word, unit.roots) and not _is_told(word, part, sources)]
    lost = _lost(part, unit)
    is_reworded = len(part.content) - len(added) >= SAME_WORDS and max(len(added), len(lost)) == 1
    kept = (word for word in added if (lost and not is_reworded) or _line(word) > PLAIN_LINE or part.tells_apart(word))
    unsaid = next(kept, "")
    return f"its sources do not say {unsaid!r} of this" if unsaid else ""


def _turned(part: Unit, unit: Unit) -> str:
    """Return whether a part says the opposite of its source, or says it of more."""
    for one, other in (*OPPOSITES, *(pair[::-1] for pair in OPPOSITES)):
        if part.has(one) and unit.has(other) and not unit.has(one):
            return "it says the opposite of its sources"
    if unit.has(COMPARED) and part.order(unit) != unit.order(part):
        return "it says the reverse of its sources"
    if part.is_negated and not unit.is_negated:
        return "its sources do not negate it"
    wide = next((word for word in part.words if word in UNIVERSALS), "")
    if wide and not unit.has(UNIVERSALS):
        return f"its sources do not say {wide!r}"
    counted = {stem(then) for one, then in zip(unit.words, unit.words[1:], strict=False) if one in COUNTED}
    pairs = zip(part.words, part.words[1:], strict=False)
    is_other = bool(counted) and any(one in COUNTED and stem(then) not in counted for one, then in pairs)
    return "its sources say it of fewer" if is_other else ""


def _omitted(part: Unit, unit: Unit) -> str:
    """Return what a part leaves out without which it says something else."""
    if unit.is_negated and not part.is_negated:
        return "a clause lost its negation"
    if (lost := _lost(part, unit)) and (part.is_negated or part.has(UNIVERSALS)):
        return f"it says more than its sources, without {lost[0]!r}"
    if missing := unit.named - part.whole:
        return f"it lost {min(missing)!r}"
    return "it lost a condition" if unit.is_bound and not part.is_bound else ""


def _lost(part: Unit, unit: Unit) -> list[str]:
    return [word for word in unit.content if not _is_in(word, part.whole)]


def _is_told(word: str, part: Unit, sources: Sequence[Unit]) -> bool:
    """Return whether another source has a word together with one more of the part: `host` and `fin-04`."""
    root = look_at(word).root
    telling = {look_at(each).root for each in part.content} - {root}
    return any(root in unit.roots and not telling.isdisjoint(unit.roots) for unit in sources)


def _is_named(word: str, sentence: str) -> bool:
    is_name = word[:1].isupper() and len(word) > 1 and not sentence.startswith(word)
    return is_name or bool(read_claim(word).values)


def _is_telling(word: str) -> bool:
    return word not in _FUNCTION and (_line(word) > LIGHT_LINE or word in _told_apart())


@cache
def _told_apart() -> frozenset[str]:
    """Return words of people, times and order, which differ however common they are."""
    return ORDINALS.union(*(load(name).times | load(name).roles for name in LANGUAGES))


def _is_in(word: str, roots: frozenset[str]) -> bool:
    """Return whether a word, or another form of it, is among some stems."""
    root = look_at(word).root
    return root in roots or (len(root) > FORM_CHARS and any(each.startswith(root[:FORM_CHARS]) for each in roots))


def _line(word: str) -> int:
    return min(common_words().get(form, PLAIN_LINE + 1) for form in (word, stem(word)))
