"""Word lists that turns are judged by: words without information, negations, cues of decisions and errors.

`words/frequency.txt` has 32,000 common words of seven languages by frequency (`bench/make_frequency.py`).
"""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from foveate.words import stop_words

COMMONEST_LINE = 20
"""Words on earlier lines of the table, one in 300 words of text or more, carry no information."""
MAX_WORD_WEIGHT = 1.15
"""Weight of a word that the table does not have."""


def as_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEGATIONS = as_words(
    """not no never none nobody nothing nowhere neither nor without cannot cant dont doesnt didnt wont wouldnt isnt
    arent wasnt werent hasnt havent hadnt shouldnt couldnt mustnt neednt shant aint n't hardly barely scarcely rarely
    seldom unable refuse refuses refused refusing stop stops stopped avoid avoids avoided forbidden lacks lacked lacking
    nicht kein keine keinen keinem keiner keines nie niemals nichts niemand ohne weder
    ne pas jamais rien aucun aucune sans ni personne nunca nada nadie ninguno ninguna ningún sin tampoco
    non mai niente nessuno nessuna senza não nem nenhum nenhuma sem niet geen nooit zonder inte aldrig ikke aldri
    не нет ни никогда ничего никто без нельзя لا ليس لم لن بدون لا не לא אין בלי אף nie bez ani brak değil yok"""
)
"""Words without which a sentence has the opposite meaning."""

CONDITIONS = as_words(
    """if unless only until till except excluding besides instead rather than whether provided providing assuming
    unlike otherwise although though despite but however yet still once while when whenever before after since because
    almost nearly at least most more less fewer over under above below within maximum minimum max min up-to
    maybe perhaps probably possibly might may could would should must either or per each every
    wenn falls sofern nur bis außer ausser statt sondern aber obwohl sobald bevor nachdem als mindestens höchstens
    si sauf seulement jusque jusqu mais sinon quoique lorsque avant après depuis pourvu
    salvo excepto solo sólo hasta aunque pero cuando antes después menos más
    se soltanto finché tranne ma quando prima dopo exceto apenas até mas tenzij alleen maar
    если только пока кроме но хотя когда إذا إلا فقط حتى لكن אם רק עד אבל אלא"""
)
"""Words without which a sentence claims more, or less, than was said."""

STRICT_CONDITIONS = as_words(
    """if unless only until till except excluding instead rather than whether provided providing assuming otherwise
    wenn falls sofern nur außer ausser statt sondern si sauf seulement sinon pourvu salvo excepto solo sólo
    tranne soltanto exceto apenas tenzij alleen если только кроме إذا إلا فقط אם רק אלא"""
)
"""The conditions that a kept clause may never lose."""

CJK_NEGATIONS = tuple(sorted(as_words("不 没 沒 无 無 别 未 勿 ない ません なく 않 없 못 ไม่")))
CJK_CONDITIONS = tuple(sorted(as_words("如果 除非 只 否则 但 除了 要是 もし だけ しか 以外 なら 만약 ถ้า")))
"""Conditions in languages without spaces, where they are found inside longer runs."""

_NUMBERS = """zero null; ; two zwei deux dos; three drei trois tres; four vier quatre cuatro; five fünf cinq cinco;
    six sechs seis; seven sieben sept siete; eight acht huit ocho; nine neun neuf nueve; ten zehn dix diez; eleven elf;
    twelve zwölf; thirteen; fourteen; fifteen; sixteen; seventeen; eighteen; nineteen; twenty zwanzig vingt veinte"""
NUMBER_WORDS: dict[str, str] = {
    word: str(value) for value, words in enumerate(_NUMBERS.split(";")) for word in words.split()
}
QUANTITIES = as_words(
    """once twice thrice half quarter third dozen dozens hundred hundreds thousand thousands million billion double
    triple thirty forty fifty sixty seventy eighty ninety several many few all both some any most fewer none one first
    second last next another other same alle beide einige viele tous plusieurs todos varios"""
)
RATES = as_words(
    "twice thrice half double triple per daily weekly hourly nightly monthly yearly täglich wöchentlich pro"
)
"""Words that change the meaning of a number."""

MONTHS = as_words(
    """january february march april may june july august september october november december jan feb mar apr jun jul
    aug sep sept oct nov dec januar februar märz mai juni juli oktober dezember janvier février mars avril juin juillet
    août septembre octobre novembre décembre enero febrero marzo abril mayo junio julio agosto"""
)
_DAYS = """monday tuesday wednesday thursday friday saturday sunday montag dienstag mittwoch donnerstag freitag samstag
    sonntag lundi mardi mercredi jeudi vendredi samedi dimanche"""
