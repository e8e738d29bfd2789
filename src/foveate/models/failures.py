"""Translation of provider exceptions into `ModelError`s that say what to do, without keys or chained errors.

pydantic-ai sorts provider responses into categories; what it does not handle (a dropped connection, an odd body, an
internal fault) is sorted here. An unknown kind of error is `malformed`: it may be temporary, and it never stops the
program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from foveate.errors import ModelError, ModelFailed, ModelUnavailable
from foveate.models.overflow import is_too_long, message_in
from foveate.secrets import scrub, scrub_line

MAX_CHAIN: Final = 20
"""Maximum number of an error's causes that are examined."""
MAX_RETRY_AFTER_SECONDS: Final = 7 * 86_400.0

FIRST_ERROR: Final = 400
FIRST_SERVER_ERROR: Final = 500
BUSY: Final = (409, 425, 429)

# Classes are recognised by name, so that optional packages need not be imported.
_NO_CONNECTION: Final = (
    ("SSLError", "no secure connection: check https:// or http://, the port and its certificate"),
    ("gaierror", "unknown host name: check the address, and the network"),
    ("ConnectionRefusedError", "connection refused: check that the server is running, and the port"),
    ("ConnectTimeout", "no connection in time: check the address, and the network"),
    ("PoolTimeout", "too many connections are open already"),
)
_TIMED_OUT: Final = {"TimeoutException", "ModelTimeoutError", "ModelRequestTimeout", "APITimeoutError", "TimeoutError"}
_CUT: Final = {"ReadError", "RemoteProtocolError", "StreamError", "ContinuationInterruptedError"}
_NETWORK: Final = {"TransportError", "ModelConnectionError", "APIConnectionError", "TooManyRedirects", "OSError"}

_NO_CREDIT = re.compile(r"insufficient_quota|billing_hard_limit|credit balance is too low|billing_error", re.IGNORECASE)
_BAD_KEY = re.compile(r"invalid[_ ]api[_ ]key|api[_ ]key[_ ](?:not valid|invalid)|api key not valid", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"model_not_found|model [`'\"]?\S{1,120} (?:was |is )?(?:not found|does not exist|not exist)", re.IGNORECASE
)
_RESET_SPAN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")
_RESETS: Final = (
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-reset",
    "x-ratelimit-reset",
)
_LARGEST_SPAN: Final = 1e9
"""A larger number in a reset header is a timestamp: seconds or milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class CallTarget:
    """The target of a call. Creates its errors, without any of its secrets."""

    name: str
    model: str
    host: str
    key_variable: str
    """The environment variable of the key."""
    has_key: bool
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def failed(self, problem: str, *, reason: str, retry_after_seconds: float | None = None) -> ModelFailed:
        return ModelFailed(
            self.name, scrub(problem, self.secrets), reason=reason, retry_after_seconds=retry_after_seconds
        )

    def unavailable(self, problem: str, *, reason: str) -> ModelUnavailable:
        return ModelUnavailable(self.name, scrub(problem, self.secrets), reason=reason)


class BrokenOff(Exception):
    """A stream that ended before the answer did."""


class TooMuchSaid(Exception):
    """An answer larger than the limit."""


def failure(error: Exception, target: CallTarget, *, in_stream: bool = False) -> ModelError:
    """Translate an exception. Raise the result outside the handler of `error`, so that it is not chained to it."""
    if isinstance(error, ModelError):
        return error
    return (
        _own(error, target)
        or _by_message(error, target)
        or _by_status(error, target)
        or _by_transport(error, target, in_stream=in_stream)
        or _by_kind(error, target)
    )


def _own(error: Exception, target: CallTarget) -> ModelError | None:
    """Translate the adapter's own errors, which the packages may have wrapped."""
    own = next((cause for cause in _chain(error) if isinstance(cause, BrokenOff | TooMuchSaid)), None)
    match own:
        case BrokenOff():
            return target.failed(f"the answer broke off: {own}", reason="broken-off")
        case TooMuchSaid():
            return target.failed(f"the answer is too large: {own}", reason="malformed")
    return None


def _by_message(error: Exception, target: CallTarget) -> ModelError | None:
    """Translate errors that providers report with the same message under different statuses, or within a stream."""
    message = _provider_message(error, target)
    evidence = _evidence(error)
    kind = _kinds(error)
    if "ModelContextWindowExceededError" in kind or is_too_long(evidence):
        problem = f"the request is larger than its window: {message}; shorten it, or choose a model with a larger one"
        return target.unavailable(problem, reason="too-long")
    if "ModelQuotaExceededError" in kind or _NO_CREDIT.search(evidence):
        problem = f"the account has no credit left: {message}; check its billing, or choose another model"
        return target.unavailable(problem, reason="refused")
    if "ModelAuthenticationError" in kind or _BAD_KEY.search(evidence):
        return _refused_key(_status(error), target)
    if "ModelNotFoundError" in kind or (_status(error) in (400, 404, None) and _NO_MODEL.search(evidence)):
        problem = f"{target.host} knows no model {target.model!r}: {message}{_suggestion(error)}; check its name"
        return target.unavailable(problem, reason="name")
    return None


