"""Chooses the provider of a request, and its headers and key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import parse_qs, unquote_plus

import httpx2

from foveate.server.gateway.headers import LATIN
from foveate.server.problems import ProblemError
from foveate.server.settings import ServerSettings

KEPT_FROM_CLIENT: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
        "content-encoding",
        "accept-encoding",
        "cookie",
        "forwarded",
        "via",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
    }
)
"""Request headers that concern the connection to the gateway, or would make another request of the one that was
checked. They are not forwarded."""
PREFIXES_KEPT_FROM_CLIENT: Final = ("x-foveate-", "x-forwarded-", "x-original-", "x-rewrite-")
ACCOUNTS: Final = ("openai-organization", "openai-project", "x-goog-user-project")
"""Headers that choose among the accounts of a provider key; with a key of ours they are not forwarded."""
QUERY_OVERRIDES: Final = ("$httpmethod", "$httpheaders", "$req", "x-http-method-override")
"""Parameters of the query that would make another request (Google). They are not forwarded."""
QUERY_CREDENTIALS: Final = ("key", "access_token", "oauth_token", "$userproject", "quotauser")
"""Parameters that choose a key or an account (Google); with a key of ours they are not forwarded."""
KEPT_FROM_UPSTREAM: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "transfer-encoding",
        "content-length",
        "content-encoding",
        "set-cookie",
        "date",
        "server",
    }
)
CREDENTIALS: Final = ("authorization", "x-api-key", "x-goog-api-key", "x-foveate-key", "api-key")
KEY_PREFIX: Final = "fov_"
NOT_SET: Final = "the environment variable {variable} is not set; its operator sets it and restarts 'foveate serve'"
KEY_HEADERS: Final = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}


@dataclass(frozen=True, slots=True)
class Target:
    """The provider that a request is sent to."""

    base: str
    """Base URL, without a trailing slash and without `/v1`."""
    key: str | None = None
    """Our key for the provider; None forwards the client's own."""

    def of_client(self, given: Mapping[str, str], query: str, problem: str) -> Target:
        """Return the same provider with the client's own key; `ProblemError` 403 with this problem if it sends none."""
        values = [given.get(name, "") for name in CREDENTIALS] + parse_qs(query).get("key", [])
        if not any(value.strip() and KEY_PREFIX not in value for value in values):
            raise ProblemError(403, problem)
        return replace(self, key=None)

    def url(self, path: str, query: str = "") -> str:
        """Return the URL of a path, with the parts of the query that may be sent."""
        kept = "&".join(part for part in query.split("&") if all(map(self._may_send, part.split(";"))))
        return f"{self.base}{path}{'?' if kept else ''}{kept}"

    def _may_send(self, part: str) -> bool:
        name, _, value = part.partition("=")
        name = unquote_plus(name).strip().lower()
        if name in QUERY_OVERRIDES or KEY_PREFIX in unquote_plus(value):
            return False
        return self.key is None or name not in QUERY_CREDENTIALS

    def headers(self, given: Mapping[str, str], format_name: str) -> dict[str, str]:
        """Return the client's headers without those for the gateway, with the provider's key."""
        kept = {
            name: value
            for name, value in given.items()
            if name not in KEPT_FROM_CLIENT and not name.startswith(PREFIXES_KEPT_FROM_CLIENT)
        }
        ours = [name for name in CREDENTIALS if name in kept and KEY_PREFIX in kept[name]]
        for name in ours:
            del kept[name]
        if self.key is not None:
            for sent in (*CREDENTIALS, *ACCOUNTS):
                kept.pop(sent, None)
            header = KEY_HEADERS.get(format_name, "authorization")
            kept[header] = f"Bearer {self.key}" if header == "authorization" else self.key
        return kept


def choose(settings: ServerSettings, model: str, format_name: str) -> Target | None:
    """Return the first provider that accepts this model and format, otherwise the default one; None without any."""
    for upstream in settings.upstreams.values():
        takes_model = not upstream.models or any(fnmatchcase(model, pattern) for pattern in upstream.models)
        if takes_model and (not upstream.formats or format_name in upstream.formats):
            return Target(_base(upstream.url), _key(upstream.key_variable))
    return Target(_base(settings.upstream)) if settings.upstream else None


def accepted(settings: ServerSettings) -> list[str]:
    """Return which models and formats each provider accepts, as a client reads it."""
    return [
        f"{name}: {', '.join(upstream.models) or 'any model'}"
        + (f" ({', '.join(upstream.formats)} only)" if upstream.formats else "")
        for name, upstream in settings.upstreams.items()
    ]


def listed(settings: ServerSettings) -> tuple[str, ...]:
    """Return what the gateway forwards to, in the order of choice, as an operator reads it."""
    named = [f"{_shown(upstream.url)} ({name})" for name, upstream in settings.upstreams.items()]
    return (*named, *([_shown(settings.upstream)] if settings.upstream else ()))


def without_key(settings: ServerSettings) -> list[str]:
    """Return a sentence for each upstream whose key is not in the environment: its requests would fail."""
    return [
        f"upstream {name!r} has no key: {NOT_SET.format(variable=upstream.key_variable)}"
        for name, upstream in settings.upstreams.items()
        if upstream.key_variable is not None and not os.environ.get(upstream.key_variable)
    ]


def _shown(url: str) -> str:
    """Return a URL without its user and password."""
    scheme, separator, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{separator}{place.rpartition('@')[2]}{slash}{path}" if separator else url


def _base(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1").removesuffix("/v1beta")


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    found = os.environ.get(variable)
    if not found:
        problem = f"the server has no key for this upstream: {NOT_SET.format(variable=variable)}"
        raise ProblemError(503, problem, headers={"x-should-retry": "false"})
    return found


def answer_headers(given: Mapping[str, str]) -> dict[str, str]:
    """Return the upstream headers that the client gets, byte by byte: retry and rate headers, request ids."""
    headers = httpx2.Headers(given.raw, encoding=LATIN) if isinstance(given, httpx2.Headers) else given
    return {name: value for name, value in headers.items() if name.lower() not in KEPT_FROM_UPSTREAM}
