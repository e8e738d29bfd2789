"""The history tools: their definitions for each provider, and typed requests parsed from a model's calls.

The definitions together have at most `MAX_DEFINITIONS_TOKENS`. An invalid call raises `InvalidToolCall`, which
tells the model how to call the tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from foveate.context.render import FORMATS
from foveate.errors import InvalidToolCall, UnknownFormat, did_you_mean
from foveate.plan import ShownLevel
from foveate.renditions import LEVELS, Level
from foveate.text import compact_json
from foveate.tokens import Counter
from foveate.turn import Json, turn_id

RangeLevel: TypeAlias = Level | Literal["E"]
RANGE_LEVELS: tuple[RangeLevel, ...] = (*LEVELS, "E")
MAX_DEFINITIONS_TOKENS = 520
"""Maximum tokens of all definitions in any format."""
DEFAULT_RESULTS = 5
DEFAULT_LISTED = 30
"""Turns on a page of a search: by relevance, and in a list by time."""
MAX_RESULTS = 30
"""More on a page would shorten each line to a few words."""
ROLES = ("user", "assistant", "tool")
ORDERS = ("relevance", "time")
MAX_PAGE = 100_000
MAX_TEXT_CHARS = 2_000
"""Maximum length of a query or a topic."""
SHOWN_CHARS = 60
"""Length to which an error shortens an invalid value."""

_TURN = re.compile(r"</?(?=T-)|\s+")
_TURN_ID = re.compile(r"(?:T-)?([1-9]\d{0,17})(?:-[RSCT])?>?", re.IGNORECASE)
_ITEM_ID = re.compile(r"k-[0-9a-z-]{1,64}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TurnAddress:
    """`T-87`, or `SESSION/T-87` for a turn of another session of the same scope."""

    turn: int
    session: str = ""


@dataclass(frozen=True, slots=True)
class GetKnowledge:
    """An item of knowledge by its id. `get_turn` accepts it too: the memory layer names both."""

    id: str


@dataclass(frozen=True, slots=True)
class GetTurn:
    turn: int
    level: ShownLevel = "R"
    page: int = 1
    session: str = ""
    """The id of another session; empty for the current one."""


@dataclass(frozen=True, slots=True)
class GetTurns:
    """The turns from `first` to `last`; at level E the eras between them, largest first."""

    first: int
    last: int
    level: ShownLevel = "C"
    page: int = 1
    session: str = ""


@dataclass(frozen=True, slots=True)
class SearchHistory:
    """A search by words, or a list of turns by time, for which the query may be empty."""

    query: str = ""
    max_results: int = 0
    """Turns on a page; 0: the default of the order."""
    after: str | None = None
    before: str | None = None
    role: str | None = None
    speaker: str | None = None
    order: str = "relevance"
    page: int = 1

    @property
    def is_list(self) -> bool:
        return self.order == "time"

    @property
    def page_turns(self) -> int:
        return self.max_results or (DEFAULT_LISTED if self.is_list else DEFAULT_RESULTS)


@dataclass(frozen=True, slots=True)
class GetTurnsByTopic:
    topic: str
    level: ShownLevel = "C"
    page: int = 1


@dataclass(frozen=True, slots=True)
class ContextRemaining:
    """A question for the size of the context."""


Request: TypeAlias = GetTurn | GetTurns | GetKnowledge | SearchHistory | GetTurnsByTopic | ContextRemaining


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool: its schema for the model, and how it is read."""

    schema: Mapping[str, Json]
    read: Callable[[object], Any]
    """Return the parsed value; `ValueError` describes the accepted values."""
    field: str
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class HistoryTool:
    name: str
    description: str
    arguments: Mapping[str, Argument]
    request: type[Request]

    @property
    def function(self) -> FunctionSpec:
        required = [key for key, argument in self.arguments.items() if argument.is_required]
        properties = {key: argument.schema for key, argument in self.arguments.items()}
        schema: dict[str, Json] = {"type": "object", "properties": properties, "required": required}
        return FunctionSpec(self.name, self.description, schema)


def _read_turn(value: object) -> TurnAddress:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return TurnAddress(value)
    session, _, turn = value.strip().rpartition("/") if isinstance(value, str) else ("", "", "")
    found = _TURN_ID.fullmatch(_TURN.sub("", turn))
    if found is None:
        raise ValueError('takes a turn id such as "T-87"')
    return TurnAddress(int(found[1]), session)


def _read_turn_or_item(value: object) -> TurnAddress | GetKnowledge:
    if isinstance(value, str) and _ITEM_ID.fullmatch(value.strip()):
        return GetKnowledge(value.strip().lower())
    return _read_turn(value)


def _read_level(levels: Sequence[ShownLevel]) -> Callable[[object], ShownLevel]:
    def read(value: object) -> ShownLevel:
        for level in levels:
            if isinstance(value, str) and value.strip().upper() == level:
                return level
        raise ValueError(f"takes one of {', '.join(levels)}")

    return read


