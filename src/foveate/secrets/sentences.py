"""Secrets that people state in their own words: a sentence names what a value opens.

"the gate wants 9031 before it opens", "kennwort fürs kassensystem hab ich auf Kirsche-12 gesetzt". What is named
decides which values count: beside a password or a PIN every code, beside a lock or an alarm a code of digits, beside a
login what mixes letters with digits or signs. Only prose is read: in code and data, names are those of fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_SENTENCE_CHARS = 400
"""A longer one is no sentence that a person types."""
MIN_TOKEN_CHARS = 5
MIN_KEY_CHARS = 12
"""Of a token beside the word `key`."""
MIN_PLACE_DIGITS = 4
"""A shorter number beside a door or a locker is its own."""
MIN_IDENTITY_DIGITS = 7


def _words(words: str, before: str = r"\b(?:", after: str = r")\b") -> re.Pattern[str]:
    """Return a pattern of alternatives, separated by white space; `_` is a space."""
    return re.compile(f"{before}{'|'.join(words.split()).replace('_', ' ')}{after}", re.IGNORECASE)


_SENTENCE = re.compile(r"[^\n]+?(?:[.!?](?=\s)|\n|\Z)")
_PROSE = re.compile(r"[{}<>]|=>|==|\(\)|\w\(['\"\w]|;\s*$|^\s*(?:\$|#|>|//|import\b|def\b|return\b|const\b|let\b)")
"""What sentences of people do not have."""
_STRONG = _words(r"""
    (?:pg)?pass(?:word|wd|code|wort|phrase)s? pwd pw mdp mot_de_passe kennwort losung contraseñ?a senha
    geheimzahl (?:my|mein\w*|mon|mi|the|der|die|el|le|your|our|bank|card|sim)[_-](?:\w+[_-])?pin
    pin_(?:von|for|of|de|del|du) pin[-_]?(?:code|nummer|number|zahl) digicode passkey unlock_(?:code|pattern)
    entsperr\w+ lock_?screen
    (?:code|zahl|número|clave)_(?:de|del|vom|von|of|for)_(?:(?:la|le|el|mi|ma|mon|my|the|der|dem|meinem)_)?(?:carte\w*|tarjeta)
    (?:code|zahl|número|clave)_(?:de|del|vom|von|of|for)_(?:(?:la|le|el|mi|ma|mon|my|the|der|dem|meinem)_)?(?:phone|sim|handy\w*)
    (?:code|zahl|número|clave)_(?:de|del|vom|von|of|for)_(?:(?:la|le|el|mi|ma|mon|my|the|der|dem|meinem)_)?(?:tel[eé]fono|móvil)
    (?:code|clave)_(?:de|del)_(?:(?:ma|mon|la|le|mi)_)?(?:téléphone|carte\w*) clave_(?:de|del)
""")
_PLACES = _words(r"""
    alarm(?:anlage|e|a)? (?:the|my|our|a|your)_safe safe_(?:code|combination|opens) tresor coffre caja_fuerte
    vault (?:bike|combination|door|shed|front|number|smart)_lock padlock fahrradschloss zahlenschloss cadenas
    candado gate hoftor gartentor portail port[óo]n puerta (?:front_|back_)?door haustür tür porte garage
    key_?box lockbox schlüssel(?:kasten|box|tresor) boîte_à_clés locker spind voicemail immeuble edificio keypad
""")
_ENTRY = _words(
    r"""
    log(?:ging|s|ged)?_?(?:in|on|into) login logon sign(?:s|ed|ing)?_in anmeld\w* einlogg\w* zugang zugangsdaten
    usuario identifiant credentials wi-?fi wlan hotspot router nas get_in entro entra[rs]? connexion conectar\w*
    \w*portal
    """,
    before=r"(?<![\w./@-])(?:",
    after=r")(?![/@-]|[.:_]?\w)",
)
"""Alone: `/login`, `login.js` and `portal:2024` are names."""
_KEY = _words("key token schlüssel clé clef clave")
_IDENTITY = _words(r"""
    nhs(?:_number)? national_insurance ssn social_security sozialversicherungs?nummer steuer-?(?:id|nummer) sécu
    (?:numéro_de_)?sécurité_sociale seguridad_social dni nie passport reisepass\w* passeport pasaporte
    personalausweis\w*
