"""`run_script`: the model writes one Python script that calls many tools, instead of calling them one by one.

    script ──► Monty, in a process of its own ──► each call goes through the toolbox ──► what it printed, and its value

A script reaches nothing but the tools: no files, network, environment or clock of its own. Only tools that need no
approval can be called, and no script from a script. What the tools answer stays in the script; every inner call is in
the output's `inner`, for the log.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from foveate.text import several
from foveate.tools.tool import Annotations, InnerCall, Tool, ToolError, ToolOutput, missing_extra, plain_arguments, tool
from foveate.tools.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_monty import AsyncFunctionSnapshot, AsyncMontySession, AsyncSnapshot, ResourceLimits

    from foveate.tools.settings import ToolsSettings
    from foveate.tools.toolbox import Toolbox

Span = tuple[int, int]
"""First byte of an expression in a script, and the byte after its last one."""
NOT_IN_SCRIPTS = ("run_script", "wait_agent", "call_agent")
"""Tools that a script can't call: it can't run another script, and can't be suspended while it waits for an agent."""
MAX_AT_ONCE = 16
"""Calls that are executed at the same time: as many as of one answer of a model."""
MAX_SCRIPT_CHARS = 100_000
MAX_PRINTED_CHARS = 1_000_000
"""A script that prints more is stopped."""
TOTAL_SECONDS = 600.0
"""A script that takes longer, including the time of its tools, is stopped."""
INTERRUPTED = ToolOutput(
    "Error: interrupted, because the script was stopped; check whether it took effect\n", is_error=True
)


@tool(
    annotations=Annotations(destructive=True), timeout_seconds=TOTAL_SECONDS + 30
)  # a script ends earlier, at its own limit, with a record of its calls
async def run_script(
    workspace: Workspace, script: Annotated[str, "Python; call tools as functions, e.g. read_file(path='a.py')"]
) -> ToolOutput:
    """Run a Python script that calls your other tools as functions; each returns its text or raises RuntimeError.
    `await asyncio.gather(tool(…), tool(…))` runs calls at the same time. Only what the script prints, and the value of
    its last line, comes back. asyncio, json, re, math and datetime can be imported; files, network and classes of your
    own are not available.
    """
    if workspace.toolbox is None:
        raise ToolError("a script needs tools to call")
    if len(script) > MAX_SCRIPT_CHARS:
        raise ToolError(f"a script has up to {MAX_SCRIPT_CHARS:,} characters; this has {len(script):,}")
    return await execute(workspace.toolbox, script, workspace.settings)


