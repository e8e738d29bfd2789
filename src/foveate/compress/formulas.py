"""Polite phrases: whole clauses that only greet, thank, apologise, wish well or offer help, in four languages.

Each phrase matches a clause from its first word to its last; open positions allow a short list of words. Any other word
makes the clause a statement.
"""

from __future__ import annotations

import re

__all__ = ["is_answer_phrase", "is_phrase"]

_NAME = r"(?-i:[A-ZÀ-Þ])[\w'-]{0,20}"
_LEAD = (
    r"(?:(?:and|but|so|also|oh|well|anyway|again|once again|just|please|as always|in any case|hey|wow|aww"
    r"|haha),? ){0,3}"
)
_VERY = (
    r"(?:(?:so|very|really|truly|most|extremely|greatly|deeply|sincerely|terribly|awfully|also|just|do|always"
    r"|more than),? ){0,3}"
)
_NICE = (
    r"(?:great|good|nice|lovely|wonderful|fantastic|awesome|amazing|perfect|excellent|brilliant|exciting|interesting"
    r"|fun|cool|beautiful|sweet|adorable|impressive|inspiring|delightful|pleasant|safe|relaxing)"
)
_BAD = (
    r"(?:annoying|frustrating|stressful|tough|hard|difficult|awful|terrible|upsetting|sad|unfortunate|inconvenient"
    r"|disappointing|disheartening|worrying|exhausting|confusing|scary)"
)
_PERIOD = (
    r"(?:day|week|weekend|evening|night|morning|afternoon|time|trip|flight|journey|holidays?|vacation|rest|party|one)"
)
_IT = r"(?:it|this|that)"
_FOR = (
    r"(?: (?:for|in|on|with|to|and|or|as|so|of|the|a|any|an|all|my|our|your|you|me|us|it|this|that|these|those|such"
    r"|very|much|again|advance|both|everyone|always|everything|far|quick|fast|prompt|friendly|kind|helpful|detailed"
    r"|lovely|nice|great|good|wonderful|amazing|awesome|long|short|late|reply|response|answer|message|mail|email|note"
    r"|explanation|description|words|feedback|update|help|assistance|support|patience|understanding|cooperation|time"
    r"|effort|efforts|tips|advice|details|concern|trouble|inconvenience|confusion|delay|oversight|mixup"
    r"|misunderstanding|notice|attention|consideration|wall|text|rambling|essay|novel|mess|noise|getting|back"
    r"|reaching|out|asking|sharing|explaining|clarifying|checking|confirming|looking|into|letting|know|being (?:here"
    r"|there)|being|taking|jumping|helping|providing|bothering|disturbing|may|might|have|has|caused|cause|yesterday"
    r"|today|friend|loyal|customer|reading|early|hour|report|clear|problem|contacting|writing|waiting|chatting|doing"
    r"|user|description)\b){0,14}"
)
"""Objects of thanks and apologies."""
_OFFERED = (
    r"(?=.*\b(?:questions?|help|assist|assistance|guidance|concerns|unclear|isn't clear|anything|trouble|problems"
    r"|any (?:further )?changes)\b)(?!.*\b(?:(?:I|we) (?:need|should|have|must)|you (?:can|could|may|do|are"
    r"|would(?! like))|(?:help|assist) (?:me|us)|there(?:'s| is| are) (?:any |some )?(?:problems|issues|trouble"
    r"|concerns))\b)(?:(?:if|whenever|when|should|in case|with|you|you'd|there|there's|is|isn't|are|have|need|run"
    r"|into|any|some|more|other|further|additional|questions?|help|assistance|guidance|concerns?|anything|something"
    r"|else|unclear|clear|trouble|problems|issues|or|and|I|we|can|could|may|do|assist|for|to|this|that|it|me|us"
    r"|at all|about|would|like|of|these|steps|in|the|future|today|along|way|any (?:further )?changes)\b ?){2,24}"
)
"""Occasions and objects of offers of help; `if you can help me` is no offer."""
_OFFER = (
    r"(?:let (?:me|us) know|(?:feel free|(?:don't|do not|never) (?:ever )?hesitate) to (?:ask(?: me| us)?|reach out"
    r"|contact (?:me|us)|get (?:back )?in touch|get back to (?:me|us)|let (?:me|us) know|write(?: to)? (?:me|us))"
    r"|reach out(?: to (?:me|us))?|get in touch|get back to (?:me|us)|(?:give|drop) (?:me|us) a (?:shout|line)"
    r"|just ask|ask away|shout|(?:don't|do not) hesitate|(?:I|we)(?:'m| am|'re| are|'ll be| will be|'d be"
    r"| would be) (?:always |only |just |more than |very ){0,2}(?:here|happy|glad|delighted|pleased|available)"
    r"(?: for you| to (?:help|assist|support|explain)(?: you)?(?: out| further| more| with (?:that|this|it"
    r"|anything))*)?)"
)
_ENDS = (
    r"(?: (?:too|again|soon|all|both|guys|everyone|everybody|folks|team|there|today|now|as well|yourself|ahead|later"
    r"|for now))*"
)

