"""One tool: its description for the model, the rules for calling it, and the function that answers.

A function becomes a tool by its signature and docstring. A first parameter of type `Workspace` is filled in by the
toolbox; all others are the model's arguments. A description of an argument is written as `Annotated[str, "…"]`.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import (
    Annotated,
    Any,
    Literal,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec
from msgspec import Meta, Struct

from foveate.context.tools import FunctionSpec, call_object, call_usage
from foveate.errors import InputError, InvalidToolCall, contained
from foveate.turn import Attachment, Json

Approval = Literal["never", "ask", "always"]
"""`never`: executed immediately. `ask`: a person is asked, and can allow it for the rest of the session. `always`: a
person is asked for each call."""
DEFAULT_TIMEOUT_SECONDS = 60.0
DEFAULT_MAX_OUTPUT_TOKENS = 8_000
_WORKSPACE = "workspace"
_Function = TypeVar("_Function", bound=Callable[..., Any])


class ToolError(InputError):
    """A tool can't do what was requested; the message tells the model why, and what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """A tool's effects, with MCP's names."""

    read_only: bool = False
    destructive: bool = True
    """It may overwrite or delete. Ignored for a read-only tool."""
    open_world: bool = False
    """It reaches beyond this machine."""


READ_ONLY = Annotations(read_only=True, destructive=False)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The answer of a tool."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    """Images for the model."""
    is_error: bool = False
    exit_code: int | None = None
    inner: tuple[InnerCall, ...] = ()
    """Calls that a script made. They are recorded; the model sees only the script's output."""


@dataclass(frozen=True, slots=True)
class InnerCall:
    """A call that a script made, and its answer."""

    name: str
    arguments: Mapping[str, Json]
    output: ToolOutput


def missing_extra(what: str) -> ToolError:
    """Return the error of a tool whose packages are not installed."""
    return ToolError(f"{what} needs the extra 'tools': pip install 'foveate[tools]'")


