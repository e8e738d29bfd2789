"""The adapters of LangChain."""

from __future__ import annotations

import asyncio
from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage

from foveate import sync
from foveate.adapters.langchain import FoveateMessageHistory
from foveate.testing.adapters import Case, Reply, run_case
from support.adapter_cases import every_short_case
from support.langchain_door import LangChainDoor


@every_short_case
def test_the_middleware_conforms(case: Case, tmp_path: Path) -> None:
    asyncio.run(run_case(case, LangChainDoor, tmp_path / "chat.db"))


def test_a_synchronous_agent_takes_a_blocking_session(tmp_path: Path) -> None:
    async def no_tool(city: str) -> str:
        return city

    with sync.open(tmp_path / "chat.db") as fov:
        chat: object = fov.session("chat")
        door = LangChainDoor(chat, no_tool, history_tools=True)  # type: ignore[arg-type]
        door.model.script([Reply("one"), Reply("two")])
        for prompt in ("first", "second"):
            given: object = {"messages": [HumanMessage(prompt)]}
            door.agent.invoke(given)  # type: ignore[call-overload]
        assert "first" in door.requests[1]
        assert "search_history" in door.model.tool_names
        assert [turn.messages[-1].text for turn in fov.session("chat").load_turns()] == ["one", "two"]


def test_a_message_history_gives_back_what_was_added_and_clears_to_a_branch(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        history = FoveateMessageHistory(fov.session("chat"))
        said = [HumanMessage("hi", id="1"), AIMessage("hello", id="2")]
        history.add_messages(said)
        assert history.messages == said
        history.clear()
        assert history.messages == []
        history.add_messages([HumanMessage("again", id="3")])
        assert [message.text for message in FoveateMessageHistory(fov.session("chat")).messages] == ["again"]
        assert fov.session("chat").stats().turns == 1