_PHRASES = re.compile(
    rf"{_LEAD}(?:"
    # Greetings and farewells
    rf"(?:hi|hello|hey|dear|hiya|good (?:morning|afternoon|evening)|greetings|welcome back|goodbye|bye"
    rf"|cheers){_ENDS}(?: {_NAME}){{0,2}}|dear (?:sir or madam|friends|all|team)|to whom it may concern|(?:all (?:the"
    rf"|my) best|lots of love|much love|(?:kind|best|warm|many|warmest|kindest) (?:regards|wishes|greetings)|regards"
    rf"|yours (?:truly|sincerely|faithfully)|sincerely(?: yours)?|hugs)(?: from (?:[a-z]{{1,12}} )?{_NAME})?"
    r"|how (?:are you|are things|is everything|is it going|have you been)(?: (?:all|doing|going|today|guys|both)){0,3}"
    rf"|long time no see|nice to (?:meet|see|hear from) you{_ENDS}|talk (?:to you )?(?:soon|later)|see you(?: soon"
    rf"| around| later| there| all| again)*|take (?:good )?care(?: of yourself)?|(?:I |we )?(?:am |are |I'm )?look"
    rf"(?:ing)? forward to (?:it|(?:hearing from|seeing|talking to|working with) you{_ENDS}|your (?:reply|answer"
    rf"|response))|(?:the )?(?:best of|good) luck(?: (?:with|on) (?:it|that|this|everything))?|(?:a )?happy (?:monday"
    rf"|tuesday|wednesday|thursday|friday|weekend|holidays|new year|easter|christmas|birthday|coding|hacking|reading"
    rf"|writing|cooking|baking|travels)(?: to you)?{_ENDS}|(?:have an? {_VERY}{_NICE}|enjoy (?:your|the)"
    rf"(?: {_NICE})?) (?:rest of (?:the|your) )?{_PERIOD}{_ENDS}|have (?:lots of |so much |some )?fun(?: with it)?"
    rf"|safe travels|congratulations|stay (?:safe|healthy)"
    # Thanks, with the modesty that answers them
    rf"|(?:(?:so )?many |lots of |an? (?:big|huge|million) )?(?:thanks|thank you|thx|cheers|merci|gracias)(?! to\b)"
    rf"(?: (?:so+(?:, so)? much|ever so much|very much|a lot|a bunch|a million|again|in advance|{_NAME}))*{_FOR}"
    rf"(?: {_NAME})?|(?:(?:I|we) )?{_VERY}appreciate(?= (?:it|that|this|the|your|all|you)\b){_FOR}|(?:I|we)(?:'d"
    rf"| would) {_VERY}appreciate (?:it|(?:any|your) help)|(?:(?:it|your (?:help|support))(?:'s| is) )?{_VERY}"
    rf"(?:much )?appreciated|(?:I|we)(?:'m| am|'re| are) {_VERY}(?:grateful|thankful)(?! to\b){_FOR}|much obliged|"
    rf"(?:god )?bless you(?: for doing this)?|(?:I|we)(?:'d| would| want| wanted| wish)(?: like)? to (?:thank you"
    rf"|apologi[sz]e)(?! to\b){_FOR}|you(?:'re| are) {_VERY}welcome(?: {_NAME})?|my pleasure|(?:I(?:'m| am) )?"
    rf"(?:happy|glad) (?:to help|(?:I could|it|this|that) help(?:s|ed)?|to hear (?:it|that|from you)|you like it)|"
    rf"(?:it(?:'s| is)|that(?:'s| is)) {_VERY}appreciated|you(?:'re| are) {_VERY}(?:(?:an? |the |such an? |my )"
    rf"(?:absolute |real |true )?(?:star|best|legend|lifesaver|hero|genius|angel|gem)|too kind|kind|awesome|amazing)"
    rf"|you(?:'ve| have)? (?:just |really )?made (?:my|our) day|I owe you one"
    # Apologies
    rf"|(?:(?:I|we)(?:'m| am|'re| are)? )?{_VERY}(?:sorry|(?:my )?apologies|apologi[sz]e)(?: again| in advance)?"
    rf"(?: about {_IT}| to (?:bother|disturb|trouble|interrupt|bug) you(?: again| with this| so (?:late|early)"
    rf"(?: at night)?)?| to hear (?:about )?(?:{_IT}|the (?:delay|trouble|inconvenience|confusion))| (?:that )?it "
    rf"(?:took|has taken)(?: me)? so long(?: to (?:write|reply|answer|get back to you))?|(?= for\b){_FOR})?|"
    rf"(?:please )?accept (?:my|our) (?:\w{{1,12}} )?apologies(?= for\b|\Z){_FOR}|(?:please )?excuse (?:the|my)(?: "
    rf"(?:long|late|rambling|delay|message|mess|wall|of|text|ignorance|reply|essay)){{1,4}}"
    # Hopes that the reader is well or that the text is clear
    rf"|(?:(?:I|we) {_VERY})?(?:hope|trust) (?:that )?(?:(?:you|all|everything|everyone|things)(?:'re|'s| are| is"
    rf"|'ve been| have been)(?: all| both)? (?:having an? (?:{_NICE} )?{_PERIOD}|(?:doing |going |keeping )?(?:well"
    rf"|good|great|fine|okay|ok))(?: (?:with you|on your (?:side|end)|over there))?{_ENDS}|(?:this|it|that|these"
    rf"|they)(?: message| mail| email| note)?(?: all)? (?:helps?|makes? sense|finds? you(?: all)? (?:well"
    rf"|in good health|in good spirits)|is clear|gives you a good (?:start|starting point|idea))(?: a bit| a little"
    rf"| you| to you)*|you (?:enjoy|like) (?:it|this|them)|you (?:had|have|have had) an? {_VERY}"
    rf"(?:{_NICE} )?{_PERIOD}{_ENDS}|you slept well|(?:I'm|I am) not (?:bothering|disturbing|bugging|boring) you"
    rf"(?: too much)?(?: again| with this| today)?|I'm making sense(?: here)?|that's what you were looking for"
    rf"|you don't mind (?:me|my) (?:asking|writing|bothering you)(?: again| like this)?)"
    # Offers of help
    rf"|{_OFFER} {_OFFERED}|(?:if|should|in case) {_OFFERED},? ?(?:please |just |then ){{0,2}}{_OFFER}(?: {_IT})?|"
    rf"(?:feel free|(?:don't|do not|never) (?:ever )?hesitate) to (?:ask|reach out|get in touch|contact (?:me|us))"
    rf"(?: any ?time| again)?|(?:I|we)(?:'m| am|'re| are|'ll be| will be|'d be| would be) (?:always |only |just "
    rf"|more than |very ){{0,2}}(?:here|happy|glad|delighted|pleased) (?:for you|to (?:help|assist|support|explain)"
    rf"(?: you)?(?: out| further| with (?:that|this|it|anything))*)|is there anything (?:else|more) "
    rf"(?:that )?I can (?:help|assist|do)(?: (?:you|with|for|to|help|today|you with))*"
    # Announcements of the text itself
    rf"|(?:it's |this is )?just an? (?:quick|short|small|little|tiny) (?:note|question|message|mail|email|one|thing)"
    rf"|(?:that's )?(?:an? )?(?:quick|great|good|excellent|interesting) question|I(?:'ve| have)?(?: got)? (?:just "
    rf"|only |also )?(?:one|an?|another) (?:more |other |last |quick |small |short |little |tiny ){{0,2}}question"
    rf"(?: for you)?|(?:this|it)(?: is|'s| might be| may be) (?:probably |just |maybe )?an? (?:bit of an? )?{_VERY}"
    rf"(?:stupid|silly|dumb|basic|naive) question|I know (?:that's|this is|it's) a lot(?: to (?:ask|read|take in))?"
    rf"|bear with me|(?:I'm |I am )?(?:keeping my )?fingers crossed|keep up the (?:good|great|amazing|awesome"
    rf"|excellent) work|I (?:don't|do not) (?:really )?want to (?:take (?:up )?(?:too |so )?much of your time|(?:keep"
    rf"|bother|bore) you|waste your time)|that's all (?:for now|from me|from my side)|quick update from my side"
    rf"|it has been one of those (?:days|weeks)|you know how (?:these things|it) (?:go|goes|is|are)|I know, I know"
    rf"|don't judge me|haha"
    r")",
    re.IGNORECASE,
)
_ANSWER_PHRASES = re.compile(
    rf"{_LEAD}(?:"
    r"(?:sure|certainly|of course|absolutely|great|perfect|excellent|awesome|alright|okay|ok|yes of course|no "
    r"(?:problem|worries)(?: at all)?|happy to)"
    rf"|(?:that's |what )?(?:an? )?(?:great|good|excellent|lovely|interesting) (?:idea|point|occasion)|(?:(?:(?:that"
    rf"|it) )?(?:sounds|does sound) {_VERY}(?:like )?(?:such )?(?:an? |quite an? |lots of )?(?:{_NICE}|{_BAD})"
    rf"|that must (?:be|have been) {_VERY}{_BAD})(?: (?:time|day|trip|occasion|idea|plan|story|project|situation))?"
    rf"|that(?:'s| is) {_VERY}(?:such )?(?:an? )?{_NICE}(?: to hear| of you)?|what an? (?:{_NICE} )?(?:occasion|idea"
    rf"|question|story|project|trip|coincidence|pleasure|plan|choice|milestone)|I (?:can |do |well |only |totally "
    rf"|completely |fully |really |certainly ){{0,2}}(?:get (?:it|that)|hear you|understand(?: your (?:frustration"
    rf"|concern|situation)s?)?|(?:imagine|see|understand) how {_BAD} {_IT} (?:is|must be|can be|must have been))"
    r"|you(?:'ve| have)? got this|hang in there|we've all been there|no need to (?:apologi[sz]e|worry)|don't worry"
    r"(?: about (?:it|that)| at all)?|(?:please )?(?:hold on|bear with me|wait)(?: for)?(?: just)? (?:a|one) "
    r"(?:moment|second|minute)|let me know how (?:it|that) (?:goes|went|turns out|works out)|let(?:'s| me) (?:see"
    r"|check|think|explain|take a look|have a look)|it happens to (?:the best of us|all of us|everyone)|I feel "
    r"(?:your pain|you)|my door is always open|you(?:'re| are) in the right place|(?:I )?can't wait to (?:hear"
    r"|see) (?:about it|more|you|it)|there are no (?:stupid|silly|dumb) questions|happy coding)",
    re.IGNORECASE,
)
_ABROAD = re.compile(
    # German
    rf"(?:guten (?:tag|morgen|abend)|hallo|moin|servus|liebe[rs]?|sehr geehrte[rs]?)(?: (?:zusammen|alle|team|frau"
    rf"|herr|damen und herren)| {_NAME}){{0,3}}"
    r"|(?:(?:und )?(?:schon mal |nochmals )?(?:vielen|herzlichen|besten|tausend|lieben) )?danke?(?: (?:schön|sehr"
    r"|vielmals|nochmals|noch einmal|euch|ihnen|dir|im voraus))*(?: für (?:(?:die|das|ihre|eure|deine|ihren|deinen"
    r"|euren|ihr|dein|so|sehr|schnelle|rasche|nette|freundliche|tolle|antwort|rückmeldung|nachricht|mail|hilfe"
    r"|unterstützung|mühe|geduld|verständnis|zeit|und|im|voraus|von gestern) ?){1,7})?"
    rf"|(?:mit )?(?:freundlichen|herzlichen|besten|liebe|viele|beste|herzliche|schöne) (?:grüßen?|gruß)(?: "
    rf"(?:aus )?{_NAME}){{0,2}}"
    r"|(?:ich |wir )?hoffen?,? (?:dass )?(?:es geht (?:ihnen|euch|dir)(?: allen)? gut|es (?:ihnen|euch|dir)"
    r"(?: allen)? gut geht)|(?:bitte )?(?:entschuldigen sie|entschuldige|entschuldigung|verzeihung|sorry)"
    r"(?: bitte)?(?: für)?(?: (?:die|alle) (?:störung|umstände|unannehmlichkeiten|verspätung|späte antwort"
    r"|vielen fragen))?|bei (?:weiteren )?fragen (?:stehen? (?:ich|wir) (?:(?:ihnen|euch|dir|jederzeit"
    r"|gerne?) ){0,3}zur verfügung|melden sie sich (?:gerne?|jederzeit|bitte))|(?:ich wünsche (?:ihnen|euch|dir) )?"
    r"(?:noch )?(?:einen? )?schöne[ns]? (?:tag|abend|woche|wochenende|feierabend)(?: noch)?|gern geschehen"
    r"|gerne? helfe ich (?:ihnen|euch|dir)(?: weiter)?|alles gute"
    # French
    rf"|(?:bonjour|bonsoir|salut)(?: à (?:tous|toutes))?(?: (?:madame|monsieur|{_NAME})){{0,2}}"
    r"|(?:un grand |mille )?(?:merci|je vous remercie|nous vous remercions)(?: (?:beaucoup|bien|d'avance|encore"
    r"|infiniment|à (?:vous|tous)))*(?: (?:pour|de) (?:(?:votre|vos|ta|ton|tes|la|le|les|réponse|rapide|si|message"
    r"|aide|temps|patience|soutien|et) ?){1,6})?(?: d'avance)?"
    rf"|(?:bien )?(?:cordialement|amicalement|sincèrement)(?: {_NAME}){{0,2}}|bien à vous|(?:je suis )?"
    rf"(?:vraiment )?désolée?(?: (?:pour|de) (?:le dérangement|vous déranger|ce désagrément))?"
    r"|n'hésitez pas(?: à (?:me|nous) (?:contacter|écrire|appeler))?(?: si vous avez (?:d'autres|des) questions)?"
    r"|de rien|je vous en prie|(?:je vous souhaite )?(?:une )?(?:bonne|excellente|belle) (?:journée|soirée|semaine"
    r"|fin de semaine)(?: à (?:vous|tous|toutes))?|j'espère que (?:vous allez|tu vas|tout va)(?: très)? bien"
    # Spanish
    rf"|(?:hola|buenos días|buenas (?:tardes|noches)|estimad[oa]s?)(?: a todos)?(?: {_NAME}){{0,2}}"
    r"|(?:muchas |muchísimas |mil )?gracias(?: (?:de nuevo|de antemano|otra vez|a todos))*(?: por (?:(?:su|tu|sus|tus"
    r"|la|el|todo|respuesta|rápida|tan|mensaje|ayuda|tiempo|paciencia|apoyo|y) ?){1,6})?(?: de antemano)?"
    rf"|(?:(?:un )?(?:cordial )?saludos?(?: cordiales| cordial)?|atentamente|un abrazo)(?: {_NAME}){{0,2}}|"
    rf"(?:disculpen?|perdonen?|perdón|lo siento)(?: por)?(?: las? molestias?)?"
    r"|espero que (?:(?:todo|usted|ustedes) )?(?:esté|estén|estés|vaya)(?: todos?| muy)* bien|(?:si (?:tienen?"
    r"|tienes) (?:alguna|más|otras?|otra) (?:(?:otra|más) )?(?:preguntas?|dudas?), )?no duden? en (?:escribirnos"
    r"|escribirme|contactarnos|contactarme|llamarnos)(?: si (?:tienen?|tienes) (?:alguna|más|otras?) (?:preguntas?"
    r"|dudas?))?|(?:que )?(?:tengan?|tengas) (?:un|una) (?:muy )?(?:buen|buena|feliz|lindo) (?:día|tarde|noche|semana"
    r"|fin de semana)|de nada|con mucho gusto(?: le ayudo)?",
    re.IGNORECASE,
)


def is_phrase(clause: str) -> bool:
    """Return whether a clause, without the mark at its end, is a polite phrase."""
    return (_PHRASES.fullmatch(clause) or _ABROAD.fullmatch(clause)) is not None


def is_answer_phrase(clause: str) -> bool:
    """Return whether a clause is a phrase that is empty only from an assistant: from a user it can be consent."""
    return _ANSWER_PHRASES.fullmatch(clause) is not None
