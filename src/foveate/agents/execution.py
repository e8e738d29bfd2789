"""Execute one claimed agent, starting at the end of its log.

A `call` is one prompt and its answer; a `run` works until its model reports that the task is done. Both resume after a
kill as `foveate chat` and `foveate run` do: recorded answers count, and the rest is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, Literal

from foveate.agents.budget import fitting_budget, model_for, most_output
from foveate.agents.calls import unanswered_calls
from foveate.agents.chat import Chat
from foveate.agents.options import ChatOptions
from foveate.agents.run import Caps, RunEnd, run
from foveate.agents.suspension import Suspension
from foveate.agents.toolboxes import ToolChoice, note_packs, open_toolbox
from foveate.client import Foveate
from foveate.errors import ModelUnavailable
from foveate.session import Session
from foveate.session.subagents import PendingApproval, PendingQuestion, decision_of, grants_of, spec_of
from foveate.store.agents import AgentLimits, AgentRow, CallLimit
from foveate.store.operations import AgentRows
from foveate.text import compact_json
from foveate.tools import Tool, Toolbox
from foveate.tools.mcp_client import configured, mcp_tools
from foveate.tools.rights import needed_right
from foveate.turn import Message

NO_MODEL = "no model is configured; name one when you spawn it, or run 'foveate models set chat NAME'"
NO_ROOM = "stopped at a limit: {}"


@dataclass(frozen=True, slots=True)
class AgentOutcome:
    """The result of an agent."""

    state: Literal["done", "failed"]
    result: str | None = None
    problem: str | None = None


class StoredApprover:
    """Approves calls that a person allowed, and suspends the agent until a decision about others."""

    def __init__(self, row: AgentRow) -> None:
        self._allowed = {*grants_of(row).tools, *spec_of(row).approved}
        self._approves_local = spec_of(row).approve_local
        self._decision = decision_of(row)

    @property
    def has_decision(self) -> bool:
        return self._decision is not None

    def grants(self, tool: Tool) -> bool:
        """Check whether a tool needs no approval."""
        is_local = tool.approval == "ask" and not tool.annotations.open_world
        return tool.name in self._allowed or (self._approves_local and is_local)

    async def __call__(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        decision, self._decision = self._decision, None
        given = dict(arguments)
        if decision and decision.tool == tool.name and compact_json(decision.arguments) == compact_json(given):
            return decision.allow
        if self.grants(tool):
            return True
        can_remember, right = tool.approval == "ask", needed_right(tool)
        raise Suspension(PendingApproval(tool=tool.name, arguments=given, can_remember=can_remember, right=right))


async def execute(fov: Foveate, rows: AgentRows, row: AgentRow, limits: AgentLimits) -> AgentOutcome:
    """Work on a claimed agent until it ends. `Suspension` if it has to wait; `ClaimLost` if another worker took it."""
    view = (fov.tenant(row.tenant) if row.tenant else fov).limited(spec_of(row).right)
    session = await view.open_session(row.id if row.tenant else row.session_id)
    within = CallLimit(tree=row.tree, agent_id=row.id, owner=row.owner, limits=limits)
    work = _Work(view, row, session, rows=rows, approve=StoredApprover(row), within=within)
    async with AsyncExitStack() as connections:
        await work.prepare(connections)
        return await (work.call() if row.kind == "call" else work.run())


class _Work:
    """One execution of an agent."""

    def __init__(
        self,
        fov: Foveate,
        row: AgentRow,
        session: Session,
        *,
        rows: AgentRows,
        approve: StoredApprover,
        within: CallLimit,
    ) -> None:
        self._fov = fov
        self._rows = rows
        self._row = row
        self._spec = spec_of(row)
        self._session = session
        self._approve = approve
        self._within = within
        self._toolbox: Toolbox | None = None
        self._models: tuple[str, ...] = ()
        self._output_tokens = 0

    async def prepare(self, connections: AsyncExitStack) -> None:
        """Find the model, fit the budget to its window, and open the toolbox with its connections to MCP servers."""
        settings = self._fov.settings
        info = self._session.info
        model = model_for(self._spec.model, info.model, settings=settings.models)
        if model is None:
            raise ModelUnavailable("chat", NO_MODEL, reason="name")
        window = self._fov.window_tokens(model)
        self._output_tokens = self._spec.max_output_tokens or most_output(window)
        budget = fitting_budget(
            None,
            info,
            default_tokens=settings.session.budget_tokens,
            output_tokens=self._output_tokens,
            window_tokens=window,
            option="budget_tokens",
        )
        self._session.engine.limit_budget(budget)
        self._models = tuple(dict.fromkeys((model, *settings.models.fallbacks)))
        spec = self._spec
        choice = ToolChoice(
            packs=spec.packs,
            roots=spec.roots,
            allow_exec=spec.allow_exec,
            allow_unsandboxed=spec.allow_unsandboxed,
            mcp_servers=spec.mcp_servers,
        )
        extra: list[Tool] = []
        if spec.mcp_servers:
            self._fov.check_right("admin", "an MCP server")
            servers = configured(settings.tools.mcp_servers, spec.mcp_servers)
            extra = await connections.enter_async_context(mcp_tools(servers))
        self._toolbox = await open_toolbox(self._fov, self._session, choice, approve=self._approve, extra=extra)
        if self._toolbox:
            await note_packs(self._session, choice)

    async def call(self) -> AgentOutcome:
        """Send the prompt, unless it is already answered."""
        chat = Chat(self._session, self._fov.caller, self._models, self._options)
        asked = any(message.text == self._row.task for message in await self._newest())
        if asked and await chat.waiting() is None:
            return AgentOutcome("done", await self._last_answer())
        key = f"agent/{self._row.id}"
        events = chat.answer(unstarted=await self._unstarted()) if asked else chat.say(self._row.task, key=key)
        async with aclosing(events):
            async for _ in events:
                pass
        return AgentOutcome("done", await self._last_answer())

    async def run(self) -> AgentOutcome:
        """Run to completion; a question gets the answer that a person gave to the same question."""
        ended = await self._run_on(None)
        grants = grants_of(self._row)
        if ended.reason in ("question", "blocked") and grants.answer and grants.question == ended.text:
            ended = await self._run_on(grants.answer)
        match ended.reason:
            case "done":
                return AgentOutcome("done", ended.text or await self._last_answer())
            case "cap":
                return AgentOutcome("failed", problem=NO_ROOM.format(ended.text))
        raise Suspension(PendingQuestion(question=ended.text))

    async def _run_on(self, answer: str | None) -> RunEnd:
        events = run(
            self._session,
            self._fov.caller,
            self._models,
            self._options,
            epic=self._row.task,
            answer=answer,
            caps=Caps(max_iterations=self._spec.max_iterations),
            unstarted=await self._unstarted(),
        )
        async with aclosing(events):
            async for event in events:
                if isinstance(event, RunEnd):
                    return event
        raise AssertionError("unreachable: a run ends, or fails")

    @property
    def _options(self) -> ChatOptions:
        return ChatOptions.of(
            self._fov,
            self._toolbox,
            system=self._spec.system,
            max_output_tokens=self._output_tokens,
            keeps_partial=False,
            admit=self._admit,
            within=self._within,
        )

    async def _admit(self) -> None:
        await self._rows.check_claim(self._row.id, self._row.owner)

    async def _unstarted(self) -> str | None:
        """Return the id of the call that waited for this claim's decision: it was not started."""
        if not self._approve.has_decision:
            return None
        calls = unanswered_calls(await self._newest())
        return calls[0].id if calls else None

    async def _newest(self) -> tuple[Message, ...]:
        turns = (await self._session.refresh()).turns
        return (await self._session.load_turn(turns)).messages if turns else ()

    async def _last_answer(self) -> str:
        answers = [
            message.text for message in await self._newest() if message.role == "assistant" and message.text.strip()
        ]
        return answers[-1] if answers else ""
