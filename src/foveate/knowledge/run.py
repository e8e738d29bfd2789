"""A run that learns from a scope, in named steps whose results are stored.

    gather ──► topics ──► lessons ──► model-… ──► merge ──► finish

A run over unchanged input does nothing. A killed run is resumed with the results of its steps; all
its changes are stored in one transaction at its end, so there are no partial results at any time. Ids of items are
computed from their content, so a resumed run has the same result as an uninterrupted one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import msgspec

from foveate import telemetry
from foveate.client import Foveate
from foveate.errors import FoveateError, ModelError, Refused, RunInProgress, RunLost, SessionNotFound
from foveate.knowledge.gather import (
    Chunk,
    Gathered,
    LearnedTurn,
    SessionSpan,
    chunks,
    erasures,
    gather,
    gather_spans,
    scope_spans,
    scopes_of,
    spans_after,
    vectors_of,
    watermark,
)
from foveate.knowledge.lessons import LessonsFound, find_lessons, find_new_statements
from foveate.knowledge.merge import merge
from foveate.knowledge.model import Proposed
from foveate.knowledge.model_steps import (
    STEP_PREFIX,
    ModelPlan,
    ModelStep,
    learn_version,
    plan_model,
    read_steps,
    replace_items,
)
from foveate.knowledge.report import (
    KnowledgeChange,
    LearnReport,
    ModelUsage,
    RejectedItem,
    RunSummary,
    ScopeReport,
    describe_changes,
    public_sources,
)
from foveate.knowledge.topics import TopicsFound, find_topics
from foveate.recall.scopes import Scope
from foveate.session.tenant import public_id
from foveate.store.knowledge import QUICK, KnowledgeChanges, KnowledgeRow, KnowledgeSource, NewKnowledge, NewRun
from foveate.store.leases import Lease
from foveate.store.rows import DAY_US, NANO

LEARN_VERSION = 3
"""Changed when rules find different things in the same turns, so that they are read again."""
STEPS = ("gather", "topics", "lessons", "merge", "finish")
MAX_ATTEMPTS = 3
LONG_TURNS = 1_000
QUICK_SHARE = 0.05
"""Of a history of at least LONG_TURNS, a run reads the new turns alone if they are at most this share."""
T = TypeVar("T")
_log = logging.getLogger(__name__)
MAX_REJECTED = 100
"""Rejected items of a model that are kept with a run."""
SETTLED_US = 3_600_000_000
"""The newest turn of a session may still grow; the next run reads it again unless it is this old."""
PURPOSE = "learn"


@dataclass(frozen=True, slots=True)
class LearnProgress:
    """Progress of a run."""

    scope: str
    step: str
    stage: Literal["begin", "made", "kept"]
    """`begin`: the step starts. `made`: it has a result. `kept`: the result is stored."""
    done: int
    total: int
    """Number of steps of this scope."""


Progress = Callable[[LearnProgress], object]


@dataclass(frozen=True, slots=True)
class GatherResult:
    """The stored result of the first step: the turns themselves are read again, and are the same."""

    turns: int
    now_us: int
    """The time of the newest turn, or the clock's if that is earlier."""


async def learn(
    fov: Foveate,
    scope: Scope | str | None = None,
    *,
    dry_run: bool = False,
    quick: bool | None = None,
    most_turns: int | None = None,
    progress: Progress | None = None,
) -> LearnReport:
    """Learn from a scope; by default from each project, and from all sessions without a label together.

    The owner of the store learns for each tenant separately. With `dry_run` nothing is stored and no model is called:
    the report contains the input, the estimated cost, and the changes by rules. Raise `RunInProgress` if another run
    learns from the given scope. If one of several scopes fails, the others are still processed; its error is raised at
    the end.

    `quick` finds the statements of new turns alone, without a model and topics. None: if few turns are new in a long
    history, and no model is configured. `most_turns` limits those that it reads.
    """
    options = _Options(dry_run=dry_run, quick=quick, most_turns=most_turns, progress=progress)
    if scope is not None:
        single = scope if isinstance(scope, Scope) else Scope.parse(scope)
        return LearnReport((await _learn_scope(fov, single, options),))
    reports: list[ScopeReport] = []
    failures: list[FoveateError] = []
    for view in await _views(fov):
        for each in await scopes_of(view):
            try:
                reports.append(await _learn_scope(view, each, options))
            except RunInProgress:
                reports.append(ScopeReport(scope=str(each), tenant=view.tenant_name, outcome="in progress"))
            except FoveateError as error:
                failures.append(error)
    if failures:
        raise failures[0]
    return LearnReport(tuple(reports))


