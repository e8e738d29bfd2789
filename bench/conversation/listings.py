"""What is read rather than run: source files, folders, tables from the database and answers of other services."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conversation.world import World

_NOUNS = (
    "berth",
    "stay",
    "vessel",
    "pontoon",
    "tariff",
    "guest",
    "hold",
    "gauge",
    "season",
    "invoice",
    "contact",
    "gate",
)
_FIELDS = ("length_dm", "draft_dm", "arrival", "departure", "state", "flag", "price", "nights", "harbour_id", "note")
_SHAPES = (
    '''
def {a}_by_id(session: Session, {a}_id: int) -> {A}:
    """The {a}, or an error that names the id."""
    found = session.get({A}, {a}_id)
    if found is None:
        raise Unknown{A}({a}_id)
    return found
''',
    """
def open_{a}s(session: Session, *, since: datetime, limit: int = {n}) -> list[{A}]:
    query = select({A}).where({A}.{f} >= since, {A}.state.in_(OPEN_STATES))
    return list(session.scalars(query.order_by({A}.{f}).limit(limit)))
""",
    '''
@dataclass(frozen=True, slots=True)
class {A}{B}:
    """A {a} together with its {b}, as the office sees it."""

    {a}_id: int
    {b}_id: int
    {f}: int
    {g}: str | None = None

    @property
    def label(self) -> str:
        return f"{{self.{a}_id}}/{{self.{b}_id}}"
''',
    """
def _check_{a}({a}: {A}) -> None:
    # The form checks this too, but imports and the kiosk come in another way.
    if {a}.{f} < 0:
        raise Bad{A}({a}.id, "{f} must not be negative")
    if len({a}.note) > {n}:
        raise Bad{A}({a}.id, "the note is longer than {n} characters")
""",
    """
def group_by_{b}({a}s: Iterable[{A}]) -> dict[int, list[{A}]]:
    groups: dict[int, list[{A}]] = defaultdict(list)
    for {a} in {a}s:
        groups[{a}.{b}_id].append({a})
    return {{key: sorted(group, key=attrgetter("{f}")) for key, group in groups.items()}}
""",
    """
class {A}Form(Form):
    {f} = IntegerField(min_value=0, max_value={n})
    {g} = TextField(max_length={m}, required=False)

    def clean(self) -> Cleaned:
        values = super().clean()
        if values["{f}"] == 0 and not values["{g}"]:
            raise FormError("{g}", "needed when {f} is zero")
        return values
""",
    '''
def total_{f}({a}s: Sequence[{A}], *, skip: Container[int] = ()) -> int:
    """The sum over all that count; what is skipped is logged, so nobody has to guess."""
    total = 0
    for {a} in {a}s:
        if {a}.id in skip:
            log.debug("{a} %d skipped", {a}.id)
            continue
        total += {a}.{f}
    return total
''',
    """
async def refresh_{a}(client: Client, {a}: {A}) -> bool:
    answer = await client.get(f"/{a}s/{{{a}.id}}", timeout_seconds={m})
    if answer.status == 304:
        return False
    {a}.{g} = answer.json()["{g}"]
    {a}.checked_at = now()
    return True
""",
    """
class Unknown{A}(LookupError):
    def __init__(self, {a}_id: int) -> None:
        super().__init__(f"no {a} with the id {{{a}_id}}")
        self.{a}_id = {a}_id
""",
    """
def archive_{a}s(session: Session, *, before: datetime) -> int:
    # In batches, so that no lock is held for minutes.
    closed = 0
    while rows := session.scalars(select({A}).where({A}.state == "done", {A}.{f} < before).limit({n})).all():
        for row in rows:
            row.state = "archived"
        session.commit()
        closed += len(rows)
    return closed
""",
    """
def render_{a}({a}: {A}, {b}: {B} | None = None) -> str:
    parts = [f"{a} {{{a}.id}}", {a}.{g} or "-"]
    if {b} is not None:
        parts.append(f"at {b} {{{b}.id}}")
    return ", ".join(parts)
""",
    """
@job("{a}-{b}", every_minutes={m})
def sync_{a}_{b}(session: Session) -> None:
    stale = [{a} for {a} in open_{a}s(session, since=now()) if {a}.{b}_id is None]
    log.info("%d {a}s without a {b}", len(stale))
    for {a} in stale[:{n}]:
        outbox.add(session, {A}Found({a}.id))
