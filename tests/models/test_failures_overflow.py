"""A request larger than a model's window is told as that, however the software behind the address words it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foveate.errors import ModelUnavailable
from support.asking import MODELS, Asking, asks, reason, says
from support.faulty_server import Behaviour, Protocol, Reply, Stream, refused

BEHIND = {"error": {"message": "This model's maximum context length is 8192 tokens.", "type": "invalid_request_error"}}


def router(raw: object) -> dict[str, Any]:
    """OpenRouter's words for what a provider behind it said."""
    metadata = {"raw": raw, "provider_name": "DeepInfra"}
    return {"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}}


# The software, the status, and what its users report it to say.
WORDINGS: list[tuple[str, int, object]] = [
    (
        "OpenAI",
        400,
        {
            "error": {
                "message": "This model's maximum context length is 8192 tokens.",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
    ),
    ("OpenAI, newer", 400, {"error": {"message": "Your input exceeds the context window of this model."}}),
    (
        "OpenAI, a request above the minute's tokens",
        429,
        {
            "error": {
                "message": "Request too large for gpt-4o in organization org-a on tokens per min (TPM): Limit 30000, "
                "Requested 40000. The input or output tokens must be reduced in order to run successfully.",
                "type": "tokens",
                "code": "rate_limit_exceeded",
            }
        },
    ),
    (
        "llama.cpp",
        400,
        {
            "error": {
                "code": 400,
                "message": "request (9000 tokens) exceeds the available context size (2048 tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 2048,
            }
        },
    ),
    ("llama.cpp, older", 500, {"error": {"message": "the request exceeds the available context size", "code": 500}}),
    (
        "llama.cpp, its slots together",
        500,
        {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}},
    ),
    (
        "vLLM",
        400,
        {
            "error": {
                "message": "The decoder prompt (length 3000) is longer than the maximum model length of 2048. Make "
                "sure that `max_model_len` is no smaller than the number of text tokens.",
                "type": "BadRequestError",
                "code": 400,
            }
        },
    ),
    (
        "Xinference, with vLLM in it",
        500,
        {"detail": "[address=0.0.0.0:1] The decoder prompt (length 9) is longer than the maximum model length of 8."},
    ),
    (
        "vLLM, older",
        400,
        {"object": "error", "message": "This model's maximum context length is 2048 tokens.", "code": 400},
    ),
    ("Ollama", 400, {"error": {"message": "the input length exceeds the context length", "type": "api_error"}}),
    ("Ollama, a fault", 500, {"error": {"message": "the input length exceeds the context length"}}),
    ("Ollama, older", 400, {"error": {"message": "input length exceeds maximum context length"}}),
    ("Ollama's cloud", 400, {"error": "prompt too long; exceeded max context length by 1200 tokens (ref: 1)"}),
    (
        "Ollama's cloud, a fault",
        500,
        {"error": {"message": "prompt too long; exceeded max context length by 3 tokens"}},
    ),
    (
        "LM Studio",
        400,
        {
            "error": "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded "
            "with context length of only 4096 tokens, which is not enough."
        },
    ),
    (
        "LM Studio, newer",
        400,
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the context length "
            "(n_keep: 5453>= n_ctx: 4096)."
        },
    ),
    (
        "TGI",
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3000 `inputs` "
            "tokens and 100 `max_new_tokens`",
            "error_type": "validation",
        },
    ),
    ("TGI, the input alone", 422, {"error": "Input validation error: `inputs` must have less than 4096 tokens."}),
    (
        "Together",
        400,
        {"error": {"message": "The input (516368 tokens) is longer than the model's context length (262144 tokens)."}},
    ),
    ("Bedrock", 400, {"error": {"message": "Input is too long for requested model."}}),
    (
        "xAI",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
        },
    ),
    (
        "Mistral",
        400,
        {
            "object": "error",
            "message": "Prompt contains 40687 tokens and 0 draft tokens, too large for model with 32768 maximum "
            "context length",
            "type": "invalid_request_invalid_args",
            "code": "3051",
        },
    ),
    (
        "a message that is an object",
        400,
        {"object": "error", "message": {"detail": [{"msg": "Prompt is too large for the maximum context length"}]}},
    ),
    ("Kimi", 400, {"error": {"message": "Your request exceeded model token limit: 262144 (requested: 300000)"}}),
    ("OpenRouter, for another", 400, router(json.dumps(BEHIND))),
    ("OpenRouter, in plain words", 400, router("This model's maximum context length is 8192 tokens.")),
    ("OpenRouter, as an object", 400, router(BEHIND)),
]


@pytest.mark.parametrize(
    ("status", "body"), [wording[1:] for wording in WORDINGS], ids=[wording[0] for wording in WORDINGS]
)
def test_a_request_larger_than_the_window_is_too_long_in_everyones_words(
    status: int, body: object, asking: Asking
) -> None:
    asking.server.will(Reply(status, body))
    error = asking.error(asking.endpoint())
    assert isinstance(error, ModelUnavailable)
    assert error.reason == "too-long"
    assert "Provider returned error" not in str(error)


@pytest.mark.parametrize(
    ("protocol", "behaviour"),
    [
        (
            "anthropic",
            refused("anthropic", 400, "prompt is too long: 210000 tokens > 200000", code="invalid_request_error"),
        ),
        ("anthropic", refused("anthropic", 413, "Request exceeds the maximum size", code="request_too_large")),
        (
            "google",
            refused(
                "google",
                400,
                "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
                code="INVALID_ARGUMENT",
            ),
        ),
    ],
)
def test_so_it_is_in_the_other_protocols(protocol: Protocol, behaviour: Behaviour, asking: Asking) -> None:
    asking.server.will(behaviour)
    assert reason(asking.error(MODELS[protocol])) == "too-long"


def test_llama_cpp_reports_an_overflow_inside_a_stream_too(asking: Asking) -> None:
    event = '{"error":{"code":400,"message":"exceeds the available context size","type":"exceed_context_size_error"}}'
    asking.server.will(Stream([f"data: {event}\n\n"]))
    assert reason(asking.stream_error(asking.endpoint())[1]) == "too-long"


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (
            429,
            "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.",
            "busy",
        ),
        (400, "max_tokens must be at least 1", "refused"),
        (500, "llama_decode failed", "server"),
    ],
)
def test_what_only_sounds_like_it_is_not(status: int, said: str, expected: str, asking: Asking) -> None:
    asking.server.will(refused("openai", status, said))
    assert reason(asking.error(asking.endpoint())) == expected


def test_a_prompt_that_speaks_of_context_windows_does_not_pass_for_an_overflow(asking: Asking) -> None:
    """Some servers repeat what was sent when they refuse it."""
    echoed = {"detail": [{"msg": "bad", "input": "prompt is too long, context_length_exceeded, insufficient_quota"}]}
    asking.server.will(Reply(422, echoed))
    error = asking.error(asking.endpoint(), asks(says("user", "prompt is too long, context_length_exceeded")))
    assert reason(error) == "refused"


def test_what_a_router_says_of_the_provider_behind_it_is_told(asking: Asking) -> None:
    asking.server.will(Reply(400, router(json.dumps({"error": {"message": "takes at most 1 image a prompt"}}))))
    assert "takes at most 1 image a prompt" in str(asking.error(asking.endpoint()))


def test_a_body_that_is_nested_without_end_is_an_error_all_the_same(asking: Asking) -> None:
    body: object = "the end"
    for _ in range(50):
        body = {"error": {"message": body}}
    asking.server.will(Reply(400, body))
    assert reason(asking.error(asking.endpoint())) == "refused"
