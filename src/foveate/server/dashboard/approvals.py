"""Approval of tool calls in a browser chat: open questions and their answers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from foveate.cache import BoundedCache
from foveate.server.problems import ProblemError
from foveate.tools import Tool

WAIT_SECONDS = 900.0
"""A call is denied if its question is not answered within this time."""
MAX_SESSIONS = 1_000
"""Number of sessions whose approvals are remembered."""
Decision = Literal["once", "session", "deny"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)


@dataclass(frozen=True, slots=True)
class Question:
    """A tool call that waits for approval."""

    id: str
    tenant: str
    session_id: str
    tool: str
    arguments: Mapping[str, Any]
    can_remember: bool
    """Whether the tool can be approved for the rest of the session."""
    decision: asyncio.Future[Decision] = field(compare=False)


class Approvals:
    """The open questions of a server, and the tools approved for the rest of a session."""

    def __init__(self, wait_seconds: float = WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._open: dict[str, Question] = {}
        self._granted: BoundedCache[tuple[str, str], set[str]] = BoundedCache(MAX_SESSIONS)

    def of_session(self, tenant: str, session_id: str) -> list[Question]:
        """Return the open questions of a session, oldest first."""
        return [one for one in self._open.values() if (one.tenant, one.session_id) == (tenant, session_id)]

    def decide(self, tenant: str, question_id: str, decision: str) -> Question:
        """Answer a question; `ProblemError` 409 if it is already answered, withdrawn or of another tenant."""
        chosen = next((one for one in DECISIONS if one == decision), None)
        if chosen is None:
            raise ProblemError(422, f"there is no decision {decision[:50]!r}; available: {', '.join(DECISIONS)}")
        question = self._open.get(question_id)
        if question is None or question.tenant != tenant or question.decision.done():
            raise ProblemError(409, "this call no longer waits for approval")
        if chosen == "session" and not question.can_remember:
            raise ProblemError(422, f"{question.tool} is approved call by call")
        question.decision.set_result(chosen)
        return question

    def grants(self, tenant: str, session_id: str) -> set[str]:
        """Return the tools that were approved for the rest of a session."""
        return self._granted.get((tenant, session_id)) or set()

    async def ask(self, question: Question) -> bool:
        """Wait for the decision about a call; it is denied after the time limit."""
        self._open[question.id] = question
        try:
            async with asyncio.timeout(self._wait_seconds):
                decision = await question.decision
        except TimeoutError:
            return False
        finally:
            del self._open[question.id]
        if decision == "session":
            place = (question.tenant, question.session_id)
            self._granted[place] = {*self.grants(*place), question.tool}
        return decision != "deny"


@dataclass(frozen=True, slots=True)
class ChatApprover:
    """Asks the user of the browser whether a call may be executed."""

    approvals: Approvals
    tenant: str
    session_id: str
    show: Callable[[Question], object]
    """Called with each question."""

    def grants(self, tool: Tool) -> bool:
        """Report whether a tool was approved for the rest of the session."""
        return tool.name in self.approvals.grants(self.tenant, self.session_id)

    async def __call__(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        if self.grants(tool):
            return True
        decision: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        name = secrets.token_hex(8)
        can_remember = tool.approval == "ask"
        question = Question(name, self.tenant, self.session_id, tool.name, dict(arguments), can_remember, decision)
        self.show(question)
        return await self.approvals.ask(question)