""")
_OPENS = _words(
    r"""
    code código combin\w+ kombin\w+ open\w* unlock\w* disarm\w* wants enter types? punch press dial remember is
    are was with gibs?t? tippe?n? drück\w* geht öffne\w* lautet hat ist war mit tapes? tape[rz] entre[rz]?
    ouvre\w* est avec abre\w* marca\w* es con changed geändert changé cambi\w+
    """,
    after=r")\b|[:=](?!\d)|c['\u2019]est",
)
_HINTS = _words(
    r"""
    pass pin\b pw\b pwd mdp\b kennwort geheimzahl losung contrase senha clave code código alarm safe tresor
    coffre caja_fuerte vault lock schloss cadenas candado gate\b tor\b porta port[óo]n porte puerta door tür
    garage schlüssel key cl[ée]f?\b token spind wi-?fi wlan router hotspot log sign anmeld zugang usuario
    identifiant credential entr nas\b get_in connexion conectar voicemail mailbox building immeuble edificio gym
    entsperr nhs insurance ssn soci steuer sécu segur dni nie personalausweis
    """,
    before="(?:",
    after=")",
)
"""Parts of all these words: a text without any is not searched."""
_NUMBERED = _words(
    r"""
    (?:error|exit|status|http|zip|post|postal|area|country|promo|discount|article|bar|source|fehler|artikel)[-_]?(?:codes?)?
    items? orders? invoice ports? lines? version room floor suite extension durchwahl ticket page seite number
    nummer no nr n° since in year until from by seit im jahr bis depuis en desde gpio pid process thread worker
    job build id steps? day tag flight gleis platform model modell modelo modèle phone tel telefon téléphone
    call postleitzahl plz code_postal código_postal zip at um à las rfc costs? kostet coûte cuesta
    """,
    before=r"(?:\b(?:",
    after=r")(?: (?:is|ist|est|es))?|[$€£#+])[ :.#]{0,3}\Z",
)
"""What a number that opens nothing is preceded by."""
_CALLED = _words(
    "commits? branch tag sku product order invoice rechnung auftrag kurs commande facture pedido factura",
    after=r")[ ]#?\Z",
)
"""What a name with digits that opens nothing is preceded by."""
BEFORE_CHARS = 40
"""Neither is longer."""
_BEHIND = _words(
    r"""
    and then to before after for or if when but so plus hash star pound und dann danach auf ein bevor oder für
    wenn raute puis et pour si avant dièse y luego después antes para si o as on at again now
    """,
    before=r"\A[#*]?(?:\s*(?:\Z|[.,;:!?)\"'\u2019\u201d\u2013\u2014-]|\((?!\d))|\s+(?:",
    after=r")\b)",
)
"""What follows a code; another word is what a number counts or measures."""
_TOKEN = re.compile(r"[^\s,;\"'`«»“”„()\[\]]+")
_DIGITS = re.compile(
    r"(?<![\w.,:/@+(-])(?:\d{2,4}(?:[ -]\d{2,4}){2,4}|\d(?: \d){3,7}|\d{1,2}(?: ?- ?\d{1,2}){2,5}|\d{3,8})"
    r"(?![\w@]|[.:/,]\d|-\d)"
)
_YEAR = re.compile(r"(?:19|20)\d\d\Z")
_DATE = re.compile(r"(?:(?:19|20)\d\d-\d\d-\d\d|\d\d?-\d\d?-(?:19|20)\d\d)\Z")
_IDENTIFIER = re.compile(r"\A(?:[A-Za-z]+|v?\d+)(?:[_:](?:[A-Za-z]+|v?\d+))+\Z")
"""Of a column or a cache: words and numbers, `order_id_2024_v2`; random keys have both in one."""
_NO_CODE = re.compile(
    r"\A(?:.*://.*|[^@]+@[^@]+\.\w+|v?\d+(?:\.\d+)+\w*|[A-Z]{2,6}-\d+|\d{1,3}[a-zA-Z]{1,3}|\d{1,2}:\d\d\w*|\d+(?:st|nd|rd|th|º|ª|x\d+\w{0,2})"
    r"|[/~.*].*|.*[/\\].*|.*\*|\w+=\w*|[-?]*[A-Za-z_]+=.*|[\w.-]+\.\w{2,4}#.*|\d{4}-\d\d-\d\dT.*"
    r"|[0-9a-f-]{12,}|(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}|[#+$€%&=!?.:-]+|\d+[%€$£]|[$€£#]\d+.*|\W?\w+[!?:.]+)\Z"
)
"""Addresses, versions, tickets, measures, times, paths, markup, assignments, hashes, prices."""
_NAME = re.compile(r"\A(?:[A-Z][A-Za-z]*\d{1,4}|[A-Za-z]+(?:[_-][A-Za-z]+)*[_-]\d+)\Z")
"""Of a product, a standard, a host or a user: `OAuth2`, `db-11`, `anna_lee_12`; beside a password it may be one."""
_SIGN = re.compile(r"[!?#$%&*@^+=~]")


class _Value(NamedTuple):
    """What looks like a code."""

    start: int
    end: int
    text: str
    is_number: bool


def find_stated(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the values that a sentence states beside what they open."""
    if not _HINTS.search(text):
        return
    for match in _SENTENCE.finditer(text):
        sentence = match[0]
        if len(sentence) <= MAX_SENTENCE_CHARS and _HINTS.search(sentence) and not _PROSE.search(sentence):
            for start, end in _secrets(sentence):
                yield match.start() + start, match.start() + end


