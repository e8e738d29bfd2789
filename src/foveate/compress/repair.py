"""Repairs spelling, grammar and casing of English prose with few rules, each of which is right wherever it applies.

The text is masked: code, paths, identifiers, numbers and quotations are single private characters, which no rule
matches. No rule adds, drops or swaps a word that carries a meaning; negations keep their number.
"""

# ruff: noqa: RUF001, SIM905 (typographic quotes are what is looked for; word lists are easier to read as text)

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from importlib.resources import files
from itertools import pairwise

from foveate.compress.lexicon import as_words, common_words
from foveate.words import stop_words
from foveate.words.grammar import ABBREVIATIONS, SMALL_START

__all__ = ["repair", "typos"]

_WORD = re.compile(r"(?<![\w'’*-])[A-Za-z]{3,}(?![\w'’*-])")
_LOWER_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_NO_END = (*ABBREVIATIONS, ".", "!", "?")
"""Characters and abbreviations after which a full stop ends no sentence."""
_LOOSE_MARK = re.compile(r"(?<![A-Za-z])([A-Za-z]+) ([,.;!?])(?=\s|\Z)")

_LOOSE_MARKS = (" ,", " .", " ;", " !", " ?")

Rule = tuple[frozenset[str], Callable[[str], str]]
"""A change, and lower-case words or pairs of words of which a text must have one for the change to be tried."""


def repair(masked: str, *, is_sentence: bool) -> str:
    """Repair the faults of a text. A text that `is_sentence` also gets capital letters."""
    masked = apply_rules(_rules(), masked)
    if any(mark in masked for mark in _LOOSE_MARKS):
        masked = _LOOSE_MARK.sub(_tightened, masked)
    return SMALL_START.sub(_capitalised, masked) if is_sentence else masked


def apply_rules(rules: Sequence[Rule], masked: str) -> str:
    """Apply each rule whose signs the text has."""
    signs = _signs(masked)
    for needed, change in rules:
        if not signs.isdisjoint(needed):
            masked = change(masked)
    return masked


@lru_cache(maxsize=16)
def _signs(masked: str) -> frozenset[str]:
    """Return the words and the pairs of words of a text; cached for the next rules."""
    words = _LOWER_WORD.findall(masked.lower())
    return frozenset((*words, *map(" ".join, pairwise(words))))


def rule(pattern: re.Pattern[str], replacement: str | Callable[[re.Match[str]], str], *signs: str) -> Rule:
    """Return a rule that replaces the matches of a pattern, in texts that have one of the signs."""
    return frozenset(signs), partial(pattern.sub, replacement)


def pairs(first: str, second: str) -> tuple[str, ...]:
    """Combine each word of one list with each of another."""
    return tuple(f"{one} {two}" for one in first.split() for two in second.split())


@cache
def typos() -> dict[str, str]:
    """Return unmistakable misspellings and their corrections, from `typos.txt`."""
    pairs = files("foveate.compress").joinpath("typos.txt").read_text("utf-8").split("\n")
    return dict(line.split(" ", 1) for line in pairs if line and not line.startswith("#"))


def _spelled(found: re.Match[str]) -> str:
    word = found[0]
    right = typos().get(word.lower())
    if right is None or not (word.islower() or word.istitle()):
        return word
    return as_in(word, right)


def as_in(source: str, text: str) -> str:
    """Give the text a capital letter if the source has one."""
    return text[:1].upper() + text[1:] if source[:1].isupper() else text


def _tightened(found: re.Match[str]) -> str:
    return found[0] if found[1].lower() in _NO_SPACE_AFTER else f"{found[1]}{found[2]}"


def _capitalised(found: re.Match[str]) -> str:
    word, start = found[2], found.start()
    if word not in _STARTERS or found.string[max(start - 8, 0) : start].lower().endswith(_NO_END):
        return found[0]
    return found[0][: -len(word)] + word[0].upper() + word[1:]