""",
)


@dataclass(frozen=True, slots=True)
class Source:
    """A file as a reading tool shows it, and the line on which the code in question begins."""

    text: str
    line: int
    lines: int


def source_file(w: World, path: str, snippet: str, *, lines: int, func: str = "") -> Source:
    """A module of about this many lines with the snippet, as the body of `func`, somewhere in its second half."""
    head = ["from __future__ import annotations", "", "import logging", "from collections import defaultdict"]
    head += ["from datetime import datetime", "", "from quayside.core import Session, now, select", ""]
    head += ["log = logging.getLogger(__name__)", f"LIMIT = {w.between(20, 400)}"]
    body = [
        f'"""{path.rsplit("/", 1)[-1].removesuffix(".py").replace("_", " ").capitalize()} of the harbour."""',
        "",
        *head,
    ]
    at = 0
    wanted = w.between(lines // 2, lines * 3 // 4)
    while len(body) < lines:
        if not at and len(body) >= wanted:
            code = snippet.strip("\n").split("\n")
            if func and not snippet.lstrip("\n").startswith(("def ", "_", "class ")):
                code = [f"def {func}(session: Session, *args: Any) -> Any:", *code]
            body += ["", ""]
            at = len(body) + 1
            body += code
        body += ["", *_shape(w)]
    text = "\n".join(f"{number:4d}  {line}".rstrip() for number, line in enumerate(body, start=1))
    return Source(text, at, len(body))


def _shape(w: World) -> list[str]:
    a, b = w.rng.sample(_NOUNS, 2)
    f, g = w.rng.sample(_FIELDS, 2)
    shape = w.draw("shapes", _SHAPES)
    filled = shape.format(
        a=a, b=b, f=f, g=g, A=a.capitalize(), B=b.capitalize(), n=w.between(20, 500), m=w.between(2, 60)
    )
    return filled.rstrip("\n").split("\n")


@dataclass(frozen=True, slots=True)
class Change:
    """A diff of one file, and how many lines it adds and removes."""

    path: str
    text: str
    added: int
    removed: int


def change(w: World, path: str, *, hunks: int) -> Change:
    """A diff in which each hunk rewrites a part of one function and adds another."""
    lines = [f"diff --git a/{path} b/{path}", f"index {w.hex(7)}..{w.hex(7)} 100644", f"--- a/{path}", f"+++ b/{path}"]
    added = removed = 0
    at = 1
    for _ in range(hunks):
        at += w.between(12, 60)
        old, new = _shape(w), _shape(w)
        kept = old[:3]
        gone = old[3 : 3 + w.between(1, 4)]
        lines += [f"@@ -{at},{len(kept) + len(gone)} +{at},{len(kept) + len(new)} @@"]
        lines += [f" {line}" for line in kept] + [f"-{line}" for line in gone] + [f"+{line}" for line in new]
        added, removed = added + len(new), removed + len(gone)
    return Change(path, "\n".join(lines), added, removed)


def code(w: World, *, parts: int) -> str:
    """Some functions, for a file that is written."""
    return "\n".join("\n".join(_shape(w)) for _ in range(parts)).strip("\n")


def folder(w: World, path: str) -> tuple[str, list[tuple[str, int]]]:
    """A long listing, and its files with their sizes in bytes."""
    stems = ["__init__", "service", "models", "views", "errors", "queries", "forms", "jobs", "events", "admin", "rules"]
    stems += ["cache", "export", "codes", "legacy", "types", "clock", "signals", "labels", "import_2019", "mail"]
    names = sorted(w.rng.sample(stems, w.between(8, len(stems))))
    files = [(f"{name}.py", w.between(180, 24_000)) for name in names]
    rows = [f"{path}:", f"total {sum(size for _, size in files) // 1024}"]
    for name, size in files:
        changed = f"Feb {w.between(1, 28):2d} {w.between(8, 18):02d}:{w.between(0, 59):02d}"
        rows.append(f"-rw-r--r-- 1 dev dev {size:6d} {changed} {name}")
    return "\n".join(rows), files


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as psql prints them."""
    widths = [max(len(row[place]) for row in (columns, *rows)) for place in range(len(columns))]
    shown = [" | ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)) for row in rows]
    header = " | ".join(name.ljust(width) for name, width in zip(columns, widths, strict=True))
    count = f"({len(rows)} row{'' if len(rows) == 1 else 's'})"
    return "\n".join([header, "-+-".join("-" * width for width in widths), *shown, count])


def plan(w: World, node: str, *, ms: float, rows: int) -> str:
    """What `explain (analyze, buffers)` says."""
    cost = rows * 0.021
    total, scan = f"{ms - 0.4:.3f}..{ms:.3f}", f"0.031..{ms * 0.9:.3f}"
    lines = [
        f" Limit  (cost={cost:.2f}..{cost + 12:.2f} rows=50 width=212) (actual time={total} rows=50 loops=1)",
        f"   Buffers: shared hit={w.between(90, 900)} read={rows // 60}",
        f"   ->  {node}  (cost=0.00..{cost:.2f} rows={rows} width=212) (actual time={scan} rows={rows} loops=1)",
        f" Planning Time: {w.seconds(0.1, 0.9)} ms",
        f" Execution Time: {ms:.3f} ms",
    ]
    return "\n".join(lines)


def answer(w: World, *, path: str, code: str, entries: int) -> str:
    """A JSON answer of a partner's service: the code in question among ordinary entries."""
    items = [
        {
            "id": f"{w.rng.choice('abcdefgh')}{w.hex(9)}",
            "at": f"2026-02-{w.between(1, 28):02d}T{w.between(0, 23):02d}:{w.between(0, 59):02d}:00Z",
            "state": w.rng.choice(("accepted", "accepted", "pending", "accepted")),
            "amount": {"value": w.between(900, 94_000), "currency": "EUR"},
            "attempts": w.between(1, 3),
            "harbour": w.rng.choice(("VLN", "TXL", "HRN", "EKH")),
        }
        for _ in range(entries)
    ]
    items[entries // 2] |= {"state": "rejected", "reason": code}
    return json.dumps({"path": path, "count": entries, "next": None, "items": items}, indent=2)
