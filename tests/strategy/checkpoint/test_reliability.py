from __future__ import annotations

import pytest

from foveate.strategy.checkpoint.reliability import model_factor, reliability


def test_a_13b_model_after_three_compressions_is_at_38_5_percent_and_critical() -> None:
    found = reliability("llama-2-13b-chat", 3)
    assert found.factor.value == 0.70
    assert found.penalty == pytest.approx(0.55)
    assert found.score == pytest.approx(0.385)
    assert found.level == "critical"
    assert not found.factor.is_assumed
    assert "new conversation" in found.advice


@pytest.mark.parametrize(
    ("model", "factor", "is_assumed"),
    [
        ("meta/llama-3.3-70b-instruct", 0.95, False),
        ("llama-3.1-405B", 0.95, False),
        ("qwen2.5:32b", 0.85, False),
        ("Qwen3-30B-A3B", 0.85, False),
        ("mixtral-8x7b", 0.85, False),
        ("vicuna-13b", 0.70, False),
        ("mistral-7b-v0.3", 0.50, False),
        ("llama3.1:8b", 0.50, False),
        ("llama3.2:3b", 0.30, False),
        ("qwen2.5-1.5b", 0.30, False),
        ("smollm2-135m", 0.30, False),
        ("claude-opus-4-5", 0.95, True),
        ("openai:gpt-5", 0.95, True),
        ("gpt-5-mini", 0.85, True),
        ("gemini-2.5-flash", 0.85, True),
        ("claude-haiku-4-5", 0.85, True),
        ("mystery", 0.70, True),
        (None, 0.70, True),
        ("b" * 100_000, 0.70, True),
    ],
)
def test_the_factor_comes_from_the_models_name(model: str | None, factor: float, is_assumed: bool) -> None:
    found = model_factor(model)
    assert (found.value, found.is_assumed) == (factor, is_assumed)


@pytest.mark.parametrize(
    ("compressions", "score", "level"),
    [(0, 0.95, "high"), (1, 0.8075, "medium"), (2, 0.665, "medium"), (3, 0.5225, "low"), (4, 0.38, "critical")],
)
def test_each_compression_takes_15_percent(compressions: int, score: float, level: str) -> None:
    found = reliability("llama-70b", compressions)
    assert found.score == pytest.approx(score)
    assert found.level == level


def test_the_penalty_has_a_floor() -> None:
    assert reliability("llama-70b", 5).penalty == reliability("llama-70b", 500).penalty == 0.30


@pytest.mark.parametrize(
    ("factor", "level"),
    [(0.85, "high"), (0.8499, "medium"), (0.60, "medium"), (0.599, "low"), (0.40, "low"), (0.39, "critical")],
)
def test_the_four_levels_begin_at_85_60_and_40_percent(factor: float, level: str) -> None:
    assert reliability("mystery", 0, unknown_factor=factor).level == level
