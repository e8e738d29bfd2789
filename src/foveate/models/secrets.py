"""Removing keys from messages: nothing a provider echoes may carry one into a log, an event or a database."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote, urlsplit

MASK = "[key]"
SHOWN_CHARS = 300
"""Characters shown of a provider's message in an error."""
MIN_KEY_CHARS = 4
"""A shorter value is no key, and taking it out would only garble the text."""

# Prefixes that providers give their keys, also with the middle starred out; and the value of a header.
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
"""What people and tools write into turns: keys of other services, private keys, passwords with their names."""
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these secrets and without whatever else looks like a key."""
    for secret in secrets:
        if len(secret) >= MIN_KEY_CHARS:
            for form in _forms(secret):
                text = text.replace(form, MASK)
    return _LOOKS_LIKE_A_KEY.sub(MASK, _USER_IN_URL.sub(f"{MASK}@", text))


def redact(text: str) -> str:
    """The text of a turn without anything that looks like a secret: keys, tokens, private keys and passwords."""
    return _LOOKS_LIKE_A_SECRET.sub(MASK, scrub(text))


def scrub_line(text: str, secrets: Iterable[str] = ()) -> str:
    """The same on one line, cut to SHOWN_CHARS; scrubbed before it is cut, so that no part of a key is left over."""
    line = " ".join(scrub(text, secrets).split())
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…"


def secrets_in(url: str) -> tuple[str, ...]:
    """What gives access in an address: its password, or a user without one; a user's name beside it is no secret."""
    parts = urlsplit(url)
    secret = parts.password or parts.username or ""
    return tuple(dict.fromkeys((secret, unquote(secret)))) if secret else ()


def _forms(secret: str) -> Iterator[str]:
    """The secret as it is, and as a server may repeat it: in an address, or in base64."""
    yield secret
    yield quote(secret, safe="", errors="replace")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(secret.encode(errors="replace")).decode().rstrip("=")
