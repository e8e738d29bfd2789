"""Knowledge learned from past conversations: list, approve, edit, pin and retire items, and add references.

for item in await fov.knowledge.list(scope="project:shop", kind="lesson"):
    print(item.id, item.title, item.sources)
await fov.knowledge.approve("k-1a2b")

Nothing is overwritten: a change is a new version by `person`, and the previous one names its replacement and the
reason.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar

from foveate.errors import InputError, KnowledgeNotFound, Refused, SessionNotFound, TurnNotFound
from foveate.recall.scopes import Scope
from foveate.session.record import check_text
from foveate.session.tenant import SEPARATOR, public_id, stored_id
from foveate.session.values import copied
from foveate.store import Store
from foveate.store.knowledge import (
    KNOWLEDGE_KINDS,
    KNOWLEDGE_STATES,
    PERSON,
    KnowledgeKind,
    KnowledgeRow,
    KnowledgeSource,
    KnowledgeState,
    NewKnowledge,
    RunRow,
    RunState,
)
from foveate.store.sql import now_us
from foveate.turn import from_us, turn_id, turn_number

__all__ = [
    "KNOWLEDGE_KINDS",
    "KNOWLEDGE_STATES",
    "Knowledge",
    "KnowledgeDraft",
    "KnowledgeItem",
    "KnowledgeKind",
    "KnowledgeNews",
    "KnowledgeState",
    "LearningRun",
    "RejectedProposal",
]

MAX_TITLE_CHARS = 200
MAX_TEXT_CHARS = 100_000
MAX_LABELS = 50
MAX_LABEL_CHARS = 100
MAX_SOURCES = 1_000
MAX_NAMED = 3
ID_DIGITS = 10
WRITABLE: tuple[KnowledgeKind, ...] = ("reference", "lesson", "profile")
"""Kinds that a person can write. Learning runs write topics and recommendations."""
C = TypeVar("C", bound=str)
StateFilter = KnowledgeState | Literal["all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeItem:
    """One version of an item of knowledge."""

    id: str
    """Id of the item; the owner sees a tenant's item as `tenant:id`."""
    version: int
    scope: str
    """Scope of the item, e.g. `project:shop`."""
    kind: KnowledgeKind
    state: KnowledgeState
    """State of the item. `pinned`: approved, and never changed by a learning run."""
    title: str
    text: str
    topics: tuple[str, ...]
    """Ids of the item's topics."""
    keywords: tuple[tuple[str, float], ...]
    """Words with their weights, highest weight first."""
    technologies: tuple[str, ...]
    weight: float
    """Importance, 0 to 1."""
    confidence: float
    """Confidence of its maker, 0 to 1."""
    sources: tuple[str, ...]
    """Turns that the item was learned from, as `SESSION/T-12`."""
    maker: str
    """`local` for rules, `person`, or the name of a model."""
    prompt_version: str
    first_seen: datetime
    """Time of the oldest source turn."""
    last_seen: datetime
    """Time of the newest source turn."""
    created: datetime
    superseded_by: str
    """`ID@VERSION` of the version, or the id of the item, that replaced this one; empty while it is current."""
    reason: str
    """Why the item was replaced."""
    uses: int
    """Number of contexts that showed the item."""
    helped: int
    """Number of answers that used the item."""
    last_used: datetime | None
    area: str = ""
    """The project area of a topic: the title of the heaviest topic of its group."""
    form: str = ""
    """What the user stated: a `rule`, `preference`, `convention`, `decision` or `fact`; empty for other items."""
    times_said: int = 0
    """Number of times the user said it."""
    said_on: tuple[str, ...] = ()
    """The newest days on which the user said it."""
    contradicts: tuple[str, ...] = ()
    """What the user also said on the same day, and which says otherwise."""
    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeDraft:
    """A change to an item, or a new item if it has no `id`. None: not changed, or the default of a new item."""

    id: str | None = None
    version: int | None = None
    """The version that the change is based on; the change is rejected if there is a newer one."""
    scope: str | None = None
    kind: KnowledgeKind | None = None
    """Kind of a new item. Default: `reference`."""
    state: KnowledgeState | None = None
    title: str | None = None
    text: str | None = None
    technologies: Sequence[str] | None = None
    sources: Sequence[str] | None = None
    """Source turns of a new item, as `SESSION/T-12`."""
    weight: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRun:
    """A run that learns from the sessions of a scope, in progress or ended."""

    id: str
    scope: str
    state: RunState
    """State of the run. `replaced`: its input changed before it ended, and a later run started over."""
    prompt_version: str
    started: datetime
    ended: datetime | None
    report: dict[str, Any]
    """Results of the run; empty until it ends."""
    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeNews:
    """What was learned since a moment: lessons, references and the profile."""

    since: datetime
    new: Sequence[KnowledgeItem]
    """Items learned since then, the heaviest first."""
    changed: Sequence[KnowledgeItem]
    """Earlier items with a new version."""
    replaced: Sequence[KnowledgeItem]
    """Earlier statements that new ones replaced; `reason` says why."""
    waiting: int
    """Number of items that nobody has reviewed."""
    last_run: LearningRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedProposal:
    """An item of a model that was not stored, because its source turns do not prove it."""

    kind: str
    title: str
    text: str
    reason: str
    scope: str
    run_id: str
    at: datetime
    tenant: str = ""


