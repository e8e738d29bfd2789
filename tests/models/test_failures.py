"""Every way in which a provider fails is an error that says what it is and what to do; nothing else gets out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from foveate.errors import ModelFailed
from foveate.models.failures import MAX_RETRY_AFTER_SECONDS, retry_after_seconds
from foveate.models.settings import ModelsSettings
from support.asking import KEY, MODELS, Asking, reason, unused_port
from support.faulty_server import (
    Behaviour,
    HangUp,
    Protocol,
    Reply,
    Said,
    Stall,
    Stream,
    plain,
    refused,
    streamed,
)

PROTOCOLS: tuple[Protocol, ...] = ("openai", "anthropic", "google")
every_provider = pytest.mark.parametrize("protocol", PROTOCOLS)
IMPATIENT = ModelsSettings(timeout_seconds=0.05, stall_seconds=0.05)


REFUSALS: list[tuple[str, str, dict[Protocol, Behaviour]]] = [
    (
        "a wrong key",
        "key",
        {
            "openai": refused("openai", 401, f"Incorrect API key provided: {KEY}.", code="invalid_api_key"),
            "anthropic": refused("anthropic", 401, "invalid x-api-key", code="authentication_error"),
            "google": Reply(
                400,
                {
                    "error": {
                        "code": 400,
                        "message": "API key not valid. Please pass a valid API key.",
                        "status": "INVALID_ARGUMENT",
                        "details": [{"reason": "API_KEY_INVALID"}],
                    }
                },
            ),
        },
    ),
    (
        "a key without rights",
        "key",
        {
            "openai": refused("openai", 403, "not allowed"),
            "anthropic": refused("anthropic", 403, "not allowed", code="permission_error"),
            "google": refused("google", 403, "not allowed", code="PERMISSION_DENIED"),
        },
    ),
    (
        "an unknown model",
        "name",
        {
            "openai": refused("openai", 404, "The model `x` does not exist", code="model_not_found"),
            "anthropic": refused("anthropic", 404, "model: x", code="not_found_error"),
            "google": refused("google", 404, "models/x is not found for API version v1", code="NOT_FOUND"),
        },
    ),
    (
        "no credit",
        "refused",
        {
            "openai": refused("openai", 429, "You exceeded your current quota", code="insufficient_quota"),
            "anthropic": refused("anthropic", 400, "Your credit balance is too low", code="invalid_request_error"),
            "google": refused("google", 402, "billing"),
        },
    ),
    (
        "a bad request",
        "refused",
        {
            "openai": refused("openai", 400, "messages: wrong", code="invalid_request_error"),
            "anthropic": refused("anthropic", 400, "messages: wrong", code="invalid_request_error"),
            "google": refused("google", 400, "contents: wrong", code="INVALID_ARGUMENT"),
        },
    ),
    ("too many requests", "busy", {protocol: refused(protocol, 429, "slow down") for protocol in PROTOCOLS}),
    ("a conflict", "busy", {protocol: refused(protocol, 409, "try later") for protocol in PROTOCOLS}),
    ("a time-out of theirs", "timeout", {protocol: refused(protocol, 408, "too slow") for protocol in PROTOCOLS}),
    ("a fault of theirs", "server", {protocol: refused(protocol, 500, "oops") for protocol in PROTOCOLS}),
    ("a bad gateway", "server", {protocol: Reply(502, "<html>", content_type="text/html") for protocol in PROTOCOLS}),
    ("an overload", "server", {protocol: refused(protocol, 529, "overloaded") for protocol in PROTOCOLS}),
    ("silence", "network", {protocol: HangUp() for protocol in PROTOCOLS}),
]
ANSWERS: list[tuple[str, str, dict[Protocol, Behaviour]]] = [
    ("a page instead of JSON", "malformed", {protocol: Reply(200, "<html>hello</html>") for protocol in PROTOCOLS}),
    ("text instead of JSON", "malformed", {p: Reply(200, "hi", content_type="text/plain") for p in PROTOCOLS}),
    ("half of JSON", "malformed", {protocol: Reply(200, '{"choices": [') for protocol in PROTOCOLS}),
    ("bytes that are no text", "malformed", {protocol: Reply(200, b"\xff\xfe\x00") for protocol in PROTOCOLS}),
    ("half a body", "broken-off", {p: Reply(200, plain(p, Said()).body, missing_bytes=9) for p in PROTOCOLS}),
]


@every_provider
@pytest.mark.parametrize(
    ("expected", "behaviours"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
def test_a_failure_has_its_reason(
    protocol: Protocol, expected: str, behaviours: dict[Protocol, Behaviour], asking: Asking
) -> None:
    asking.server.will(behaviours[protocol])
    for error in asking.errors(MODELS[protocol]):
        assert reason(error) == expected
        assert KEY not in str(error)
        assert "\n" not in str(error)


@every_provider
@pytest.mark.parametrize(("expected", "behaviours"), [case[1:] for case in ANSWERS], ids=[case[0] for case in ANSWERS])
def test_an_answer_that_can_not_be_used_has_its_reason(
    protocol: Protocol, expected: str, behaviours: dict[Protocol, Behaviour], asking: Asking
) -> None:
    asking.server.will(behaviours[protocol])
    assert reason(asking.error(MODELS[protocol])) == expected


STREAMS: list[tuple[str, str, Any]] = [
    ("half a stream", "broken-off", lambda p: streamed(p, Said("Good day."), finished=False, end="cut")),
    ("a stream that does not say it is done", "broken-off", lambda p: streamed(p, Said("Good day."), finished=False)),
    ("a stream of nothing", "empty", lambda _: Stream([])),
]


@every_provider
@pytest.mark.parametrize(("expected", "behave"), [case[1:] for case in STREAMS], ids=[case[0] for case in STREAMS])
def test_a_stream_that_fails_has_its_reason(protocol: Protocol, expected: str, behave: Any, asking: Asking) -> None:
    asking.server.will(behave(protocol))
    given, error = asking.stream_error(MODELS[protocol])
    assert reason(error) == expected
    assert "".join(map(str, given)) == ("Good day." if expected == "broken-off" else "")


def test_garbage_in_a_stream_is_malformed(asking: Asking) -> None:
    begun = list(streamed("openai", Said("Good"), finished=False).events)
    asking.server.will(Stream([*begun, "data: {garbage\n\n"]))
    given, error = asking.stream_error(asking.endpoint())
    assert ("".join(map(str, given)), reason(error)) == ("Good", "malformed")


@pytest.mark.parametrize(
    ("protocol", "event"),
    [
        ("openai", 'data: {"error": {"message": "boom", "type": "server_error"}}\n\n'),
        ("anthropic", 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"boom"}}\n\n'),
        ("google", 'data: {"error": {"code": 503, "message": "boom", "status": "UNAVAILABLE"}}\n\n'),
    ],
)
def test_an_error_inside_a_stream_is_the_servers(protocol: Protocol, event: str, asking: Asking) -> None:
    begun = list(streamed(protocol, Said("Good"), finished=False).events)
    asking.server.will(Stream([*begun, event]))
    given, error = asking.stream_error(MODELS[protocol])
    assert given
    assert reason(error) == "server"


@every_provider
def test_no_answer_in_time_is_a_time_out(protocol: Protocol, asking: Asking) -> None:
    asking.server.will(Stall())
    impatient = Asking(asking.server, IMPATIENT)
    assert reason(impatient.error(MODELS[protocol], grace_seconds=0.2)) == "timeout"
    assert reason(impatient.stream_error(MODELS[protocol], grace_seconds=0.2)[1]) == "timeout"


@every_provider
def test_a_stream_that_stalls_is_a_time_out_where_no_caller_watches(protocol: Protocol, asking: Asking) -> None:
    asking.server.will(streamed(protocol, Said("Good day."), finished=False, end="stall"))
    given, error = Asking(asking.server, IMPATIENT).stream_error(MODELS[protocol], grace_seconds=0.2)
    assert "".join(map(str, given)) == "Good day."
    assert reason(error) == "timeout"


ADDRESSES = [
    ("http", "127.0.0.1", "connection refused"),
    ("http", "nowhere.invalid", "unknown host name"),
    ("https", "the server", "secure connection"),
]


@every_provider
@pytest.mark.parametrize(("scheme", "host", "said"), ADDRESSES)
def test_what_can_not_be_reached_says_which_host_and_what_to_check(
    protocol: Protocol, scheme: str, host: str, said: str, asking: Asking
) -> None:
    place = f"127.0.0.1:{asking.server.port}" if host == "the server" else f"{host}:{unused_port()}"
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
            patch.setenv(variable, f"{scheme}://{place}")
        errors = asking.errors(MODELS[protocol])
    for error in errors:
        assert reason(error) == "network"
        assert place in str(error)
        assert said in str(error)


def test_a_wrong_key_says_which_variable_holds_it(asking: Asking) -> None:
    asking.server.will(refused("openai", 401, "wrong", code="invalid_api_key"))
    assert "OPENAI_API_KEY" in str(asking.error(MODELS["openai"]))
    assert "FOVEATE_ENDPOINT_KEY" in str(asking.error(asking.endpoint()))


def test_an_endpoint_that_wants_a_key_says_where_to_put_it(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOVEATE_ENDPOINT_KEY")
    asking.server.will(refused("openai", 401, "no key"))
    assert "wants a key (401); set the environment variable FOVEATE_ENDPOINT_KEY" in str(
        asking.error(asking.endpoint())
    )


NOW = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
WAITS: list[tuple[dict[str, str], float | None]] = [
    ({"Retry-After": "7"}, 7.0),
    ({"Retry-After": "1.5"}, 1.5),
    ({"retry-after-ms": "250", "Retry-After": "7"}, 0.25),
    ({"Retry-After": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, 90.0),
    ({"Retry-After": format_datetime(NOW - timedelta(seconds=90), usegmt=True)}, 0.0),
    ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0"}, 360.0),
    ({"x-ratelimit-reset-tokens": "20ms"}, 0.02),
    ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "12"}, None),
    ({"anthropic-ratelimit-requests-reset": "2026-11-15T10:00:30Z"}, 30.0),
    ({"x-ratelimit-reset": str(int((NOW.timestamp() + 45) * 1000))}, 45.0),
    ({"Retry-After": "9" * 14}, MAX_RETRY_AFTER_SECONDS),
    ({"Retry-After": "soon"}, None),
    ({"Retry-After": "-5"}, None),
    ({}, None),
]


class Limited(Exception):
    """An error with headers, as the packages have them."""

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers


@pytest.mark.parametrize(("headers", "seconds"), WAITS)
def test_the_pause_a_provider_asks_for_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(Limited(headers), now=NOW) == pytest.approx(seconds)


@every_provider
@pytest.mark.parametrize(("headers", "seconds"), [({"Retry-After": "7"}, 7.0), ({}, None)])
def test_a_busy_provider_says_how_long_to_wait(
    protocol: Protocol, headers: dict[str, str], seconds: float | None, asking: Asking
) -> None:
    asking.server.will(refused(protocol, 429, "slow down", **headers))
    error = asking.error(MODELS[protocol])
    assert isinstance(error, ModelFailed)
    assert error.retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (404, "model 'qwen9' not found, try pulling it first", "name"),
        (400, "The model `gpt-9` does not exist or you do not have access to it.", "name"),
        (400, "The model qwen3 takes no tools: 'tools' is not supported", "refused"),
        (400, "Unsupported parameter: 'max_tokens' is not supported with this model.", "refused"),
    ],
)
def test_only_a_model_that_is_not_there_has_a_wrong_name(status: int, said: str, expected: str, asking: Asking) -> None:
    asking.server.will(refused("openai", status, said))
    assert reason(asking.error(asking.endpoint())) == expected
