"""A chat in the terminal: the session, the model's answers, and how they are shown."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from foveate.additions import as_typed
from foveate.agents.budget import fitting_budget, most_output
from foveate.agents.chat import (
    INTERRUPTED,
    AnswerPiece,
    AnswerSummary,
    Chat,
    ChatEvent,
    Notice,
    RequestSent,
    ToolRequest,
    ToolResponse,
)
from foveate.agents.options import ChatOptions
from foveate.cli.chat.flow import LineFlow, status
from foveate.cli.ui.terminal import console, line, print_json_line, progress_bar, shorten, to_copy, whole_error
from foveate.cli.ui.tool_options import TerminalApprover, ToolOptions, make_toolbox, open_mcp, start_worker
from foveate.errors import FoveateError, InputError, InvalidMessage, SessionExists, StoreError, TurnBegun
from foveate.text import compact_json, several

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.client import Foveate
    from foveate.session import Session
    from foveate.session.values import SessionInfo
    from foveate.tools import Tool
    from foveate.turn import Turn

TURNS_SHOWN = 3
"""Turns shown of a resumed session."""
CALL_CHARS = 100
TITLE_CHARS = 60
"""Maximum title length of a new session, taken from its first prompt."""
MAX_FORKS = 1_000
FEW_TURNS = 8
"""Up to this many pending turns are compressed in the background."""
PREPARE_SECONDS = 60.0
TICK_SECONDS = 1.0
T = TypeVar("T")
STOP_LIMIT_SECONDS = 10.0
"""How long to wait for interrupted work to save its results."""


class Leave(Exception):
    """Raised to quit the chat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomOptions:
    """Options of the command line; unset ones follow the settings and the session."""

    model: str | None = None
    system: str = ""
    window_tokens: int | None = None
    max_output_tokens: int | None = None
    has_tools: bool = True
    strategy: str | None = None
    tools: ToolOptions = field(default_factory=ToolOptions)