async def _views(fov: Foveate) -> list[Foveate]:
    """Return the store as each tenant sees it; a tenant has only its own view."""
    if fov.tenant_name:
        return [fov]
    tenants = sorted({row.tenant for row in await fov.store.list_sessions()} - {""})
    return [fov, *map(fov.tenant, tenants)]


class _InputErased(Exception):
    """Turns that a run has read were deleted or pruned before it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    dry_run: bool
    quick: bool | None
    most_turns: int | None
    progress: Progress | None


async def _learn_scope(fov: Foveate, scope: Scope, options: _Options) -> ScopeReport:
    """Learn from a scope; start over if turns are deleted in the meantime, so that nothing of them is stored."""
    for _ in range(MAX_ATTEMPTS):
        with suppress(_InputErased, SessionNotFound), telemetry.span("foveate.learn", is_root=True) as span:
            report = await _attempt(fov, scope, options)
            span.set({"foveate.learn.outcome": report.outcome, "foveate.learn.sessions": report.sessions})
            return report
    raise Refused(f"turns of {scope} are deleted while they are learned from; try again later")


async def _attempt(fov: Foveate, scope: Scope, options: _Options) -> ScopeReport:
    spans = await scope_spans(fov, scope)
    blank = ScopeReport(scope=str(scope), tenant=fov.tenant_name, outcome="empty", sessions=len(spans))
    if not spans:
        return blank
    heard = await _heard(fov, scope)
    if not options.dry_run and await _is_quick(fov, scope, options, spans, heard):
        fresh = spans_after(spans, heard or {}, options.most_turns)
        return await _Run(fov, scope, None, options.progress).quick(blank, fresh, heard or {})
    for span in spans:
        await fov.prepare(public_id(fov.tenant_name, span.row.id))
    version = await run_version(fov)
    last = await _last_summary(fov, scope, await watermark(fov, scope), version)
    if last.is_done:
        return replace(blank, outcome="unchanged", turns=last.summary.turns if last.summary else 0)
    run = _Run(fov, scope, last.summary, options.progress)
    if options.dry_run:
        return await run.preview(blank)
    return await run.execute(blank, version)


async def _heard(fov: Foveate, scope: Scope) -> Mapping[str, int] | None:
    """Return the turns whose statements were found by the last run; None if there is none of this version."""
    rows = await fov.store.knowledge.list_runs(fov.tenant_name, scope=str(scope), state="done", limit=1)
    if not rows or not rows[0].prompt_version.removeprefix(QUICK).startswith(f"{LEARN_VERSION}"):
        return None
    return msgspec.json.decode(rows[0].report, type=RunSummary).heard


async def _is_quick(
    fov: Foveate, scope: Scope, options: _Options, spans: Sequence[SessionSpan], heard: Mapping[str, int] | None
) -> bool:
    """Return whether a run reads the new turns alone."""
    if options.quick is not None:
        return options.quick
    total = sum(span.last - span.first + 1 for span in spans)
    fresh = sum(span.last - span.first + 1 for span in spans_after(spans, heard or {}))
    if heard is None or not fresh or total < LONG_TURNS or fresh > QUICK_SHARE * total or await learn_version(fov):
        return False
    rows = await fov.store.knowledge.list_runs(
        fov.tenant_name, scope=str(scope), version=await run_version(fov), state="done", limit=1
    )
    # Topics and recurring errors of many quick runs are not left out permanently.
    seen = msgspec.json.decode(rows[0].report, type=RunSummary).turns if rows else 0
    return total - seen <= QUICK_SHARE * total


async def run_version(fov: Foveate) -> str:
    """Return the version that a run depends on besides its input: the rules, and the model with its prompts if any."""
    settings = fov.settings.knowledge
    model_version = await learn_version(fov)
    return (
        f"{LEARN_VERSION} {model_version} {settings.chunk_tokens} {settings.max_context_tokens}"
        if model_version
        else f"{LEARN_VERSION}"
    )


@dataclass(frozen=True, slots=True)
class _LastRun:
    is_done: bool
    """True if it had the same input, and is complete."""
    summary: RunSummary | None
    """The summary of a run of the same version; None if there is none."""


async def _last_summary(fov: Foveate, scope: Scope, mark: str, version: str) -> _LastRun:
    rows = await fov.store.knowledge.list_runs(
        fov.tenant_name, scope=str(scope), version=version, state="done", limit=1
    )
    if not rows:
        return _LastRun(is_done=False, summary=None)
    row = rows[0]
    summary = msgspec.json.decode(row.report, type=RunSummary)
    return _LastRun(row.watermark == mark and summary.is_complete, summary)


class _Run:
    """A run, or the preview of one."""

    def __init__(self, fov: Foveate, scope: Scope, last: RunSummary | None, progress: Progress | None) -> None:
        self._fov = fov
        self._rows = fov.store.knowledge
        self._scope = scope
        self._last = last
        self._progress = progress
        self._id = ""
        self._owner = uuid.uuid4().hex
        self._kept: dict[str, bytes] = {}
        self._done = 0
        self._total = len(STEPS)

    async def execute(self, blank: ScopeReport, version: str) -> ScopeReport:
        """Run the remaining steps, and store everything."""
        before = await erasures(self._fov, self._scope)
        gathered = await gather(self._fov, self._scope)
        async with await self._begin(gathered, version) as lease:
            last = await _last_summary(self._fov, self._scope, gathered.watermark, version)
            if last.is_done:  # another run ended in the meantime
                lease.settle()
                await self._rows.fail_run(self._id, self._owner, "{}")
                return replace(blank, outcome="unchanged", turns=len(gathered.turns))
            self._kept = await self._rows.steps(self._id)
            known, changes, found = await self._found(gathered)
            if not before <= await erasures(self._fov, self._scope):
                raise _InputErased
            lease.settle()
            return await self._finished(blank, gathered, known, changes, found, heard=read_marks(gathered, ()))

    async def quick(self, blank: ScopeReport, spans: Sequence[SessionSpan], heard: Mapping[str, int]) -> ScopeReport:
        """Find the statements of new turns, and store them."""
        if not spans:
            return replace(blank, outcome="unchanged")
        fov, before = self._fov, await erasures(self._fov, self._scope)
        marks = {**heard, **{span.row.id: span.last for span in spans}}
        mark = hashlib.sha256(msgspec.json.encode(sorted(marks.items()))).hexdigest()
        gathered = await gather_spans(fov, self._scope, spans, mark)
        async with await self._begin(gathered, f"{QUICK}{LEARN_VERSION}") as lease:
            known = await self._known()
            found = await asyncio.to_thread(find_new_statements, gathered, known)
            now_us = (await _summed_up(gathered)).now_us
            changes = await self._merged(known, list(found.items), found, now_us)
            if not before <= await erasures(fov, self._scope):
                raise _InputErased
            lease.settle()
            return await self._finished(
                replace(blank, is_quick=True), gathered, known, changes, ModelResult(), heard=marks
            )

    async def _merged(
        self, known: Sequence[KnowledgeRow], found: Sequence[NewKnowledge], rules: LessonsFound, now_us: int
    ) -> KnowledgeChanges:
        return await asyncio.to_thread(
            merge,
            known,
            found,
            now_us=now_us,
            settings=self._fov.settings.knowledge,
            history=rules.history,
            replaced=await self._rows.replaced(self._fov.tenant_name, str(self._scope)),
        )

    async def preview(self, blank: ScopeReport) -> ScopeReport:
        """Report the turns that the run would read and the changes by rules."""
        gathered = await gather(self._fov, self._scope)
        known, changes, found = await self._found(gathered)
        return replace(
            blank,
            outcome="preview",
            turns=len(gathered.turns),
            usage=found.usage,
            changes=self._described(known, changes),
            turns_with_topics=_turns_with_topics(changes),
        )

    async def _found(self, gathered: Gathered) -> tuple[list[KnowledgeRow], KnowledgeChanges, ModelResult]:
        """Run all steps up to the merge."""
        known = await self._known()
        begun = await self._step("gather", GatherResult, lambda: _summed_up(gathered))
        topics = await self._step("topics", TopicsFound, lambda: self._topics(gathered, known))
        rules = await self._step(
            "lessons", LessonsFound, lambda: asyncio.to_thread(find_lessons, gathered, topics, known)
        )
        model = await self._asked(gathered, known, topics)
        found = replace_items([*topics.items, *rules.items], model.items)
        # Not stored: it is fast, and people may have reviewed items since a run was interrupted.
        known = await self._known()
        self._tell("merge", "begin")
        changes = await self._merged(known, found, rules, begun.now_us)
        self._tell("merge", "made")
        sessions = tuple(sorted({turn.source.session_id for turn in gathered.turns}))
        return known, replace(changes, turn_topics=topics.turn_topics, topic_sessions=sessions), model

    async def _finished(
        self,
        blank: ScopeReport,
        gathered: Gathered,
        known: Sequence[KnowledgeRow],
        changes: KnowledgeChanges,
        found: ModelResult,
        *,
        heard: Mapping[str, int],
    ) -> ScopeReport:
        report = replace(
            blank,
            outcome="learned",
            run_id=self._id,
            turns=len(gathered.turns),
            usage=found.usage,
            changes=self._described(known, changes),
            turns_with_topics=_turns_with_topics(changes),
        )
        summary = RunSummary(
            sessions=report.sessions,
            turns=report.turns,
            new=report.count("new"),
            changed=report.count("changed"),
            retired=report.count("retired"),
            merged=report.count("merged"),
            usage=found.usage,
            read=found.read,
            heard=heard,
            rejected=found.rejected[:MAX_REJECTED],
            blocked_at=found.blocked_at,
        )
        self._tell("finish", "begin")
        await self._rows.finish_run(self._id, self._owner, msgspec.json.encode(summary).decode(), changes)
        self._tell("finish", "kept")
        return report

    async def _asked(self, gathered: Gathered, known: Sequence[KnowledgeRow], topics: TopicsFound) -> ModelResult:
        """Read the new turns with a model, within the limits."""
        try:
            plan = await plan_model(self._fov, gathered, known, topics.items, topics.turn_topics)
        except ModelError as error:
            return ModelResult(usage=ModelUsage(model=error.model, problem=str(error)))
        if plan is None:
            return ModelResult()
        plan = with_unread(plan, gathered, self._last)
        if not self._id:
            return ModelResult(usage=previewed(plan))
        steps = list(plan.steps())
        self._total += len(steps)
        usage = ModelUsage(model=plan.models[0], input_tokens=plan.estimate.input_tokens)
        results: dict[str, bytes] = {}
        left = {turn.source for chunk in plan.chunks for turn in chunk.turns}
        blocked_at = None
        for step in steps:
            chunk = chunk_of(plan, step.name)
            if step.kept_as not in self._kept:
                spent = sum(msgspec.json.decode(data, type=Proposed).nano_usd for data in results.values())
                if problem := await over_limit(self._fov, spent, step.most_nano_usd):
                    usage = replace(usage, problem=problem)
                    break
            data = await self._model_step(step, results)
            made = msgspec.json.decode(data, type=Proposed)
            usage = counted(usage, made)
            if made.problem:
                usage = replace(usage, problem=made.problem)
                blocked_at = chunk.turns[0].source if chunk and made.calls and not made.is_capped else None
                if blocked_at is None or self._last is None or self._last.blocked_at != blocked_at:
                    break
            results[step.name] = data
            left -= {turn.source for turn in chunk.turns} if chunk else set()
        read = await asyncio.to_thread(read_steps, results)
        items = await asyncio.to_thread(plan.with_topics, read.items)
        rejected = tuple(
            RejectedItem(kind=each.kind, title=each.title, reason=each.reason, text=each.text) for each in read.refused
        )
        return ModelResult(items, usage, read_marks(gathered, left), blocked_at, rejected)

    async def _model_step(self, step: ModelStep, results: Mapping[str, bytes]) -> bytes:
        """Run a step of a model; a failed result is not stored, so that a resumed run tries again."""
        if step.kept_as in self._kept:
            self._tell(step.name, "kept")
            return self._kept[step.kept_as]
        self._tell(step.name, "begin")
        data = await step.run({**self._kept, **results})
        self._tell(step.name, "made")
        if not msgspec.json.decode(data, type=Proposed).problem:
            await self._keep(step.kept_as, data)
            self._tell(step.name, "kept")
        return data

    async def _topics(self, gathered: Gathered, known: Sequence[KnowledgeRow]) -> TopicsFound:
        vectors = await vectors_of(self._fov, gathered)
        return await asyncio.to_thread(find_topics, gathered, vectors, known)

    async def _known(self) -> list[KnowledgeRow]:
        return await self._rows.list_items(self._fov.tenant_name, scopes=[str(self._scope)])

    def _described(self, known: Sequence[KnowledgeRow], changes: KnowledgeChanges) -> tuple[KnowledgeChange, ...]:
        found = describe_changes(known, changes)
        stored = {source.session_id for change in found for source in change.sources}
        return public_sources(found, {name: public_id(self._fov.tenant_name, name) for name in stored})

    async def _step(self, name: str, kind: type[T], make: Callable[[], Awaitable[T]]) -> T:
        """Return the stored result of a step, or make and store it."""
        if name in self._kept:
            self._tell(name, "kept")
            return msgspec.json.decode(self._kept[name], type=kind)
        self._tell(name, "begin")
        data = msgspec.json.encode(await make())
        self._tell(name, "made")
        await self._keep(name, data)
        self._tell(name, "kept")
        # Decoded again, so that a resumed run continues with exactly the same value.
        return msgspec.json.decode(data, type=kind)

    async def _keep(self, name: str, data: bytes) -> None:
        if self._id:
            await self._rows.keep_step(self._id, self._owner, name, data)

    def _tell(self, step: str, stage: Literal["begin", "made", "kept"]) -> None:
        self._done += stage == "kept" or (step, stage) == ("merge", "made")
        if self._progress:
            self._progress(LearnProgress(str(self._scope), step, stage, self._done, self._total))

    async def _begin(self, gathered: Gathered, version: str) -> Lease:
        """Start or resume the run under a lease; if the run does not end, the lease releases it for the next
        attempt."""
        lease_seconds = self._fov.settings.knowledge.lease_seconds
        run = await self._rows.begin_run(
            NewRun(
                id=uuid.uuid4().hex,
                tenant=gathered.tenant,
                scope=str(gathered.scope),
                watermark=gathered.watermark,
                prompt_version=version,
                owner=self._owner,
                lease_seconds=lease_seconds,
            )
        )
        self._id = run.id
        return Lease(self._fov.store.leases, "run", lease_seconds, owner=self._owner, lost=RunLost(run.id))


async def _summed_up(gathered: Gathered) -> GatherResult:
    newest_us = max((turn.at_us for turn in gathered.turns), default=0)
    return GatherResult(len(gathered.turns), min(newest_us, time.time_ns() // 1_000))


def _turns_with_topics(changes: KnowledgeChanges) -> int:
    return len({(session_id, row.turn) for session_id, row in changes.turn_topics})


@dataclass(frozen=True, slots=True)
class ModelResult:
    """The results of a model's steps."""

    items: tuple[NewKnowledge, ...] = ()
    usage: ModelUsage | None = None
    """None if no model is configured."""
    read: Mapping[str, int] | None = None
    """The last turn of each session up to which a model has read everything."""
    blocked_at: KnowledgeSource | None = None
    rejected: tuple[RejectedItem, ...] = ()


