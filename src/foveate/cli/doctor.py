"""`foveate doctor`: verify the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import json_option, opened, store_option
from foveate.cli.ui.terminal import console, line, not_compressed, print_json, progress_bar
from foveate.text import several

if TYPE_CHECKING:
    from foveate.session.values import IndexState, QueueState

MAX_SHOWN = 50


@click.command(name="doctor", short_help="Verify the store: every page, every hash, every turn.")
@click.option("--rebuild-index", is_flag=True, help="First rebuild the search index.")
@store_option
@json_option
def command(*, rebuild_index: bool, store_path: Path, as_json: bool) -> None:
    """Verify the store, and report what is wrong and what to do. The exit code is 1 if anything is wrong.

    The search index is made from the turns, so rebuilding it loses nothing. Rebuild it if it is damaged, or after
    changing recall.embeddings. It takes about a second for 500 turns.

    \b
    foveate doctor
    foveate doctor --db chat.db --json
    foveate doctor --rebuild-index
    """
    if rebuild_index:
        _rebuild(store_path, shown=not as_json)
    checked = 0
    problems: list[dict[str, str]] = []
    with opened(store_path) as fov, progress_bar(shown=not as_json) as progress:
        task = progress.add_task("checking messages", total=None)
        for finding in fov.check():
            if finding.problem:
                problems.append({"problem": finding.problem, "advice": finding.advice})
            elif finding.total:
                checked = finding.done
                progress.update(task, completed=finding.done, total=finding.total)
        stats = [fov.open_session(info.id).stats() for info in fov.sessions()] if not problems else []
        sessions = len(fov.sessions())
        index = None if problems else fov.index_state()
        database = fov.describe_database()
        queue = None if problems else fov.queue_state(limit=MAX_SHOWN)
        has_model = bool(fov.models_for("compress"))
    pending, fallbacks = sum(each.pending for each in stats), sum(each.fallbacks for each in stats)
    if as_json:
        answer = {"ok": not problems, "messages_checked": checked, "sessions": sessions, "problems": problems}
        more = {"pending_turns": pending, "fallback_turns": fallbacks, "index": index, "queue": queue}
        print_json({**answer, **more, "database": database, "sandbox": _sandbox()})
    else:
        _show(store_path, checked, sessions, problems)
        _inform(pending, fallbacks, has_model=has_model)
        if index:
            _tell_index(index)
        if queue:
            _tell_queue(queue)
        for topic, fact in database.items():
            console().print(line((f"  {topic}: {fact}", "dim")))
        console().print(line((f"  {_sandbox()['summary']}", "dim")))
    if problems:
        raise click.exceptions.Exit(1)


def _rebuild(store_path: Path, *, shown: bool) -> None:
    with opened(store_path) as fov, progress_bar(shown=shown) as progress:
        turns = sum(info.turns for info in fov.sessions())
        task = progress.add_task("indexing turns", total=turns)
        fov.rebuild_index(lambda done: progress.advance(task, done))


def _show(path: Path, checked: int, sessions: int, problems: list[dict[str, str]]) -> None:
    out = console()
    if not problems:
        counts = f"{several(sessions, 'session')}, {several(checked, 'message')}"
        out.print(line(("✓", "green"), f" {path}: {counts}, each as it was stored"))
        return
    for entry in problems[:MAX_SHOWN]:
        out.print(line(("✗", "red"), f" {entry['problem']}"))
        out.print(line((f"  {entry['advice']}", "dim")))
    if len(problems) > MAX_SHOWN:
        out.print(f"… and {len(problems) - MAX_SHOWN} more (--json lists all)")
    out.print(line(f"{path}: {several(len(problems), 'problem')}; {several(checked, 'message')} checked"))


def _inform(pending: int, fallbacks: int, *, has_model: bool) -> None:
    """What is no fault, but good to know."""
    out = console()
    if pending:
        out.print(line((f"  {not_compressed(pending)}", "dim")))
    if fallbacks:
        why = "a short version lost too much, or a model failed; a longer one is used, nothing is lost"
        first = "" if has_model else "a model may do better: set models.default, then "
        advice = f"{first}'foveate compress --all --again' tries once more"
        out.print(line((f"  fallbacks: {several(fallbacks, 'turn')} ({why}); {advice}", "dim")))


def _tell_index(index: IndexState) -> None:
    """What searches have to go by."""
    out = console()
    makers = ", ".join(name or "words only" for name in index.vector_models) or "none"
    counts = f"{several(index.passages, 'passage')} of {several(index.turns, 'turn')}"
    out.print(line((f"  search index: {counts}, vectors by {makers}", "dim")))
    out.print(line((f"  vectors are made by {index.model}", "dim")))
    if index.problem:
        out.print(line((f"  it can't be asked now ({index.problem}); searches go by words until it can", "yellow")))
    if index.missing:
        advice = "'foveate compress --all' does it, or 'foveate doctor --rebuild-index' after a change of model"
        out.print(line((f"  {several(index.missing, 'turn')} not indexed yet; {advice}", "dim")))


def _tell_queue(queue: QueueState) -> None:
    """Turns for which workers and models make no more attempts."""
    if not queue.parked:
        return
    out = console()
    advice = "'foveate worker --status' lists them, 'foveate compress --all --again' tries once more"
    out.print(line((f"  parked: {several(queue.parked, 'turn')}; {advice}", "yellow")))


def _sandbox() -> dict[str, object]:
    """Whether commands of models can be confined on this machine."""
    from foveate.tools.sandbox.layers import detect

    layers = detect()
    return {"summary": layers.summary(), "missing": layers.missing()}