class Knowledge:
    """The knowledge of a tenant; for the owner, of all tenants. Every change is durable when its method returns."""

    def __init__(self, store: Store, tenant: str = "") -> None:
        self._store = store
        self._tenant = tenant

    async def list(
        self, *, scope: str | None = None, kind: KnowledgeKind | None = None, state: StateFilter | None = None
    ) -> Sequence[KnowledgeItem]:
        """List the items, sorted by scope, kind and id.

        By default retired items are omitted; the state `all` includes them.
        """
        if kind is not None:
            _check_choice("kind", kind, KNOWLEDGE_KINDS)
        if state is not None:
            _check_choice("state", state, (*KNOWLEDGE_STATES, "all"))
        scopes = None if scope is None else [check_scope(scope)]
        rows = await self._store.knowledge.list_items(self._tenant or None, scopes=scopes, kind=kind)
        return [self._item(row) for row in rows if _has_state(row, state)]

    async def get(self, item_id: str) -> KnowledgeItem:
        """Return the newest version of an item by its id or a unique beginning of it."""
        return self._item((await self._rows(item_id))[-1])

    async def versions(self, item_id: str) -> Sequence[KnowledgeItem]:
        """List all versions of an item, oldest first."""
        return [self._item(row) for row in await self._rows(item_id)]

    async def earlier(self, item_id: str) -> Sequence[KnowledgeItem]:
        """Return the statements that an item replaced, and those that these had replaced, newest first."""
        current = (await self._rows(item_id))[-1]
        replaced = await self._store.knowledge.replaced(current.tenant, current.scope)
        found: dict[str, KnowledgeRow] = {}
        ids = [current.id]
        for by in ids:
            for each in (each for each, its in replaced.items() if its == by and each not in found):
                rows = await self._store.knowledge.versions(current.tenant, each)
                found[each] = rows[-1]
                ids.append(each)
        return [self._item(row) for row in sorted(found.values(), key=lambda row: (-row.last_seen_us, row.id))]

    async def news(self, since: datetime | None = None, *, scope: str | None = None) -> KnowledgeNews:
        """Return what was learned since a moment. Default: since the beginning of yesterday (UTC)."""
        start = since or datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
        items = [each for each in await self.list(scope=scope) if each.kind in WRITABLE]
        fresh = sorted((each for each in items if each.created >= start), key=lambda each: (-each.weight, each.id))
        replaced: list[KnowledgeItem] = []
        for tenant, name in sorted({(each.tenant, each.scope) for each in fresh}):
            new = {each.id.rpartition(SEPARATOR)[2] for each in fresh}
            for item_id, by in (await self._store.knowledge.replaced(tenant, name)).items():
                if by in new:
                    rows = await self._store.knowledge.versions(tenant, item_id)
                    replaced.append(self._item(rows[-1]))
        runs = await self.runs(scope=scope, limit=1)
        return KnowledgeNews(
            since=start,
            new=[each for each in fresh if each.version == 1],
            changed=[each for each in fresh if each.version > 1],
            replaced=replaced,
            waiting=sum(each.state == "proposed" for each in items),
            last_run=runs[0] if runs else None,
        )

    async def rejected(self, *, scope: str | None = None, limit: int = 100) -> Sequence[RejectedProposal]:
        """List the items of models that were not stored in the latest runs, newest first, with the reasons."""
        found = [
            RejectedProposal(scope=run.scope, run_id=run.id, at=run.ended or run.started, tenant=run.tenant, **each)
            for run in await self.runs(scope=scope)
            for each in run.report.get("rejected", ())
        ]
        return found[:limit]

    async def histories(self, item_ids: Iterable[str]) -> Mapping[str, Sequence[KnowledgeItem]]:
        """Return all versions of several items by their complete ids; unknown ids are skipped."""
        found = {}
        for item_id in dict.fromkeys(item_ids):
            rows = await self._exact(item_id)
            if rows:
                found[item_id] = [self._item(row) for row in rows]
        return found

    async def approve(self, item_id: str, *, reason: str = "") -> KnowledgeItem:
        """Approve an item, even if it is pinned or retired."""
        return await self._save(KnowledgeDraft(id=item_id, state="approved", reason=reason or "approved"))

    async def pin(self, item_id: str, *, reason: str = "") -> KnowledgeItem:
        """Approve an item, and prevent learning runs from changing it."""
        return await self._save(KnowledgeDraft(id=item_id, state="pinned", reason=reason or "pinned"))

    async def retire(self, item_id: str, reason: str = "") -> KnowledgeItem:
        """Retire an item: contexts no longer use it. Its versions are kept; `approve` restores it."""
        return await self._save(KnowledgeDraft(id=item_id, state="retired", reason=reason or "retired"))

    async def edit(
        self,
        item_id: str,
        *,
        text: str | None = None,
        title: str | None = None,
        technologies: Sequence[str] | None = None,
        version: int | None = None,
        reason: str = "",
    ) -> KnowledgeItem:
        """Change an item's text, title or technologies. Editing a proposed item approves it.

        `version` is the version that the change is based on: `Refused` if there is a newer one.
        """
        if text is None and title is None and technologies is None:
            raise InputError("nothing to change; pass a text, a title or technologies")
        return await self._save(
            KnowledgeDraft(
                id=item_id, text=text, title=title, technologies=technologies, version=version, reason=reason
            )
        )

    async def add(
        self,
        title: str,
        text: str,
        *,
        scope: str = "project:",
        kind: KnowledgeKind = "reference",
        technologies: Sequence[str] = (),
        sources: Sequence[str] = (),
        state: KnowledgeState | None = None,
    ) -> KnowledgeItem:
        """Add a reference, lesson or part of the profile that a person wrote.

        Default state: approved. Adding the same title to the same scope again makes a new version. `sources` are turns,
        as `SESSION/T-12`.
        """
        return await self._save(
            KnowledgeDraft(
                scope=scope,
                kind=kind,
                state=state,
                title=title,
                text=text,
                technologies=technologies,
                sources=sources,
            )
        )

    async def save(self, drafts: Sequence[KnowledgeDraft]) -> Sequence[KnowledgeItem]:
        """Check and store several changes, and return the newest version of each item.

        The changes of one tenant are stored together or not at all. A draft that changes nothing adds no version.
        """
        made = [await (self._new(draft) if draft.id is None else self._changed(draft)) for draft in drafts]
        added: dict[tuple[str, str], KnowledgeRow] = {}
        tenants = dict.fromkeys(tenant for tenant, item in made if not isinstance(item, KnowledgeRow))
        for tenant in tenants:
            items = [item for owner, item in made if owner == tenant and not isinstance(item, KnowledgeRow)]
            rows = await self._store.knowledge.add(tenant, items)
            added |= {(tenant, row.id): row for row in rows}
        return [self._item(item if isinstance(item, KnowledgeRow) else added[tenant, item.id]) for tenant, item in made]

    async def runs(self, *, scope: str | None = None, limit: int = 100) -> Sequence[LearningRun]:
        """List the learning runs, newest first."""
        checked = None if scope is None else check_scope(scope)
        rows = await self._store.knowledge.list_runs(self._tenant or None, scope=checked, limit=limit)
        return [_run(row) for row in rows]

    async def _save(self, draft: KnowledgeDraft) -> KnowledgeItem:
        (item,) = await self.save([draft])
        return item

    async def _new(self, draft: KnowledgeDraft) -> tuple[str, NewKnowledge]:
        kind = draft.kind or "reference"
        if kind not in WRITABLE:
            raise InputError(f"a {kind} can't be written by hand; available: {', '.join(WRITABLE)}")
        scope = check_scope("project:" if draft.scope is None else draft.scope)
        title = clean_title(draft.title or "")
        sources, moments = await self._sources(draft.sources or ())
        now = now_us()
        item_id = written_id(scope, kind, title)
        known = await self._store.knowledge.versions(self._tenant, item_id)
        is_pinned = bool(known) and known[-1].state == "pinned"
        state = draft.state or ("pinned" if is_pinned else "approved")
        new = NewKnowledge(
            id=item_id,
            scope=scope,
            kind=kind,
            state=_check_choice("state", state, KNOWLEDGE_STATES),
            title=title,
            text=clean_text(draft.text or ""),
            technologies=clean_labels(draft.technologies or ()),
            weight=_check_weight(1.0 if draft.weight is None else draft.weight),
            confidence=1.0,
            sources=sources,
            maker=PERSON,
            first_seen_us=min(moments, default=now),
            last_seen_us=max(moments, default=now),
            reason=_one_line(draft.reason) or "written again",
        )
        if known and not known[-1].superseded_by and _content(known[-1]) == _content(new):
            return self._tenant, known[-1]
        return self._tenant, new

    async def _changed(self, draft: KnowledgeDraft) -> tuple[str, NewKnowledge]:
        current = (await self._rows(draft.id or ""))[-1]
        shown = self._shown(current.tenant, current.id)
        if current.superseded_by:
            raise Refused(f"{shown} was replaced by {current.superseded_by}; change that one")
        if draft.version is not None and draft.version != current.version:
            raise Refused(
                f"{shown} is at version {current.version} now, but the change is based on version {draft.version}"
            )
        is_edit = any(value is not None for value in (draft.text, draft.title, draft.technologies))
        state = draft.state or ("approved" if is_edit and current.state == "proposed" else current.state)
        new = NewKnowledge(
            id=current.id,
            scope=current.scope,
            kind=current.kind,
            state=_check_choice("state", state, KNOWLEDGE_STATES),
            title=current.title if draft.title is None else clean_title(draft.title),
            text=current.text if draft.text is None else clean_text(draft.text),
            topics=current.topics,
            keywords=current.keywords,
            technologies=current.technologies if draft.technologies is None else clean_labels(draft.technologies),
            weight=current.weight if draft.weight is None else _check_weight(draft.weight),
            confidence=1.0 if is_edit else current.confidence,
            sources=current.sources,
            maker=PERSON,
            first_seen_us=current.first_seen_us,
            last_seen_us=current.last_seen_us,
            area=current.area,
            form=current.form,
            times_said=current.times_said,
            said_on=current.said_on,
            reason=_one_line(draft.reason) or "edited",
        )
        is_decided = current.maker == PERSON or draft.state is None
        is_same = _content(replace(new, state=draft.state or current.state)) == _content(current)
        return (current.tenant, current) if is_same and is_decided else (current.tenant, new)

    async def _sources(self, names: Sequence[str]) -> tuple[tuple[KnowledgeSource, ...], Sequence[int]]:
        """Find turns by names such as `SESSION/T-12`, and return them with their times."""
        if len(names) > MAX_SOURCES:
            raise InputError(f"an item may have up to {MAX_SOURCES:,} sources; got {len(names):,}")
        sources, moments = [], []
        for name in names:
            session_id, _, turn = name.rpartition("/")
            number = turn_number(turn)
            if not session_id or number is None:
                raise InputError(f"{name[:80]!r} is not a turn; write SESSION/T-12")
            try:
                session = await self._store.get_session(stored_id(self._tenant, session_id))
            except SessionNotFound:
                raise SessionNotFound(session_id) from None
            if session.tenant != self._tenant:
                raise SessionNotFound(session_id)
            if number > session.last_turn:
                raise TurnNotFound(session_id, turn_id(number), session.last_turn)
            (row,) = await self._store.turns(session.id, number, number)
            sources.append(KnowledgeSource(session.id, number))
            moments += [row.first_at_us, row.last_at_us]
        return tuple(dict.fromkeys(sources)), moments

    async def _rows(self, address: str) -> Sequence[KnowledgeRow]:
        """Read all versions of the item with this id, or with this unique beginning of an id."""
        rows = await self._exact(address)
        if rows:
            return rows
        known = await self._store.knowledge.list_items(self._tenant or None)
        found = [
            row
            for row in known
            if address and (row.id.startswith(address) or self._shown(row.tenant, row.id).startswith(address))
        ]
        if len(found) == 1:
            return await self._store.knowledge.versions(found[0].tenant, found[0].id)
        if not found:
            raise KnowledgeNotFound(address)
        some = ", ".join(self._shown(row.tenant, row.id) for row in found[:MAX_NAMED])
        raise KnowledgeNotFound(address, f"{len(found)} items match it, such as {some}; write more of the id")

    async def _exact(self, item_id: str) -> Sequence[KnowledgeRow]:
        tenant, separator, rest = item_id.rpartition(SEPARATOR)
        if separator and not self._tenant:
            return await self._store.knowledge.versions(tenant, rest)
        rows = await self._store.knowledge.versions(self._tenant, item_id)
        if rows or self._tenant:
            return rows
        rows = await self._store.knowledge.versions(None, item_id)
        return rows if len({row.tenant for row in rows}) == 1 else []

    def _shown(self, tenant: str, item_id: str) -> str:
        return item_id if self._tenant else stored_id(tenant, item_id)

    def _item(self, row: KnowledgeRow) -> KnowledgeItem:
        return copied(
            KnowledgeItem,
            row,
            id=self._shown(row.tenant, row.id),
            topics=tuple(self._shown(row.tenant, topic) for topic in row.topics),
            sources=tuple(
                f"{public_id(self._tenant, source.session_id)}/{turn_id(source.turn)}" for source in row.sources
            ),
            first_seen=from_us(row.first_seen_us),
            last_seen=from_us(row.last_seen_us),
            created=from_us(row.created_us),
            superseded_by=row.superseded_by and self._shown(row.tenant, row.superseded_by),
            last_used=None if row.last_used_us is None else from_us(row.last_used_us),
        )