def with_unread(plan: ModelPlan, gathered: Gathered, last: RunSummary | None) -> ModelPlan:
    """Return the plan with only the turns that no earlier run has read."""
    read = last.read if last and last.read else {}
    turns = tuple(turn for turn in gathered.turns if turn.source.turn > read.get(turn.source.session_id, 0))
    if len(turns) == len(gathered.turns):
        return plan
    max_tokens = plan.settings.max_context_tokens
    unread = chunks(replace(gathered, turns=turns), plan.room.chunk_tokens, max_tokens=max_tokens)
    return replace(plan, chunks=tuple(unread))


def chunk_of(plan: ModelPlan, step: str) -> Chunk | None:
    """Return the chunk that a step reads; None if it reads none, e.g. for the names of topics."""
    number = step.removeprefix(STEP_PREFIX)
    return plan.chunks[int(number) - 1] if number.isdecimal() else None


def read_marks(gathered: Gathered, unread: Collection[KnowledgeSource]) -> dict[str, int]:
    """Return the last turn of each session before the first one that is unread or may still grow."""
    newest: dict[str, LearnedTurn] = {}
    for turn in gathered.turns:
        known = newest.get(turn.source.session_id)
        if known is None or known.source.turn < turn.source.turn:
            newest[turn.source.session_id] = turn
    marks = {name: turn.source.turn for name, turn in newest.items()}
    settled_us = time.time_ns() // 1_000 - SETTLED_US
    open_turns = [turn.source for turn in newest.values() if turn.at_us > settled_us]
    for source in (*unread, *open_turns):
        marks[source.session_id] = min(marks[source.session_id], source.turn - 1)
    return marks


