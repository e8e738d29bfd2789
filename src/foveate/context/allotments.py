"""Divides a budget between history, board and recall.

The shares of board and recall are limits. A history that is rebuilt from time to time may use what they leave free, and
gives it back at a rebuild if they need it. Any other history leaves them their shares.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from msgspec import Meta, Struct

from foveate.plan import Ledger

HISTORY_MINIMUM_TOKENS = 256
"""Minimum that recall leaves to the history: with less it has no bands."""


class Allotments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of the budget that remains after the fixed part (system prompt, explanation, pins, tools) and the
    prompt."""

    board: Annotated[float, Meta(ge=0, le=0.5)] = 0.10
    """Limit of the board: retrieved turns."""
    recall: Annotated[float, Meta(ge=0, le=0.9)] = 0.25
    """Limit of recalled turns."""
    recall_limit_tokens: Annotated[int, Meta(ge=0, le=100_000_000)] = 10_000
    """Upper limit of recall in tokens."""
    recall_one_off: Annotated[float, Meta(ge=0, le=0.95)] = 0.85
    """Recall's share in a preview at another budget, which has no cached prefix to keep."""
    recall_one_off_limit_tokens: Annotated[int, Meta(ge=0, le=100_000_000)] = 16_000

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
        recall = min(int(free * self.recall), self.recall_limit_tokens)
        history = free - min(board, ledger.board_tokens) if takes_rest else free - board - recall * recalls
        return replace(
            ledger,
            board_limit_tokens=board,
            recall_limit_tokens=recall * recalls,
            history_tokens=int(history * history_share),
        )

    def preview_recall(self, history_tokens: int) -> int:
        """Return the tokens reserved for recall in a preview, before the history is planned."""
        most = min(int(history_tokens * self.recall_one_off), self.recall_one_off_limit_tokens)
        return max(0, min(most, history_tokens - HISTORY_MINIMUM_TOKENS))