def check_scope(text: str) -> str:
    """Return a scope as it is stored; `InputError` if it is invalid."""
    return str(Scope.parse(text))


def written_id(scope: str, kind: str, title: str) -> str:
    """Derive the id of an item that a person wrote; the same title, kind and scope is the same item."""
    identity = json.dumps([PERSON, scope, kind, title.casefold()])
    return f"k-{hashlib.sha256(identity.encode()).hexdigest()[:ID_DIGITS]}"


def clean_title(title: str) -> str:
    """Put a title on one line; `InputError` if it is empty or too long."""
    title = _one_line(check_text("title", title))
    if not title:
        raise InputError("an item needs a title")
    if len(title) > MAX_TITLE_CHARS:
        raise InputError(f"the title has {len(title):,} characters; the limit is {MAX_TITLE_CHARS}")
    return title


def clean_text(text: str) -> str:
    """Remove empty lines at the ends of a text; `InputError` if it is empty or too long."""
    text = check_text("text", text).replace("\r\n", "\n").replace("\r", "\n").rstrip().lstrip("\n")
    if not text:
        raise InputError("an item needs a text; use 'foveate knowledge retire' to retire an item")
    if len(text) > MAX_TEXT_CHARS:
        raise InputError(f"the text has {len(text):,} characters; the limit is {MAX_TEXT_CHARS:,}")
    return text


