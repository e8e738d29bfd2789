"""`foveate doctor`: verify the store."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import opened
from foveate.cli.ui.terminal import line, not_compressed, to_copy
from foveate.text import several

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.progress import Progress

    from foveate.session.values import IndexState, QueueState, SessionInfo, SessionStats
    from foveate.sync import Foveate

MAX_SHOWN = 50
MAX_NAMED = 5
STOPPED = " stopped: "
"""In the problem of a check that did not get to its end."""
RESTORE = "restore"
"""How advice begins that only a backup can follow."""


@store_command("doctor", "Verify the store: every page, every hash, every turn.")
@click.option("--rebuild-index", is_flag=True, help="First rebuild the search index.")
def command(progress: Progress, *, rebuild_index: bool, store_path: Path) -> Answer:
    """Verify the store, and report what is wrong and what to do. The exit code is 1 if anything is wrong.

    The search index is built from the turns, so rebuilding it loses nothing. Rebuild it if it is damaged, or after
    changing recall.embeddings. It takes about a second for 500 turns.

    \b
    foveate doctor
    foveate doctor --db chat.db --json
    foveate doctor --rebuild-index
    """
    from foveate.errors import Damaged, NotADatabase

    found = _Checked()
    try:
        with opened(store_path) as fov:
            _check(fov, found, progress, rebuild_index=rebuild_index)
    except (Damaged, NotADatabase) as error:
        found.add(error.problem.partition(";")[0])
        return _damaged(store_path, found)
    problems, stats, index, queue = found.problems, found.stats, found.index, found.queue
    database, has_model = found.database, found.has_model
    pending, fallbacks = sum(each.pending for each in stats), sum(each.fallbacks for each in stats)
    sandbox = _sandbox()

    steps = restore_steps(store_path) if any(entry["advice"].startswith(RESTORE) for entry in problems) else []

    def show(out: Console) -> None:
        _show(out, f"{store_path}", found)
        _print_steps(out, steps)
        _print_unfinished(out, pending, fallbacks, has_model=has_model)
        if index:
            _print_index(out, index)
        if queue and queue.parked:
            _print_queue(out, queue)
        for fact in (*(f"{topic}: {fact}" for topic, fact in database.items()), sandbox["summary"]):
            out.print(line((f"  {fact}", "dim")))

    value = {
        "ok": not problems,
        "messages_checked": found.checked,
        "sessions": len(found.infos),
        "problems": problems,
        "pending_turns": pending,
        "fallback_turns": fallbacks,
        "index": index,
        "queue": queue,
        "database": database,
        "sandbox": sandbox,
        **({"restore": steps} if steps else {}),
    }
    return Answer(value, show, 1 if problems else 0)


@dataclass(slots=True)
class _Checked:
    """What the checks have found so far."""

    checked: int = 0
    damaged: dict[str, None] = field(default_factory=dict)
    """Sessions with a problem, in the order of discovery."""
    problems: list[dict[str, str]] = field(default_factory=list)
    infos: Sequence[SessionInfo] = ()
    stats: Sequence[SessionStats] = ()
    index: IndexState | None = None
    queue: QueueState | None = None
    database: Mapping[str, str] = field(default_factory=dict)
    has_model: bool = False

    def add(self, problem: str, advice: str = "", session: str = "") -> None:
        """Add a problem. Commands in its advice name the store that this one was given."""
        advice = re.sub(r"\bfoveate (?=[a-z])", lambda _: f"{to_copy()} ", advice)
        self.problems.append({"problem": problem, "advice": advice})
        if session:
            self.damaged[session] = None

    def summary(self) -> str:
        """Say in a line how much is damaged, and how much is known to be whole."""
        parts = [several(len(self.problems), "problem"), f"{several(self.checked, 'message')} checked"]
        if self.damaged:
            names = list(self.damaged)
            more = f", … ({len(names) - MAX_NAMED} more)" if len(names) > MAX_NAMED else ""
            sessions = several(len(self.infos), "session")
            parts.append(f"damaged: {len(names)} of {sessions} ({', '.join(names[:MAX_NAMED])}{more})")
        is_complete = not any(STOPPED in entry["problem"] for entry in self.problems)
        if is_complete and len(self.infos) > len(self.damaged):
            parts.append(f"whole: {len(self.infos) - len(self.damaged)}")
        return "; ".join(parts)


def _check(fov: Foveate, found: _Checked, progress: Progress, *, rebuild_index: bool) -> None:
    """Run all checks; what they find stays if one of them fails."""
    if rebuild_index:
        task = progress.add_task("indexing turns", total=sum(info.turns for info in fov.sessions()))
        fov.rebuild_index(lambda done: progress.advance(task, done))
    checking = progress.add_task("checking messages", total=None)
    for finding in fov.check():
        if finding.problem:
            found.add(finding.problem, finding.advice, finding.session)
        elif finding.total:
            found.checked = finding.done
            progress.update(checking, completed=finding.done, total=finding.total)
    found.infos = fov.sessions()
    if not found.problems:
        found.stats = [fov.open_session(info.id).stats() for info in found.infos]
        found.index, found.queue = fov.index_state(), fov.queue_state(limit=MAX_SHOWN)
    found.database, found.has_model = fov.describe_database(), bool(fov.models_for("compress"))


def _damaged(store_path: Path, found: _Checked) -> Answer:
    """Return the answer for a store that can't be read at all, or not to the end of the check."""
    steps = restore_steps(store_path)

    def show(out: Console) -> None:
        for entry in found.problems[:MAX_SHOWN]:
            out.print(line(("✗", "red"), f" {store_path}: {entry['problem']}"))
        _print_steps(out, steps)

    value = {"ok": False, "messages_checked": found.checked, "problems": found.problems, "restore": steps}
    return Answer(value, show, 1)


