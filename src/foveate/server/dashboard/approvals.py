"""Questions to a person before a tool call of a chat in the browser, and the answers to them."""

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
"""A question without an answer for this long is denied."""
MAX_SESSIONS = 1_000
"""Sessions whose permissions are remembered."""
Decision = Literal["once", "session", "deny"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)


@dataclass(frozen=True, slots=True)
class Question:
    """A tool call that waits for a person."""

    id: str
    tenant: str
    session_id: str
    tool: str
    arguments: Mapping[str, Any]
    can_remember: bool
    """It can be allowed for the rest of the session."""
    decision: asyncio.Future[Decision] = field(compare=False)


class Approvals:
    """The open questions of a server, and what was allowed for the rest of a session."""

    def __init__(self, wait_seconds: float = WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._open: dict[str, Question] = {}
        self._granted: BoundedCache[tuple[str, str], set[str]] = BoundedCache(MAX_SESSIONS)

    def of_session(self, tenant: str, session_id: str) -> list[Question]:
        """The open questions of a session, oldest first."""
        return [one for one in self._open.values() if (one.tenant, one.session_id) == (tenant, session_id)]

    def decide(self, tenant: str, question_id: str, decision: str) -> Question:
        """Answer a question. One that is answered, withdrawn or somebody else's is a 409."""
        chosen = next((one for one in DECISIONS if one == decision), None)
        if chosen is None:
            raise ProblemError(422, f"there is no decision {decision[:50]!r}; available: {', '.join(DECISIONS)}")
        question = self._open.get(question_id)
        if question is None or question.tenant != tenant or question.decision.done():
            raise ProblemError(409, "this call does not wait for an approval any more")
        if chosen == "session" and not question.can_remember:
            raise ProblemError(422, f"{question.tool} is approved call by call")
        question.decision.set_result(chosen)
        return question

    def grants(self, tenant: str, session_id: str) -> set[str]:
        """The tools that were allowed for the rest of a session."""
        return self._granted.get((tenant, session_id)) or set()

    async def ask(self, question: Question) -> bool:
        """Wait for the decision about a call; without one in time it is denied."""
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
    """Asks the person in front of the browser whether a call may be executed."""

    approvals: Approvals
    tenant: str
    session_id: str
    show: Callable[[Question], object]
    """Gets each question."""

    def grants(self, tool: Tool) -> bool:
        """Whether a tool was allowed for the rest of the session."""
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
