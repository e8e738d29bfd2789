"""Suspend an agent until something happens elsewhere: an approval, an answer, or the end of other agents."""

from __future__ import annotations

from foveate.session.subagents import PendingAgents, PendingApproval, PendingQuestion
from foveate.turn import to_us


class Suspension(BaseException):
    """Ends the execution of an agent without a result; a later worker resumes it from the log.

    Not an `Exception`, so that no tool and no toolbox takes it for a failure.
    """

    def __init__(self, waits: PendingApproval | PendingQuestion | PendingAgents) -> None:
        super().__init__(waits)
        self.waits = waits

    @property
    def children(self) -> tuple[str, ...]:
        """The agents that must end first."""
        return self.waits.agents if isinstance(self.waits, PendingAgents) else ()

    @property
    def until_us(self) -> int:
        """When the wait times out; 0: never."""
        until = self.waits.until if isinstance(self.waits, PendingAgents) else None
        return to_us(until) if until else 0