class Room:
    """Runs one chat at a time. `out` prints the model's answers, `notes` everything else."""

    def __init__(self, fov: Foveate, options: RoomOptions, *, is_typed: bool, as_json: bool) -> None:
        self.fov = fov
        self.out = out = console()
        self.notes = out if is_typed and not as_json else console(stderr=True)
        self._options = options
        self._is_typed = is_typed
        self._as_json = as_json
        self._chat: Chat | None = None
        self._flow = LineFlow(self._write, lambda: out.width if out.is_terminal else None)
        self._reading = WaitLine(out)
        self._is_new = False
        self._connections = AsyncExitStack()
        self._mcp: list[Tool] | None = None
        """The tools of MCP servers, once they are connected."""
        self._worker_session: str | None = None
        """The session whose agents run in this process."""
        self._approve = TerminalApprover(
            is_typed, set(options.tools.approved), self.end_line, is_unattended=not is_typed
        )

    @property
    def chat(self) -> Chat:
        assert self._chat is not None, "call enter() first"
        return self._chat

    @property
    def session(self) -> Session:
        return self.chat.session

    async def enter(self, session_id: str, model: str, *, budget_tokens: int | None = None) -> None:
        """Resume or start a session with this model; on an error nothing changes."""
        settings = self.fov.settings
        await self.fov.check_model(model)
        window_tokens = self._window(model)
        output_tokens = self._options.max_output_tokens or most_output(window_tokens)
        known = next((info for info in await self.fov.sessions() if info.id == session_id), None)
        fitting = fitting_budget(
            budget_tokens,
            known,
            default_tokens=settings.session.budget_tokens,
            output_tokens=output_tokens,
            window_tokens=window_tokens,
            option=self._option,
        )
        strategy = None if self._chat else self._options.strategy
        session = await self.fov.session(session_id, model=model, budget_tokens=budget_tokens, strategy=strategy)
        session.engine.limit_budget(fitting)
        tools = self._options.tools if self._options.has_tools else ToolOptions()
        if self._mcp is None:
            self._mcp = await open_mcp(self._connections, self.fov, tools, self._approve)
        toolbox = await make_toolbox(self.fov, session, tools, approve=self._approve, extra=self._mcp)
        options = ChatOptions.of(
            self.fov,
            toolbox,
            system=self._options.system,
            max_output_tokens=output_tokens,
            has_tools=self._options.has_tools,
        )
        models = tuple(dict.fromkeys((model, *settings.models.fallbacks)))
        chat = Chat(session, self.fov.caller, models, options)
        if budget_tokens and (known is None or known.budget_tokens != budget_tokens):
            await self._try_budget(chat, known)
        elif known and known.budget_tokens != fitting:
            note = f"Budget: {fitting:,} of {known.budget_tokens:,} tokens, because the window of {model} is"
            self.notes.print(line((f"{note} {window_tokens:,}. {self._option} changes it.", "dim")))
        if toolbox and self._worker_session != session.id:
            self._worker_session = session.id
            await start_worker(self._connections, self.fov, session, toolbox)
        self._is_new = self._is_new or known is None
        self._chat = chat

    async def switch_packs(self, packs: tuple[str, ...]) -> None:
        """Replace the model's tools by those of other packs."""
        before = self._options
        self._options = replace(before, tools=replace(before.tools, packs=packs))
        try:
            await self.enter(self.session.id, self.chat.models[0])
        except FoveateError:
            self._options = before
            raise

    @property
    def _option(self) -> str:
        """The option or command that sets the budget."""
        return "/budget" if self._chat else "--budget"

    async def _try_budget(self, chat: Chat, before: SessionInfo | None) -> None:
        """Revert a budget that is too small for a context, and raise `InputError`."""
        info = chat.session.info
        try:
            await chat.context()
        except InputError as error:
            if before:
                await chat.session.engine.restore_budget(before)
                await self.fov.session(info.id, model=before.model)
            else:
                await self.fov.delete_session(info.id)
            raise InputError(f"{self._option} {info.budget_tokens:,}: {error}") from error

    async def handle(self, text: str) -> bool:
        """Handle a prompt or a command; return False if it failed, after printing the error."""
        from foveate.cli.chat.commands import run

        is_command = text.startswith("/") and not text.startswith("//")
        try:
            if is_command:
                await run(self, text)
            else:
                await self._say(text[1:] if text.startswith("//") else text)
        except FoveateError as error:
            self.end_line()
            self.print_error(error)
            if not is_command and not isinstance(error, StoreError | InvalidMessage | TurnBegun):
                again = "/retry asks again." if self._is_typed else f"to ask again: echo /retry | {self.command}"
                self.notes.print(line((f"The prompt is kept; {again}", "dim")), soft_wrap=True)
            if self._as_json:
                print_json_line({"session_id": self.session.id, "error": whole_error(error)})
            return False
        return True

    def print_error(self, error: FoveateError) -> None:
        message = line(("Error: ", "bold red"), whole_error(error))
        self.notes.print(message, soft_wrap=not self.notes.is_terminal)

    @property
    def command(self) -> str:
        """The shell command that resumes the session."""
        return to_copy("chat", self.session.id)

    async def _say(self, text: str) -> None:
        if self._is_new and not self.session.info.title:
            await self.session.rename(shorten(text, TITLE_CHARS))
            if not self._is_typed:
                self.notes.print(line((f"New session: {self.session.id}", "dim")), soft_wrap=True)
        await self.show(self.chat.say(text))

    async def show(self, events: AsyncGenerator[ChatEvent, None]) -> None:
        """Print an answer as it is streamed, then its status line."""
        tools: list[dict[str, object]] = []
        try:
            async with aclosing(events):
                async for event in events:
                    self._reading.end()
                    await self._show_event(event, tools)
        finally:
            self._reading.end()

    async def _show_event(self, event: ChatEvent, tools: list[dict[str, object]]) -> None:
        match event:
            case RequestSent(tokens):
                if not self._as_json:
                    self._reading.begin(tokens)
            case AnswerPiece(text):
                if not self._as_json:
                    self._flow.add(text)
            case ToolRequest(name, arguments):
                tools.append({"name": name, "arguments": arguments})
                self._note(f"→ {name} {shorten(compact_json(arguments), CALL_CHARS)}")
            case ToolResponse(name, tokens):
                self._note(f"← {name}: {tokens:,} tokens{outcome_of(event)}")
            case Notice(text):
                self._note(text)
            case AnswerSummary():
                await self._finish(event, tools)

    def end_line(self) -> None:
        """Print the buffered rest of an answer."""
        self._flow.end()

    async def prepare(self) -> None:
        """Compress pending turns before the chat starts, within a time limit; the rest runs in the background."""
        pending = (await self.session.stats()).pending
        if pending <= FEW_TURNS or not self.fov.settings.compress.enabled:
            return
        try:
            with progress_bar(shown=self._is_typed) as progress, suppress(TimeoutError):
                advance = partial(progress.advance, progress.add_task("compressing", total=pending))
                async with asyncio.timeout(PREPARE_SECONDS):
                    await self.fov.prepare(self.session.id, progress=advance)
        except FoveateError as error:  # unreadable turns must not prevent the chat
            self.print_error(error)

    async def introduce(self) -> None:
        """Print the model, the budget and the newest turns."""
        info = self.session.info
        model = self.chat.models[0]
        name = f" ({info.id})" if info.title else ""
        self.notes.print(line((shorten(info.title or info.id, TITLE_CHARS), "bold"), name))
        self.notes.print(line(f"{model}, {info.budget_tokens:,} tokens"), soft_wrap=True)
        self.notes.print(line(("/help lists the commands, Ctrl-D quits", "dim")))
        if not self.chat.has_tools and self._options.has_tools:
            self.notes.print(line(("The budget is too small for the history tools; they are omitted.", "dim")))
        if not info.turns:
            return
        first = max(1, info.turns - TURNS_SHOWN + 1)
        self.notes.print(
            line((f"{several(info.turns, 'turn')} so far" + (", the newest:" if first > 1 else ":"), "dim"))
        )
        for outline in await self.session.outline(first):
            if not outline.is_pruned:
                self._print_outline(await self.session.load_turn(outline.number))
        if waiting := await self.chat.waiting():
            self.notes.print(line((f"{waiting} has no answer yet: /retry requests it, or just continue.", "yellow")))

    async def leave(self) -> bool:
        """Delete a new session that stayed empty; report whether there is one to resume."""
        info = await self.session.refresh()
        is_empty = self._is_new and not info.turns and not await self.session.pins()
        if is_empty:
            await self.fov.delete_session(info.id)
        return not is_empty

    async def close(self) -> None:
        """End the connections to MCP servers."""
        await self._connections.aclose()

    async def new_id(self, beginning: str) -> str:
        """Return an unused session id with this prefix."""
        taken = {info.id for info in await self.fov.sessions()}
        names = (beginning if number == 1 else f"{beginning}-{number}" for number in range(1, MAX_FORKS))
        free = next((name for name in names if name not in taken), None)
        if free is None:
            raise SessionExists(beginning)
        return free

    async def spent_usd(self) -> float:
        """Return the cost of the session, including compression."""
        return sum(row.usd for row in await self.fov.costs(self.session.id))

    def _window(self, model: str) -> int | None:
        """Return a model's window, if known; --window applies to the first model only."""
        is_first = self._chat is None or self._chat.models[0] == model
        option = self._options.window_tokens if is_first else None
        return option or self.fov.window_tokens(model)

    def _print_outline(self, turn: Turn) -> None:
        """Print a turn in two lines."""
        messages = [message for message in turn.messages if message.kind == "message" and message.text.strip()]
        asked = as_typed(next((message.text for message in messages if message.role == "user"), ""))
        answered = next((message.text for message in reversed(messages) if message.role == "assistant"), "")
        width = max(CALL_CHARS // 2, self.notes.width - len(turn.id) - len(INTERRUPTED))
        for who, text in ((turn.id, asked), (" " * len(turn.id), answered)):
            if text:
                mark = ">" if who.strip() else " "
                summary = line((f"{who} {mark} ", "dim"), shorten(text, width))
                self.notes.print(summary, no_wrap=True, overflow="ellipsis")

    def _write(self, text: str) -> None:
        self.out.print(line(text), end="", soft_wrap=True)

    def _note(self, text: str) -> None:
        if not self._as_json:
            self.end_line()
            self.notes.print(line((text, "dim")))

    async def _finish(self, done: AnswerSummary, tools: Sequence[dict[str, object]]) -> None:
        if self._as_json:
            shares = {"predicted_cached_share": done.predicted_cached_share, "cached_share": done.cached_share}
            whole = {"session_id": self.session.id, **asdict(done), **shares, "usd": done.usd, "tools": tools}
            print_json_line(whole)
            return
        self.end_line()
        if done.finish == "length":
            self._note("The answer ends here because its output limit was reached; --max-output raises it.")
        summary = status(done, await self.spent_usd(), width=self.notes.width)
        self.notes.print(summary, no_wrap=True, overflow="ellipsis")
        if self.notes is self.out:
            self.out.print()


def outcome_of(response: ToolResponse) -> str:
    """Return how a tool call ended, if it failed or has an exit code."""
    if response.exit_code is not None:
        return f", exit code {response.exit_code}"
    return ", failed" if response.is_error else ""


def new_name() -> str:
    return f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}"