def _refused_key(status: int | None, target: CallTarget) -> ModelUnavailable:
    """Make an error without the provider's message, which repeats the key and adds nothing."""
    code = f" ({status})" if status else ""
    if not target.key_variable:
        problem = (
            f"{target.host} wants a key{code}; name the variable that holds it in models.key_variables, or the model "
            "in the settings, e.g. in models.chat: FOVEATE_ENDPOINT_KEY is sent only to endpoints that settings name"
        )
    elif not target.has_key:
        problem = f"{target.host} wants a key{code}; set the environment variable {target.key_variable}"
    else:
        problem = (
            f"{target.host} rejected the key in {target.key_variable}{code}; set that variable to a key that is valid "
            f"and may use {target.model}"
        )
    return target.unavailable(problem, reason="key")


def _by_status(error: Exception, target: CallTarget) -> ModelError | None:
    status = _status(error)
    kinds = _kinds(error)
    message = _provider_message(error, target)
    wait = retry_after_seconds(error)
    if status in BUSY or "ModelRateLimitError" in kinds:
        when = f"; retry after {wait:.0f} s" if wait is not None else ""
        return target.failed(f"too many requests: {message}{when}", reason="busy", retry_after_seconds=wait)
    if status == FIRST_SERVER_ERROR and "not supported" in message:
        # llama.cpp responds so to an image for a text-only model; a retry changes nothing.
        return target.unavailable(f"the request was rejected ({status}): {message}", reason="refused")
    if kinds & {"ModelUnavailableError", "ModelServerError"} or (status or 0) >= FIRST_SERVER_ERROR:
        problem = f"{target.host} has an internal error{f' ({status})' if status else ''}: {message}"
        return target.failed(problem, reason="server", retry_after_seconds=wait)
    return _by_refusal(status, message, target) if status and status >= FIRST_ERROR else None


def _by_refusal(status: int, message: str, target: CallTarget) -> ModelError:
    match status:
        case 401 | 403:
            return _refused_key(status, target)
        case 404:
            problem = f"{target.host} knows no model {target.model!r}: {message}; check its name and the address"
            return target.unavailable(problem, reason="name")
        case 408:
            return target.failed(f"{target.host} timed out: {message}", reason="timeout")
        case 413:
            problem = f"the request is larger than {target.host} accepts: {message}; shorten it"
            return target.unavailable(problem, reason="too-long")
    return target.unavailable(f"the request was rejected ({status}): {message}", reason="refused")


def _by_transport(  # noqa: PLR0911 - each kind of failure leaves at once
    error: Exception, target: CallTarget, *, in_stream: bool
) -> ModelError | None:
    causes = list(_chain(error))
    kinds: set[str] = set().union(*(_kinds(cause) for cause in causes))
    if why := next((why for kind, why in _NO_CONNECTION if kind in kinds), ""):
        return _unreachable(target, why)
    if kinds & _TIMED_OUT:
        return target.failed(f"{target.host} did not answer in time", reason="timeout")
    if kinds & _CUT:
        if in_stream or not any("without sending a response" in str(cause) for cause in causes):
            return target.failed(f"the answer of {target.host} broke off", reason="broken-off")
        return _unreachable(target, "it hung up without an answer: check that the address is that of the API")
    if kinds & {"InvalidURL", "UnsupportedProtocol"}:
        problem = f"the address of {target.host} can't be used: {_provider_message(error, target)}"
        return target.unavailable(problem, reason="name")
    if kinds & _NETWORK:
        return _unreachable(target, f"{_provider_message(error, target)}: check the address, and the network")
    return None


def _unreachable(target: CallTarget, why: str) -> ModelFailed:
    return target.failed(f"can't reach {target.host}: {why}", reason="network")


def _by_kind(error: Exception, target: CallTarget) -> ModelError:
    kinds = _kinds(error)
    message = _provider_message(error, target)
    whole = str(error)
    if "ContentFilterError" in kinds or kinds & {"UserError", "CredentialsError", "ModelRequestRejectedError"}:
        return target.unavailable(f"the request was rejected: {message}", reason="refused")
    if "finish_reason" in whole:
        return target.failed("the answer broke off; try again", reason="broken-off")
    if "ended without content" in whole:
        return target.failed("the answer is empty", reason="empty")
    if _attribute(error, "in_stream") or ("ModelAPIError" in kinds and "JSON" not in whole):
        return target.failed(f"{target.host} has an internal error: {message}", reason="server")
    problem = f"{target.host} did not answer in its protocol ({type(error).__name__}): {message}"
    return target.failed(problem, reason="malformed")