def restore_steps(store_path: Path) -> list[str]:
    """Return what to do with a damaged store, step by step, as commands where there are some."""
    if not isinstance(store_path, Path):
        restore = "restore the newest dump into an empty database with pg_restore, or go back in the archived log"
        return ["stop the server and all workers", restore, f"foveate doctor --db '{store_path}'"]
    path = store_path.expanduser()
    name, kept = shlex.quote(str(path)), shlex.quote(f"{path}.damaged")
    logs = f"for log in -wal -shm; do [ ! -e {name}$log ] || mv {name}$log {kept}$log; done"
    owner = path.stat()
    return [
        "stop all programs that use the store: foveate serve, foveate worker, your own",
        f"keep the damaged file: mv {name} {kept} && {logs}",
        f"with a backup: install -m 600 -o {owner.st_uid} -g {owner.st_gid} BACKUP {name}",
        f"without one, 'foveate --db {kept} export SESSION' may save what is readable; sqlite3 .recover is another try",
        f"check the result: foveate --db {name} doctor",
    ]


def _print_steps(out: Console, steps: Sequence[str]) -> None:
    if steps:
        out.print("To restore it:")
    for number, step in enumerate(steps, 1):
        out.print(line(f"  {number}. {step}"), soft_wrap=True)


def _show(out: Console, path: str, found: _Checked) -> None:
    problems = found.problems
    if not problems:
        counts = f"{several(len(found.infos), 'session')}, {several(found.checked, 'message')}"
        out.print(line(("✓", "green"), f" {path}: {counts}, all intact"))
        return
    out.print(line((f"{path}: {found.summary()}", "bold")), soft_wrap=True)
    shown = problems[:MAX_SHOWN]
    for entry, following in zip(shown, [*shown[1:], None], strict=True):
        out.print(line(("✗", "red"), f" {entry['problem']}"))
        if following is None or following["advice"] != entry["advice"]:
            out.print(line((f"  {entry['advice']}", "dim")), soft_wrap=True)
    if len(problems) > MAX_SHOWN:
        out.print(f"… and {len(problems) - MAX_SHOWN} more (--json lists all)")


def _print_unfinished(out: Console, pending: int, fallbacks: int, *, has_model: bool) -> None:
    """Print pending and fallback turns, which are no errors."""
    if pending:
        out.print(line((f"  {not_compressed(pending)}", "dim")))
    if fallbacks:
        why = "a short version lost too much, or a model failed; a longer one is used, nothing is lost"
        first = "" if has_model else "a model may do better: set models.default, then "
        advice = f"{first}'foveate store compress --all --again' retries"
        out.print(line((f"  fallbacks: {several(fallbacks, 'turn')} ({why}); {advice}", "dim")))


def _print_index(out: Console, index: IndexState) -> None:
    """Print the state of the search index."""
    makers = ", ".join(name or "words only" for name in index.vector_models) or "none"
    counts = f"{several(index.passages, 'passage')} of {several(index.turns, 'turn')}"
    out.print(line((f"  search index: {counts}, vectors by {makers}", "dim")))
    out.print(line((f"  vectors are made by {index.model}", "dim")))
    if index.problem:
        out.print(line((f"  it can't be reached now ({index.problem}); until then searches use words only", "yellow")))
    if index.missing:
        advice = "run 'foveate store compress --all', or 'foveate doctor --rebuild-index' after a change of model"
        out.print(line((f"  {several(index.missing, 'turn')} not indexed yet; {advice}", "dim")))


def _print_queue(out: Console, queue: QueueState) -> None:
    """Print the number of turns that are no longer retried."""
    advice = "'foveate worker --status' lists them, 'foveate store compress --all --again' retries"
    out.print(line((f"  parked: {several(queue.parked, 'turn')}; {advice}", "yellow")))


def _sandbox() -> dict[str, object]:
    """Report whether this machine can sandbox the commands of models."""
    from foveate.tools.sandbox.layers import detect

    layers = detect()
    return {"summary": layers.summary(), "missing": layers.missing()}
