"""A session for a program that has its own copy of the conversation, such as an agent framework.

    view = await conversation.view("openai", messages, system=…, tools=…)    records new messages, then makes the view
    await conversation.answer(view, [reply])                                 records the answer

The log comes first: messages that the program drops from its copy stay there. An edited copy continues on a branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from foveate.context.render import FORMATS, canonical_messages
from foveate.context.signatures import without_unbound_messages
from foveate.context.tools import tool_definitions
from foveate.formats import render_messages
from foveate.intake.chain import RequestHistory, read_history
from foveate.intake.recorder import Placement, Recorder, SessionChoice
from foveate.intake.sessions import ClientId, branch_of, is_branch, place_name
from foveate.session import Session
from foveate.session.client_requests import (
    HISTORY_TOOLS,
    came_from_messages,
    context_for,
    extra_system,
    messages_of,
    whole_tokens,
)
from foveate.session.record import as_messages
from foveate.session.tenant import public_id
from foveate.session.values import Context
from foveate.turn import Message, Text

Record = Mapping[str, Any]

READ_TURNS: Final = 50
"""Turns that are read at once if only the newest messages are requested."""
SOURCE: Final = "session"
"""The source of the session's name: the handle that was passed to the program."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """The parts of a request other than its messages. They count against the budget."""

    system: str = ""
    tools: Sequence[Record] = ()
    max_output_tokens: int | None = None
    has_history_tools: bool = False
    """Whether the program offers the history tools, though they are not among `tools`."""

    @classmethod
    def offering(cls, system: str, offered: Sequence[Record]) -> Overhead:
        """Make an overhead of a system prompt and tools, which may include the history tools."""
        tools = [tool for tool in offered if tool.get("function", tool)["name"] not in HISTORY_TOOLS]
        return cls(system, tools, has_history_tools=len(tools) < len(offered))


@dataclass(slots=True)
class View:
    """The messages that a model is sent instead of the program's copy."""

    messages: list[Any]
    """Messages in the program's format, without the system prompt."""
    extra_system: str
    """Explanation and pins, to be appended to the program's system prompt; may be empty."""
    tokens: int
    """Tokens of everything, including overhead."""
    is_whole: bool
    """Whether the messages are the program's own, since all of them fit."""
    placement: Placement = field(repr=False)

    @property
    def session(self) -> Session:
        """The session, or the branch that the messages belong to."""
        return self.placement.session