async def over_limit(fov: Foveate, spent_nano: int, next_nano: int) -> str:
    """Return the limit that the next step would exceed; empty if none."""
    settings = fov.settings.knowledge
    if spent_nano + next_nano > settings.run_usd * NANO:
        return _limit("knowledge.run_usd", settings.run_usd, next_nano)
    now_us = time.time_ns() // 1_000
    costs = await fov.store.calls.costs(since_us=now_us - now_us % DAY_US)
    today = sum(row.nano_usd for row in costs if row.purpose == PURPOSE)
    if today + next_nano > settings.daily_usd * NANO:
        return _limit("knowledge.daily_usd", settings.daily_usd, next_nano)
    return ""


def _limit(key: str, usd: float, next_nano: int) -> str:
    return f"the next request may cost ${next_nano / NANO:.2f}, and {key} is {usd:g}"


def previewed(plan: ModelPlan) -> ModelUsage:
    """Return the estimated usage of the plan."""
    estimate = plan.estimate
    return ModelUsage(
        model=estimate.model,
        calls=estimate.calls,
        input_tokens=estimate.input_tokens,
        usd=estimate.usd,
        most_usd=estimate.most_usd,
    )


def counted(usage: ModelUsage, made: Proposed) -> ModelUsage:
    """Add a step's usage."""
    return replace(
        usage,
        calls=usage.calls + made.calls,
        usd=usage.usd + made.nano_usd / NANO,
        refused=usage.refused + len(made.refused),
        nothing=usage.nothing + made.nothing,
    )
