"""The report of a run or its preview: input, cost and changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from foveate.store.knowledge import KnowledgeChanges, KnowledgeKind, KnowledgeRow, KnowledgeSource, NewKnowledge

RunOutcome = Literal["learned", "unchanged", "empty", "preview", "in progress"]
"""`unchanged`: nothing new to read since the last run. `empty`: no turns. `in progress`: another run has the scope."""
ChangeKind = Literal["new", "changed", "retired", "merged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeChange:
    """An item that a run adds or changes."""

    change: ChangeKind
    id: str
    kind: KnowledgeKind
    title: str
    text: str
    before: str
    """The text of the previous version, if it differs."""
    reason: str
    sources: tuple[KnowledgeSource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """The actual or estimated usage of a model."""

    model: str
    calls: int = 0
    input_tokens: int = 0
    usd: float = 0.0
    """An estimate in a preview."""
    most_usd: float = 0.0
    """In a preview, the cost if every answer had its maximum length."""
    refused: int = 0
    """Rejected items of the model, which their sources do not prove."""
    nothing: int = 0
    """Number of answers in which nothing was worth keeping."""
    problem: str = ""
    """Why turns were left for the next run, e.g. a spending limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedItem:
    """An item of a model that was not stored, and why."""

    kind: str
    title: str
    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeReport:
    """The results of a run in one scope."""

    scope: str
    outcome: RunOutcome
    tenant: str = ""
    run_id: str = ""
    is_quick: bool = False
    """True if only the statements of new turns were found."""
    sessions: int = 0
    turns: int = 0
    usage: ModelUsage | None = None
    """None if no model is configured."""
    changes: tuple[KnowledgeChange, ...] = ()
    turns_with_topics: int = 0

    def count(self, change: ChangeKind) -> int:
        """Count the items that changed in this way."""
        return sum(each.change == change for each in self.changes)


@dataclass(frozen=True, slots=True)
class LearnReport:
    """The results in each scope."""

    scopes: tuple[ScopeReport, ...]

    @property
    def calls(self) -> int:
        """Number of model calls in all scopes."""
        return sum(report.usage.calls for report in self.scopes if report.usage and report.outcome != "preview")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The part of a run's report that the next run needs, stored with it."""

    sessions: int
    turns: int
    new: int
    changed: int
    retired: int
    merged: int
    usage: ModelUsage | None = None
    read: Mapping[str, int] | None = None
    """The last turn of each session up to which a model has read everything; None if no model is configured."""
    heard: Mapping[str, int] | None = None
    """The last turn of each session whose statements were found."""
    rejected: tuple[RejectedItem, ...] = ()
    """Items of a model that its turns do not prove."""
    blocked_at: KnowledgeSource | None = None
    """The first turn of a chunk that no model answered; it is skipped if it fails again."""

    @property
    def is_complete(self) -> bool:
        """Whether a model has read everything that it had to read."""
        return self.usage is None or not self.usage.problem


def describe_changes(known: Sequence[KnowledgeRow], changes: KnowledgeChanges) -> tuple[KnowledgeChange, ...]:
    """Describe the changes to the known items: new ones first, then changed, retired and merged ones."""
    rows = {row.id: row for row in known}
    gone = {each.id for each in changes.superseded}
    found = [_item_change(rows.get(item.id), item) for item in changes.items if item.id not in gone]
    for each in changes.superseded:
        if each.id not in rows:  # replaced before it was ever current
            continue
        row = rows[each.id]
        found.append(replace(_change(row, "merged"), reason=each.reason))
    order: tuple[ChangeKind, ...] = ("new", "changed", "retired", "merged")
    return tuple(sorted(found, key=lambda change: (order.index(change.change), change.kind, change.id)))


def public_sources(changes: Iterable[KnowledgeChange], rename: Mapping[str, str]) -> tuple[KnowledgeChange, ...]:
    """Return the changes with session ids as their tenant uses them."""
    return tuple(
        replace(
            change,
            sources=tuple(
                KnowledgeSource(rename.get(source.session_id, source.session_id), source.turn)
                for source in change.sources
            ),
        )
        for change in changes
    )


def _item_change(row: KnowledgeRow | None, item: NewKnowledge) -> KnowledgeChange:
    if row is None:
        return _change(item, "new")
    is_retired = item.state == "retired" and row.state != "retired"
    return replace(
        _change(item, "retired" if is_retired else "changed"), before=row.text if row.text != item.text else ""
    )


def _change(item: NewKnowledge, change: ChangeKind) -> KnowledgeChange:
    return KnowledgeChange(
        change=change,
        id=item.id,
        kind=item.kind,
        title=item.title,
        text=item.text,
        before="",
        reason=item.reason,
        sources=item.sources,
    )
