"""Evidence in turns, by origin: the person's own words, and reports of others.

A rule is proven only by the person's own words. The assistant proves what happened; pasted text and tool results prove
errors. Instructions of any of these prove nothing, so that a planted one does not become a lesson. Pure.
"""

# ruff: noqa: RUF001 (punctuation and words of many languages)

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from foveate.compress.clauses import sentences
from foveate.compress.cues import look_at
from foveate.compress.facts import Facts, find_facts
from foveate.compress.guard import CLAIMS, GuardSource
from foveate.compress.lexicon import OUTCOMES, as_words, stem
from foveate.compress.model.checks import SourceWords, made_up, visible, wrong_in
from foveate.knowledge.differences import CHOICES, SPEAKER, Unit, difference, units_of
from foveate.knowledge.own_words import own_words
from foveate.knowledge.statements.phrases import order_verbs
from foveate.knowledge.statements.reading import read_phrases
from foveate.words.grammar import QUESTION_MARKS

if TYPE_CHECKING:
    from foveate.knowledge.gather import LearnedTurn

PROVEN = f"{CLAIMS}!@en"
"""Kinds of facts that an item may contain only if its sources do: numbers, identifiers, paths, addresses, and words of
decision, dates, errors and names."""
_RESULTS = frozenset(map(stem, OUTCOMES - as_words("found now result results tests total written")))
"""Words that claim a success."""
RULE_SHARE = 0.5
"""Minimum share of the words of a rule's part that one statement of the person must contain."""
REPORT_SHARE = 0.4
"""Minimum share of any other sentence's words that its sources must contain."""
PART_SHARE = 0.3
"""Minimum share of the words of a part of any other sentence that one sentence of its sources must contain."""
SAME_NEGATION = 0.5
"""Minimum share of a negated sentence's words that a negated sentence of its sources must contain."""
MAX_SENTENCES = 2_000
"""Maximum number of source sentences that are compared."""

