"""Removal of keys from messages, so that no provider's message carries one into a log, an event or a database."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote, urlsplit

MASK = "[key]"
SHOWN_CHARS = 300
"""Characters shown of a provider's message in an error."""
MIN_KEY_CHARS = 4
"""A shorter value is not a key, and removing it would only garble the text."""

# Prefixes of providers' keys, also with the middle masked by asterisks; and the value of a header.
_LOOKS_LIKE_A_KEY = re.compile(
    r"(?i:\b(?:api[-_]?key|x-api-key|x-goog-api-key|authorization|access[-_]?token)"
    r"['\"]?\s*[=:]\s*['\"]?(?:(?:bearer|basic)\s+)?[^\s,;&'\"]{4,})"
    r"|(?i:\b(?:bearer|basic)\s+[^\s,;'\"]{12,})"
    r"|\b(?:sk|pk|rk)-[\w*.…-]{6,}"
    r"|\bAIza[\w*.…-]{10,}"
    r"|\b(?:xai-|gsk_|hf_|r8_|AQ\.)[\w*.…-]{10,}"
)
_LOOKS_LIKE_A_SECRET = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|npm_|pypi-|dop_v1_|SG\.)[\w*.…-]{10,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|(?i:(?<![a-z])(?:pass(?:word|wd|phrase)?|pwd|secret(?:[-_]?(?:access[-_]?)?key)?|client[-_]?secret|private[-_]?key"
    r"|(?:auth|refresh|session)[-_]?token|passwort|kennwort)['\"]?\s*[=:]\s*['\"]?[^\s,;&'\"\[]{4,})",
    re.DOTALL,
)
"""Secrets in turns: keys of other services, private keys, passwords with their names."""
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """Remove these secrets and anything else that looks like a key."""
    for secret in secrets:
        if len(secret) >= MIN_KEY_CHARS:
            for form in _forms(secret):
                text = text.replace(form, MASK)
    return _LOOKS_LIKE_A_KEY.sub(MASK, _USER_IN_URL.sub(f"{MASK}@", text))


def redact(text: str) -> str:
    """Remove everything that looks like a secret from a turn's text: keys, tokens, private keys and passwords."""
    return _LOOKS_LIKE_A_SECRET.sub(MASK, scrub(text))


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
