"""Polite formulas: fixed beginnings of a sentence whose continuation says nothing, and courtesies in German, French
and Spanish.

A formula is a beginning with a limited vocabulary behind it; any other word makes the sentence a statement.
"""

from __future__ import annotations

import re

from foveate.compress.cues import bare, is_negation
from foveate.compress.lexicon import as_words, word_weight

__all__ = ["is_about_others", "is_formula", "is_polite_abroad"]

LIGHT_WEIGHT = 0.16
"""Words that are more common than this go with anything."""

_LEAD = (
    r"(?:(?:and|but|so|also|oh|well|anyway|again|once again|first of all|first and foremost|just|please|as always"
    r"|in any case|of course"
    r"|okay|ok|hey"
    r"|wow|aww|hi|hello),? ){0,3}"
)
_VERY = (
    r"(?:(?:so|very|really|truly|most|extremely|greatly|deeply|sincerely|terribly|awfully|also|just|do|always|more than"
    r"|only),? ){0,3}"
)
_NICE = (
    r"(?:great|good|nice|lovely|wonderful|fantastic|awesome|amazing|perfect|excellent|brilliant|exciting|interesting"
    r"|fun"
    r"|cool|beautiful|sweet|special|big|fantastic|super|adorable|impressive|inspiring|delightful)"
)
_BAD = (
    r"(?:annoying|frustrating|stressful|tough|hard|difficult|awful|terrible|upsetting|sad|unfortunate|inconvenient"
    r"|disappointing|disheartening|worrying|exhausting|confusing|scary)"
)

_END = r"(?=[ ]?(?:[.,!?…]|\Z))"