class WaitLine:
    """A dim line that counts the seconds; not shown on a terminal that can't erase it."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._ticking: asyncio.Task[None] | None = None

    def begin(self, tokens: int) -> None:
        self.end()
        if self._out.is_terminal and not self._out.is_dumb_terminal:
            self._ticking = asyncio.create_task(self._tick(tokens))

    def end(self) -> None:
        """Erase the line, if shown."""
        if self._ticking:
            self._ticking.cancel()
            self._ticking = None
            self._erase()

    async def _tick(self, tokens: int) -> None:
        began = time.monotonic()
        while True:
            self._erase()
            text = f"reading {tokens:,} tokens … {time.monotonic() - began:.0f} s"
            self._out.print(line((text, "dim")), end="", no_wrap=True, overflow="ellipsis")
            await asyncio.sleep(TICK_SECONDS)

    def _erase(self) -> None:
        from rich.control import Control
        from rich.segment import ControlType

        self._out.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))


class LoopThread:
    """An event loop in a thread; use it in a `with` block."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, name="foveate-chat", daemon=True)

    def __enter__(self) -> LoopThread:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it; Ctrl-C cancels it, and is raised once it has ended."""
        assert self._loop is not None, "use it in a with block"
        ended = threading.Event()

        async def whole() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(whole(), self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            ended.wait(STOP_LIMIT_SECONDS)
            raise

    def _serve(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self._ready.set()
            while True:
                try:
                    self._loop.run_forever()
                    return
                except (KeyboardInterrupt, SystemExit):  # e.g. from a closed pipe; the caller of `run` gets it too
                    continue
