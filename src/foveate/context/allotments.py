"""How a budget is shared out between the history, the board and recall.

The shares of the board and recall are limits. A history that is rebuilt now and then may use what they leave, and gives
it back at a rebuild when they need it; any other history leaves them their shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

HISTORY_MINIMUM_TOKENS = 256
"""Recall leaves the history at least this much: with less it has no bands."""


@dataclass(frozen=True, slots=True)
class Split:
    """Tokens for each part that can shrink; with the fixed part and the prompt never more than the budget."""

    history: int
    board: int
    recall: int


@dataclass(frozen=True, slots=True)
class HistoryRoom:
    """What a history may take, and what a rebuild of it leaves to the board and recall."""

    tokens: int
    """All that is left beside the fixed part and the prompt."""
    needed_tokens: int = 0
    """What board and recall need of it now."""
    spare_tokens: int = 0
    """What they may need later, at most."""

    @property
    def limit_tokens(self) -> int:
        """What the history may take now."""
        return max(0, self.tokens - self.needed_tokens)

    @property
    def base_tokens(self) -> int:
        """What it has whatever board and recall need; a rebuild aims at no more."""
        return max(0, self.tokens - max(self.needed_tokens, self.spare_tokens))


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

    def split(
        self,
        budget_tokens: int,
        fixed_tokens: int,
        prompt_tokens: int,
        *,
        takes_rest: bool,
        board_tokens_used: int = 0,
        recall_tokens_used: int = 0,
    ) -> Split:
        """Each part's allotment; a history that `takes_rest` also has what board and recall leave unused."""
        free = max(0, budget_tokens - fixed_tokens - prompt_tokens)
        board = int(free * self.board)
        recall = min(int(free * self.recall), self.recall_limit_tokens)
        if not takes_rest:
            return Split(free - board - recall, board, recall)
        history = free - min(board, board_tokens_used) - min(recall, recall_tokens_used)
        return Split(history, board, recall)

    def one_off_recall(self, split: Split) -> int:
        """What is set aside for recall in a preview, before the history is planned."""
        most = min(int(split.history * self.recall_one_off), self.recall_one_off_limit_tokens)
        return max(0, min(most, split.history - HISTORY_MINIMUM_TOKENS))
