"""The yardsticks for other gateways and folders of requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from measure import Exchange, Score, newest_text, read_requests, score

TALK = [
    Exchange(f"Please look at src/part_{n}.py now.", f"It needs port_{n // 2} and src/part_{max(0, n - 3)}.py.")
    for n in range(20)
]


def whole(budget_messages: int = 1_000) -> list[dict[str, Any]]:
    """Requests of an app that sends the newest messages of its history."""
    messages: list[dict[str, str]] = []
    found: list[dict[str, Any]] = []
    for each in TALK:
        messages.append({"role": "user", "content": each.prompt})
        found.append({"messages": messages[-budget_messages:]})
        messages.append({"role": "assistant", "content": each.answer})
    return found


def test_sending_everything_has_the_whole_working_set_and_a_cached_prefix() -> None:
    found = score(TALK, whole(), 100_000)
    assert (found.invalid, found.over_budget, found.working_set, found.newest_tokens) == (0, 0, 1.0, 1.0)
    assert found.cached > 0.8
    assert found.price < 0.4


def test_dropping_old_messages_costs_references_and_the_cache() -> None:
    found = score(TALK, whole(3), 100_000)
    assert found.working_set < 0.5 < found.newest_tokens
    assert found.cached < 0.3
    assert found.price > 0.9


def test_a_request_that_a_provider_rejects_and_one_above_the_budget_are_counted() -> None:
    requests = whole()
    requests[3] = {"messages": [{"role": "tool", "tool_call_id": "c1", "content": "a result without its call"}]}
    found: Score = score(TALK, requests, 100)
    assert found.invalid == 1
    assert 0 < found.over_budget < found.requests


def test_the_newest_tokens_fill_the_budget_from_the_end() -> None:
    said = ["one two three four", "five six seven"]
    assert newest_text(said, 3).strip() == "five six seven"
    assert newest_text(said, 100) == "one two three four\nfive six seven"


def test_a_folder_without_requests_is_explained(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no \*\.json files"):
        read_requests(tmp_path)
    (tmp_path / "0001.json").write_text(json.dumps({"input": "x"}))
    with pytest.raises(SystemExit, match=r"request 1 in .* has no list of messages"):
        read_requests(tmp_path)