_FORMULAS = re.compile(
    rf"(?i){_LEAD}(?:"
    # Thanks
    r"(?:(?:many|lots of|a (?:big|huge|million)) )?(?:thanks|thank you|thx|cheers)\b"
    rf"|(?:i|we)(?:'d| would)? {_VERY}appreciate\b"
    rf"|(?:i|we)(?:'m| am|'re| are|'d be| would be) {_VERY}(?:grateful|thankful)\b"
    r"|(?:i|we)(?:'d| would| should| want| wanted| wish) (?:like )?to (?:thank|apologi[sz]e|express (?:my|our))\b"
    r"|(?:god )?bless you\b|much obliged\b|(?:i|we) value (?:you|your)\b"
    # Apologies
    rf"|(?:(?:i|we)(?:'m| am|'re| are)? )?{_VERY}(?:sorry|apologi[sz]e|apologies)"
    r"(?= (?:for|about|that|if|again|in advance|to (?:bother|disturb|keep|trouble|interrupt|hear))\b)"
    r"|(?:please )?accept (?:my|our) (?:\w{1,12} )?apologies\b|excuse (?:my|the)\b"
    # Hopes that the reader is well or that the text is clear
    rf"|(?:(?:i|we) {_VERY})?hope (?:that )?(?:(?:you|it|i|we|that|this|everything)(?:'[a-z]{{1,2}})?|all|my"
    rf"|these)(?![\w'])"
    rf"|to whom it may concern{_END}|(?:i|we) trust (?:that )?(?:this|you|all|everything)\b"
    # Offers of help
    r"|let (?:me|us) know (?=(?:if|should|in case)\b.{0,80}\b(?:questions?|help|anything|else|further|detail|unclear"
    r"|clear"
    r"|trouble|assistance|changes)\b)"
    r"|feel free to (?:ask|reach|contact|get|write|call|let|shout|drop|message)\b"
    r"|(?:don't|do not|never) (?:ever )?(?:hesitate\b|worry\b(?! about (?!it\b|that\b)))"
    r"|(?:reach out|get (?:back )?in touch|get back to (?:me|us)|shout|ask away)\b"
    r"|(?:give|drop) (?:me|us) an? (?:shout|call|ring|line|note|message)\b"
    r"|(?:i|we)(?:'m| am|'re| are|'ll be| will be|'d be| would be) (?:always |only |just |more than |very ){0,2}"
    r"(?:here|happy|glad|delighted|pleased|available) (?:to (?:help|assist|explain|answer|support|hear|take a look"
    r"|have a look)\b|if\b|whenever\b)"
    r"|(?:if|should|in case) (?:you|there|anything|something|any|not)\b(?=.{1,120}\b(?:know|hesitate|free|reach out"
    r"|touch"
    r"|back|contact|shout|ask|here|thank you|thanks)\b)"
    # Small talk
    r"|how (?:are you|are things|is everything|is it going|have you been|was your (?:day|week|weekend))"
    rf"(?: (?:all|doing|going|today|guys|both|these days)){{0,3}}{_END}|is (?:anybody|anyone) there{_END}"
    rf"|long time no see\b|nice to (?:meet|see|hear)\b|talk (?:to you )?(?:soon|later){_END}"
    rf"|see you (?:soon|around|later){_END}|take (?:good )?care{_END}"
    r"|(?:i |we )?(?:do )?(?:am |are )?look(?:ing)? forward to (?:hear|see|talk|read|work|your|it\b)(?:ing)?"
    r"|fingers crossed\b|(?:the )?best of luck\b|good luck\b|keep up the\b"
    r"|(?:a )?happy (?:monday|tuesday|wednesday|thursday|friday|weekend|holidays|new year|easter|christmas|coding"
    r"|hacking"
    r"|travels|reading|writing|cooking|baking|running|planning|gardening|hiking|testing|birthday)\b"
    r"|enjoy (?:your|the|it|yourself|yourselves)\b|have (?:lots of |a lot of |so much |some )?fun\b"
    rf"|have an? {_VERY}{_NICE}\b|(?:please )?give my (?:love|best|regards) to\b"
    rf"|(?:quick|short|small) (?:one|question){_END}|you know how (?:these things|things|it|that) (?:goe?s?|works?|is"
    rf"|are){_END}"
    rf"|life (?:got|gets) in the way{_END}|as it does{_END}|i know, i know{_END}|don't (?:judge|hate) me{_END}"
    r"|(?:i )?(?:really )?can't wait to (?:hear|see)\b|(?:i'm |i am )?(?:keeping my )?fingers crossed\b"
    # Praise of the reader
    rf"|you(?:'re| are) {_VERY}(?:an? |the |such an? |too |my )?(?:absolute |real |true )?(?:star|best|legend"
    rf"|lifesaver|hero"
    rf"|genius|angel|gem|kind|{_NICE})\b|you(?:'re| are) (?:very |most |always )?welcome{_END}"
    r"|you(?:'ve| have)? (?:just |really )?(?:made (?:my|our) day|saved (?:me|my day|my life|the day))\b"
    r"|kudos to\b|i owe you (?:one|a beer|a coffee|a drink|big time)\b"
    # Doubts about oneself, announcements
    r"|i(?:'m| am) (?:really )?(?:no|not an?) expert\b|bear with me\b|no pressure\b"
    r"|i (?:don't|do not) (?:really |quite )?know how to (?:put|say|explain|describe) (?:this|it|that)\b"
    r"|i(?:'m| am| was| wasn't) (?:not )?(?:quite |really |entirely )?sure (?:(?:whether|if) (?:i'm|i am|this|that)"
    r" (?:is )?(?:explaining|making|asking|describing|the right|phrasing)"
    r"|(?:who|whom|where) to (?:ask|write|turn|post|contact))\b"
    r"|i (?:just |simply |really )?(?:can't|cannot|couldn't) (?:seem to )?(?:get|wrap) my head around (?:it|this"
    r"|that)\b"
    r"|(?:this|it)(?: is|'s| might be| may be| could be) (?:probably |just |maybe |perhaps )?an? (?:bit of an? )?"
    r"(?:really |very )?(?:stupid|silly|dumb|basic|naive|obvious) question\b"
    r"|i know (?=(?:that's|that is|this is|it's|you're|you are|you must be) .{0,40}\b(?:lot|much|busy|late|annoying"
    r"|silly"
    r"|stupid|long|bother)\b)"
    r"|i (?:don't|do not) (?:really )?want to (?:take (?:up )?(?:too |so )?much of your time|(?:keep|bother|bore) you"
    r"|waste your time)\b"
    r"|i(?:'ve| have) been meaning to (?:write|ask|say|tell|thank)\b"
    r"|(?:it's |this is )?just an? (?:quick|short|small|little|tiny) (?:note|question|message|mail|email|one|thing)\b"
    r"|i(?:'ve| have)?(?: got)? (?:just |only |also )?(?:one|an?|another) (?:more |other |last |final |quick |small "
    r"|short"
    rf" |little |tiny ){{0,2}}question(?: for you)?{_END}"
    r"|there(?:'s| is) (?:just |only )?(?:one|a) (?:more |other |tiny |little |small |last ){0,2}thing (?:that "
    r"|which )?"
    r"(?:i(?:'d| would) like to|i want(?:ed)? to|to) (?:mention|ask|say|add)\b"
    rf"|that's (?:it|all)(?: for now| from me| from my side)?{_END}|(?:it's|it is|that's) no (?:trouble|problem"
    rf"|bother)\b"
    r")"
)
_ANSWER_FORMULAS = re.compile(
    rf"(?i){_LEAD}(?:"
    r"(?:(?:that|this|it)(?: sounds| does sound)|that(?: must be| must have been)) "
    rf"{_VERY}(?:like )?{_VERY}(?:such )?(?:an? |quite an? |lots of |much )?(?:{_NICE}|{_BAD})\b"
    rf"|that(?:'s| is| looks) {_VERY}(?:such )?(?:an? )?{_NICE}\b"
    rf"|(?:that|this|it)(?: would|'d) be {_VERY}{_NICE}\b(?! (?:if|to)\b)"
    rf"|what an? (?:{_NICE} )?(?:occasion|idea|question|story|project|day|trip|coincidence|pleasure|plan|way|choice"
    r"|milestone)\b"
    r"|i (?:can |do |well |only |totally |completely |fully |really |certainly ){0,2}(?:get|understand|see|imagine"
    r"|hear)"
    rf" (?:(?:it|that|you){_END}|how {_BAD}\b|your (?:frustration|concerns?|situation)\b)"
    rf"|let me (?:walk you|explain{_END}|see what i can|have an?|take an?|help you|look into)\b"
    r"|here(?:'s| is) (?:what|how) i(?: would|'d)? (?:suggest|recommend|propose|do)\b"
    rf"|hang in there{_END}|you(?:'ve| have)? got this{_END}|(?:i'm |we're )?rooting for you\b|take a deep breath{_END}"
    rf"|we'll (?:get this sorted|sort this out|figure (?:it|this) out)(?: together)?{_END}|no (?:stress"
    rf"|need to (?:apologi[sz]e"
    rf"|worry))\b|we've all been there{_END}|it happens to (?:the best of us|all of us|everyone){_END}"
    rf"|i feel (?:your pain|you){_END}|don't (?:feel|be) (?:silly|sorry|shy|bad|a stranger){_END}"
    rf"|my door is always open{_END}|(?:just )?give (?:it|that|this) a (?:whirl|try|go|shot){_END}|welcome back{_END}"
    rf"|(?:and )?see if that (?:helps|does the trick)(?: for you)?{_END}|you(?:'re| are) in the right place{_END}"
    rf"|you(?:'re| are) never any trouble{_END}|it's always an? (?:joy|pleasure) to (?:hear|help|see)\b"
    rf"|let me know how (?:it|that|things) (?:goes|go|went|turns out|works out){_END}|i'll be thinking of you\b"
    r"|there are no (?:stupid|silly|dumb|bad) questions\b|this one comes up\b"
    r"|(?:i|we)(?:'ve| have)(?: got)? (?:a few|two|three|some|a couple of) (?:suggestions|ideas|thoughts) for you\b"
    r"|it's (?:absolutely |totally |perfectly |completely )?(?:fine|okay|ok)(?= to (?:write|ask|contact|reach)\b)"
    r")"
)
_SIGN_OFF = re.compile(
    r"(?i)(?:all (?:the|my) best|lots of love|much love|(?:kind|best|warm|many|warmest|kindest) (?:regards|wishes"
    r"|greetings)"
    r"|greetings|yours (?:truly|sincerely|faithfully)|sincerely(?: yours)?|cheers|hugs|love|take care)"
    r"(?: from (?:[a-z]{1,12} )?(?-i:[A-Z])\w{1,20})?,? (?-i:[A-Z])[\w'-]{0,20}[.!]?"
)
_SLOT = as_words(
    """good great nice lovely wonderful fantastic awesome amazing kind kindly warm best quick fast prompt friendly
    helpful detailed clear reply response answer answers message mail email note description explanation words
    feedback question questions concern concerns help helps helped helping assist assistance support patience
    understanding cooperation time day days week weekend night evening morning afternoon today yesterday advance
    again everyone everybody team guys folks friend friends much many million bunch ton tons lot lots long short
    late delay bother bothering trouble inconvenience confusion disturb disturbing happy pleased love hear hearing
    see seeing meet talk talking speak speaking soon forward looking look writing write reach reaching contact
    contacting let know feel free ask asking anything something else need needed further additional unclear think
    well fine doing going having sharing providing clarifying checking waiting explaining explain happened anyway
    haha sense making makes make find finds okay ok everything all always please far side effort work stay wait
    moment second minute patient touch getting taking taken take chatting jumping notice consideration attention
    caused cause may might earliest using choosing being such loyal user customer reader report reporting wall text
    rambling ramble essay novel star legend early hour interrupt spam noise silly stupid dumb obvious basic beginner
    ignorance mixup oversight misunderstanding frustrating annoying starting point beginning start detail details
    points changes mind whole entire put thousand times before busy probably expert means waste ages tiny little
    small mention like would could run problems problem figure together shout hint hints sort pointers tips ideas
    welcome right place person fun enjoy lunch dinner meal party holiday holidays vacation flight journey trip rest
    year birthday things thing through bit quite rather more sure asked comes way too head over get input insight
    insights expertise trust business interest joining stopping dropping line following responding replying useful
    hope hoping hopefully hugs thank thanks apologies apologize sorry appreciate grateful thankful regards wishes
    sister brother family parents kids wife husband mum mom dad sooo soo soooo isn't don't you're you've you'd i'd
    i'm i've it's that's we'll we're suggest hesitate bless xx xoxo gives give planning ever into out go whenever
    bringing raising flagging letting health matter regret express experience poor bugging tenant customers loyalty
    weather"""
)
"""Words that may follow a formula."""
_ALLOWED_NEGATIONS = re.compile(
    r"(?i)\b(?:(?:don't|do not|never) (?:\w{1,12} )?(?:hesitate|worry|mind|know how|want to|judge|hate|feel|be)"
    r"|(?:isn't|is not"
    r"|aren't) (?:too"
    r" |quite |entirely )?clear|no (?:stress|need|pressure|trouble|problem|bother|expert|stupid|silly|dumb|bad|see)"
    r"|(?:can't|cannot|couldn't) (?:seem|get|wrap|wait)|never any|not (?:an? expert|bugging|bothering|disturbing|too"
    r"|quite sure|really sure|sure)"
    r"|wasn't (?:\w{1,12} )?sure|if not)\b"
)


