"""Divides a budget between history, board and recall.

The shares of board and recall are limits. A history whose plan is kept uses what they leave free, and gives it back
when they need it. Any other history leaves the board its share and recall a quarter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from msgspec import Meta, Struct

from foveate.plan import Ledger

HISTORY_MINIMUM_TOKENS = 256
"""Minimum that recall leaves to the history: with less it has no bands."""
RESERVED_SHARE = 0.25
"""Maximum share of recall where the history gives nothing back."""


class Allotments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of the budget that remains after the fixed part (system prompt, explanation, pins, tools) and the
    prompt."""

    board: Annotated[float, Meta(ge=0, le=0.5)] = 0.10
    """Limit of the board: retrieved turns."""
    recall: Annotated[float, Meta(ge=0, le=0.95)] = 0.85
    """Limit of recalled turns. A history that can't give back leaves them a quarter at most."""
    recall_limit_tokens: Annotated[int, Meta(ge=0, le=100_000_000)] = 16_000
    """Upper limit of recall in tokens."""

    def __post_init__(self) -> None:
        if not 0 <= self.board + self.recall < 1:
            raise ValueError(f"board and recall leave room for the history; they add up to {self.board + self.recall}")

    def open(self, ledger: Ledger, *, takes_rest: bool, recalls: bool = True, history_share: float = 1.0) -> Ledger:
        """Divide what the fixed part, the prompt and the board leave.

        With `takes_rest`, the history also gets what board and recall don't use. Without `recalls`, it gets recall's
        share.
        """
        free = max(0, ledger.budget_tokens - ledger.fixed_tokens - ledger.prompt_tokens)
        board = int(free * self.board)
        share = self.recall if takes_rest else min(self.recall, RESERVED_SHARE)
        recall = min(int(free * share), self.recall_limit_tokens, max(0, free - HISTORY_MINIMUM_TOKENS))
        history = free - min(board, ledger.board_tokens) if takes_rest else free - board - recall * recalls
        return replace(
            ledger,
            board_limit_tokens=board,
            recall_limit_tokens=recall * recalls,
            history_tokens=int(history * history_share),
        )
