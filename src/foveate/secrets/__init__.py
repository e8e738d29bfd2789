"""Secrets in texts: keys, tokens, passwords, PINs, codes of doors, security answers, numbers of cards and accounts.

They are found and masked.

One detector for all: knowledge never learns a secret, and no provider's message carries one into a log, an event or a
database. Each pattern scans a text once: repetitions are bounded, or start where no earlier one could have.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from urllib.parse import quote, unquote, urlsplit

from foveate.secrets.sentences import find_stated

MASK = "[key]"
SHOWN_CHARS = 300
"""Characters shown of a provider's message in an error."""
MIN_KEY_CHARS = 4
"""A shorter value is not a key, and removing it would only garble the text."""
MIN_TOKEN_CHARS = 8
"""Shorter values of a `token` or `key` are counts and names."""
MIN_DIGITS = 6
"""A shorter number behind a password's name counts something; a PIN has its own pattern."""
MIN_CHANGES = 14
"""Of 40 random base64 characters, 25 on average differ in class from the one before (capital, small letter, digit,
sign), fewer than 15 in one of 10,000. In paths and names of classes they are fewer."""

MAX_STATED = 100
"""More passwords of one text are masked only where they are stated."""

_NO_IDENTIFIER = r"(?!(?:[a-z]{1,15}|\d{1,4})(?:[-_]{1,2}(?:[a-z]{1,15}|\d{1,4})){0,12}\.?(?:[^\w*.…-]|\Z))"
"""Words and numbers, as in `sk-container-id-1` and `hf_dataset_2`, are no key."""
_ISSUED = re.compile(
    # Prefixes of services, also with the middle masked by asterisks.
    rf"\b(?:sk|pk|rk)-{_NO_IDENTIFIER}[\w*.…-]{{6,}}"
    r"|\b(?:(?:sk|rk)_(?:live|test)|whsec|fov)_\w{16,}"
    r"|\bAIza[\w*.…-]{10,}"
    rf"|\b(?:xai-|gsk_|hf_|r8_|AQ\.){_NO_IDENTIFIER}"
    r"(?=[\w*.…-]{0,40}\d)[\w*.…-]{10,}"
    r"|\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|xapp-|dop_v1_|GOCSPX-)[\w*.…-]{10,}"
    r"|\b(?:npm_|pypi-|ya29\.|shp(?:at|ca|pa|ss)_|hv[bs]\.|dckr_pat_|glsa_|sbp_|tskey-|PMAK-|sntry[su]_|ATATT3|NRAK-|lin_api_"
    r"|figd_|pul-|sq0[ac][ts]p-|AGE-SECRET-KEY-1|tvly-|pplx-|csk-|nvapi-|ntn_|lsv2_(?:pt|sk)_|ph[cx]_|rpa_|fc-|jina_)"
    rf"{_NO_IDENTIFIER}"
    r"(?=[\w*.…-]{0,40}[\dA-Z])[\w*.…-]{16,}"
    r"|\bSG\.[\w*…-]{10,}\.[\w*…-]{10,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"
    r"|\b(?:SK|key-|dapi)[0-9a-f]{32}\b"
    r"|\bsecret_(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{40,}\b"
    r"|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|(?<![\w-])[MNO][\w-]{23,25}\.[\w-]{6,7}\.[\w-]{27,40}(?![\w-])"  # Discord
    r"|(?<![\w:])\d{8,10}:[\w-]{35}(?![\w-])"  # Telegram
    r"|(?<=hooks\.slack\.com/services/)[\w/]{20,}|(?<=/api/webhooks/)\d+/[\w-]{30,}"
    r"|(?<![\w$])\$(?:2[aby]|5|6|y|argon2id?)\$[\w./$=,+-]{20,}"  # hashes of passwords
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_BASE64_40 = re.compile(r"(?<![\w/+=-])[A-Za-z0-9/+]{40}(?![\w/+=-])")
"""The length of AWS's secret keys, which have no prefix."""
_PASSWORDS = (
    r"(?:pg)?pass(?:word|wd|phrase|code)|pwd|passwort|kennwort|passwörter|losung|mot de passe|contraseñ?a|clave|senha"
    r"|wachtwoord|lösenord|hasło|пароль|密码|密碼|パスワード|비밀번호"
)
_KEYS = (
    r"(?:api|access|auth|account|shared|signing|encryption|master|license|private|secret|service)"
    r"[-_ ]?(?:access[-_ ]?)?(?:key|token)"
    r"|(?:client|app|shared|signing|webhook)[-_ ]?secret|(?:bearer|refresh|session|security|bot|id)[-_ ]?token"
    r"|secret|token|credentials?|x-goog-api-key|api[-_]?schlüssel|zugangsschlüssel|clé d'api|clave de api"
)
_SAFE_PLACES = (
    r"wi-?fi|wlan|door|gate|garage|alarm|safe|locker|lock|vault|unlock|entry|access|tür|tor|haus|zugangs|entsperr"
)
_CODES = (
    rf"(?:{_SAFE_PLACES})[- ]?(?:code|key|combination|schlüssel)"
    r"|code (?:wi-?fi|d['\u2019]accès|d['\u2019]entrée|de (?:la )?porte|du (?:portail|coffre|garage)"
    r"|de l['\u2019]alarme|de déverrouillage)"
    r"|(?:código|clave|combinación) (?:wi-?fi|de(?:l| la)? (?:acceso|entrada|puerta|portal|alarma|caja fuerte|wi-?fi))"
    rf"|(?:code|combination) (?:for|of|to) (?:the |my |our )?(?:{_SAFE_PLACES}|front door|house|office)"
)
"""What opens a place or a network."""
_ANSWERS = (
    r"(?:my |your )?mother(?:['\u2019]s)? maiden name|mädchenname(?:n)? meiner mutter|geburtsname(?:n)? meiner mutter"
    r"|nom de jeune fille de ma mère|apellido de soltera de mi madre"
    r"|(?:security|secret) answer|answer to (?:the|my) (?:security|secret) question|sicherheitsantwort|réponse secrète"
    r"|réponse à (?:la|ma) question (?:secrète|de sécurité)|respuesta (?:secreta|de seguridad)"
)
_PINS = r"pin(?:[- ]?(?:code|nummer|number))?|geheimzahl|cvv2?|cvc2?|security code|sicherheitscode|otp"
_COPULA = r"is|are|was|lautet|ist|war|est|es|è|é|är|jest|это|是|は|=|:"
_VALUE = (
    r"""(?:"(?P<double>[^"\n]{4,200})"|'(?P<single>[^'\n]{4,200})'|`(?P<back>[^`\n]{4,200})`"""
    r"""|(?P<bare>[^\s"'`<>,;]{4,}))"""
)
_START = r"(?:(?<![^\W_])|(?<=[a-z])(?=[A-Z]))"
"""A name begins at a word, after an underscore, or at a capital in camelCase."""


def _named(names: str, between: str, value: str = _VALUE) -> re.Pattern[str]:
    return re.compile(rf"{_START}(?i:(?P<name>{names}){between}){value}")


_ASSIGNED = r"""['"]?[ \t]{0,8}(?:[=:\uff1a]|=>|:=|>|是|为|は)[ \t]{0,8}"""
_SAID = (
    rf"(?:[ ](?!(?:{_COPULA})[ ])[^\s.,;:=!?]{{1,24}}){{0,4}}"
    rf"[ ](?:{_COPULA})(?:[ ](?:now|still|always|jetzt|immer|set to))?[: ]{{1,3}}"
)
"""At most four words before the verb: `password for the intranet is`."""
_OF_PASSWORDS = (_named(_PASSWORDS, _ASSIGNED), _named(_PASSWORDS, _SAID), _named(_PASSWORDS, r"[ ]"))
_OF_KEYS = (_named(_KEYS, _ASSIGNED), _named(_KEYS, _SAID), _named(_KEYS, r"[ ]"))
_OF_PINS = _named(_PINS, rf"(?:{_ASSIGNED}|{_SAID}|[ ])", r"""['"]?(?P<bare>\d{3,8})(?!\w|[.:-]\w)""")
_DIGITS = r"""['"]?(?P<bare>\d(?:[ -]?\d){3,11})(?!\w|[.:-]\w)"""
_OF_CODES = (
    _named(_CODES, rf"(?:{_ASSIGNED}|{_SAID}|[ ])", _DIGITS),
    re.compile(
        r"\b(?i:unlock|open|disarm|entsperre?n?|öffne?n?|déverrouille[rz]?|ouvre[rz]?|desbloquea?r?|abrir|abre)\b[^.;:!?\n]{0,40}?"
        rf"\b(?i:code|combination|código|combinación)(?:[ ](?:{_COPULA}))?[ :]{{1,2}}{_DIGITS}"
    ),
)
_OF_CODES_SAID = (_named(_CODES, _ASSIGNED), _named(_CODES, _SAID))
_OF_ANSWERS = re.compile(
    rf"{_START}(?i:(?:{_ANSWERS})(?:[ ](?:(?:{_COPULA})(?:[ ](?:now|still|always))?)|[ ]?[:=])?)[ ]{{1,3}}"
    r"['\"]?(?P<bare>(?!(?i:(?:was|is|ist|est|es|and|or|for|to|as|in|of|that|my|the|a|an|not|isn't|und|et|y)\b))"
    r"[A-Z0-9À-Þ][^\s,;'\"]{2,40})"
)
_AS_ANSWER = re.compile(
    r"(?<!\S)(?P<bare>[A-Z0-9À-Þ][^\s,;]{2,40})[ ]"
    r"(?:as|als|comme|como)[ ](?:the|my|our|die|meine|la|ma|mi)[ ]"
    r"(?i:security answer|secret answer|answer to (?:the|my) security question|sicherheitsantwort|réponse secrète"
    r"|respuesta (?:secreta|de seguridad))(?!\w)"
)
_IBAN = re.compile(r"(?<![\w-])[A-Z]{2}\d\d(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,3})?(?![\w-])")
_AS_PASSWORD = re.compile(
    r"(?<!\S)(?P<bare>[^\s,;]{4,64})[ ](?:as|is|als|ist|comme|como)[ ](?:the|my|our|das|mein|le|mon|la|mi)[ ]"
    rf"(?:\w{{1,20}}[ ])?(?i:{_PASSWORDS})(?!\w)"
)
_HEADER = re.compile(
    r"(?i:(?<![\w-])(?:proxy-)?authorization|x-api-key|x-auth-token)['\"]?[ \t]{0,8}[=:][ \t]{0,8}['\"]?"
    r"(?:(?i:bearer|basic|token|digest)\s{1,8})?(?P<bare>[^\s,;&'\"\[]{4,})"
    r"|\b(?i:bearer|basic)\s{1,8}(?P<single>[\w.~+/=-]{12,})"
)
_COMMAND = re.compile(
    r"(?<!\S)(?:-u|--user|--proxy-user)[ =]['\"]?[^\s:'\"]{1,64}:(?P<bare>[^\s'\"]{3,})"
    r"|\bmachine\s{1,8}\S{1,200}\s{1,8}login\s{1,8}\S{1,200}\s{1,8}password\s{1,8}(?P<single>\S{3,})"
)
_IN_URL = re.compile(
    r"(?<=://)(?:[^/@\s:]{0,200}:(?P<bare>[^/@\s]{1,})@|(?<!ssh://)(?P<single>[^/@\s:]{4,})@)"
    r"|[?&](?i:(?:api_?|access_?)?(?:key|token)|sig|signature|x-amz-signature|x-goog-signature)=(?P<back>[^\s&#'\"<>\[]{8,})"
)
_NO_WORD = r"(?!(?:the|and|are|but|can|for|from|has|have|must|not|our|should|their|was|which|will|with|your)\b)"
"""Words of a sentence about a phrase are none of the phrase."""
_PHRASE = re.compile(
    r"(?i:\b(?:seed|recovery|mnemonic|backup|secret|wallet)[ ](?:phrase|words|mnemonic)\b|\bmnemonic)"
    r"[ ]?(?:(?:is|are|always|lautet|est|es)\b[ ]?){0,2}[:= ]{0,3}['\"]?"
    rf"(?P<bare>(?:{_NO_WORD}[a-z]{{3,8}}[ ,]{{1,2}}){{11,23}}{_NO_WORD}[a-z]{{3,8}})"
)
_PASSPHRASE = re.compile(
    r"(?i:\b(?:the|my|our|die|meine|unsere|la|ma|notre|mi|nuestra)[ ](?:\w{1,20}[ ])?"
    r"(?:pass[- ]?phrase|phrase (?:de passe|secrète)|frase (?:de contraseña|secreta|de paso)))"
    r"(?:[ ](?:is|ist|lautet|est|es)(?:[ ](?:now|still|always))?[: ]|[ ]?[:=]|[ ])[ ]{0,2}['\"]?"
    rf"(?P<bare>{_NO_WORD}(?!(?:\w+(?:ed|ing)|too|only|never|always|when|if|in|on|to|as|at|of|is|twice|again)\b)"
    rf"[a-z]{{3,12}}(?:[ -]{_NO_WORD}[a-z]{{3,12}}){{3,8}})(?=['\"]?(?:[.,;!?\n]|\Z))"
)
_CARD = re.compile(r"(?<![\w.+/-])(?:\d{4}([ -]?)\d{4}\1\d{4}\1\d{4}|3[47]\d{2}([ -]?)\d{6}\2\d{5})(?![\w-])")
_ISSUERS = re.compile(r"4|5[1-5]|2(?:2[2-9]|[3-6]|7[01]|720)|3[47]|35|6(?:011|22|4[4-9]|5)")
"""Visa, Mastercard, American Express, JCB, Discover."""
_SOCIAL_SECURITY = re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")
_SOCIAL_SECURITY_NAMED = re.compile(
    r"\b(?i:ssn|social security(?: number| no\.?)?)(?: is|:| =|=)? {0,3}(?P<bare>\d{3}[ -]?\d{2}[ -]?\d{4})(?!\w)"
)

_PLACEHOLDER = re.compile(
    r"\A(?:[$%{<\[(].*|.*\$\{.*|(?i:your|my|new|old|the|an?|some|any|change|example|enter|set|use|see|none|null|nil"
    r"|true|false|undefined|str(?:ing)?|bytes|optional|required|text|self|this|os|process|env)(?:[-_. \[(].{0,80})?"
    r"|(?i:change_?me|your?\w{0,20})|[*xX.•_…-]+)\Z",
    re.DOTALL,
)
_CODE = re.compile(r"\A[A-Za-z_][\w.]*(?:[(\[]|\Z)|\A[\w.]+\(|\)\Z")
"""A name, an attribute or a call: the source of a secret, not the secret."""
_PATH = re.compile(r"\A(?:~|\.{0,2})/|\A[A-Za-z]:\\|\.(?:\w{2,4})\Z|\A[\w.-]+/[\w./-]+\Z")
_STATE = re.compile(
    r"(?i)\A(?:\w+(?:ed|ing|able|ible|ful|less|ional)|not|wrong|empty|invalid|incorrect|missing|optional|too|only|that|what|never|always"
    r"|here|there|okay|fine|good|weak|strong|secure|long|short|safe|case|sent|kept|part|still|also|very|just|used|gone|lost|known"
    r"|hidden|written|given|shown|correct|valid|same|different|right|something|nothing|secret|password|token|hash|input|data)\Z"
)


def find(text: str) -> list[tuple[int, int]]:
    """Find the secrets of a text: start and end of each, in order, none overlapping."""
    spans = [match.span() for match in _ISSUED.finditer(text)]
    spans += [match.span() for match in _BASE64_40.finditer(text) if _changes(match[0]) > MIN_CHANGES]
    spans += [match.span() for match in _CARD.finditer(text) if _is_card(match[0])]
    spans += [match.span() for match in _SOCIAL_SECURITY.finditer(text)]
    spans += find_stated(text)
    spans += [match.span() for match in _IBAN.finditer(text) if _is_iban(match[0])]
    spans += [_span(match) for match in _HEADER.finditer(text) if _is_credential(text[slice(*_span(match))])]
    for pattern in (_COMMAND, _IN_URL, _PHRASE, _PASSPHRASE, _SOCIAL_SECURITY_NAMED, _OF_PINS):
        spans += [_span(match) for match in pattern.finditer(text)]
    folded = text.casefold()
    for hints, patterns, is_value in _NAMES:
        if any(hint in folded for hint in hints):
            spans += [_span(match) for pattern in patterns for match in pattern.finditer(text) if is_value(match)]
    spans += [_span(match) for match in _AS_PASSWORD.finditer(text) if _is_mixed(match["bare"])]
    return _joined(sorted(spans))


def is_issued(text: str) -> bool:
    """Return whether a text is a key by its form, as services issue them."""
    return _ISSUED.match(text.strip()) is not None


def stated(text: str) -> tuple[str, ...]:
    """Return the secrets that are one only by the words around them, to mask them also where others repeat them."""
    found = dict.fromkeys(text[start:end] for start, end in find(text) if end - start >= MIN_KEY_CHARS)
    return tuple(islice((value for value in found if not find(value)), MAX_STATED))


def redact(text: str, known: Iterable[str] = ()) -> str:
    """Mask everything that looks like a secret, and these known ones."""
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    kept, end = [], 0
    for start, after in find(text):
        kept += [text[end:start], MASK]
        end = after
    return "".join([*kept, text[end:]])


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """Mask these secrets, in all forms in which a server may repeat them, and everything else that looks like one."""
    return redact(text, [form for secret in secrets if len(secret) >= MIN_KEY_CHARS for form in _forms(secret)])


def scrub_line(text: str, secrets: Iterable[str] = ()) -> str:
    """Scrub a text and join it into one line of at most SHOWN_CHARS; scrubbed first, so that no part of a key
    remains."""
    line = " ".join(scrub(text, secrets).split())
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…"


def secrets_in(url: str) -> tuple[str, ...]:
    """Return the credentials in a URL: its password, or a user without one; a user name with a password is not a
    secret."""
    parts = urlsplit(url)
    secret = parts.password or parts.username or ""
    return tuple(dict.fromkeys((secret, unquote(secret)))) if secret else ()


def _forms(secret: str) -> Iterator[str]:
    """Yield the secret and the forms in which a server may repeat it: in a URL, or in base64."""
    yield secret
    yield quote(secret, safe="", errors="replace")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(secret.encode(errors="replace")).decode().rstrip("=")


def _span(match: re.Match[str]) -> tuple[int, int]:
    """Return the place of the value in a match, without the punctuation behind it."""
    group = next(name for name, value in match.groupdict().items() if value is not None and name != "name")
    start, end = match.span(group)
    return start, (start + len(match[group].rstrip(".,;:)]}")) if group == "bare" else end)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        elif end > start:
            joined.append((start, end))
    return joined


def _is_password(match: re.Match[str]) -> bool:
    """Return whether the value of a password's name is one: no placeholder, code, path or state of it."""
    start, end = _span(match)
    value = match.string[start:end]
    if not _is_literal(value, match):
        return False
    # Without a verb or a sign between: `password hunter2`, but also `Password **Hashing**`.
    is_beside = match.re is _OF_PASSWORDS[2]
    if _is_mixed(value) and (not is_beside or any(map(str.isdigit, value))):
        return True
    is_quoted = match["bare"] is None
    is_assigned = match.re is _OF_PASSWORDS[0]
    if is_beside or _STATE.match(value):
        return False
    if is_assigned and "=" in match[0][: start - match.start()]:
        return match["name"].casefold() not in value.casefold()
    behind = match.string[end : end + 2].strip()
    before = match.string[max(0, match.start() - 4) : match.start()].casefold()
    return is_quoted or (before.endswith(("my ", "our ")) and not behind.isalnum())


def _is_credential(value: str) -> bool:
    return not (_STATE.match(value) or (value.isalpha() and value[1:].islower()))


def _is_key(match: re.Match[str]) -> bool:
    """Return whether the value of a key's name is random: long, with letters and digits."""
    start, end = _span(match)
    value = match.string[start:end]
    return len(value) >= MIN_TOKEN_CHARS and _is_literal(value, match) and _is_mixed(value)


def _is_code(match: re.Match[str]) -> bool:
    """Return whether the value of a code's name is random: letters with digits or signs."""
    start, end = _span(match)
    return _is_literal(match.string[start:end], match) and _is_mixed(match.string[start:end])


def _is_literal(value: str, match: re.Match[str]) -> bool:
    if len(value) < MIN_KEY_CHARS or _PLACEHOLDER.match(value) or _PATH.search(value):
        return False
    return match["bare"] is None or _is_mixed(value) or not _CODE.search(value) or value.isalpha()


def _is_mixed(value: str) -> bool:
    """Return whether a value has digits with letters, or signs that words don't have."""
    if " " in value or "(" in value or "://" in value:
        return False
    has_letter, has_digit = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    has_sign = re.search(r"[!?#$%&*@^+=~|]", value) is not None
    is_number = value.isdigit() and len(value) >= MIN_DIGITS
    return (has_letter and has_digit) or (has_sign and (has_letter or has_digit)) or is_number


def _changes(value: str) -> int:
    """Count the changes of class from character to character: high in random text, low in words and paths."""
    if not any(map(str.isdigit, value)) or value.upper() == value or value.lower() == value:
        return 0
    kinds = ["d" if each.isdigit() else "u" if each.isupper() else "l" if each.islower() else "s" for each in value]
    return sum(one != other for one, other in pairwise(kinds))


def _is_card(number: str) -> bool:
    digits = re.sub(r"[ -]", "", number)
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return _ISSUERS.match(digits) is not None and sum(sum(divmod(value, 10)) for value in doubled) % 10 == 0


def _is_iban(number: str) -> bool:
    """Return whether the check digits of an account number are right."""
    plain = number.replace(" ", "")
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


def _is_any(_match: re.Match[str]) -> bool:
    return True


_NAMES: tuple[tuple[tuple[str, ...], tuple[re.Pattern[str], ...], Callable[[re.Match[str]], bool]], ...] = (
    (
        (
            *("pass", "pwd", "kennwort", "losung", "contrase", "clave", "senha", "wachtwoord", "lösenord", "hasło"),
            *("пароль", "密码", "密碼", "パスワード", "비밀번호"),
        ),
        _OF_PASSWORDS,
        _is_password,
    ),
    (("key", "token", "secret", "credential", "schlüssel", "clé", "clave"), _OF_KEYS, _is_key),
    (("code", "key", "combina", "schlüssel", "código", "clave"), _OF_CODES_SAID, _is_code),
    (("code", "key", "combina", "schlüssel", "código", "clave"), _OF_CODES, _is_any),
    (
        ("maiden", "mädchen", "geburtsname", "jeune fille", "soltera", "answer", "antwort", "réponse", "respuesta"),
        (_OF_ANSWERS, _AS_ANSWER),
        _is_any,
    ),
)
"""Patterns of named values, each with parts of the names: a text without any of them is not searched."""