Run = Callable[..., Awaitable["str | ToolOutput"]]
_Outcome = tuple[str | ToolOutput, BaseException | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool with everything the toolbox needs to offer and execute it."""

    name: str
    description: str
    arguments: type[Struct]
    """The model's arguments, checked before a call. The JSON schema is derived from it."""
    run: Run
    """Called with the workspace first, if `takes_workspace`, and the arguments by name."""
    takes_workspace: bool = False
    annotations: Annotations = field(default_factory=Annotations)
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    max_output_tokens: int | None = DEFAULT_MAX_OUTPUT_TOKENS
    """A longer result is stored in the file cabinet; the model gets its head, tail and key. None: no limit."""
    approval: Approval = "never"
    compressor: str | None = None
    """Name of the compressor for its results (`foveate.compress.tools`). None: by the tool's name or the output."""
    raw_schema: Mapping[str, Json] | None = None
    """A third party's JSON schema, e.g. of an MCP server; arguments are then passed on unchanged."""

    @property
    def schema(self) -> dict[str, Json]:
        """The JSON schema of the arguments: the same bytes in every process."""
        return dict(self.raw_schema) if self.raw_schema is not None else _schema(self.arguments)

    @property
    def argument_names(self) -> list[str]:
        """The names of the arguments, in the order of the signature."""
        return list(cast("Mapping[str, Json]", self.schema.get("properties", {})))

    @property
    def function(self) -> FunctionSpec:
        """The tool's name, description and schema, as a model gets them."""
        return FunctionSpec(self.name, self.description, self.schema)

    def usage(self) -> str:
        """Describe how to call the tool, e.g. `read_file(path, [first_line])`."""
        return call_usage(self.function)

    def check(self, arguments: object) -> dict[str, Any]:
        """Return the arguments by name, converted. `InvalidToolCall` names the wrong field and what it accepts."""
        parsed = call_object(self.function, arguments)
        if self.raw_schema is not None:
            return dict(parsed)
        kept = {
            key: value for key, value in parsed.items() if value is not None
        }  # models write null for what is absent
        try:
            converted = msgspec.convert(kept, self.arguments, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidToolCall(self.name, f"{_problem(error)}; call {self.usage()}") from None
        return {name: getattr(converted, name) for name in self.arguments.__struct_fields__}


class ToolOptions(TypedDict, total=False):
    """Fields of a `Tool` that can't be derived from its function."""

    name: str
    annotations: Annotations
    timeout_seconds: float
    max_output_tokens: int | None
    approval: Approval
    compressor: str | None


@overload
def tool(function: _Function, /) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[_Function], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[_Function], Tool]:
    """Make a tool from a function, by its signature and docstring. A function that is not async runs in a thread."""

    def make(wrapped: Callable[..., Any]) -> Tool:
        hints = get_type_hints(wrapped, include_extras=True)
        parameters = inspect.signature(wrapped).parameters
        described = inspect.getdoc(wrapped)
        if not described:
            raise InputError(f"{wrapped.__name__} needs a docstring: it tells the model what the tool does")
        fields = [_field(parameter, hints) for parameter in parameters.values() if parameter.name != _WORKSPACE]
        named: ToolOptions = {"name": wrapped.__name__, **options}
        return Tool(
            description=" ".join(described.split("\n\n")[0].split()),
            arguments=msgspec.defstruct(wrapped.__name__, fields, kw_only=True, forbid_unknown_fields=True),
            run=wrapped if inspect.iscoroutinefunction(wrapped) else _in_thread(wrapped),
            takes_workspace=_WORKSPACE in parameters,
            **named,
        )

    return make if function is None else make(function)


def plain_arguments(arguments: Mapping[str, Any]) -> dict[str, Json]:
    """Convert arguments to JSON, for people and records; other values are written with `repr`."""
    return cast("dict[str, Json]", msgspec.to_builtins(dict(arguments), str_keys=True, enc_hook=repr))


def _field(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
    if parameter.name not in hints:
        raise InputError(f"the parameter {parameter.name!r} of a tool needs a type")
    hint = hints[parameter.name]
    if get_origin(hint) is Annotated:
        kind, *extras = get_args(hint)
        described = [Meta(description=extra) if isinstance(extra, str) else extra for extra in extras]
        hint = Annotated[(kind, *described)]
    has_default = parameter.default is not inspect.Parameter.empty
    return (parameter.name, hint, parameter.default) if has_default else (parameter.name, hint)


def _in_thread(function: Callable[..., str | ToolOutput]) -> Run:
    """Run a function in its own thread: if it hangs, it blocks no pool and does not keep the process alive."""

    async def run(*positional: object, **named: object) -> str | ToolOutput:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Outcome] = loop.create_future()
        call = partial(copy_context().run, function, *positional, **named)
        threading.Thread(target=_work, args=(call, loop, answer), name=function.__name__, daemon=True).start()
        found, error = await answer
        if error is not None:
            raise error
        return found

    return run


def _work(
    call: Callable[[], str | ToolOutput], loop: asyncio.AbstractEventLoop, answer: asyncio.Future[_Outcome]
) -> None:
    """Execute the call and deliver its result or exception to the waiting task."""
    outcome: _Outcome = "", None
    try:
        with contained() as ended:
            outcome = call(), None
        outcome = ("", ended.error) if ended.error is not None else outcome
    except (SystemExit, KeyboardInterrupt) as error:
        outcome = "", error
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_deliver, answer, outcome)


def _deliver(answer: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if not answer.done():  # it is after a timeout
        answer.set_result(outcome)


def _schema(arguments: type[Struct]) -> dict[str, Json]:
    """Return a schema that providers accept: no references, and an optional argument without null and its default."""
    _, components = msgspec.json.schema_components([arguments])
    body = components[arguments.__name__]
    properties = {name: _plain(value, components) for name, value in body["properties"].items()}
    return {"type": "object", "properties": properties, "required": body["required"], "additionalProperties": False}


def _plain(schema: Mapping[str, Any], components: Mapping[str, Mapping[str, Any]]) -> dict[str, Json]:
    kept = {key: value for key, value in schema.items() if key not in ("default", "title")}
    if reference := kept.pop("$ref", None):
        kept = {**components[reference.rpartition("/")[2]], **kept}
        kept.pop("title", None)
    options = [option for option in kept.pop("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        kept |= _plain(options[0], components)
    elif options:
        kept["anyOf"] = [_plain(option, components) for option in options]
    if "items" in kept:
        kept["items"] = _plain(kept["items"], components)
    if "properties" in kept:
        kept["properties"] = {name: _plain(value, components) for name, value in kept["properties"].items()}
    if "enum" in kept and "type" not in kept:
        kept["type"] = "string"
    return kept


def _problem(error: msgspec.ValidationError) -> str:
    """Return msgspec's message with the field in front, e.g. `path: expected str, got int`."""
    text, _, place = str(error).partition(" - at `$")
    field_name = place.rstrip("`").lstrip(".")
    text = text.replace("Object ", "").replace("`", "'")
    text = text[:1].lower() + text[1:]
    return f"{field_name}: {text}" if field_name else text