_DOUBLES = "the|an|to|of|and|for|with|we|they|this|these|your|our|my|be|are"
_DOUBLED = re.compile(rf"(?i)(?<![\w'-])({_DOUBLES}) \1(?![\w'-])")
"""Words that no grammar doubles; `that that`, `had had`, `is is` and `in in` can be intended."""

_START = r"(?:(?<=\A)|(?<=[.!?] )|(?<=[.!?]\n)|(?<=[Bb]ecause )|(?<=[Ww]hen )|(?<=[Ss]ince )|(?<=[Ww]here ))"
"""Positions where a subject begins: after an end of sentence or a conjunction that no preposition resembles."""

_PRONOUN = re.compile(
    r"(?<![\w'.(\[-])i(?='(?:m|ve|ll|d)(?!\w)| (?:am|was|want|wanted|think|thought|need|needed|would|will|can"
    r"|could|have|had|do|don't|did|didn't|see|saw|guess|mean|meant|know|knew|like|hope|get|got|tried|should|also|just"
    r"|really|believe|feel|felt|love|prefer|wonder|use|used|found|noticed|added|changed|can't|cannot|won't|wouldn't"
    r"|still|never|went|came|made|took|gave|told|said|wrote|bought|share|asked|started|stopped|forgot|remember"
    r"|understand|agree|suggest|decided|bet|wish)(?!\w))"
)
_PARTICIPLE = (
    r"(?:been|had|done|gone|seen|made|taken|known|got|gotten|lost|found|sent|told|said|come|become|written|left|kept"
    r"|thought|put|given|bought|paid|heard|broken|chosen|[a-z]{2,20}ed)(?!\w)"
)
_MODAL_OF = re.compile(rf"(?i)(?<![\w'-])((?:could|should|would|might|must)(?:n't)?) of(?= {_PARTICIPLE})")
_CANT = re.compile(r"(?i)(?<![\w'-])(i|you|we|they|he|she|it|that|this) (ca|wo)nt(?![\w'-])")
_IM = re.compile(
    r"(?<![\w'’.-])[Ii]m(?= (?:not|so|very|just|still|also|sure|sorry|happy|glad|afraid|[a-z]{2,20}ing)(?![\w'’-]))"
)
_LETS = re.compile(
    r"(?:(?<=\A)|(?<=[.!?] ))Lets(?= (?:meet|go|see|try|say|start|talk|do|make|get|not|have|keep|just|hope)(?!\w))"
)
_ITS = re.compile(
    r"(?:(?:(?<=\A)|(?<=[.!?] ))I|(?<=think )i|(?<=guess )i|(?<=because )i|(?<=hope )i)ts(?= (?:an?|the|been"
    r"|going to)\b)"
)
_THEIR = re.compile(
    r"(?:(?<=\A)|(?<=[.!?] ))Their(?= (?:are|were)\b| (?:is|was) (?:no|some|something|nothing|still|also|another)\b"
    r"| (?:is|was) an? [a-z]{2,20} (?:with|in|on|at|here|that|which|for|between|behind)\b)"
)
_YOUR = re.compile(
    r"(?i)(?<![\w'-])(?:(?<=think )|(?<=guess )|(?<=hope )|(?<=know )|(?<=believe )|(?<=\A)|(?<=[.!?] ))your"
    r"(?= (?:right|wrong) (?:about|that)\b| welcome to (?:join|come|use|try|stay|ask|call)\b)"
)
_THIRD = {"have": "has", "do": "does", "go": "goes", "don't": "doesn't"} | {
    verb: f"{verb}s" for verb in "need want know like work make take say get come use run see think look seem".split()
}
_THIRD_PERSON = re.compile(
    rf"{_START}([Hh]e|[Ss]he|[Ii]t) ({'|'.join(_THIRD)})(?![\w'’-])(?! (?:not|never|only|hardly)\b)"
)
_PLURAL_BE = re.compile(rf"{_START}([Ww]e|[Tt]hey|[Yy]ou) was(?![\w'’-])")
_PLURAL_HAVE = re.compile(rf"{_START}([Ww]e|[Tt]hey|[Yy]ou) has(?![\w'’-])")
_THIS_ARE = re.compile(r"(?:(?<=\A)|(?<=[.!?] ))This are(?= (?:the|my|our|your|some|all) )")
_THERE_IS = re.compile(
    r"(?i)(?<![\w'-])there is(?= (?:two|three|four|five|six|seven|eight|nine|ten|several)"
    r" (?!years|months|weeks|days|hours|minutes|seconds|dollars|euros|pounds|miles)[a-z]{2,20}s(?![\w'’-]))"
)
_COMPARATIVES = (
    "taller|smaller|larger|bigger|faster|slower|cheaper|older|younger|higher|lower|longer|shorter|simpler|easier|better"
    "|worse|more|less|fewer"
)
_THAN = re.compile(
    rf"(?i)(?<![\w'-])((?:is|are|much|far|even|slightly) (?:{_COMPARATIVES})"
    r"|(?:have|has|had|needs?|takes?|took|costs?|in) (?:more|less|fewer)|rather) then"
    r"(?= (?:the|an?|my|his|her|their|our|your|its|it|that|this|two|three|four|five|ten|twenty)\b| [\ue000-\uf8ff])"
)
_BASE = dict(
    pair.split(":")
    for pair in "went:go knew:know came:come took:take gave:give made:make got:get said:say told:tell thought:think"
    " wrote:write began:begin bought:buy broke:break chose:choose heard:hear kept:keep lost:lose met:meet paid:pay"
    " sent:send spoke:speak understood:understand".split()
)
_DID_PAST = re.compile(
    r"(?i)(?<![\w'-])(did(?:n't| not)|(?:(?<=\A)|(?<=[.!?,] )|(?<=why )|(?<=when )|(?<=where )|(?<=how )|(?<=what ))"
    rf"did (?:you|he|she|they|we|i|it)) ({'|'.join(_BASE)})(?![\w'’-])"
)
_MORE_BETTER = re.compile(
    rf"(?i)(?:(?<=is )|(?<=are )|(?<=was )|(?<=were )|(?<=much )|(?<=far )|(?<=even )|(?<=lot ))more ({_COMPARATIVES})"
    r"(?=[.,!?]| than\b)"
)
_MOST_BEST = re.compile(
    r"(?i)(?<![\w'-])the most (best|worst|easiest|fastest|biggest|smallest|cheapest|oldest|youngest|highest|lowest"
    r"|simplest)(?![\w'’-])"
)
_SUPPOSED = re.compile(r"(?i)(?<![\w'-])((?:am|is|are|was|were)(?: not)?|[a-z]{1,8}'(?:m|s|re)) suppose(?= to [a-z])")
_DISCUSS = re.compile(r"(?i)(?<![\w'-])(discuss(?:ed|ing)?) about(?= (?:the|this|that|these|it|our|your|my)\b)")
_AGREE = re.compile(r"(?<![\w'-])I(?: am|'m) agree(?![\w'’-])")