def clean_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Put each technology on one line and remove duplicates; `InputError` if one is invalid."""
    found = tuple(dict.fromkeys(_one_line(check_text("technologies", label)) for label in labels))
    if len(found) > MAX_LABELS or any(not label or len(label) > MAX_LABEL_CHARS or "," in label for label in found):
        raise InputError(f"technologies are up to {MAX_LABELS} words or names of up to {MAX_LABEL_CHARS} characters, "
                         "without commas")  # fmt: skip
    return found


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _content(item: NewKnowledge) -> tuple[object, ...]:
    return (item.state, item.title, item.text, item.technologies, item.weight, item.sources)


def _has_state(row: KnowledgeRow, state: StateFilter | None) -> bool:
    return state == "all" or (row.state != "retired" if state is None else row.state == state)


def _check_weight(weight: float) -> float:
    if not 0 <= weight <= 1:
        raise InputError(f"a weight is a number from 0 to 1; got {weight}")
    return weight


def _check_choice(name: str, value: C, known: Sequence[C]) -> C:
    if value not in known:
        raise InputError(f"no {name} {value[:80]!r}; available: {', '.join(known)}")
    return value


def _run(row: RunRow) -> LearningRun:
    return copied(
        LearningRun,
        row,
        started=from_us(row.started_us),
        ended=None if row.ended_us is None else from_us(row.ended_us),
        report=json.loads(row.report) if row.report else {},
    )
