"""Where the user of `foveate chat` and a model meet: a session, its chat, and what is shown of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from foveate.chatting import (
    DEFAULT_MAX_OUTPUT_TOKENS,
    INTERRUPTED,
    WINDOW_MARGIN_TOKENS,
    Chat,
    ChatEvent,
    Finished,
    Noticed,
    Piece,
    ToolAnswered,
    ToolAsked,
    check_window,
)
from foveate.cli.chat_flow import Flow
from foveate.cli.terminal import line, print_json_line, shorten
from foveate.errors import FoveateError, InputError, ModelError, ModelUnavailable, SessionExists
from foveate.models.names import load_model, models_for, understand
from foveate.models.windows import window_of
from foveate.store.calls import NANO
from foveate.text import compact_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from foveate.api import Foveate
    from foveate.session import Session
    from foveate.turn import Turn

UNLIMITED = 2**62
WINDOW_SHARE = 8
"""An answer takes at most this part of a known window, one in so many."""
TURNS_SHOWN = 3
"""Of a session that is gone on with."""
BAR_CELLS = 8
CALL_CHARS = 100
TITLE_CHARS = 60
"""A new session is called by what was said first."""
MAX_FORKS = 1_000
CENT = 0.01


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


class Room:
    """One chat at a time. `out` is for what the model says, `notes` for all else."""

    def __init__(self, fov: Foveate, wishes: Wishes, *, out: Console, notes: Console, as_json: bool) -> None:
        self.fov = fov
        self.out = out
        self.notes = notes
        self._wishes = wishes
        self._as_json = as_json
        self._chat: Chat | None = None
        self._flow = Flow(self._write, out.width if out.is_terminal else None)
        self._is_begun_here = False

    @property
    def chat(self) -> Chat:
        assert self._chat is not None, "a room is entered first"
        return self._chat

    @property
    def session(self) -> Session:
        return self.chat.session

    def model_for(self, own: str | None) -> str | None:
        """Who answers: the command line's model, the session's own if it can be asked, or the settings'."""
        settings = self.fov.settings.models
        configured = next(iter(models_for("chat", settings)), None)
        if self._wishes.model or not own:
            return self._wishes.model or configured
        try:
            understand(own, settings)
        except ModelUnavailable:
            return configured
        return own

    async def enter(self, session_id: str, model: str, *, budget_tokens: int | None = None) -> None:
        """Go on with a session, or begin it, with this model; what can't be leaves everything as it was."""
        settings = self.fov.settings
        await load_model(model, settings.models).close()
        window_tokens = self._window(model)
        output_tokens = self._wishes.max_output_tokens or most_output(window_tokens)
        budgets = {info.id: info.budget_tokens for info in await self.fov.sessions()}
        budget_tokens = budget_tokens or budgets.get(session_id)
        if budget_tokens is None:
            most = (window_tokens or UNLIMITED) - output_tokens - WINDOW_MARGIN_TOKENS
            budget_tokens = max(1, min(settings.session.budget_tokens, most))
        if window_tokens:
            check_window(budget_tokens, output_tokens, window_tokens)
        session = await self.fov.session(session_id, model=model, budget_tokens=budget_tokens)
        self._is_begun_here = self._is_begun_here or session_id not in budgets
        self._chat = Chat(
            session,
            self.fov.caller,
            tuple(dict.fromkeys((model, *settings.models.fallbacks))),
            system=self._wishes.system,
            max_output_tokens=output_tokens,
            has_tools=self._wishes.has_tools,
            costs=self.fov.costs,
        )

    async def handle(self, text: str) -> bool:
        """A prompt or a command; False if it failed, and then that was said."""
        from foveate.cli.chat_commands import run

        is_command = text.startswith("/") and not text.startswith("//")
        try:
            if is_command:
                await run(self, text)
            else:
                await self._say(text[1:] if text.startswith("//") else text)
        except FoveateError as error:
            self.end_line()
            self.notes.print(line(("Error: ", "bold red"), str(error)), soft_wrap=True)
            if isinstance(error, ModelError) and not is_command:
                self.notes.print(line(("The prompt is kept; /retry asks again.", "dim")))
            return False
        return True

    async def _say(self, text: str) -> None:
        if self._is_begun_here and not self.session.info.title:
            await self.session.rename(shorten(text, TITLE_CHARS))
        await self.show(self.chat.say(text))

    async def show(self, events: AsyncGenerator[ChatEvent, None]) -> None:
        """An answer as it comes, and what it took."""
        tools: list[dict[str, object]] = []
        async with aclosing(events):
            async for event in events:
                match event:
                    case Piece(text):
                        if not self._as_json:
                            self._flow.add(text)
                    case ToolAsked(name, arguments):
                        tools.append({"name": name, "arguments": arguments})
                        self._note(f"→ {name} {shorten(compact_json(arguments), CALL_CHARS)}")
                    case ToolAnswered(name, tokens):
                        self._note(f"← {name}: {tokens:,} tokens")
                    case Noticed(text):
                        self._note(text)
                    case Finished():
                        await self._finish(event, tools)

    def end_line(self) -> None:
        """Show what is left of an answer that goes no further."""
        self._flow.end()

    async def introduce(self) -> None:
        """Who talks here, and where the conversation stands."""
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
        self.notes.print(line((f"{info.turns:,} turns so far" + (", the newest:" if first > 1 else ":"), "dim")))
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
        return sum(row.nano_usd for row in await self.fov.costs(self.session.id)) / NANO

    def _window(self, model: str) -> int | None:
        """What a model takes, if that is known; the command line speaks of the model that it began with."""
        is_first = self._chat is None or self._chat.models[0] == model
        given = self._wishes.window_tokens if is_first else None
        return given or window_of(model, self.fov.settings.models)

    def _recall(self, turn: Turn) -> None:
        """A turn in two lines."""
        said = [message for message in turn.messages if message.kind == "message" and message.text.strip()]
        asked = next((message.text for message in said if message.role == "user"), "")
        answered = next((message.text for message in reversed(said) if message.role == "assistant"), "")
        width = max(CALL_CHARS // 2, self.notes.width - len(turn.id) - len(INTERRUPTED))
        for who, text in ((turn.id, asked), (" " * len(turn.id), answered)):
            if text:
                mark = ">" if who.strip() else " "
                self.notes.print(line((f"{who} {mark} ", "dim"), shorten(text, width)), no_wrap=True)

    def _write(self, text: str) -> None:
        self.out.print(line(text), end="", soft_wrap=True)

    def _note(self, text: str) -> None:
        if not self._as_json:
            self.end_line()
            self.notes.print(line((text, "dim")))

    async def _finish(self, done: Finished, tools: Sequence[dict[str, object]]) -> None:
        if self._as_json:
            shares = {"predicted_cached_share": done.predicted_cached_share, "cached_share": done.cached_share}
            print_json_line({**asdict(done), **shares, "usd": done.usd, "tools": tools})
            return
        self.end_line()
        if done.finish == "length":
            self._note("The answer ends here because its output limit was reached; --max-output raises it.")
        self.notes.print(status(done, await self.spent_usd()), no_wrap=True, overflow="ellipsis")
        if self.notes is self.out:
            self.out.print()


def new_name() -> str:
    return f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def read_tokens(text: str) -> int:
    """A number of tokens as people write it: 8000, 8,000 or 8k."""
    plain = text.strip().lower().replace(",", "").replace("_", "")
    times = 1_000 if plain.endswith("k") else 1
    digits = plain.removesuffix("k")
    if not digits.isascii() or not digits.isdecimal() or not int(digits[:12]):
        raise InputError(f"{text.strip()!r} is no number of tokens; write it as 8000 or 8k")
    return int(digits[:12]) * times


def status(done: Finished, spent_usd: float) -> Text:
    """What an answer took, in a line; the end of it can be spared where the terminal is narrow."""
    filled = min(BAR_CELLS, round(BAR_CELLS * done.tokens / done.budget_tokens))
    reported = "?" if done.cached_share is None else f"{done.cached_share:.0%}"
    parts = [
        f"{done.turn_id} {'█' * filled}{'░' * (BAR_CELLS - filled)} {done.tokens:,}/{done.budget_tokens:,}",
        f"{reported} cached ({done.predicted_cached_share:.0%} predicted)",
        f"{dollars(done.usd)} of {dollars(spent_usd)}",
        done.model,
        f"{done.seconds:.1f} s",
    ]
    return line((" · ".join(parts), "dim"))


def dollars(usd: float) -> str:
    return (
        "$0" if not usd else f"${usd:.2f}" if usd >= CENT * 100 else f"${usd:.4f}" if usd >= CENT / 100 else "<$0.0001"
    )


def most_output(window_tokens: int | None) -> int:
    """What an answer may take where nobody says it."""
    if window_tokens is None:
        return DEFAULT_MAX_OUTPUT_TOKENS
    return min(DEFAULT_MAX_OUTPUT_TOKENS, max(1, window_tokens // WINDOW_SHARE))
