"""A session for a program that has its own copy of the conversation, such as an agent framework.

    view = await conversation.view("openai", messages, system=…, tools=…)    records what is new, then makes the view
    await conversation.answer(view, [reply])                                 records the answer

Log first, view second: what the program drops from its copy stays in the log. An edited copy continues on a branch.
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
"""Turns that are read at once where only the newest messages are asked for."""
SOURCE: Final = "session"
"""What names the session: the handle that the program was given."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """What a request has beside the messages. It counts against the budget."""

    system: str = ""
    tools: Sequence[Record] = ()
    max_output_tokens: int | None = None
    has_history_tools: bool = False
    """The history tools are among what the program offers, though not among `tools`."""

    @classmethod
    def offering(cls, system: str, offered: Sequence[Record]) -> Overhead:
        """A system prompt, and tools that may have the history tools among them."""
        tools = [tool for tool in offered if tool.get("function", tool)["name"] not in HISTORY_TOOLS]
        return cls(system, tools, has_history_tools=len(tools) < len(offered))


@dataclass(slots=True)
class View:
    """What a model is sent instead of the program's copy."""

    messages: list[Any]
    """In the program's format, without the system prompt."""
    extra_system: str
    """Explanation and pins, which go behind the program's system prompt; may be empty."""
    tokens: int
    """Of everything, overhead included."""
    is_whole: bool
    """The messages are the program's own, since all of them fit."""
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
        """Record what is new of a copy, and make the view of it within the budget.

        With `start` the messages are only the newest: those that follow a place which the program names so.
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
        """Record what is new of a copy; no answer is asked for."""
        if messages:
            placed = await self._place(read_history(format, messages, start=start), Overhead())
            self._recorder.release(placed)
            self.session = placed.session

    async def answer(self, view: View, format: str, messages: Sequence[Record]) -> None:  # noqa: A002
        """Record the model's answer to a view."""
        try:
            said = as_messages(list(messages), format) if messages else []
            await self._recorder.add_answer(view.placement, format, said=said, shown=said)
            self.session = view.placement.session
        finally:
            self._recorder.release(view.placement)

    def release(self, view: View) -> None:
        """No answer comes to a view, or it was recorded; a second call has no effect."""
        self._recorder.release(view.placement)

    async def end(self, format: str, messages: Sequence[Record]) -> str:  # noqa: A002
        """Names the place that new messages come behind: all that is recorded, but for the same prompt unanswered."""
        turns = (await self.session.refresh()).turns
        is_again = bool(messages) and await self.session.engine.is_waiting(as_messages(list(messages[:1]), format))
        return place_name(self._named.name, turns - is_again)

    async def messages(self, format: str, *, limit: int | None = None) -> list[Any]:  # noqa: A002
        """All that was said, oldest first; with a limit the newest messages."""
        last = (await self.session.refresh()).turns
        found: list[Any] = []
        while last and (limit is None or len(found) < limit):
            first = 1 if limit is None else max(1, last - READ_TURNS + 1)
            turns = await self.session.load_turns(first, last)
            said = [message for turn in turns for message in turn.messages if message.kind == "message"]
            found[:0] = render_messages(format, said)
            last = first - 1
        return found if limit is None else found[max(0, len(found) - limit) :]

    async def last_branch(self) -> Session:
        """The session or its branch, whichever was used last."""
        home, root = self.session.engine.home, self._named.name
        stored = await home.clients.family(home.tenant_name, self.session.engine.stored_id)
        names = [public_id(home.tenant_name, one) for one in stored]
        name = next((name for name in names if is_branch(name, root)), root)
        return self.session if name == root else await home.open_session(name)

    async def cleared(self) -> Conversation:
        """An empty branch."""
        return Conversation(await self.session.fork(branch_of(self._named.name), 0))

    async def without_newest(self, format: str, count: int) -> Conversation:  # noqa: A002
        """A branch without the newest messages."""
        turn = (await self.session.refresh()).turns
        kept: Sequence[Message] = ()
        while turn and count:
            said = [message for message in (await self.session.load_turn(turn)).messages if message.kind == "message"]
            kept, count, turn = said[: max(0, len(said) - count)], max(0, count - len(said)), turn - 1
        branch = Conversation(await self.session.fork(branch_of(self._named.name), turn))
        records: list[Any] = render_messages(format, kept)
        await branch.record(format, records, start=place_name(branch.session.id, turn))
        return branch

    async def discard(self) -> None:
        """Delete a branch to which nothing was added."""
        await self.session.engine.home.delete_session(self._named.name)

    def history_tools(self) -> list[dict[str, Any]]:
        """Name, description and parameters of each history tool."""
        return [dict(tool["function"]) for tool in tool_definitions("openai") if isinstance(tool["function"], Mapping)]

    async def call_tool(self, name: str, arguments: object) -> str:
        """Execute a model's call of a history tool."""
        return await self.session.call_tool(name, arguments)

    async def _place(self, history: RequestHistory, overhead: Overhead) -> Placement:
        placed = await self._recorder.place(overhead, history, self._named, SessionChoice())
        assert isinstance(placed, Placement), "a session that is named by its handle is always recorded"
        return placed

    def _whole(self, placed: Placement, messages: Sequence[Record], overhead: Overhead) -> View | None:
        """The program's own messages, if they are all that the session holds and fit the budget."""
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
        )
        is_provider = format in FORMATS
        shown = messages_of(context, format) if is_provider else _rendered(format, context, placed.session, tools)
        return View(shown, extra_system(context, overhead.system), context.tokens, False, placed)


def _rendered(format: str, context: Context, session: Session, tools: Sequence[Record]) -> list[Any]:  # noqa: A002
    """The messages of a framework's format, without thinking that its provider would reject."""
    shown = canonical_messages(context.layout, context.system, names_files=False)
    sent = without_unbound_messages(shown, tools)
    came_from_messages(session.engine, sent, tools)
    return render_messages(format, sent[1:] if context.system else sent)


def _system(text: str) -> list[Message]:
    return [Message("system", (Text(text),))] if text else []