_ARTICLE = re.compile(r"(?<![\w'’.-])(an?|An) ([a-z]{3,20})(?![\w'’-])")
_LABELS = as_words(
    """plan option step point variant type class group case part phase section vitamin set team table series column node
    item answer question side variable letter version level grade key value line list and or between from to"""
)
"""Words after which an `a` may be a name."""
_FUNCTION_WORDS = stop_words("prose", "en") - as_words("new good great little long few")
_VOWEL_SOUND = re.compile(r"[ai]|e(?![uw])|o(?!ne|nce)|under|un(?![ai])|up(?!s)|hour|honest|honou?r|heir")
_CONSONANT_SOUND = re.compile(
    r"[bcdfgjklmnpqrstvwyz](?:[aeiouy]|[lrhkmnptw][aeiouy])|(?:used|useful|useless|users?|usual|union|units?|university"
    r"|unique|uniform|unified|european)\Z"
)


def _article(found: re.Match[str]) -> str:
    article, word = found[1], found[2]
    sound, right = (_VOWEL_SOUND, "an") if article == "a" else (_CONSONANT_SOUND, "a")
    is_name = article != "a" and word not in common_words()  # letters that are spelled out: an ssh key
    if not sound.match(word) or word in _FUNCTION_WORDS or is_name:
        return found[0]
    before = found.string[max(found.start() - MAX_LABEL_CHARS, 0) : found.start()].split()
    return found[0] if before and before[-1].lower() in _LABELS else f"{as_in(article, right)} {word}"