class Conversation:
    """The session of one program."""

    def __init__(self, session: Session) -> None:
        home = session.engine.home
        self._recorder = Recorder(home, home.clients, home.tenant_name)
        self._recorder.use(session)
        self._named = ClientId(public_id(home.tenant_name, session.engine.stored_id), SOURCE, is_ours=True)
        self.session = session
        """The session, or the branch that was used last."""

    async def view(
        self,
        format: str,  # noqa: A002 - the word users know
        messages: Sequence[Record],
        overhead: Overhead = Overhead(),  # noqa: B008 - frozen
        *,
        start: str = "",
    ) -> View:
        """Record new messages of a copy, and make its view within the budget.

        With `start`, the messages are only the newest: those after the place that it names.
        """
        placed = await self._place(read_history(format, messages, start=start), overhead)
        try:
            view = self._whole(placed, messages, overhead) or await self._assembled(format, placed, overhead)
        except BaseException:
            self._recorder.release(placed)
            raise
        self.session = placed.session
        return view

    async def record(
        self,
        format: str,  # noqa: A002
        messages: Sequence[Record],
        *,
        start: str = "",
    ) -> None:
        """Record new messages of a copy without requesting an answer."""
        if messages:
            placed = await self._place(read_history(format, messages, start=start), Overhead())
            self._recorder.release(placed)
            self.session = placed.session

    async def answer(self, view: View, format: str, messages: Sequence[Record]) -> None:  # noqa: A002
        """Record the model's answer to a view."""
        try:
            answer = as_messages(list(messages), format) if messages else []
            await self._recorder.add_answer(view.placement, format, said=answer, shown=answer)
            self.session = view.placement.session
        finally:
            self._recorder.release(view.placement)

    def release(self, view: View) -> None:
        """Release a view that is recorded or gets no answer; a second call has no effect."""
        self._recorder.release(view.placement)

    async def end(self, format: str, messages: Sequence[Record]) -> str:  # noqa: A002
        """Return the place after which new messages come: everything recorded, except the same unanswered prompt."""
        turns = (await self.session.refresh()).turns
        is_again = bool(messages) and await self.session.engine.is_waiting(as_messages(list(messages[:1]), format))
        return place_name(self._named.name, turns - is_again)

    async def messages(self, format: str, *, limit: int | None = None) -> list[Any]:  # noqa: A002
        """Return all messages, oldest first; with a limit, only the newest."""
        last = (await self.session.refresh()).turns
        found: list[Any] = []
        while last and (limit is None or len(found) < limit):
            first = 1 if limit is None else max(1, last - READ_TURNS + 1)
            turns = await self.session.load_turns(first, last)
            spoken = [message for turn in turns for message in turn.messages if message.kind == "message"]
            found[:0] = render_messages(format, spoken)
            last = first - 1
        return found if limit is None else found[max(0, len(found) - limit) :]

    async def last_branch(self) -> Session:
        """Return the session or its branch, whichever was used last."""
        home, root = self.session.engine.home, self._named.name
        stored = await home.clients.family(home.tenant_name, self.session.engine.stored_id)
        names = [public_id(home.tenant_name, one) for one in stored]
        name = next((name for name in names if is_branch(name, root)), root)
        return self.session if name == root else await home.open_session(name)

    async def cleared(self) -> Conversation:
        """Return an empty branch."""
        return Conversation(await self.session.fork(branch_of(self._named.name), 0))

    async def without_newest(self, format: str, count: int) -> Conversation:  # noqa: A002
        """Return a branch without the newest messages."""
        turn = (await self.session.refresh()).turns
        kept: Sequence[Message] = ()
        while turn and count:
            spoken = [message for message in (await self.session.load_turn(turn)).messages if message.kind == "message"]
            kept, count, turn = spoken[: max(0, len(spoken) - count)], max(0, count - len(spoken)), turn - 1
        branch = Conversation(await self.session.fork(branch_of(self._named.name), turn))
        records: list[Any] = render_messages(format, kept)
        await branch.record(format, records, start=place_name(branch.session.id, turn))
        return branch

    async def discard(self) -> None:
        """Delete a branch to which nothing was added."""
        await self.session.engine.home.delete_session(self._named.name)

    def history_tools(self) -> list[dict[str, Any]]:
        """Return name, description and parameters of each history tool."""
        return [dict(tool["function"]) for tool in tool_definitions("openai") if isinstance(tool["function"], Mapping)]

    async def call_tool(self, name: str, arguments: object) -> str:
        """Execute a model's call of a history tool."""
        return await self.session.call_tool(name, arguments)

    async def _place(self, history: RequestHistory, overhead: Overhead) -> Placement:
        placed = await self._recorder.place(overhead, history, self._named, SessionChoice())
        assert isinstance(placed, Placement), "a session that is named by its handle is always recorded"
        return placed

    def _whole(self, placed: Placement, messages: Sequence[Record], overhead: Overhead) -> View | None:
        """Return the program's own messages, if they are everything in the session and fit the budget."""
        session, tools = placed.session, list(overhead.tools)
        if placed.whole is None:
            return None
        tokens = whole_tokens(session.engine, placed.whole, placed.drafts, system=overhead.system, tools=tools)
        if tokens is None:
            return None
        sent = [*_system(overhead.system), *placed.history.parse(0)]
        came_from_messages(session.engine, sent, tools)
        return View(list(messages), "", tokens, True, placed)

    async def _assembled(self, format: str, placed: Placement, overhead: Overhead) -> View:  # noqa: A002
        tools = list(overhead.tools)
        context = await context_for(
            placed.session.engine,
            format,
            system=overhead.system,
            extra_tools=tools,
            history_tools=overhead.has_history_tools,
            client=placed.client_texts,
        )
        is_provider = format in FORMATS
        shown = messages_of(context, format) if is_provider else _rendered(format, context, placed.session, tools)
        return View(shown, extra_system(context, overhead.system), context.tokens, False, placed)


def _rendered(format: str, context: Context, session: Session, tools: Sequence[Record]) -> list[Any]:  # noqa: A002
    """Render the messages in a framework's format, without thinking that its provider would reject."""
    shown = canonical_messages(context.layout, context.system, names_files=False)
    sent = without_unbound_messages(shown, tools)
    came_from_messages(session.engine, sent, tools)
    return render_messages(format, sent[1:] if context.system else sent)


def _system(text: str) -> list[Message]:
    return [Message("system", (Text(text),))] if text else []