def _read_number(most: int) -> Callable[[object], int]:
    """Return a reader of numbers from 1 on; a larger one than `most` counts as that, since pages say what is left."""

    def read(value: object) -> int:
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(whole, str) and whole.strip().isascii() and whole.strip().isdigit():
            whole = int(whole[:20])
        if not isinstance(whole, int) or isinstance(whole, bool) or whole < 1:
            raise ValueError("takes a whole number from 1 on")
        return min(whole, most)

    return read


def _read_choice(choices: Sequence[str]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if isinstance(value, str) and value.strip().lower() in choices:
            return value.strip().lower()
        raise ValueError(f"takes one of {', '.join(choices)}")

    return read


def _read_query(value: object) -> str:
    return "" if isinstance(value, str) and not value.strip() else _read_text(value)


def _read_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("takes words")
    if len(value) > MAX_TEXT_CHARS:
        raise ValueError(f"takes at most {MAX_TEXT_CHARS:,} characters")
    return value.strip()


def _turn(field: str, read: Callable[[object], TurnAddress | GetKnowledge] = _read_turn) -> Argument:
    return Argument({"type": "string"}, read, field, is_required=True)


def _level(levels: Sequence[ShownLevel]) -> Argument:
    return Argument({"type": "string", "enum": list(levels)}, _read_level(levels), "level")


def _text(field: str, *, is_required: bool = False) -> Argument:
    return Argument({"type": "string"}, _read_text, field, is_required=is_required)


def _choice(field: str, choices: Sequence[str]) -> Argument:
    return Argument({"type": "string", "enum": list(choices)}, _read_choice(choices), field)


def _number(field: str, most: int) -> Argument:
    return Argument({"type": "integer"}, _read_number(most), field)


TOOLS: tuple[HistoryTool, ...] = (
    HistoryTool(
        "get_turn",
        'Read one earlier turn, e.g. "T-87", with its date. Level R (default) is verbatim, S smoothed, C compressed, '
        "T one line.",
        {"turn_id": _turn("turn", _read_turn_or_item), "level": _level(LEVELS), "page": _number("page", MAX_PAGE)},
        GetTurn,
    ),
    HistoryTool(
        "get_turns",
        'Read turns "T-101" to "T-160" (default C); level E opens an era into the eras or turns it sums up.',
        {
            "first": _turn("first"),
            "last": _turn("last"),
            "level": _level(RANGE_LEVELS),
            "page": _number("page", MAX_PAGE),
        },
        GetTurns,
    ),
    HistoryTool(
        "search_history",
        "Find earlier turns by words, best first, with dates. For order, progress or everything said about X use "
        'order "time": one line per turn, oldest first; query may be empty. after (inclusive) and before: '
        '"2023-05-04", "May 2023", "last week". speaker: the name that messages begin with.',
        {
            "query": Argument({"type": "string"}, _read_query, "query"),
            "after": _text("after"),
            "before": _text("before"),
            "role": _choice("role", ROLES),
            "speaker": _text("speaker"),
            "order": _choice("order", ORDERS),
            "max_results": _number("max_results", MAX_RESULTS),
            "page": _number("page", MAX_PAGE),
        },
        SearchHistory,
    ),
    HistoryTool(
        "get_turns_by_topic",
        "Read the turns on a topic (default C).",
        {"topic": _text("topic", is_required=True), "level": _level(LEVELS), "page": _number("page", MAX_PAGE)},
        GetTurnsByTopic,
    ),
    HistoryTool(
        "context_remaining",
        "How much of the token budget is used and free, and which turns are compressed next.",
        {},
        ContextRemaining,
    ),
)


HISTORY_TOOLS = frozenset(tool.name for tool in TOOLS)


def parse_call(name: str, arguments: object) -> Request:
    """Parse a model's call. The arguments are an object, or its JSON text as OpenAI sends it."""
    tool = next((tool for tool in TOOLS if tool.name == name), None)
    if tool is None:
        known = [tool.name for tool in TOOLS]
        raise InvalidToolCall(str(name), f"there is no such tool; {did_you_mean(str(name), known)}")
    usage = call_usage(tool.function)
    given = call_object(tool.function, arguments)
    for key in given:
        if key not in tool.arguments:
            raise InvalidToolCall(name, f"there is no argument {key!r}; call {usage}")
    values: dict[str, Any] = {}
    for key, argument in tool.arguments.items():
        # Some models write null for an argument that they omit.
        if given.get(key) is None:
            if argument.is_required:
                raise InvalidToolCall(name, f"{key} is missing; call {usage}")
            continue
        try:
            values[argument.field] = argument.read(given[key])
        except ValueError as error:
            raise InvalidToolCall(name, f"{key} {error}, not {_shown(given[key])}") from None
    if isinstance(values.get("turn"), GetKnowledge):
        return GetKnowledge(values["turn"].id)
    return _checked(tool.request(**_addressed(tool, values)), name)


def _checked(request: Request, name: str) -> Request:
    """Return a request whose arguments fit together."""
    if isinstance(request, GetTurns) and request.first > request.last:
        raise InvalidToolCall(name, f"{order_problem(request.first, request.last)}; exchange them")
    if isinstance(request, SearchHistory) and not (request.query or request.is_list):
        raise InvalidToolCall(name, 'query is missing; give words, or order="time" to list turns by date')
    return request


def order_problem(first: int, last: int) -> str:
    """Describe a range whose end comes before its beginning."""
    return f"first is {turn_id(first)}, which comes after last, {turn_id(last)}"


def _addressed(tool: HistoryTool, values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace addresses by turn numbers, and add their session if it is another one."""
    addresses = {field: value for field, value in values.items() if isinstance(value, TurnAddress)}
    sessions = {address.session for address in addresses.values() if address.session}
    if len(sessions) > 1:
        raise InvalidToolCall(tool.name, f"the turns are of different sessions, {' and '.join(sorted(sessions))}")
    turns = {field: address.turn for field, address in addresses.items()}
    return {**values, **turns, **dict.fromkeys(("session",) if sessions else (), "".join(sessions))}


def call_object(function: FunctionSpec, arguments: object) -> Mapping[str, object]:
    """Return a call's arguments, which some providers send as JSON text; `InvalidToolCall` shows the usage."""
    problem = "an object"
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments or "{}")
        except (ValueError, RecursionError):  # also of text that can't be encoded
            problem = "JSON"
    if not isinstance(arguments, Mapping):
        raise InvalidToolCall(function.name, f"the arguments are not {problem}; call {call_usage(function)}")
    return arguments


def call_usage(function: FunctionSpec) -> str:
    """Return the usage of a tool, e.g. `read_file(path, [first_line])`."""
    required: Any = function.schema.get("required", ())
    properties: Any = function.schema.get("properties", {})
    names = (name if name in required else f"[{name}]" for name in properties)
    return f"{function.name}({', '.join(names)})"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 1]}…"


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools that a model may call: the history tools and the caller's own."""

    extra: tuple[Mapping[str, Json], ...] = ()
    format: str = ""
    """The format of the caller's own tools."""
    has_history: bool = True
    is_late: bool = False
    """Send the history tools only once a turn is in tags: before that there is nothing to read again."""

    def definitions(self, format: str) -> list[dict[str, Json]]:  # noqa: A002
        """Return the definitions of all tools in a provider's format."""
        if self.extra and format != self.format:
            problem = f"your own tools were given to tools({self.format!r}); give them as {format} has them"
            raise UnknownFormat(f"{problem}: tools({format!r}, extra_tools=…)")
        return [*(tool_definitions(format) if self.has_history else ()), *map(dict, self.extra)]

    def tokens(self, counter: Counter) -> int:
        """Return the maximum base tokens of all tools in any format."""
        own = counter.stable_base(compact_json(self.extra)) if self.extra else 0
        return (most_definitions_tokens(counter) if self.has_history else 0) + own

    def late_tokens(self, counter: Counter) -> int:
        """Return the base tokens of the tools that are omitted until a turn is in tags."""
        return most_definitions_tokens(counter) if self.is_late and self.has_history else 0

    def without_history(self) -> ToolSet | None:
        """Return the caller's own tools only; None if there are none."""
        return replace(self, has_history=False) if self.extra else None


