"""Where the user of `foveate chat` and a model meet: a session, its chat, and what is shown of them."""

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
"""Of a session that is gone on with."""
CALL_CHARS = 100
TITLE_CHARS = 60
"""A new session is called by what was said first."""
MAX_FORKS = 1_000
FEW_TURNS = 8
"""Up to this many turns without renditions are left to the background."""
PREPARE_SECONDS = 60.0
TICK_SECONDS = 1.0
T = TypeVar("T")
STOP_LIMIT_SECONDS = 10.0
"""How long something that was stopped has to put away what it did."""


class Leave(Exception):
    """The user wants to go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line says; the rest is as settings and session have it."""

    model: str | None = None
    system: str = ""
    window_tokens: int | None = None
    max_output_tokens: int | None = None
    has_tools: bool = True
    strategy: str | None = None
    tools: ToolOptions = field(default_factory=ToolOptions)


class Room:
    """One chat at a time. `out` is for what the model says, `notes` for all else."""

    def __init__(self, fov: Foveate, wishes: Wishes, *, is_typed: bool, as_json: bool) -> None:
        self.fov = fov
        self.out = out = console()
        self.notes = out if is_typed and not as_json else console(stderr=True)
        self._wishes = wishes
        self._is_typed = is_typed
        self._as_json = as_json
        self._chat: Chat | None = None
        self._flow = LineFlow(self._write, lambda: out.width if out.is_terminal else None)
        self._reading = WaitLine(out)
        self._is_begun_here = False
        self._connections = AsyncExitStack()
        self._mcp: list[Tool] | None = None
        """The tools of MCP servers, once they are connected."""
        self._worked: str | None = None
        """The session whose agents are run here."""
        self._approve = TerminalApprover(
            is_typed, set(wishes.tools.approved), self.end_line, is_unattended=not is_typed
        )

    @property
    def chat(self) -> Chat:
        assert self._chat is not None, "a room is entered first"
        return self._chat

    @property
    def session(self) -> Session:
        return self.chat.session

    async def enter(self, session_id: str, model: str, *, budget_tokens: int | None = None) -> None:
        """Go on with a session, or begin it, with this model; what can't be leaves everything as it was."""
        settings = self.fov.settings
        await self.fov.check_model(model)
        window_tokens = self._window(model)
        output_tokens = self._wishes.max_output_tokens or most_output(window_tokens)
        known = next((info for info in await self.fov.sessions() if info.id == session_id), None)
        fitting = fitting_budget(
            budget_tokens,
            known,
            default_tokens=settings.session.budget_tokens,
            output_tokens=output_tokens,
            window_tokens=window_tokens,
            option=self._option,
        )
        strategy = None if self._chat else self._wishes.strategy
        session = await self.fov.session(session_id, model=model, budget_tokens=budget_tokens, strategy=strategy)
        session.engine.limit_budget(fitting)
        tools = self._wishes.tools if self._wishes.has_tools else ToolOptions()
        if self._mcp is None:
            self._mcp = await open_mcp(self._connections, self.fov, tools, self._approve)
        toolbox = await make_toolbox(self.fov, session, tools, approve=self._approve, extra=self._mcp)
        options = ChatOptions.of(
            self.fov,
            toolbox,
            system=self._wishes.system,
            max_output_tokens=output_tokens,
            has_tools=self._wishes.has_tools,
        )
        models = tuple(dict.fromkeys((model, *settings.models.fallbacks)))
        chat = Chat(session, self.fov.caller, models, options)
        if budget_tokens and (known is None or known.budget_tokens != budget_tokens):
            await self._try_budget(chat, known)
        elif known and known.budget_tokens != fitting:
            told = f"Budget: {fitting:,} of {known.budget_tokens:,} tokens, since the window of {model} is"
            self.notes.print(line((f"{told} {window_tokens:,}. {self._option} changes it.", "dim")))
        if toolbox and self._worked != session.id:
            self._worked = session.id
            await start_worker(self._connections, self.fov, session, toolbox)
        self._is_begun_here = self._is_begun_here or known is None
        self._chat = chat

    async def switch_packs(self, packs: tuple[str, ...]) -> None:
        """Give the model the tools of other packs from now on."""
        before = self._wishes
        self._wishes = replace(before, tools=replace(before.tools, packs=packs))
        try:
            await self.enter(self.session.id, self.chat.models[0])
        except FoveateError:
            self._wishes = before
            raise

    @property
    def _option(self) -> str:
        """Where a budget is said."""
        return "/budget" if self._chat else "--budget"

    async def _try_budget(self, chat: Chat, before: SessionInfo | None) -> None:
        """Take a budget back in which no context can be made, and say so."""
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
        """A prompt or a command; False if it failed, and then that was said."""
        from foveate.cli.chat.commands import run

        is_command = text.startswith("/") and not text.startswith("//")
        try:
            if is_command:
                await run(self, text)
            else:
                await self._say(text[1:] if text.startswith("//") else text)
        except FoveateError as error:
            self.end_line()
            self.tell_error(error)
            if not is_command and not isinstance(error, StoreError | InvalidMessage | TurnBegun):
                again = "/retry asks again." if self._is_typed else f"to ask again: echo /retry | {self.command}"
                self.notes.print(line((f"The prompt is kept; {again}", "dim")), soft_wrap=True)
            if self._as_json:
                print_json_line({"session_id": self.session.id, "error": whole_error(error)})
            return False
        return True

    def tell_error(self, error: FoveateError) -> None:
        told = line(("Error: ", "bold red"), whole_error(error))
        self.notes.print(told, soft_wrap=not self.notes.is_terminal)

    @property
    def command(self) -> str:
        """What goes on with the session, to be copied."""
        return to_copy("chat", self.session.id)

    async def _say(self, text: str) -> None:
        if self._is_begun_here and not self.session.info.title:
            await self.session.rename(shorten(text, TITLE_CHARS))
            if not self._is_typed:
                self.notes.print(line((f"A new session: {self.session.id}", "dim")), soft_wrap=True)
        await self.show(self.chat.say(text))

    async def show(self, events: AsyncGenerator[ChatEvent, None]) -> None:
        """An answer as it comes, and what it took."""
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
        """Show what is left of an answer that goes no further."""
        self._flow.end()

    async def prepare(self) -> None:
        """Compress what was imported, say, before a model is shown it; what takes long goes on beside the chat."""
        pending = (await self.session.stats()).pending
        if pending <= FEW_TURNS or not self.fov.settings.compress.enabled:
            return
        try:
            with progress_bar(shown=self._is_typed) as progress, suppress(TimeoutError):
                advance = partial(progress.advance, progress.add_task("compressing", total=pending))
                async with asyncio.timeout(PREPARE_SECONDS):
                    await self.fov.prepare(self.session.id, progress=advance)
        except FoveateError as error:  # what can't be read is no reason not to talk
            self.tell_error(error)

    async def introduce(self) -> None:
        """The model and the state of the conversation."""
        info = self.session.info
        model = self.chat.models[0]
        name = f" ({info.id})" if info.title else ""
        self.notes.print(line((shorten(info.title or info.id, TITLE_CHARS), "bold"), name))
        self.notes.print(line(f"{model}, {info.budget_tokens:,} tokens"), soft_wrap=True)
        self.notes.print(line(("/help lists the commands, Ctrl-D leaves", "dim")))
        if not self.chat.has_tools and self._wishes.has_tools:
            self.notes.print(line(("The budget is too small for the history tools; they are left out.", "dim")))
        if not info.turns:
            return
        first = max(1, info.turns - TURNS_SHOWN + 1)
        self.notes.print(
            line((f"{several(info.turns, 'turn')} so far" + (", the newest:" if first > 1 else ":"), "dim"))
        )
        for outline in await self.session.outline(first):
            if not outline.is_pruned:
                self._recall(await self.session.load_turn(outline.number))
        if waiting := await self.chat.waiting():
            self.notes.print(line((f"{waiting} has no answer yet: /retry asks for it, or just go on.", "yellow")))

    async def leave(self) -> bool:
        """Whether there is something to go on with; a session that was begun here and has nothing in it is not kept."""
        info = await self.session.refresh()
        is_empty = self._is_begun_here and not info.turns and not await self.session.pins()
        if is_empty:
            await self.fov.delete_session(info.id)
        return not is_empty

    async def close(self) -> None:
        """End the connections to MCP servers."""
        await self._connections.aclose()

    async def new_id(self, beginning: str) -> str:
        """An id that no session has."""
        taken = {info.id for info in await self.fov.sessions()}
        names = (beginning if number == 1 else f"{beginning}-{number}" for number in range(1, MAX_FORKS))
        free = next((name for name in names if name not in taken), None)
        if free is None:
            raise SessionExists(beginning)
        return free

    async def spent_usd(self) -> float:
        """What the session has cost, compression included."""
        return sum(row.usd for row in await self.fov.costs(self.session.id))

    def _window(self, model: str) -> int | None:
        """What a model takes, if that is known; the command line speaks of the model that it began with."""
        is_first = self._chat is None or self._chat.models[0] == model
        given = self._wishes.window_tokens if is_first else None
        return given or self.fov.window_tokens(model)

    def _recall(self, turn: Turn) -> None:
        """A turn in two lines."""
        said = [message for message in turn.messages if message.kind == "message" and message.text.strip()]
        asked = as_typed(next((message.text for message in said if message.role == "user"), ""))
        answered = next((message.text for message in reversed(said) if message.role == "assistant"), "")
        width = max(CALL_CHARS // 2, self.notes.width - len(turn.id) - len(INTERRUPTED))
        for who, text in ((turn.id, asked), (" " * len(turn.id), answered)):
            if text:
                mark = ">" if who.strip() else " "
                told = line((f"{who} {mark} ", "dim"), shorten(text, width))
                self.notes.print(told, no_wrap=True, overflow="ellipsis")

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
        told = status(done, await self.spent_usd(), width=self.notes.width)
        self.notes.print(told, no_wrap=True, overflow="ellipsis")
        if self.notes is self.out:
            self.out.print()


def outcome_of(response: ToolResponse) -> str:
    """How a tool call ended, where that is worth a word."""
    if response.exit_code is not None:
        return f", exit code {response.exit_code}"
    return ", failed" if response.is_error else ""


def new_name() -> str:
    return f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}"


class WaitLine:
    """A dim line with the seconds that pass; nothing where it could not be taken away again."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._ticking: asyncio.Task[None] | None = None

    def begin(self, tokens: int) -> None:
        self.end()
        if self._out.is_terminal and not self._out.is_dumb_terminal:
            self._ticking = asyncio.create_task(self._tick(tokens))

    def end(self) -> None:
        """Take the line away, if there is one."""
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
    """An event loop; use it in a `with` block."""

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
        """Do something and wait for it; Ctrl-C stops it, and is raised once it has come to its end."""
        assert self._loop is not None, "it is used in a with block"
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
                except (KeyboardInterrupt, SystemExit):  # as of a closed pipe; whoever waits for the work gets it too
                    continue
