"""Every exception class of the packages between us and a provider ends as a `ModelError`."""

from __future__ import annotations

import inspect
import json
import ssl
from collections.abc import Iterator
from types import ModuleType

import anthropic
import httpx2
import openai
import pydantic_ai.exceptions
from google.genai import errors as google_errors

from foveate.errors import ModelFailed, ModelUnavailable
from foveate.models.failures import CallTarget, failure
from support.asking import KEY

FAILED = {"busy", "server", "network", "timeout", "stalled", "broken-off", "empty", "malformed"}
UNAVAILABLE = {"extra", "key", "name", "too-long", "refused"}
TARGET = CallTarget("m", "model", "host:1", "OPENAI_API_KEY", has_key=True, secrets=(KEY,))
REQUEST = httpx2.Request("POST", "http://host:1/v1", headers={"Authorization": f"Bearer {KEY}"})

EXPECTED = {
    # Of the HTTP client.
    "ConnectError": "network",
    "ConnectTimeout": "network",
    "PoolTimeout": "network",
    "ReadTimeout": "timeout",
    "WriteTimeout": "timeout",
    "TimeoutException": "timeout",
    "ReadError": "broken-off",
    "RemoteProtocolError": "broken-off",
    "StreamError": "broken-off",
    "WriteError": "network",
    "CloseError": "network",
    "NetworkError": "network",
    "TransportError": "network",
    "ProxyError": "network",
    "LocalProtocolError": "network",
    "TooManyRedirects": "network",
    "UnsupportedProtocol": "name",
    "InvalidURL": "name",
    "DecodingError": "malformed",
    "CookieConflict": "malformed",
    # Of OpenAI's, Anthropic's and Google's packages.
    "APIConnectionError": "network",
    "APITimeoutError": "timeout",
    "APIResponseValidationError": "malformed",
    "AuthenticationError": "key",
    "PermissionDeniedError": "key",
    "NotFoundError": "name",
    "BadRequestError": "refused",
    "UnprocessableEntityError": "refused",
    "ConflictError": "busy",
    "RateLimitError": "busy",
    "RequestTimeoutError": "timeout",
    "ContentTooLargeError": "too-long",
    "InternalServerError": "server",
    "ServerError": "server",
    "CredentialsError": "refused",
    "ContinuationInterruptedError": "broken-off",
    "UnknownApiResponseError": "malformed",
    # Of pydantic-ai.
    "ModelRateLimitError": "busy",
    "ModelQuotaExceededError": "refused",
    "ModelUnavailableError": "server",
    "ModelServerError": "server",
    "ModelConnectionError": "network",
    "ModelTimeoutError": "timeout",
    "ModelRequestTimeout": "timeout",
    "ModelRequestRejectedError": "refused",
    "ModelContextWindowExceededError": "too-long",
    "ModelAuthenticationError": "key",
    "ModelNotFoundError": "name",
    "ContentFilterError": "refused",
    "UserError": "refused",
    "UnexpectedModelBehavior": "malformed",
    # Of Python.
    "JSONDecodeError": "malformed",
    "UnicodeDecodeError": "malformed",
    "SSLError": "network",
    "gaierror": "network",
    "ConnectionRefusedError": "network",
    "TimeoutError": "timeout",
    "OSError": "network",
}
STATUSES = {
    "BadRequestError": 400,
    "AuthenticationError": 401,
    "OAuthError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "RequestTimeoutError": 408,
    "ConflictError": 409,
    "PreconditionFailedError": 412,
    "ContentTooLargeError": 413,
    "UnprocessableEntityError": 422,
    "RateLimitError": 429,
    "RequestHeaderFieldsTooLargeError": 431,
    "ClientClosedRequestError": 499,
    "OverloadedError": 529,
    "APIStatusError": 500,
    "ClientError": 400,
    "ServerError": 500,
}


def exceptions_of(module: ModuleType, package: str) -> Iterator[type[Exception]]:
    for value in list(vars(module).values()):
        is_error = inspect.isclass(value) and issubclass(value, Exception) and not issubclass(value, Warning)
        if is_error and value.__module__.partition(".")[0] == package:
            yield value


def every_class() -> list[type[Exception]]:
    found = {
        *exceptions_of(openai, "openai"),
        *exceptions_of(anthropic, "anthropic"),
        *exceptions_of(anthropic._exceptions, "anthropic"),
        *exceptions_of(google_errors, "google"),
        *exceptions_of(httpx2, "httpx2"),
        *exceptions_of(pydantic_ai.exceptions, "pydantic_ai"),
        json.JSONDecodeError,
        UnicodeDecodeError,
        ssl.SSLError,
        ConnectionRefusedError,
        TimeoutError,
        OSError,
    }
    pending: list[type[Exception]] = list(found)
    while pending:
        children: list[type[Exception]] = pending.pop().__subclasses__()
        for child in children:
            package = child.__module__.partition(".")[0]
            if child not in found and package in ("openai", "anthropic", "google", "httpx2", "pydantic_ai"):
                found.add(child)
                pending.append(child)
    return sorted(found, key=lambda kind: (kind.__module__, kind.__qualname__))


def made(kind: type[Exception]) -> Exception:
    """An instance, however odd its constructor: with a message that holds a key, and a status where it has one."""
    said = f"it failed with Authorization: Bearer {KEY}"
    if issubclass(kind, ExceptionGroup):
        return kind("several", [ValueError(said)])
    error = OSError.__new__(kind) if issubclass(kind, OSError) else kind.__new__(kind)
    Exception.__init__(error, said)
    status = next((STATUSES[base.__name__] for base in kind.__mro__ if base.__name__ in STATUSES), None)
    given = {
        "status_code": status,
        "request": REQUEST,
        "message": said,
        "request_id": "",
        "body": {"error": {"message": said}},
    }
    error.__dict__.update((name, value) for name, value in given.items() if value is not None)
    return error


def test_every_exception_is_mapped_and_its_key_taken_out() -> None:
    wrong = [f"{kind.__module__}.{kind.__qualname__}: {said}" for kind in every_class() if (said := _wrong(kind))]
    assert not wrong


def _wrong(kind: type[Exception]) -> str:
    """What is wrong with how an exception is mapped."""
    mapped = failure(made(kind), TARGET)
    if not isinstance(mapped, ModelFailed | ModelUnavailable):
        return f"it is a {type(mapped).__name__}"
    if mapped.reason not in (FAILED if isinstance(mapped, ModelFailed) else UNAVAILABLE):
        return f"there is no reason {mapped.reason}"
    named = next((EXPECTED[base.__name__] for base in kind.__mro__ if base.__name__ in EXPECTED), mapped.reason)
    if mapped.reason != named:
        return f"it is {mapped.reason}, not {named}"
    return "it shows the key" if KEY in str(mapped) or mapped.__cause__ or mapped.__context__ else ""


def test_the_packages_have_the_classes_that_are_expected() -> None:
    names = {kind.__name__ for kind in every_class()}
    assert set(EXPECTED) - names <= {"gaierror", "WriteError"}
    assert len(names) > 80


def test_a_category_of_an_http_error_counts_before_its_status() -> None:
    error = pydantic_ai.exceptions.ModelHTTPError.for_category(
        pydantic_ai.exceptions.ModelQuotaExceededError, status_code=429, model_name="model", body=None
    )
    assert failure(error, TARGET).reason == "refused"  # type: ignore[attr-defined]
