"""The history tools cost little, and a model that calls one wrongly is told how to do it right."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate import renditions
from foveate.context.render import FORMATS
from foveate.context.tools import (
    HISTORY_TOOLS,
    MAX_DEFINITIONS_TOKENS,
    MAX_RESULTS,
    TOOLS,
    ContextRemaining,
    GetTurn,
    GetTurns,
    GetTurnsByTopic,
    Request,
    SearchHistory,
    definitions_tokens,
    parse_call,
    tool_definitions,
)
from foveate.errors import InvalidToolCall, UnknownFormat
from foveate.tokens import CL100K, O200K, Counter
from support.strategies import jsons


@pytest.mark.parametrize("counter", [O200K, CL100K])
@pytest.mark.parametrize("name", FORMATS)
def test_all_definitions_together_take_at_most_520_tokens(name: str, counter: Counter) -> None:
    assert 0 < definitions_tokens(name, counter) <= MAX_DEFINITIONS_TOKENS == 520


def test_each_provider_gets_its_own_shape() -> None:
    levels = {"type": "string", "enum": ["R", "S", "C", "T"]}
    schema = {
        "type": "object",
        "properties": {"topic": {"type": "string"}, "level": levels, "page": {"type": "integer"}},
        "required": ["topic"],
    }
    topic = {"name": "get_turns_by_topic", "description": "Read the turns on a topic (default C)."}
    assert tool_definitions("openai")[3] == {"type": "function", "function": {**topic, "parameters": schema}}
    flat = {"type": "function", **topic, "parameters": schema, "strict": False}
    assert tool_definitions("openai-responses")[3] == flat
    assert tool_definitions("anthropic")[3] == {**topic, "input_schema": schema}
    assert tool_definitions("gemini")[0]["functionDeclarations"][3] == {**topic, "parameters": schema}  # type: ignore[index]


def test_an_unknown_format_has_no_definitions() -> None:
    with pytest.raises(UnknownFormat, match="available: openai"):
        tool_definitions("cohere")


@pytest.mark.parametrize(
    ("name", "arguments", "request_"),
    [
        ("get_turn", {"turn_id": "T-87"}, GetTurn(87)),
        ("get_turn", '{"turn_id": "T-87", "level": "s", "page": 2}', GetTurn(87, "S", 2)),
        ("get_turn", {"turn_id": 87, "level": None}, GetTurn(87)),
        ("get_turn", {"turn_id": "<T-87-C>", "page": 2.0}, GetTurn(87, "R", 2)),
        ("get_turns", {"first": "T-1", "last": "T-900", "level": "E"}, GetTurns(1, 900, "E")),
        ("get_turns", {"first": "101", "last": "T-160"}, GetTurns(101, 160, "C")),
        ("search_history", {"query": " zlib "}, SearchHistory("zlib")),
        ("search_history", {"query": "zlib", "max_results": "7"}, SearchHistory("zlib", 7)),
        ("search_history", {"query": "zlib", "max_results": 500}, SearchHistory("zlib", MAX_RESULTS)),
        (
            "search_history",
            {"after": "May 2023", "before": "last week", "role": "User", "speaker": "Anna", "order": "time", "page": 2},
            SearchHistory("", 0, "May 2023", "last week", "user", "Anna", "time", 2),
        ),
        ("search_history", {"query": " ", "order": "time"}, SearchHistory(order="time")),
        ("get_turns_by_topic", {"topic": "deploys", "level": "T"}, GetTurnsByTopic("deploys", "T")),
        ("get_turns_by_topic", {"topic": "deploys", "page": 3}, GetTurnsByTopic("deploys", page=3)),
        ("context_remaining", {}, ContextRemaining()),
        ("context_remaining", "", ContextRemaining()),
    ],
)
def test_a_good_call_becomes_a_typed_request(name: str, arguments: object, request_: Request) -> None:
    assert parse_call(name, arguments) == request_


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "fetch",
            {},
            "fetch: there is no such tool; available: get_turn, get_turns, search_history, get_turns_by_topic",
        ),
        ("get_turn", {}, "get_turn: turn_id is missing; call get_turn(turn_id, [level], [page])"),
        ("get_turn", {"turn_id": "last"}, "get_turn: turn_id takes a turn id such as \"T-87\", not 'last'"),
        ("get_turn", {"turn_id": True}, 'get_turn: turn_id takes a turn id such as "T-87", not True'),
        ("get_turn", {"turn_id": "T-0"}, "get_turn: turn_id takes a turn id such as \"T-87\", not 'T-0'"),
        ("get_turn", {"turn_id": "T-1", "level": "E"}, "get_turn: level takes one of R, S, C, T, not 'E'"),
        (
            "get_turn",
            {"turn_id": "T-1", "levle": "R"},
            "get_turn: there is no argument 'levle'; call get_turn(turn_id, [level], [page])",
        ),
        ("get_turn", {"turn_id": "T-1", "page": 0}, "get_turn: page takes a whole number from 1 on, not 0"),
        ("get_turn", "{", "get_turn: the arguments are not JSON; call get_turn(turn_id, [level], [page])"),
        ("get_turn", "[1]", "get_turn: the arguments are not an object; call get_turn(turn_id, [level], [page])"),
        (
            "get_turns",
            {"first": "T-9", "last": "T-2"},
            "get_turns: first is T-9, which comes after last, T-2; exchange them",
        ),
        ("search_history", {"query": " "}, 'search_history: query is missing; give words, or order="time" to list'),
        ("search_history", {"query": 7}, "search_history: query takes words, not 7"),
        (
            "search_history",
            {"query": "x", "role": "me"},
            "search_history: role takes one of user, assistant, tool",
        ),
        ("search_history", {"query": "x", "order": "new"}, "search_history: order takes one of relevance, time, not"),
        ("search_history", {"query": "x", "after": ""}, "search_history: after takes words, not ''"),
        ("search_history", {"query": "x" * 2_001}, "search_history: query takes at most 2,000 characters, not 'xxx"),
    ],
)
def test_a_wrong_call_says_what_to_write_instead(name: str, arguments: object, message: str) -> None:
    with pytest.raises(InvalidToolCall) as caught:
        parse_call(name, arguments)
    assert str(caught.value).startswith(message)


@given(st.sampled_from([tool.name for tool in TOOLS]), jsons | st.text())
def test_whatever_a_model_writes_is_a_request_or_a_clear_error(name: str, arguments: object) -> None:
    with suppress(InvalidToolCall):
        assert isinstance(parse_call(name, arguments), Request)


def test_definitions_are_json_and_their_names_are_those_that_are_dispatched() -> None:
    names = [definition["name"] for definition in json.loads(json.dumps(tool_definitions("anthropic")))]
    assert names == ["get_turn", "get_turns", "search_history", "get_turns_by_topic", "context_remaining"]
    assert HISTORY_TOOLS == set(names) == renditions.HISTORY_TOOLS