MAX_LABEL_CHARS = 20


def _kept_case(right: str) -> Callable[[re.Match[str]], str]:
    return lambda found: as_in(found[0], right)


_NO_SPACE_AFTER = as_words(
    """a an the of on by with as and or use using add remove insert type press put escape replace strip drop append
    character separator delimiter symbol sign to in from than via is are be no not only split join than"""
)
"""Words after which a lone punctuation mark is mentioned, not used."""

_STARTERS = as_words(
    """the this that these those there it it's its we we're we've you you're they he she my our your can could please
    what how why when where which who should would will does did are was were but so also now yes no ok okay because
    however maybe let's i'm i'll i've i'd actually here after before since although instead perhaps once"""
)
"""Only these are capitalised: any other word might be a command, a name or the start of code."""


@cache
def _rules() -> tuple[Rule, ...]:
    return ((frozenset(typos()), partial(_WORD.sub, _spelled)), *_RULES)


_RULES: tuple[Rule, ...] = (
    rule(_PRONOUN, "I", "i", "i'm", "i've", "i'll", "i'd"),
    rule(_MODAL_OF, r"\1 have", *pairs("could should would might must couldn't shouldn't wouldn't mustn't", "of")),
    rule(_CANT, lambda found: f"{found[1]} {found[2]}n't", "cant", "wont"),
    rule(_IM, "I'm", "im"),
    rule(_LETS, "Let's", "lets"),
    rule(_ITS, lambda found: f"{found[0][0]}t's", *pairs("its", "a an the been going")),
    rule(_THEIR, "There", *pairs("their", "is are was were")),
    rule(_YOUR, _kept_case("you're"), *pairs("your", "right wrong welcome")),
    rule(_THIRD_PERSON, lambda found: f"{found[1]} {_THIRD[found[2]]}", *pairs("he she it", " ".join(_THIRD))),
    rule(_PLURAL_BE, r"\1 were", *pairs("we they you", "was")),
    rule(_PLURAL_HAVE, r"\1 have", *pairs("we they you", "has")),
    rule(_THIS_ARE, "These are", "this are"),
    rule(_THERE_IS, lambda found: f"{found[0][:-3]} are", "there is"),
    rule(_THAN, r"\1 than", *pairs(f"{_COMPARATIVES.replace('|', ' ')} rather", "then")),
    rule(_DID_PAST, lambda found: f"{found[1]} {_BASE[found[2].lower()]}", "did", "didn't"),
    rule(_MORE_BETTER, r"\1", *pairs("more", _COMPARATIVES.replace("|", " "))),
    rule(_MOST_BEST, lambda found: f"{found[0][:3]} {found[1]}", "the most"),
    rule(_SUPPOSED, r"\1 supposed", "suppose to"),
    rule(_DISCUSS, r"\1", *pairs("discuss discussed discussing", "about")),
    rule(_AGREE, "I agree", *pairs("am i'm", "agree")),
    rule(_ARTICLE, _article, "a", "an"),
    rule(_DOUBLED, r"\1", *(f"{word} {word}" for word in _DOUBLES.split("|"))),
)