DAY_WORDS = as_words("yesterday tomorrow tonight today ago gestern heute morgen hier demain ayer mañana" + " " + _DAYS)
PERIOD_OPENERS = as_words("last next this past every each")
PERIODS = as_words("day week weekend month year night morn even summer winter spr autumn fall " + _DAYS)
"""Roots that form a date after one of the openers."""

_UNITS = """% percent prozent; ms millisecond; s sec second sekunde sekunden; € euro eur; min minut minute minuten;
    h hr hour stunde stunden; day tag tage tagen; $ dollar usd; week woche wochen; month monat monate; year jahr jahre;
    night; kb kib kilobyt; mb mib megabyt; gb gib gigabyt; tb tib; byt bytes; km kilomet; m met metr; cm; mm; mil miles;
    ft feet foot; kg kilo; g gram; lb lbs pound; l lit liter litr; token; lin line; row; k thousand; mio million;
    bn billion; hundr; hz; khz; mhz; ghz; am; pm; x; px; kwh; kw; w watt; v volt; °c; °f; mph; km/h; cent; £ gbp;
    ° degre degree; ml; mg; µg; kbps; mbps; gbps; fps; rpm"""
UNIT_KEYS: dict[str, str] = {form: line.split()[0] for line in _UNITS.split(";") for form in line.split()}
"""Short forms of units, by root."""

DECISIONS = as_words(
    """decide decided decides decision agree agreed agrees choose chose chosen choosing prefer preferred prefers settle
    settled pick picked conclude concluded conclusion plan planned plans must required require requires need needs never
    always default recommend recommended recommends approve approved reject rejected confirm confirmed cancel cancelled
    canceled want wants switch switched changed change deadline promise promised remember note important instead
    rule policy goal fixed solution root cause because reason entschieden beschlossen vereinbart wichtig muss
    décidé choisi convenu decidido elegido acordado важно решили решено"""
)
OUTCOMES = as_words(
    """done fixed finished completed complete works worked working passed passing succeeded success successfully added
    removed created updated implemented deployed merged resolved found result results total now confirmed booked
    refunded cancelled installed wrote written verified tests deleted released shipped fertig erledigt terminé hecho"""
)
ERRORS = as_words(
    """error errors failed fails fail failing failure failures exception crash crashed crashes broken bug bugs invalid
    denied refused timeout missing corrupt corrupted damaged traceback panic fatal unexpected wrong conflict leak
    overflow deadlock regression rejected unavailable unreachable fehler abgestürzt échec erreur fallo error ошибка"""
)

DROPPABLE = stop_words("telegram")
"""Words that telegraphic text leaves out: articles, pronouns of who speaks, auxiliaries, filler."""

SPEECHLESS = DROPPABLE | stop_words("factless")
"""Words that carry no fact of their own."""

OPENERS = as_words("and but so then also well oh wow yeah yes hey hi hello okay ok sure great nice cool")


@lru_cache(maxsize=1)
def common_words() -> dict[str, int]:
    """Return common words with their line in the table: the higher, the rarer."""
    text = files("foveate.compress").joinpath("words", "frequency.txt").read_text(encoding="utf-8")
    return {word: line for line, words in enumerate(text.split("\n")) for word in words.split()}


@lru_cache(maxsize=50_000)
def word_weight(word: str) -> float:
    """Return the information in a casefolded word: none if it is very common, most if it is rare."""
    if word in SPEECHLESS:
        return 0.0
    lines = common_words()
    line = lines.get(word) or lines.get(stem(word), RAREST_LINE)
    return round(MAX_WORD_WEIGHT * max(0, line - COMMONEST_LINE) / (RAREST_LINE - COMMONEST_LINE), 3)


RAREST_LINE = 50
"""Line of the words that the table does not have."""
SHORTEST_ROOT = 4
_SUFFIXES = (("ies", "y", 5), ("sses", "ss", 6), ("ing", "", 6), ("ed", "", 5), ("es", "e", 5), ("s", "", 4))


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Remove the commonest English endings, so that `deploys` and `deployed` are one fact."""
    word = word.removesuffix("'s").removesuffix("’s")
    for suffix, instead, shortest in _SUFFIXES:
        if word.endswith(suffix) and len(word) >= shortest and not word.endswith("ss"):
            rest = word[: -len(suffix)] + instead
            doubled = len(rest) >= SHORTEST_ROOT and rest[-1] == rest[-2] and rest[-1] not in "lsz"
            return rest[:-1] if doubled else rest.removesuffix("e")  # stopped, stop; but telling, tell
    return word.removesuffix("e") if len(word) > SHORTEST_ROOT else word