@dataclass(slots=True)
class _Script:
    """One run of a script."""

    toolbox: Toolbox
    limits: ToolsSettings
    tools: dict[str, Tool]
    printed: list[str] = field(default_factory=list)
    printed_chars: int = 0
    inner: list[InnerCall] = field(default_factory=list)
    """The calls in the order in which they began."""
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_AT_ONCE))
    problem: str = ""
    """The limit that the script reached. The script can't continue by catching the error."""

    def print(self, _stream: str, text: str) -> None:
        self.printed_chars += len(text)
        if self.printed_chars > MAX_PRINTED_CHARS:
            self.problem = f"it printed more than {MAX_PRINTED_CHARS:,} characters"
            raise RuntimeError(self.problem)
        self.printed.append(text)

    async def call(self, name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Execute a call and return what Monty expects: a value, or an exception that the script may catch."""
        tool = self.tools.get(name)
        if tool is None:
            known = ", ".join(sorted(self.tools))
            return {"exception": NameError(f"name {name!r} is not defined; tools a script can call: {known}")}
        names = tool.argument_names
        if len(positional) > len(names):
            return {"exception": TypeError(f"{tool.usage()} takes {several(len(names), 'argument')}")}
        if len(self.inner) >= self.limits.script_calls:
            self.problem = f"it made more than {several(self.limits.script_calls, 'call')}"
            return {"exception": RuntimeError(self.problem)}
        arguments: dict[str, Any] = {**dict(zip(names, positional, strict=False)), **named}
        place, written = len(self.inner), plain_arguments(arguments)
        self.inner.append(InnerCall(name, written, INTERRUPTED))
        async with self.turn:
            output = await self.toolbox.call(name, arguments, whole=True)
        self.inner[place] = InnerCall(name, written, output)
        if output.is_error:
            return {"exception": RuntimeError(output.text.removeprefix("Error: ").strip())}
        return {"return_value": output.text}


async def execute(toolbox: Toolbox, script: str, limits: ToolsSettings) -> ToolOutput:
    """Execute a script. Its output is what it printed and the value of its last line."""
    try:
        import pydantic_monty as monty  # noqa: PLC0415 # of the extra `tools`
    except ImportError:
        raise missing_extra("a script") from None
    tools = {
        tool.name: tool
        for tool in toolbox.tools.values()
        if tool.approval == "never" and tool.name not in NOT_IN_SCRIPTS and tool.name.isidentifier()
    }
    run = _Script(toolbox, limits, tools)
    most: ResourceLimits = {
        "max_feed_duration_secs": limits.script_seconds,
        "max_memory": limits.script_memory_bytes,
        "max_suspensions": 4 * limits.script_calls + 100,
        "max_total_sleep_secs": limits.script_seconds,
    }
    problem = ""
    value: Any = None
    try:
        async with (
            asyncio.timeout(TOTAL_SECONDS) as deadline,
            monty.AsyncMonty(max_processes=1, request_timeout=limits.script_seconds + 5) as pool,
            pool.checkout(limits=most) as session,
        ):
            value = await _drive(session, script, run)
    except TimeoutError:
        if not deadline.expired():
            raise
        problem = f"the script was stopped: it took more than {TOTAL_SECONDS:g} seconds"
    except monty.MontySyntaxError as error:
        problem = f"the script is not valid Python: {error}"
    except monty.MontyRuntimeError as error:
        problem = error.display(format="traceback").strip()
    except monty.MontyError as error:
        problem = f"the script was stopped: {error}"
    return _output(run, value, f"the script was stopped: {run.problem}" if run.problem else problem)


async def _drive(session: AsyncMontySession, script: str, run: _Script) -> Any:
    """Answer the script's calls until it is complete; awaited ones run at the same time as the script and each other.

    Calls that are still running at the end are cancelled.
    """
    import pydantic_monty as monty  # noqa: PLC0415 # of the extra `tools`

    awaited = await asyncio.to_thread(awaited_calls, script)
    running: dict[int, asyncio.Task[Any]] = {}
    try:
        step: AsyncSnapshot = await session.feed_start(script, print_callback=run.print)
        while not isinstance(step, monty.MontyComplete):
            if isinstance(step, monty.AsyncFunctionSnapshot):
                step = await _answer(step, run, awaited, running)
            elif isinstance(step, monty.AsyncFutureSnapshot):
                step = await step.resume(await _first_answers(step.pending_call_ids, running))
            elif step.variable_name in run.tools:
                run.problem = f"call {step.variable_name}(…); it can't be used as a value"
            else:
                step = await step.resume()
            if run.problem:
                return None
        return step.output
    finally:
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)


async def _answer(
    step: AsyncFunctionSnapshot, run: _Script, awaited: Collection[Span], running: dict[int, asyncio.Task[Any]]
) -> AsyncSnapshot:
    """Answer a call with its result, or start it and answer with a future if the script awaits it."""
    if step.is_os_function:
        return await step.resume_not_handled()
    call = run.call(str(step.function_name), step.args, step.kwargs)
    if step.allow_eager_await or (step.position.start, step.position.end) in awaited:
        running[step.call_id] = asyncio.create_task(call)
        return await step.resume({"future": ...})
    return await step.resume(await call)


async def _first_answers(wanted: Sequence[int], running: dict[int, asyncio.Task[Any]]) -> dict[int, Any]:
    """Wait until one of these calls has ended, and return the answers of those that have."""
    await asyncio.wait([running[call] for call in wanted], return_when=asyncio.FIRST_COMPLETED)
    return {call: running.pop(call).result() for call in wanted if running[call].done()}


def awaited_calls(script: str) -> frozenset[Span]:
    """Return where in a script the calls are that it awaits: by `await`, in `asyncio.gather`, or in a name given to it.

    A tool's function returns its text at any other place, so that a script need not be asynchronous.
    """
    try:
        calls = [value for value in _awaited(list(ast.walk(ast.parse(script)))) if isinstance(value, ast.Call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()  # the interpreter reports what is wrong
    starts = [0, *(end.end() for end in re.finditer(b"\r\n?|\n", script.encode()))]

    def at(line: int | None, column: int | None) -> int:
        return starts[(line or 1) - 1] + (column or 0)

    return frozenset((at(call.lineno, call.col_offset), at(call.end_lineno, call.end_col_offset)) for call in calls)


def _awaited(nodes: Sequence[ast.AST]) -> list[ast.expr]:
    values = [value for node in nodes for value in _awaited_values(node)]
    names = {value.id for value in values if isinstance(value, ast.Name)}
    return [*values, *(value for node in nodes for value in _values_of(node, names))]


def _awaited_values(node: ast.AST) -> list[ast.expr]:
    """Return the values that an `await` or a call of `gather` awaits."""
    match node:
        case ast.Await(value):
            return _elements(value)
        case ast.Call(ast.Attribute(ast.Name("asyncio"), "gather") | ast.Name("gather"), arguments):
            return [value for argument in arguments for value in _elements(argument)]
    return []


def _values_of(node: ast.AST, names: Collection[str]) -> list[ast.expr]:
    """Return the values that a statement gives to one of these names, or appends to it."""
    match node:
        case ast.Assign(targets=[ast.Name(name)], value=value) | ast.AugAssign(ast.Name(name), value=value):
            return _elements(value) if name in names else []
        case ast.Call(ast.Attribute(ast.Name(name), "append"), [value]):
            return _elements(value) if name in names else []
    return []


def _elements(value: ast.expr) -> list[ast.expr]:
    """Return a value, or the values in a list."""
    match value:
        case ast.Starred(inner):
            return _elements(inner)
        case ast.List(values) | ast.Tuple(values):
            return [element for each in values for element in _elements(each)]
        case ast.ListComp(inner) | ast.GeneratorExp(inner):
            return _elements(inner)
        case ast.IfExp(_, yes, no):
            return [*_elements(yes), *_elements(no)]
    return [value]


def _output(run: _Script, value: object, problem: str) -> ToolOutput:
    printed = "".join(run.printed)
    parts = [printed if not printed or printed.endswith("\n") else f"{printed}\n"]
    if value is not None:
        parts.append(f"{value if isinstance(value, str) else repr(value)}\n")
    if problem:
        parts.append(f"Error: {problem}\n")
    parts.append(f"({several(len(run.inner), 'tool call')})\n")
    return ToolOutput("".join(parts), is_error=bool(problem), inner=tuple(run.inner))
