"""What tokens cost, by settings, the model, the list, or an assumption."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.models.accounts import believed
from foveate.models.prices import FREE, Tariff, tariff_for
from foveate.models.settings import ModelsSettings, Price
from foveate.turn import Usage

SETTINGS = ModelsSettings(prices={"openai:gpt-5-mini": Price(input=1, output=2), "x@https://llm.example.com/v1": FREE})
TOKENS = st.integers(-5, 10_000_000)


def test_settings_come_before_the_list_and_before_what_a_model_says() -> None:
    usage = Usage(input_tokens=1_000, output_tokens=100)
    own = Price(input=9, output=9)
    assert tariff_for("openai:gpt-5-mini", SETTINGS, own=own).nano_usd(usage) == 1_200_000
    assert tariff_for("openai:gpt-5", SETTINGS, own=own).nano_usd(usage) == 9_900_000
    assert tariff_for("x@https://llm.example.com/v1", SETTINGS).nano_usd(usage) == 0


@pytest.mark.parametrize(
    "name",
    [
        "openai:gpt-5",
        "anthropic:claude-sonnet-4-5",
        "google:gemini-2.5-flash",
        "openrouter:openai/gpt-5-mini",
        "deepseek-chat@https://api.deepseek.com/v1",
    ],
)
def test_the_list_knows_the_models_of_providers(name: str) -> None:
    tariff = tariff_for(name, ModelsSettings())
    assert not tariff.is_estimate
    plain = tariff.nano_usd(Usage(input_tokens=100_000, output_tokens=1_000))
    cached = tariff.nano_usd(Usage(input_tokens=100_000, output_tokens=1_000, cache_read_tokens=90_000))
    assert 0 < cached < plain <= tariff.most_nano_usd(100_000, 1_000)


@pytest.mark.parametrize(
    "name",
    [
        "local",
        "local:other",
        "ollama:qwen3:8b",
        "q@http://127.0.0.1:8080/v1",
        "q@http://[::1]:1/v1",
        "q@http://localhost:1",
    ],
)
def test_a_model_on_this_machine_costs_nothing(name: str) -> None:
    tariff = tariff_for(name, ModelsSettings())
    assert (tariff.nano_usd(Usage(10**6, 10**6)), tariff.is_estimate) == (0, False)


@pytest.mark.parametrize("address", ["http://10.0.0.7:11434/v1", "https://ollama.example.com", "10.0.0.7", "http://["])
def test_ollama_on_another_machine_is_not_free(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_BASE_URL", address)
    tariff = tariff_for("ollama:qwen3:8b", ModelsSettings())
    assert tariff.is_estimate
    assert tariff.nano_usd(Usage(input_tokens=1_000)) > 0
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.2:11434")
    assert tariff_for("ollama:qwen3:8b", ModelsSettings()) == Tariff(FREE)


@pytest.mark.parametrize(
    "name", ["openai:no-such-model", "q@https://llm.example.com/v1", "not a name", "q@http://10.0.0.7:1"]
)
def test_an_unknown_price_is_assumed_and_says_so(name: str) -> None:
    tariff = tariff_for(name, ModelsSettings(unknown_price=Price(input=3, output=7)))
    assert tariff.is_estimate
    assert tariff.nano_usd(Usage(input_tokens=1_000_000, output_tokens=1_000_000)) == 10 * 10**9


def test_the_list_is_never_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert not tariff_for("openai:gpt-5", ModelsSettings()).is_estimate


def test_without_the_list_the_price_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "genai_prices", None)
    assert tariff_for("openai:gpt-5", ModelsSettings()).is_estimate


@given(input_tokens=TOKENS, output_tokens=TOKENS, read_tokens=TOKENS, write_tokens=TOKENS)
def test_no_usage_costs_more_than_the_most_or_less_than_nothing(
    input_tokens: int, output_tokens: int, read_tokens: int, write_tokens: int
) -> None:
    usage = Usage(input_tokens, output_tokens, read_tokens, write_tokens)
    for tariff in (tariff_for("anthropic:claude-sonnet-4-5", SETTINGS), Tariff(Price(input=1, output=2, cached=3.5))):
        assert (
            0 <= tariff.nano_usd(believed(usage)) <= tariff.most_nano_usd(max(0, input_tokens), max(0, output_tokens))
        )


def test_prices_are_rounded_up_to_whole_nano_dollars() -> None:
    tariff = Tariff(Price(input=0.0001, output=0.1))
    assert tariff.nano_usd(Usage(input_tokens=1)) == 1
    assert tariff.nano_usd(Usage(output_tokens=1)) == 100
    assert tariff.nano_usd(Usage()) == 0
