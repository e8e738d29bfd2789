"""HTTP error responses: problem details (RFC 9457) for the API, the provider's envelope for the gateway."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Scope

from foveate import errors
from foveate.errors import FoveateError
from foveate.events import REQUEST_ID
from foveate.session.tenant import SEPARATOR

MEDIA_TYPE = "application/problem+json"
BUSY_SECONDS = 1
"""Retry-After if another process has locked the store."""
STATUSES: tuple[tuple[type[FoveateError], int], ...] = (
    (errors.InputError, 422),
    (errors.NotFound, 404),
    (errors.RightMissing, 403),
    (errors.Refused, 409),
    (errors.ModelHeldBack, 503),
    (errors.ModelError, 502),
    (errors.BadUpstream, 502),
    (errors.StorageFull, 507),
    (errors.StoreBusy, 503),
    (errors.StoreClosed, 503),
    (errors.ReadOnlyStore, 503),
)
"""Status by error class, first match; any other error is a defect or a damaged store: 500."""
TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    411: "Length required",
    413: "Body too large",
    415: "Unsupported media type",
    422: "Invalid input",
    429: "Too many requests",
    500: "Internal error",
    502: "Model failed",
    503: "Unavailable",
    507: "Storage full",
}
DEFECT = "the server failed; its log has the details"
_ANTHROPIC = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large"}
_GEMINI = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
HOME_PATH = "/"
DASHBOARD_PATH = "/ui"
LOGIN_PATH = f"{DASHBOARD_PATH}/login"
STATIC_PATH = f"{DASHBOARD_PATH}/static/"
_VERSIONS = ("v1", "v1beta")
"""The first part of the gateway's paths, without the session."""
REASONED = (401, 403)
"""Statuses whose reason is in the log."""
_QUOTED = re.compile(r" ?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
_WORD = re.compile(r"(?<!^)(?=[A-Z])")

_log = logging.getLogger(__name__)


class Problem(Struct, frozen=True, kw_only=True):
    """Problem details (RFC 9457)."""

    type: str
    """The kind of problem, e.g. `urn:foveate:session-not-found`."""
    title: str
    status: int
    detail: str
    """What failed, and what to do next."""
    request_id: str = ""
    """As in the header X-Foveate-Request-Id and in the server's log."""


class ProblemError(Exception):
    """An error that the server itself raises; `headers` are added to the response. `reason` is what the log says of it,
    for a detail that quotes names of our own: a default reason has no quotations."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str = "",
        headers: Mapping[str, str] | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind or TITLES.get(status, "error").lower().replace(" ", "-")
        self.headers = dict(headers or {})
        self.reason = reason or (_reason(detail) if status in REASONED else "")


def problem_of(error: FoveateError, tenant: str = "") -> ProblemError:
    """Convert an error of the library. Session ids are written as the tenant knows them."""
    status = next((status for kind, status in STATUSES if isinstance(error, kind)), 500)
    detail = str(error)
    if tenant:
        detail = detail.replace(f"{tenant}{SEPARATOR}", "")
    kind = _WORD.sub("-", type(error).__name__).lower()
    if isinstance(error, errors.StoreError):  # its message names a file of the server
        detail = f"the store can't be used now ({kind}); the server's log has the details"
    headers = {"Retry-After": str(BUSY_SECONDS)} if status == 503 else {}  # noqa: PLR2004
    return ProblemError(status, detail, kind=kind, headers=headers)


def problem_response(error: ProblemError) -> Response:
    """Return the response with problem details."""
    title = TITLES.get(error.status, "Error")
    kind, request_id = f"urn:foveate:{error.kind}", REQUEST_ID.get()
    shown = Problem(type=kind, title=title, status=error.status, detail=error.detail, request_id=request_id)
    return Response(msgspec.json.encode(shown), error.status, error.headers, MEDIA_TYPE)


def explained(error: Exception, tenant: str, what: str) -> str:
    """Return the error's message for a client; the details of a defect are only logged."""
    if isinstance(error, ProblemError):
        return error.detail
    if isinstance(error, FoveateError):
        return problem_of(error, tenant).detail
    _log.error("%s failed", what, exc_info=error)
    return DEFECT


def is_gateway_path(path: str) -> bool:
    """Report whether a path belongs to the gateway."""
    return _gateway_parts(path) is not None


def _gateway_parts(path: str) -> tuple[str, str] | None:
    """Return version and rest of a path of the gateway, with or without a session; None for any other path."""
    parts = [part for part in path.split("/") if part]
    first = 2 if parts[:1] == ["s"] else int(parts[:1] == ["upload"])
    most = len(parts) if first == 2 else first + 1  # a session's name may have slashes  # noqa: PLR2004
    for place in range(first, min(most, len(parts))):
        if parts[place] in _VERSIONS:
            return parts[place], "".join(f"/{part}" for part in parts[place + 1 :])
    return None


def is_dashboard_path(path: str) -> bool:
    """Report whether a path belongs to the dashboard, where browsers send the key as a cookie."""
    return path == HOME_PATH or path.startswith(f"{DASHBOARD_PATH}/")


def note_problem(scope: Scope, error: ProblemError) -> None:
    """Note for the log why a request failed: a short code, and of a rejected key or right the reason. Other details may
    quote what the client sent, so they stay out of the log."""
    state = scope.setdefault("state", {})
    state["error"] = error.kind
    state["reason"] = error.reason


def _reason(detail: str) -> str:
    """Return the first clause of a detail, without quotations."""
    return re.split("[:;]", _QUOTED.sub("", detail))[0]


def refusal(scope: Scope, error: ProblemError) -> Response:
    """Return the response to a request that is rejected before its endpoint, in the format of its path."""
    note_problem(scope, error)
    path: str = scope["path"]
    found = _gateway_parts(path)
    if found is None:
        # Redirect a browser to the login form; htmx follows its own header.
        is_page = error.status == 401 and is_dashboard_path(path)  # noqa: PLR2004
        extra = {"Location": LOGIN_PATH, "HX-Redirect": LOGIN_PATH}
        return Response(status_code=303, headers=extra) if is_page else problem_response(error)
    body = with_request_id(_gateway_error(*found, error))
    headers = {**error.headers, "x-should-retry": "false"} if error.status in (401, 403) else error.headers
    return Response(msgspec.json.encode(body), error.status, headers, "application/json")


def with_request_id(body: Mapping[str, object]) -> dict[str, object]:
    """Add the id of the request in progress to an error in a provider's format, which allows other fields."""
    request_id = REQUEST_ID.get()
    return {**body, "request_id": request_id} if request_id else dict(body)


def _gateway_error(version: str, rest: str, error: ProblemError) -> dict[str, object]:
    if version == "v1beta":
        status = _GEMINI.get(error.status, "RESOURCE_EXHAUSTED" if error.status == 429 else "UNAVAILABLE")  # noqa: PLR2004
        return {"error": {"code": error.status, "message": error.detail, "status": status}}
    if rest.startswith("/messages"):
        kind = _ANTHROPIC.get(error.status, "rate_limit_error" if error.status == 429 else "api_error")  # noqa: PLR2004
        return {"type": "error", "error": {"type": kind, "message": error.detail}}
    return {"error": {"message": error.detail, "type": error.kind.replace("-", "_"), "param": None, "code": None}}
