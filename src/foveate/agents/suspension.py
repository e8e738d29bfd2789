"""An agent stops here until something happens elsewhere: an approval, an answer, or the end of other agents."""

from __future__ import annotations

from foveate.session.subagents import PendingAgents, PendingApproval, PendingQuestion


class Suspension(BaseException):
    """Ends the execution of an agent without a result; its worker lets it wait, and a later one goes on from the log.

    Not an `Exception`, so that no tool and no toolbox takes it for a failure.
    """

    def __init__(self, waits: PendingApproval | PendingQuestion | PendingAgents) -> None:
        super().__init__(waits)
        self.waits = waits

    @property
    def children(self) -> tuple[str, ...]:
        """The agents that have to end first."""
        return self.waits.agents if isinstance(self.waits, PendingAgents) else ()