_RULE = re.compile(
    r"\b(?:always|never|must(?:n't)?|ought|shall|should(?:n't)?|do not|don['’]?t|have to|has to|needs? to"
    r"|required to|supposed to|from now on|from here on|henceforth|going forward|in (?:the )?future|by default"
    r"|make sure|be sure|ensure|keep in mind|bear in mind|remember|memori[sz]e|note that|take note"
    r"|prefer(?:s|red|ably)?|instead of asking|whenever|every time|each time|standing order|policy|rules?|convention"
    r"|guidelines?|instructions?|instructed|mandatory|obligatory|compulsory|forbidden|prohibited|not allowed|allowed to"
    r"|permitted|authori[sz]ed|approved|trusted|safe to|no need to|without (?:asking|confirmation|review)"
    r"|immer|nie|niemals|muss|müssen|musst|soll|sollen|sollte|sollst|darf|dürfen|ab jetzt|ab sofort|künftig|zukünftig"
    r"|in zukunft|merke? (?:dir|dich|euch)|denk daran|nicht vergessen|bitte"
    r"|toujours|jamais|il faut|dois|doit|doivent|devez|désormais|dorénavant|souvenez|n'oublie[zs]?|à l'avenir"
    r"|siempre|nunca|jamás|debes?|deben|hay que|a partir de ahora|en adelante|recuerd[ae]"
    r"|sempre|deve|devi|devono|bisogna|d'ora in poi|ricord[ai]|devem|lembr[ea]|a partir de agora"
    r"|altijd|nooit|moet|moeten|voortaan|onthoud"
    r"|всегда|никогда|долж(?:ен|на|ны|но)|нужно|нельзя|обязательно|запомни(?:те)?|помни(?:те)?|впредь|отныне)\b"
    r"|总是|永远|必须|记住|请记|不要|务必|始终|一律|今后|从现在|必ず|常に|覚えて|してください|しないで|今後|항상|반드시|기억",
    re.IGNORECASE,
)
_WILL = re.compile(
    r"\b(?:users?|person|people|customers?|clients?|owners?|humans?|admins?|administrators?|operators?|developers?|boss"
    r"|manager|team|they|he|she|we|you|benutzer|nutzer|kunde|utilisateur|usuario|utente)\b[^.;:]{0,60}?"
    r"\b(?:wants?|wanted|likes?|liked|loves?|asks?|asked|requests?|requested|approves?|approved|agrees?|agreed"
    r"|authori[sz]e[sd]?|confirms?|confirmed|consents?|consented|allows?|allowed|grants?|granted|permits?|permitted"
    r"|decides?|decided|demands?|demanded|expects?|expected|insists?|insisted|trusts?|trusted|wishes|wished|accepts?"
    r"|accepted|uses?|works? (?:for|at|with)|hates?|dislikes?|chose|chooses|switched|signed|ordered|said|says|told"
    r"|will|möchte|will|genehmigt|erlaubt|veut|souhaite|quiere|vuole)\b",
    re.IGNORECASE,
)
"""Sentences that state what a person wants, decided or allowed."""
_REPORTED = re.compile(
    r"\b(?:says?|said|saying|states?|stated|reads?|wrote|writes|written|tells?|told|claims?|claimed|according to"
    r"|quotes?|quoted|quoting|instructs?|instructed|asks? (?:you|me|us)|it (?:asks|says|wants)|laut|sagt|sagte|steht"
    r"|schreibt|selon|dit|según|dice)\b",
    re.IGNORECASE,
)
"""Sentences in which the person repeats what somebody or something else states."""
_QUOTED = re.compile(
    r"\"[^\"\n]+\"|“[^“”\n]+”|«[^«»\n]+»|„[^„“”\n]+[“”]|「[^「」\n]+」|`(?:[^`\s]*\s){3}[^`]*`"
    r"|(?<!\w)'(?:[^'\s]*\s){3}[^']*'(?!\w)|‘(?:[^‘’\s]*\s){3}[^‘’]*’"
)
"""Quotations; the name of a command in backticks is not one."""
_BULLET = re.compile(r"^[\s*•\-–—\d.)#>\[\]x]+(?=\w)", re.IGNORECASE)
_COURTESY = re.compile(
    r"^(?:please|pls|kindly|so|and|then|also|just|ok(?:ay)?|now|well|hey|hi|hello|thanks|again|bitte|hinweis|note|tip"
    r"|important|reminder|rule|lesson)\b[\s,:;!—–-]*",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(r"[^\W\d_]+(?=[\s,:!]|$)")
_COMMAND_REPORT = re.compile(
    r"^[a-z]+(?: [^\s,;:.]+){0,6}? (?:failed|fails|exited|returned|raised|crashed|succeeded|passed|timed out|hung|broke"
    r"|stopped|schlug|brach|a échoué|falló)\b"
)
"""What a command did: `make migrate failed`."""
_PARTS = re.compile(
    r"[,;:]\s+(?:(?:and|but|or|und|aber|oder|et|mais|ou|y|pero|o)\s+)?|(?<!\s)\s+(?:and|but|or|und|aber|oder|et|mais|y|pero)\s+"
    r"|(?<!\s)\s+(?=(?:unless|except|if|when|until|because|wenn|falls|außer|weil|bevor|si|sauf|quand|parce|salvo|cuando|porque)\s)",
    re.IGNORECASE,
)
"""Borders of the parts of a rule, each of which the person must have stated."""
_SPEAKER = frozenset(map(stem, SPEAKER))
LEAST_PART_WORDS = 2
"""A smaller part belongs to the one before."""
_CHOICES = frozenset(map(stem, CHOICES))
_ANY_ERROR = frozenset(map(stem, as_words("fail failed failure failing error errors")))
"""Words that say no more than that there was an error."""
_PRONOUN = re.compile(r"\b(?:it|its|this|they|them|es|sie|er|das|il|elle|ils|elles|ça|lo|eso|ellos)\b", re.IGNORECASE)
_CAPITAL = re.compile(r"\b[A-ZÀ-Þ][\w'-]+")
_NO_SPACES = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


def is_rule(sentence: str) -> bool:
    """Return whether a sentence is an instruction, in a supported language."""
    plain = unicodedata.normalize("NFKC", visible(sentence))
    if _RULE.search(plain):
        return True
    bare = _BULLET.sub("", plain).strip()
    while stripped := _COURTESY.match(bare):
        bare = bare[stripped.end() :]
    first = _FIRST_WORD.match(bare)
    return first is not None and first[0].casefold() in order_verbs() and not _COMMAND_REPORT.match(bare)


def is_about_a_will(sentence: str) -> bool:
    """Return whether a sentence states what a person wants, allows or decided."""
    return _WILL.search(sentence) is not None


def statements(text: str) -> list[str]:
    """Split a text into sentences, line by line."""
    lines = (line for line in visible(text).split("\n") if line.strip())
    return [sentence for line in lines for sentence in sentences(line)]


@dataclass(frozen=True)
class _Sentences:
    """Sentences of one origin, prepared for comparison."""

    sentences: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        return "\n".join(self.sentences)

    @cached_property
    def facts(self) -> Facts:
        return find_facts(self.text)

    @cached_property
    def forms(self) -> frozenset[str]:
        return frozenset(key[2:] for key in self.facts)

    @cached_property
    def roots(self) -> tuple[frozenset[str], ...]:
        return tuple(map(_roots, self.sentences))

    @cached_property
    def guard(self) -> GuardSource:
        return GuardSource(self.facts, self.sentences)

    @cached_property
    def names(self) -> frozenset[str]:
        """Stems of words that begin with a capital letter."""
        return frozenset(look_at(word).root for word in _CAPITAL.findall(self.text) if not word.endswith("ing")) - {""}

    def covers(self, part: frozenset[str], least: float) -> bool:
        """Return whether one sentence has this share of some words, and all names of them."""
        named = part & self.names
        return _share(part, (roots for roots in self.roots_with_antecedents if named <= roots)) >= least

    @cached_property
    def roots_with_antecedents(self) -> tuple[frozenset[str], ...]:
        """Words of each sentence, and those of a sentence with a pronoun together with those of the one before."""
        pairs = pairwise(zip(self.sentences, self.roots, strict=True))
        joined = [before | roots for (_, before), (sentence, roots) in pairs if _PRONOUN.search(sentence)]
        return (*self.roots, *joined)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The clauses of each sentence, and those that may be read together."""
        return tuple(unit for sentence in self.sentences for unit in units_of(sentence, _PARTS.split(sentence)))

    def changed(self, sentence: str, *, is_heading: bool) -> str:
        """Return how a part of a sentence differs from the clause that it is about; empty if it does not."""
        parts = (Unit.read(clause, sentence) for clause in _PARTS.split(sentence))
        problems = (difference(part, self.units, is_heading=is_heading) for part in parts)
        return next(filter(None, problems), "")

    def share(self, sentence: str) -> float:
        """Return the share of a sentence's words that one sentence has."""
        return _share(_roots(sentence), self.roots)

    def unproven(self, sentence: str) -> str:
        """Return a fact of a sentence (a number, an identifier, a name, a decision …) that is missing here, or an empty
        text."""
        has_error = any(key[0] == "e" for key in self.facts)
        missing = (key[2:] for key in find_facts(sentence) if _needs_proof(key) and key[2:] not in self.forms)
        return next((form for form in missing if not (has_error and form in _ANY_ERROR)), "")


def _needs_proof(key: str) -> bool:
    return (key[0] in PROVEN and key[2:] not in _CHOICES) or (key[0] == "w" and key[2:] in _RESULTS)


class Evidence:
    """The evidence in an item's sources."""

    def __init__(self, turns: Sequence[LearnedTurn]) -> None:
        typed = [sentence for turn in turns for sentence in statements(_QUOTED.sub("…", own_words(turn.user)))]
        stated = [one for one in typed if not _is_doubtful(one) and not _REPORTED.search(one)]
        others = [one for one in typed if one not in set(stated) and _is_report(one) and "vetoes" not in _signals(one)]
        answered = [sentence for turn in turns for sentence in statements(turn.assistant) if _is_report(sentence)]
        failed = [sentence for turn in turns for text in _outside(turn) for sentence in statements(text)]
        errors = [one for one in failed if _is_report(one) and _has_error(one)]
        errors += [tool.arguments for turn in turns for tool in turn.tools if tool.is_error]
        self._answers = _Sentences(tuple(answered[:MAX_SENTENCES]))
        self._stated = _Sentences(tuple(stated[:MAX_SENTENCES]))
        self._reports = _Sentences(tuple([*stated, *others, *answered][:MAX_SENTENCES]))
        self._errors = _Sentences(tuple([*self._reports.sentences, *errors][: 2 * MAX_SENTENCES]))

    def problem(self, text: str, *, nonce: str, is_heading: bool = False) -> str:
        """Return why a text is not proven; empty if each of its sentences is. A heading may be incomplete."""
        known = self._errors
        wrong = wrong_in(text, SourceWords(known.text, known.guard, 0, self._stated.facts), nonce)
        if wrong:
            return wrong
        for sentence in statements(text):
            problem = self._problem_of(sentence, is_heading=is_heading)
            if problem:
                return f"{problem}: {sentence[:120]}"
        turned = known.guard.turned_round(text)
        return f"a clause lost its negation or condition: {turned[:120]}" if turned else ""

    def _problem_of(self, sentence: str, *, is_heading: bool) -> str:
        if is_rule(sentence) or is_about_a_will(sentence):
            return self._problem_of_rule(sentence) or self._stated.changed(sentence, is_heading=is_heading)
        if _has_error(sentence):
            return self._problem_of_report(sentence, self._errors)
        # What the assistant did may be told in other words.
        is_own = self._stated.share(sentence) >= self._answers.share(sentence)
        problem = self._problem_of_report(sentence, self._reports)
        return problem or (self._stated.changed(sentence, is_heading=is_heading) if is_own else "")

    def _problem_of_report(self, sentence: str, known: _Sentences) -> str:
        unproven = known.unproven(sentence)
        if unproven:
            return f"its sources do not have {unproven[:60]!r}"
        is_there = _share(_roots(sentence), [_union(known.roots)]) >= REPORT_SHARE
        is_there = is_there and all(known.covers(part, PART_SHARE) for part in _parts(sentence))
        if made_up(sentence, known.facts) or not is_there:
            return "its sources do not say so"
        return _added_negation(sentence, known)

    def _problem_of_rule(self, sentence: str) -> str:
        unproven = self._stated.unproven(sentence)
        if unproven:
            return f"a rule that the person did not state, with {unproven[:60]!r}"
        # What was said in several clauses or turns may be combined, if each part is there.
        if not all(self._stated.covers(part, RULE_SHARE) for part in _parts(sentence)):
            return "a rule that the person did not state"
        return _added_negation(sentence, self._stated)


def _outside(turn: LearnedTurn) -> Iterator[str]:
    """Yield text from outside the conversation: typed or pasted by the person, or reported by tools."""
    yield turn.user
    yield from (f"{tool.name} {tool.arguments}" for tool in turn.tools)
    yield from (tool.text for tool in turn.tools)


def _is_doubtful(sentence: str) -> bool:
    """Return whether a sentence asks, supposes, or is an order for one task."""
    return sentence.rstrip().endswith(QUESTION_MARKS) or "vetoes" in _signals(_PARTS.split(sentence)[0])


def _signals(sentence: str) -> tuple[str, ...]:
    return read_phrases(sentence).signals


def _is_report(sentence: str) -> bool:
    return not is_rule(sentence) and not is_about_a_will(sentence) and not _REPORTED.search(sentence)


def _has_error(sentence: str) -> bool:
    return any(key[0] == "e" for key in find_facts(sentence))


def _added_negation(sentence: str, sources: _Sentences) -> str:
    negated = [roots for one, roots in zip(sources.sentences, sources.roots, strict=True) if _is_negated(one)]
    parts = (_roots(part) for part in _clauses(sentence) if _is_negated(part))
    return "" if all(_share(part, negated) >= SAME_NEGATION for part in parts) else "its sources do not negate it"


def _is_negated(sentence: str) -> bool:
    return any(look_at(word).negates for word in sentence.split())


def _roots(text: str) -> frozenset[str]:
    roots = {root for word in text.split() if (root := look_at(word).root)} - _SPEAKER
    if _NO_SPACES.search(text):
        run = "".join(_NO_SPACES.findall(text))
        roots = {run[start : start + 2] for start in range(max(1, len(run) - 1))} | {r for r in roots if r.isascii()}
    return frozenset(roots)


def _parts(sentence: str) -> list[frozenset[str]]:
    """Return the words of the parts of a sentence."""
    return [frozenset(map(stem, Unit.read(clause, "").content)) for clause in _clauses(sentence)]


def _clauses(sentence: str) -> list[str]:
    """Return the parts of a sentence; a short part belongs to the one before."""
    found: list[str] = []
    for part in _PARTS.split(sentence):
        size = len(_roots(part))
        if found and size < LEAST_PART_WORDS:
            found[-1] += f" {part}"
        elif size:
            found.append(part)
    if len(found) > 1 and len(_roots(found[0])) < LEAST_PART_WORDS:
        found[:2] = [f"{found[0]} {found[1]}"]
    return found


def _union(all_roots: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*all_roots)


def _share(roots: frozenset[str], others: Iterable[frozenset[str]]) -> float:
    """Return the largest share of some words that one of the others contains; 1 if there are no words."""
    if not roots:
        return 1.0
    return max((len(roots & other) / len(roots) for other in others), default=0.0)
