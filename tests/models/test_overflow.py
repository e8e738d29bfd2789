"""What providers say of a request that is too long: the limit, and the sizes of prompt and answer."""

from __future__ import annotations

import json

import pytest

from foveate.models.overflow import Overflow, read_overflow

REQUESTED = (
    "This model's maximum context length is 8192 tokens. However, you requested 9500 tokens (1500 in the messages, 200 "
    "in the functions, and 7800 in the completion). Please reduce the length of the messages."
)


@pytest.mark.parametrize(
    ("message", "stated"),
    [
        ("prompt is too long: 210,000 tokens > 200,000 maximum", Overflow(None, 200_000, 210_000, None)),
        (
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
            Overflow(200_000, None, 190_000, 20_000),
        ),
        (REQUESTED, Overflow(8_192, None, 1_700, 7_800)),
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 8871 tokens.",
            Overflow(8_192, None, 8_871, None),
        ),
        (
            "request (9000 tokens) exceeds the available context size (2048 tokens), try increasing it",
            Overflow(2_048, None, 9_000, None),
        ),
        (
            "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
            Overflow(None, 1_048_576, 2_000_000, None),
        ),
        (
            "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
            Overflow(None, 131_072, 136_973, None),
        ),
        (
            'AnthropicException - {"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}. Group=a',
            Overflow(None, 200_000, 210_000, None),
        ),
        (
            "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`",
            Overflow(4_096, None, 5_000, 20),
        ),
        (f"prompt is too long: {'9' * 5_000} tokens > 200,000 maximum", Overflow(None, 200_000, None, None)),
        ("Your input exceeds the context window of this model.", Overflow()),
        ("Input is too long for requested model.", Overflow()),
    ],
)
def test_the_limits_that_an_error_states_are_read(message: str, stated: Overflow) -> None:
    assert read_overflow(json.dumps({"error": {"message": message}}).encode()) == stated


@pytest.mark.parametrize(
    "error",
    [
        {"message": "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64."},
        {"message": "Invalid 'messages[3].content': string too long", "code": "string_above_max_length"},
        {"message": "max_tokens: 99999 > 64000, which is the maximum allowed number of output tokens"},
        {"message": "metadata.user_id: String should have at most 256 characters"},
        {"message": "Invalid value: 'prompt is too long: 5000 tokens > 4000 maximum'. Supported values are: 'low'."},
        {"message": "Invalid 'user': 'This model's maximum context length is 2000 tokens, yours resulted in 9000'"},
        {"message": 'got "x" prompt is too long: 5000 tokens > 4000 maximum "y"'},
        {"message": "`effort` can't be `prompt is too long: 5000 tokens > 4000 maximum`"},
    ],
)
def test_an_error_about_anything_else_says_nothing_of_the_prompts_size(error: dict[str, str]) -> None:
    assert read_overflow(json.dumps({"error": error}).encode()) is None