_OTHERS = re.compile(r"(?i)\b(?:them|him|his|her|their)\b")


def is_formula(text: str, *, is_answer: bool) -> bool:
    """Whether a text is a polite formula and nothing behind it says more."""
    found = _FORMULAS.match(text) or (_ANSWER_FORMULAS.match(text) if is_answer else None)
    if found is None or text.endswith(":"):
        return _SIGN_OFF.fullmatch(text) is not None
    rest = _ALLOWED_NEGATIONS.sub(" ", text)
    if any(is_negation(bare(word)) for word in rest.split()):
        return False
    return all(_follows(word) for word in text[found.end() :].split()) and not is_about_others(rest)


def is_about_others(text: str) -> bool:
    """Whether a text speaks of people other than the writer and the reader."""
    return _OTHERS.search(text) is not None


def _follows(word: str) -> bool:
    core = bare(word)
    return not core or core in _SLOT or word_weight(core) < LIGHT_WEIGHT


_ABROAD = (
    (
        as_words(
            """danke dank hallo grüße grüßen gruß hoffe freundlichen herzlichen entschuldigen entschuldigung
            entschuldige sorry verzeihung verfügung wünsche helfe zögern moin servus gerne bitte schönen"""
        ),
        as_words(
            """guten tag morgen abend vielen vielmals herzliche liebe lieber viele beste besten mit nochmals noch
            einmal für ihre eure deine ihren deinen euren schnelle rasche nette freundliche antwort rückmeldung
            nachricht mail hilfe unterstützung mühe geduld verständnis zeit im voraus es geht gut ihnen euch dir bei
            weiteren fragen stehe stehen wir ich jederzeit zur gern weiter bitte die vielen störung umstände
            unannehmlichkeiten verspätung einen eine schönes schöne wochenende woche feierabend schönen frau herr
            team zusammen alle von gestern heute auch sehr so gerne sie melden uns mich nicht wenn haben sich zu
            dass sie du und alles gute erneut"""
        ),
        as_words("zögern"),
    ),
    (
        as_words(
            """bonjour bonsoir salut merci cordialement désolé désolée espère j'espère souhaite n'hésitez hésitez
            excusez amicalement bonne pardon remercie"""
        ),
        as_words(
            """beaucoup pour votre vos ta ton réponse rapide message aide temps patience d'avance avance à vous tous
            toutes de du ce cette ces déranger dérangement désagrément que allez va bien tout journée soirée semaine
            week-end fin excellente belle je nous me contacter contactez écrire si avez d'autres questions autres
            encore une fois très et mille sincèrement pas au le la les un par"""
        ),
        as_words("n'hésitez hésitez"),
    ),
    (
        as_words(
            """hola gracias saludos saludo espero perdonen perdone perdón disculpe disculpen gusto dude duden cordial
            buenos buenas atentamente abrazo feliz tenga tengan"""
        ),
        as_words(
            """muchas muchísimas mil por su tu sus respuesta rápida tan mensaje ayuda tiempo paciencia de antemano que
            estén esté estés muy bien todo las los molestias molestia con mucho le les te ayudo ayudar si tiene
            tienes tienen alguna otra más pregunta preguntas duda no en escribirnos escribirme contactarnos tenga
            tengas tengan un una buen buena día tarde noche semana fin días tardes noches cordial atento nuevo otra
            vez y a todos el la"""
        ),
        as_words("dude duden"),
    ),
)
"""Words that make a courtesy, words that go with them, and those of the first that excuse a negation, by language."""
_ABROAD_CUES = frozenset().union(*(cues for cues, _, _ in _ABROAD))
_NO_WORDS = "¡¿«»"


def is_polite_abroad(words: list[str], cores: list[str]) -> bool:
    """Whether a German, French or Spanish sentence has a word of courtesy and only words that go with it."""
    cores = [core.strip(_NO_WORDS) for core in cores]
    if _ABROAD_CUES.isdisjoint(cores):
        return False
    for cues, company, excuses in _ABROAD:
        if cues.isdisjoint(cores):
            continue
        strange = [
            word for word, core in zip(words, cores, strict=True) if core and core not in cues and core not in company
        ]
        is_name = len(strange) == 1 and len(words) <= MAX_GREETING_WORDS and strange[0][:1].isupper()
        if (not strange or is_name) and (not excuses.isdisjoint(cores) or not any(map(is_negation, cores))):
            return True
    return False


MAX_GREETING_WORDS = 4
"""Of a greeting or farewell with a name."""
