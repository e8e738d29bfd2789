"""What a request to a provider has in it: keys, limits, schemas, breakpoints, each as that provider takes it."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from foveate.errors import ModelUnavailable
from foveate.models import Answer
from foveate.models.adapter import load
from foveate.models.names import load_model, parse_name
from foveate.models.settings import ModelsSettings
from support.asking import KEY, MODELS, SCHEMA, TOOL, Asking, asks, says
from support.faulty_server import Protocol, Reply, Said, plain, refused, streamed

PROTOCOLS: tuple[Protocol, ...] = ("openai", "anthropic", "google")


def test_an_endpoint_gets_the_older_name_of_the_limit_and_no_account_of_openai(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    monkeypatch.setenv("FOVEATE_ENDPOINT_KEY", "endpoint-key")
    asking.server.will(plain("openai", Said()))
    asking.answer(asking.endpoint())
    sent = asking.sent()
    assert sent.body["max_tokens"] == 100
    assert sent.headers["authorization"] == "Bearer endpoint-key"
    assert KEY not in str(sent.headers)
    assert "secret" not in str(sent.headers)


def test_an_open_model_gets_the_two_sides_in_turn(asking: Asking) -> None:
    """Templates of open models fail on two messages of a user in a row."""
    asking.server.will(plain("openai", Said()))
    lead, prompt = says("user", "<T-1>older</T-1>", "<T-2>newer</T-2>"), says("user", "board", "And then?")
    asking.answer(asking.endpoint(), asks(says("system", "Be short."), lead, prompt))
    assert asking.sent().body["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "<T-1>older</T-1>\n\n<T-2>newer</T-2>\n\nboard\n\nAnd then?"},
    ]


def test_an_endpoint_that_needs_no_key_gets_none_of_anybodys(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOVEATE_ENDPOINT_KEY")
    asking.server.will(plain("openai", Said()))
    asking.answer(asking.endpoint())
    assert KEY not in str(asking.sent().headers)


def test_ollama_is_asked_where_its_own_variable_says(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_BASE_URL", f"{asking.server.url}/v1")
    asking.server.will(plain("openai", Said("Woof.")))
    assert asking.answer("ollama:qwen3:8b").text == "Woof."
    assert asking.sent().body["model"] == "qwen3:8b"


def test_a_model_that_reasons_gets_no_temperature_and_is_told_to_think_little(asking: Asking) -> None:
    asking.server.will(plain("openai", Said()))
    asking.answer("openai:gpt-5-mini")
    body = asking.sent().body
    assert "temperature" not in body
    assert body["reasoning_effort"] == "minimal"
    assert body["max_completion_tokens"] > 100


def test_a_chat_thinks_as_the_model_likes(asking: Asking) -> None:
    asking.server.will(plain("openai", Said()))
    asking.answer("openai:gpt-5-mini", asks(purpose="chat"))
    body = asking.sent().body
    assert "reasoning_effort" not in body
    assert body["max_completion_tokens"] == 100


def test_a_model_without_schemas_of_its_own_gives_a_structured_answer_as_a_call(asking: Asking) -> None:
    asking.server.will(plain("anthropic", Said("", tool=("final_answer", {"short": "a", "tiny": "b"}))))
    answer = asking.answer("anthropic:claude-3-haiku-20240307", asks(schema=SCHEMA))
    assert answer.text == '{"short":"a","tiny":"b"}'
    body = asking.sent().body
    assert [tool["name"] for tool in body["tools"]] == ["final_answer"]
    assert body["tool_choice"]["type"] != "auto"


def test_openrouter_speaks_openais_protocol_and_passes_breakpoints_on(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    parsed = replace(parse_name("openrouter:anthropic/claude-haiku-4.5"), base_url=f"{asking.server.url}/api/v1")
    ask = asks(says("system", "Be short."), says("user", "Hello?"), purpose="chat", temperature=None)

    async def both() -> tuple[Answer, str | Answer]:
        model = load(parsed, ModelsSettings())
        asking.server.will(plain("openai", Said()), streamed("openai", Said()))
        answers = await model.ask(ask), [piece async for piece in model.stream(ask)][-1]
        await model.close()
        return answers

    whole, streamed_ = asyncio.run(both())
    assert whole.text == "Hello."
    assert isinstance(streamed_, Answer)
    assert streamed_.text == "Hello."
    assert asking.sent().path == "/api/v1/chat/completions"
    assert "cache_control" in str(asking.sent().body["messages"][0])


def test_a_refused_temperature_is_left_out_from_then_on(asking: Asking) -> None:
    no = refused("openai", 400, "Unsupported value: 'temperature' does not support 0.0 with this model.")
    asking.server.will(no, plain("openai", Said("Fine.")))
    assert asking.answer(asking.endpoint()).text == "Fine."
    first, second = asking.server.requests
    assert "temperature" in first.body
    assert "temperature" not in second.body


def test_a_refused_schema_is_asked_for_as_a_call_instead(asking: Asking) -> None:
    no = refused("openai", 400, "This response_format type is unavailable now")
    asking.server.will(no, plain("openai", Said("", tool=("final_answer", {"short": "a", "tiny": "b"}))))
    answer = asking.answer(asking.endpoint(), asks(schema=SCHEMA))
    assert answer.text == '{"short":"a","tiny":"b"}'
    assert (answer.finish, answer.message.tool_calls) == ("stop", ())
    assert asking.sent().body["tools"][0]["function"]["name"] == "final_answer"


def test_a_schema_beside_tools_is_asked_for_in_words_where_it_is_refused(asking: Asking) -> None:
    no = refused("openai", 400, "response_format is not supported")
    asking.server.will(no, plain("openai", Said('```json\n{"short": "a"}\n```')))
    answer = asking.answer(asking.endpoint(), asks(schema=SCHEMA, tools=(TOOL,)))
    assert answer.text == '{"short": "a"}'
    assert "JSON object of this schema" in str(asking.sent().body["messages"])


def test_an_endpoint_that_refuses_everything_costs_three_requests_at_most(asking: Asking) -> None:
    asking.server.will(refused("openai", 400, "temperature and response_format are not supported"))
    error = asking.error(asking.endpoint(), asks(schema=SCHEMA))
    assert isinstance(error, ModelUnavailable)
    assert error.reason == "refused"
    assert len(asking.server.requests) == 3


def marks(body: Any) -> list[str]:
    """The texts behind which Anthropic is told to cache."""
    blocks = [*body["system"], *(block for message in body["messages"] for block in message["content"])]
    return [block.get("text", block["type"]) for block in blocks if "cache_control" in block]


def test_a_chat_with_anthropic_marks_what_the_next_request_repeats(asking: Asking) -> None:
    lead = says("user", "<T-1>older turns</T-1>", "<T-9>what may still change</T-9>")
    earlier = (lead, says("assistant", "I see."), says("user", "First?"), says("assistant", "One."))
    asking.server.will(plain("anthropic", Said()))
    asking.answer(
        MODELS["anthropic"],
        asks(says("system", "Be short."), *earlier, says("user", "board", "Second?"), purpose="chat"),
    )
    body = asking.sent().body
    assert marks(body) == ["Be short.", "<T-1>older turns</T-1>", "One."]
    assert body["cache_control"]["type"] == "ephemeral"


def test_consecutive_requests_of_a_chat_extend_what_was_marked(asking: Asking) -> None:
    history = [says("user", "First?"), says("assistant", "One.")]
    sent = []
    for prompt in ("Second?", "Third?", "Fourth?"):
        asking.server.will(plain("anthropic", Said(f"To {prompt}")))
        asking.answer(MODELS["anthropic"], asks(*history, says("user", prompt), purpose="chat"))
        sent.append(asking.sent().body["messages"])
        history += [says("user", prompt), says("assistant", f"To {prompt}")]
    for before, after in pairwise(sent):
        assert _without_marks(after[: len(before)]) == _without_marks(before)


def _without_marks(messages: Any) -> Any:
    return [
        [{key: value for key, value in block.items() if key != "cache_control"} for block in message["content"]]
        for message in messages
    ]


def test_what_is_asked_once_is_not_written_to_the_cache(asking: Asking) -> None:
    asking.server.will(plain("anthropic", Said()))
    asking.answer(MODELS["anthropic"], asks(says("system", "Be short."), says("user", "A turn.")))
    assert marks(asking.sent().body) == ["Be short."]
    assert "cache_control" not in asking.sent().body


def test_providers_packages_do_not_retry(asking: Asking) -> None:
    for protocol in PROTOCOLS:
        asking.server.will(refused(protocol, 503, "overloaded"))
        asking.error(MODELS[protocol])
        assert len(asking.server.requests) == 1


def test_an_answer_that_never_ends_is_stopped(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.models.adapter.MAX_ANSWER_BYTES", 10_000)
    asking.server.will(plain("openai", Said("x" * 20_000)))
    error = asking.error(asking.endpoint())
    assert getattr(error, "reason", None) == "malformed"
    assert "too large" in str(error)
    monkeypatch.setattr("foveate.models.adapter.MAX_ANSWER_CHARS", 50)
    asking.server.will(streamed("openai", Said("x" * 200)))
    _, error = asking.stream_error(asking.endpoint())
    assert "too large" in str(error)


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip"])
def test_a_compressed_answer_is_limited_by_what_it_unpacks_to(
    encoding: str, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.models.adapter.MAX_ANSWER_BYTES", 10_000)
    packed = gzip.compress(plain("openai", Said("x" * 5_000)).payload)
    asking.server.will(Reply(200, packed, {"Content-Encoding": "gzip"}))
    assert asking.answer(asking.endpoint()).text == "x" * 5_000
    bomb = gzip.compress(plain("openai", Said("x" * 1_000_000)).payload)
    asking.server.will(Reply(200, gzip.compress(bomb) if "," in encoding else bomb, {"Content-Encoding": encoding}))
    error = asking.error(asking.endpoint())
    assert "too large" in str(error) or "," in encoding


def test_a_model_says_its_name_and_nothing_else(asking: Asking) -> None:
    model = load_model("openai:gpt-5-mini", ModelsSettings())
    assert (model.name, model.provider) == ("openai:gpt-5-mini", "openai")
    assert repr(model) == "ProviderModel('openai:gpt-5-mini')"
