"""Oneshot: every call sees only the epic, the tasks and the log; the log is a gradient within its share.

The epic comes before the log, where it stays cached; the tasks change, and come after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta

from foveate.context.tags import Section
from foveate.models.prompts import prompt_text
from foveate.strategy.gradient import Gradient


class Oneshot(Gradient, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Epic, log and tasks. The newest entries of the log are raw, older ones increasingly compressed, by the settings
    of `gradient`."""

    documents: ClassVar[tuple[Section, ...]] = ("epic",)
    changing_documents: ClassVar[tuple[Section, ...]] = ("tasks",)
    recalls: ClassVar[bool] = False
    recalls_first: ClassVar[bool] = False

    epic_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 5_000
    """Limit of the epic. A longer one is rejected, since it is never compressed."""
    tasks_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 3_000
    """Limit of the task list. A longer one is rejected."""
    log_share: Annotated[float, Meta(ge=0.1, le=1)] = 1.0
    """Share of the remaining room for the log; beyond it the log is summarised."""

    @property
    def document_limits(self) -> Mapping[str, int]:
        return {"epic": self.epic_tokens, "tasks": self.tasks_tokens}

    @property
    def explanation(self) -> str:
        return prompt_text("explain/oneshot")

    @property
    def history_share(self) -> float:
        return self.log_share