def _secrets(sentence: str) -> Iterator[tuple[int, int]]:
    is_strong, has_place = (pattern.search(sentence) is not None for pattern in (_STRONG, _PLACES))
    has_entry, has_key, has_identity = (pattern.search(sentence) is not None for pattern in (_ENTRY, _KEY, _IDENTITY))
    has_place = has_place and _OPENS.search(sentence) is not None
    for value in _values(sentence):
        digits = sum(map(str.isdigit, value.text))
        if value.is_number:
            is_code = has_place and digits >= MIN_PLACE_DIGITS and not _YEAR.match(value.text)
            is_secret = is_strong or is_code or (has_identity and digits >= MIN_IDENTITY_DIGITS)
        else:
            is_long = len(value.text) >= MIN_KEY_CHARS and not _IDENTIFIER.match(value.text)
            is_key = has_key and is_long and digits > 1
            is_secret = is_strong or ((has_place or has_entry or is_key) and not _NAME.match(value.text))
        if is_secret:
            yield value.start, value.end


def _values(sentence: str) -> Iterator[_Value]:
    """Yield numbers that count, date and measure nothing, and words with digits or signs."""
    for match in _DIGITS.finditer(sentence):
        is_counted = _NUMBERED.search(_before(sentence, match)) or _DATE.match(match[0])
        if not is_counted and _BEHIND.match(sentence[match.end() :]):
            yield _Value(match.start(), match.end(), match[0], is_number=True)
    for match in _TOKEN.finditer(sentence):
        token = match[0].rstrip(".:!?,")
        is_mixed = len(token) >= MIN_TOKEN_CHARS and not _NO_CODE.match(token) and _is_mixed(token)
        if is_mixed and not _CALLED.search(_before(sentence, match)):
            yield _Value(match.start(), match.start() + len(token), token, is_number=False)


def _before(sentence: str, match: re.Match[str]) -> str:
    """Return the last words before a match."""
    return sentence[max(0, match.start() - BEFORE_CHARS) : match.start()]


def _is_mixed(token: str) -> bool:
    """Return whether a token has letters with two digits or with a sign, as passwords have and words don't."""
    if not any(map(str.isalpha, token)):
        return False
    return sum(map(str.isdigit, token)) > 1 or _SIGN.search(token[1:-1]) is not None