class FunctionSpec(NamedTuple):
    """The description of a tool for a model."""

    name: str
    description: str
    schema: Mapping[str, Json]

    @property
    def takes(self) -> bool:
        """Whether it has arguments."""
        return bool(self.schema.get("properties"))

    def record(self, schema_key: str) -> dict[str, Json]:
        """Return the description with the schema under this key; without the schema if the key is empty."""
        record: dict[str, Json] = {"name": self.name, "description": self.description}
        return {**record, schema_key: self.schema} if schema_key else record


def tool_definitions(format: str) -> list[dict[str, Json]]:  # noqa: A002
    """Return the history tools in the format `openai`, `openai-responses`, `anthropic` or `gemini`."""
    return function_definitions([tool.function for tool in TOOLS], format)


def function_definitions(functions: Sequence[FunctionSpec], format: str) -> list[dict[str, Json]]:  # noqa: A002
    """Return tools in a provider's format."""
    match format:
        case "openai":
            return [{"type": "function", "function": function.record("parameters")} for function in functions]
        case "openai-responses":
            # Tools of this API are strict by default, and strict tools have no optional arguments.
            return [{"type": "function", **function.record("parameters"), "strict": False} for function in functions]
        case "anthropic":
            return [function.record("input_schema") for function in functions]
        case "gemini":
            # Gemini rejects an object without properties.
            declared = [function.record("parameters" if function.takes else "") for function in functions]
            return [{"functionDeclarations": declared}] if declared else []
    raise UnknownFormat(f"no tools for {format!r}; {did_you_mean(format, FORMATS)}")


def definitions_tokens(format: str, counter: Counter) -> int:  # noqa: A002
    """Return the base tokens of the definitions as compact JSON."""
    return counter.base(json.dumps(tool_definitions(format), separators=(",", ":"), ensure_ascii=False))


@cache
def most_definitions_tokens(counter: Counter) -> int:
    """Return the base tokens of the definitions in the longest format."""
    return max(definitions_tokens(name, counter) for name in FORMATS)