def retry_after_seconds(error: Exception, *, now: datetime | None = None) -> float | None:
    """Return the pause that the provider asks for: `retry-after-ms`, `Retry-After` in either form, or a reset time."""
    headers = _headers(error)
    now = now or datetime.now(UTC)
    wait = _number(headers.get("retry-after-ms"), scale=0.001)
    if wait is None and (value := headers.get("retry-after")):
        wait = _number(value) if _number(value) is not None else _until(value, now)
    if wait is None:
        given = _attribute(error, "retry_after")
        wait = float(given) if isinstance(given, int | float) else _reset(headers, now)
    return None if wait is None else min(max(wait, 0.0), MAX_RETRY_AFTER_SECONDS)


def _headers(error: Exception) -> Mapping[str, str]:
    headers = _attribute(error, "headers")
    if headers is None:
        headers = getattr(_attribute(error, "response"), "headers", None)
    return {str(key).lower(): str(value) for key, value in headers.items()} if isinstance(headers, Mapping) else {}


def _reset(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the longest reset time of the limits that are used up."""
    waits: list[float] = []
    for header in _RESETS:
        value = headers.get(header, "")
        left = _number(headers.get(header.replace("-reset", "-remaining")))
        if not value or (left is not None and left > 0):
            continue
        number = _number(value)
        if number is not None and number > _LARGEST_SPAN:
            number = number / (1000 if number > _LARGEST_SPAN * 1000 else 1) - now.timestamp()
        wait = number if number is not None else _span(value) or _until(value, now)
        if wait is not None:
            waits.append(wait)
    return max(waits, default=None)


def _number(text: str | None, *, scale: float = 1.0) -> float | None:
    if not text or not re.fullmatch(r"\s*\d{1,15}(?:\.\d{1,9})?\s*", text):
        return None
    return float(text) * scale


def _span(text: str) -> float | None:
    """Parse a duration like OpenAI's `6m0s`, `1s`, `20ms`."""
    match = _RESET_SPAN.fullmatch(text.strip())
    if not match or not any(match.groups()):
        return None
    try:
        days, hours, minutes, seconds, millis = (float(group or 0) for group in match.groups())
    except ValueError:
        return None
    return days * 86_400 + hours * 3_600 + minutes * 60 + seconds + millis / 1000


def _until(text: str, now: datetime) -> float | None:
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = parse(text)
        except (ValueError, OverflowError):
            continue
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds()
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, with groups expanded; without errors that were merely being handled."""
    pending: list[BaseException] = [error]
    for _ in range(MAX_CHAIN):
        if not pending:
            return
        current = pending.pop()
        yield current
        if isinstance(current, BaseExceptionGroup):
            pending.extend(current.exceptions)
        # The HTTP transport sets no cause; the error that it was handling is the cause.
        is_transport = type(current).__module__.startswith("httpcore")
        if cause := current.__cause__ or (current.__context__ if is_transport else None):
            pending.append(cause)


def _kinds(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _attribute(error: BaseException, *names: str) -> object:
    return next((value for name in names if (value := getattr(error, name, None)) is not None), None)


def _status(error: BaseException) -> int | None:
    for name in ("status_code", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    response = getattr(error, "response", None) if "HTTPStatusError" in _kinds(error) else None
    status = getattr(response, "status_code", None)
    return status if isinstance(status, int) else None


def _suggestion(error: Exception) -> str:
    suggested = _attribute(error, "suggested_model_id")
    return f"; did you mean {suggested}?" if isinstance(suggested, str) else ""


def _evidence(error: Exception) -> str:
    """Return the text to search for known errors: codes and the message, never a body that repeats the request."""
    codes = (_attribute(error, name) for name in ("provider_error_code", "provider_error_type", "code", "type"))
    return " ".join([*(code for code in codes if isinstance(code, str)), _sentence(error)])


def _sentence(error: Exception) -> str:
    if message := message_in(_attribute(error, "body", "details")):
        return message
    return str(error) if _attribute(error, "in_stream") or "APIError" in _kinds(error) else ""


def _provider_message(error: Exception, target: CallTarget) -> str:
    """Return the provider's message, if there is one, on one line and without keys."""
    return scrub_line(_sentence(error) or str(error) or type(error).__name__, target.secrets).rstrip(".")
