"""OpenAI Agents SDK: a `Session` for the log, and a filter that keeps requests within the session's budget.

    memory = FoveateSession(chat)
    agent = Agent("Assistant", tools=[*memory.tools])
    await Runner.run(agent, "…", session=memory, run_config=RunConfig(call_model_input_filter=memory.filter))

Without the filter a model gets the newest items as the SDK sends them. `pop_item` and `clear_session` continue on a
branch; the items stay in the log. Tools of MCP servers are not counted, since they are not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from foveate.adapters.bridge import AnySession, Bridge
from foveate.intake.conversation import Conversation, Overhead, View

try:
    from agents.memory import SessionSettings
    from agents.run import CallModelData, ModelInputData

    from agents import FunctionTool, TResponseInputItem
except ImportError as error:
    raise ImportError(f"{error.name or 'agents'} is missing: pip install 'foveate[openai-agents]'") from error

FORMAT: Final = "openai-responses"
LIMIT_ITEMS: Final = 200
"""Items that the SDK reads at the beginning of a run; the filter replaces them by the view of all items."""


class FoveateSession:
    """A session of the SDK whose items are in the log of a Foveate session."""

    def __init__(self, session: AnySession, *, limit_items: int | None = LIMIT_ITEMS) -> None:
        self._bridge = Bridge(session)
        self.session_id: str = self._bridge.session.id
        self.session_settings: SessionSettings | None = SessionSettings(limit=limit_items)
        self._conversation = Conversation(self._bridge.session)
        self._is_found = False
        self._start: str | None = None
        self._users = 0
        """Number of prompts among the items that the SDK read at the beginning of the run."""
        self._added: list[dict[str, Any]] = []
        """Items that the SDK added since then."""
        self._view: View | None = None
        self._origin: Conversation | None = None
        """The origin of the branch that `pop_item` made, until something is added to it."""
        self._popped = 0

    @property
    def tools(self) -> list[FunctionTool]:
        """The history tools, with which the model can read and search the whole conversation."""
        return [self._tool(definition) for definition in self._conversation.history_tools()]

    def _tool(self, definition: Mapping[str, Any]) -> FunctionTool:
        name = definition["name"]

        async def call(_context: Any, arguments: str) -> str:
            return await self._bridge.wait(self._conversation.call_tool(name, arguments))

        schema = definition["parameters"]
        return FunctionTool(name, definition["description"], schema, call, strict_json_schema=False)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; with a limit, only the newest."""
        items = await self._bridge.wait(self._begin(limit))
        return cast("list[TResponseInputItem]", items)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Record items, except those that the filter has already recorded."""
        await self._bridge.wait(self._add(cast("list[dict[str, Any]]", items)))

    async def pop_item(self) -> TResponseInputItem | None:
        """Continue on a branch without the newest item."""
        return cast("TResponseInputItem | None", await self._bridge.wait(self._pop()))

    async def clear_session(self) -> None:
        """Continue on an empty branch."""
        await self._bridge.wait(self._clear())

    async def filter(self, data: CallModelData[Any]) -> ModelInputData:
        """Record new items and send the view within the budget, as `RunConfig.call_model_input_filter`."""
        request = data.model_data
        system = request.instructions or ""
        offered = [_definition(tool) for tool in data.agent.tools if isinstance(tool, FunctionTool)]
        overhead = Overhead.offering(system, offered)
        view = await self._bridge.wait(self._viewed(cast("list[dict[str, Any]]", request.input), overhead))
        instructions = "\n\n".join(part for part in (system, view.extra_system) if part)
        return ModelInputData(view.messages, instructions or None)

    async def _current(self) -> Conversation:
        """Return the conversation, on the branch that was used last."""
        if not self._is_found:
            self._is_found = True
            self._conversation = Conversation(await self._conversation.last_branch())
        return self._conversation

    async def _begin(self, limit: int | None) -> list[dict[str, Any]]:
        conversation = await self._current()
        self._release()
        items = await conversation.messages(FORMAT, limit=limit)
        self._users = sum(_is_prompt(item) for item in items)
        self._added, self._start = [], None
        return items

    async def _begun(self, items: Sequence[dict[str, Any]]) -> tuple[Conversation, str]:
        """Return the conversation, and the place after which the items of this run come."""
        conversation = await self._current()
        self._release()
        self._popped, self._origin = 0, None
        if self._start is None:
            self._start = await conversation.end(FORMAT, items)
        return conversation, self._start

    async def _add(self, items: Sequence[dict[str, Any]]) -> None:
        conversation, start = await self._begun(items)
        self._added += items
        await conversation.record(FORMAT, self._added, start=start)

    async def _viewed(self, items: Sequence[dict[str, Any]], overhead: Overhead) -> View:
        new = self._new(items)
        conversation, start = await self._begun(new)
        self._view = await conversation.view(FORMAT, new, overhead, start=start)
        return self._view

    def _new(self, items: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """Return the items of this run. The SDK may have changed earlier ones: it drops calls without a result."""
        prompts = [place for place, item in enumerate(items) if _is_prompt(item)]
        if self._users < len(prompts):
            return items[prompts[self._users] :]
        return items[prompts[-1] :] if prompts else items

    async def _pop(self) -> dict[str, Any] | None:
        conversation = await self._current()
        items = await conversation.messages(FORMAT, limit=1)
        if not items:
            return None
        origin, self._popped = self._origin or conversation, self._popped + 1
        self._move(await origin.without_newest(FORMAT, self._popped))
        if self._origin is not None:
            await conversation.discard()
        self._origin = origin
        newest: dict[str, Any] = items[-1]
        return newest

    async def _clear(self) -> None:
        conversation = await self._current()
        if await conversation.messages(FORMAT, limit=1):
            self._move(await conversation.cleared())

    def _move(self, branch: Conversation) -> None:
        self._release()
        self._conversation, self._start, self._added, self._users = branch, None, [], 0

    def _release(self) -> None:
        if self._view is not None:
            self._conversation.release(self._view)
            self._view = None


def _is_prompt(item: Mapping[str, Any]) -> bool:
    return item.get("role") == "user"


def _definition(tool: FunctionTool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.params_json_schema}
