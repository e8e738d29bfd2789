"""The words that smoothing knows: fillers, wordy phrases, and which words may begin a sentence."""

# ruff: noqa: SIM905 (word lists are easier to read as text)

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_OPENING = r"(?:(?:sure|certainly|of course|absolutely|great|okay|ok|alright)[,!.]? )?"
_HELP = r"(?:help|assist)(?: you)?(?: (?:with|in|on) (?:that|this|it|your \w+))?(?: (?:today|further))?"
_ANY = r"(?:any(?:thing)?|any (?:other|further|more|additional)|further|more)"
_WHEN = rf"(?: (?:if|should) (?:you|there) (?:have|need|is|be|'s) {_ANY}(?: \w+){{0,4}}| any ?time| further)?"
FILLER_SENTENCE = re.compile(
    rf"{_OPENING}(?:"
    rf"i(?:'d|'ll| would| will) be (?:happy|glad|delighted) to {_HELP}"
    rf"|i(?: can|'m here to|'m happy to) {_HELP}"
    r"|(?:that's |what )?(?:a )?(?:great|good|excellent|fantastic|interesting) question"
    r"|(?:i )?hope (?:this|that|it) helps(?: you)?(?: out)?"
    rf"|(?:please |just )?let me know if (?:you (?:have|need)|there's|there is) {_ANY}(?: \w+){{0,6}}"
    rf"|(?:please )?feel free to (?:ask|reach out|let me know){_WHEN}"
    rf"|(?:please )?(?:don't|do not) hesitate to (?:ask|reach out|contact (?:me|us)|let me know){_WHEN}"
    rf"|is there anything (?:else|more) (?:that )?i can (?:do|{_HELP})(?: for you)?(?: with)?(?: today)?"
    rf"|if (?:you (?:have|need)|there's|there is) {_ANY}(?: \w+){{0,6}}, (?:please )?(?:just )?(?:let me know"
    r"|feel free to (?:ask|reach out|let me know)|don't hesitate to (?:ask|reach out)|ask|reach out)"
    r"|have a (?:great|good|nice|wonderful|lovely|safe|pleasant)(?: and \w+)? (?:day|evening|weekend|trip|flight|one)"
    r"(?: ahead)?|happy (?:coding|to help)"
    r")[.!?…]*",
    re.IGNORECASE,
)
"""A sentence that says nothing about the matter, whoever says it."""

ANSWER_FILLER = re.compile(
    rf"{_OPENING}(?:"
    r"thank(?:s| you) for (?:the|that|this|providing|confirming|sharing|clarifying|checking|reaching|asking"
    r"|waiting|your)"
    r"[^.!?\n,;]{0,50}|let(?: me|'s) see|you're (?:very )?welcome|no worries|no problem at all"
    r"|i apologi[sz]e for (?:the|any) (?:inconvenience|confusion)(?: caused)?"
    r"|i (?:completely |totally |fully )?understand(?: your (?:frustration|concern|situation)s?)?"
    r"|(?:please )?(?:hold on|wait|bear with me)(?: for)?(?: just)? (?:a|one) (?:moment|second|minute)"
    r"|here(?:'s| is) (?:the|an?) (?:breakdown|overview|summary)"
    r")[.!?…]*",
    re.IGNORECASE,
)
"""A courtesy of an assistant; from a user it can be consent or a verdict, so there it stays."""

CHEER = re.compile(
    r"(?:perfect|great|excellent|awesome|wonderful|fantastic|good catch|nice|great idea|good idea|sounds good)[!]+",
    re.IGNORECASE,
)
"""How an assistant begins; also kept from a user."""

FILLER_WORDS = re.compile(
    r"(?i)(?<![\w'-])(?:(?:um+|uh+|uhm+|erm+|hm+)[,.…]*(?:\s|$)"
    r"|(?:let me see|let's see|let me think)[,.…]+\s"
    r"|(?:as you can see|needless to say|for what it's worth|at the end of the day|to be honest|as i said), "
    r"|(?:please note|it should be noted|it(?:'s| is) (?:worth (?:noting|mentioning)|important to note)) that )"
)

WORDY = {
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
}
WORDY_PHRASE = re.compile(rf"(?i)(?<![\w'-])(?:{'|'.join(sorted(WORDY, key=len, reverse=True))})(?![\w'-])")

DOUBLED = re.compile(r"(?i)(?<![\w'-])(the|an|to|of|and|for|with|we|they|this|these|your|our|my|be|are) \1(?![\w'-])")
"""Words that no grammar doubles; `that that`, `had had`, `is is` and `not not` can be meant."""

PRONOUN = re.compile(
    r"(?<![\w'.(\[-])i(?='(?:m|ve|ll|d)(?!\w)| (?:am|was|want|wanted|think|thought|need|needed|would|will|can"
    r"|could|have"
    r"|had|do|don't|did|didn't|see|saw|guess|mean|meant|know|like|hope|get|got|tried|should|also|just|really|believe"
    r"|feel|love|prefer|wonder|use|used|found|noticed|added|changed|can't|cannot|won't|wouldn't|still|never)(?!\w))"
)

STARTERS = frozenset(
    "the this that these those there it it's its we we're we've you you're they he she my our your can could"
    " please what"
    " how why when where which who should would will does did are was were but so also now yes no ok okay"
    " because however"
    " maybe let's i'm i'll i've i'd actually here after before since although instead perhaps once".split()
)
"""Only these are capitalised: any other word might be a command, a name or the start of code."""

NO_SPACE_AFTER = frozenset(
    "a an the of on by with as and or use using add remove insert type press put escape replace strip drop append"
    " character separator delimiter symbol sign to in than via is are be no not only split join than".split()
)
"""Behind these a lone punctuation mark is spoken of, not written."""

COMMON = frozenset(
    "the a an and or but if of to in on at for with from by as is are was were be been am do does did not no yes it its"
    " this that these those there i you he she we they me him her us them my your our their what which who when"
    " where why"
    " how can could should would will shall may might must have has had please thanks let make use need want"
    " get all any"
    " some then than so just now also only into about after before out up more same new one two fix add run".split()
)

FOREIGN = frozenset(
    "der die das und ist nicht ein eine mit auf den dem von zu wir ich sie le la les des du et est une un dans pour que"
    " qui pas sur el los las y en es por para con una del se o os da em um uma il di che non per sono het een van niet"
    " och att som det yang dan di ini itu untuk saya och w na nie jest".split()
)


@cache
def typos() -> dict[str, str]:
    """Unmistakable misspellings and what was meant, from `typos.txt`."""
    pairs = files("foveate.compress").joinpath("typos.txt").read_text("utf-8").split("\n")
    return dict(line.split(" ", 1) for line in pairs if line and not line.startswith("#"))
