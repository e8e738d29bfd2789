"""`foveate compare`: one history through several strategies at several budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import opened, read_tokens
from foveate.cli.ui.terminal import Column, line, print_table, shorten
from foveate.errors import InputError, SessionNotFound
from foveate.text import amount, several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

    from foveate.replay.report import Comparison, StrategyRun
    from foveate.replay.script import Surroundings
    from foveate.sync import Session
    from foveate.turn import Json, Turn

DEMO = "demo"
"""Platform of the sessions that `foveate demo` creates."""
DOCUMENTS = ("goals", "epic", "tasks")
BEST = "bold green"
MAX_NEEDLES_NAMED = 5
NEEDLE_CHARS = 40


@dataclass(frozen=True, slots=True)
class Subject:
    """The session to compare strategies on: its turns, title and facts."""

    name: str
    turns: list[Turn]
    model: str | None
    around: Surroundings
    strategy_settings: Mapping[str, Mapping[str, Json]]
    planted: tuple[str, ...]
    """Facts planted in the demo conversation, each mentioned once."""
    note: str = ""


def _amounts(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[int, ...]:
    """Parse numbers of tokens, e.g. 16k,64k."""
    try:
        amounts = [read_tokens(word) for word in value.split(",")]
    except InputError as error:
        raise click.BadParameter(f"{error}; several are separated by commas, e.g. 16k,64k") from error
    return tuple(dict.fromkeys(amounts))


@store_command("compare", "Replay a history through several strategies: what each keeps, and its price.")
@click.argument("subject", metavar="SESSION|FILE")
@click.option("--strategies", metavar="NAMES", help="Comma-separated, e.g. gradient,standard. Default: all.")
@click.option("--budgets", callback=_amounts, default="16k,64k", show_default=True, help="Tokens of a prompt.")
@click.option("--needle", "needles", multiple=True, metavar="TEXT", help="Look for it in the last context; repeatable.")
@click.option("--every", type=click.IntRange(min=1), metavar="N", help="Make one call in N. Default: all, unless slow.")
@click.option("--turns", "limit", type=click.IntRange(min=1), metavar="N", help="Only the first N turns.")
@click.option("--html", "page_path", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with plots.")
def command(
    progress: Progress,
    *,
    subject: str,
    strategies: str | None,
    budgets: tuple[int, ...],
    needles: tuple[str, ...],
    every: int | None,
    limit: int | None,
    page_path: Path | None,
    store_path: Path,
) -> Answer:
    """Replay a session or a transcript through each strategy and budget; report what each keeps and costs.

    Each assistant message counts as one model call with the live context of a session with this budget, not a preview.
    Nothing is sent, and the session is not changed. A transcript is imported into a temporary store. A long
    conversation is sampled; the report says which calls were made.

    \b
    foveate compare demo
    foveate compare ~/.claude/projects/x/session.jsonl --budgets 32k --html report.html
    foveate compare demo --strategies gradient,standard --needle "port 8443"
    """
    names = [name.strip() for name in (strategies or "").split(",") if name.strip()]
    if strategies is not None and not names:
        raise InputError("--strategies names none; omit it to compare all")
    _check(names)
    found = _find(subject, store_path, limit)
    if not found.turns:
        raise InputError(f"{found.name} has no turns to compare")
    compared = _compared(found, names, budgets, (*needles, *found.planted), every=every, progress=progress)
    if page_path:
        from foveate.replay.page import write_page

        _write(page_path, write_page(found.name, compared))

    def print_tables(out: Console) -> None:
        from foveate.cli.compare import show

        if found.note:
            out.print(line((found.note, "yellow")))
        show(out, found.name, compared)
        if page_path:
            out.print(line(("The plots are in ", "dim"), str(page_path)))

    value = {"subject": found.name, "note": found.note, **compared.summary()}
    return Answer(value, print_tables, 1 if any(run.overruns for run in compared.runs) else 0)


def _check(names: list[str]) -> None:
    """Reject unknown strategies before anything is read."""
    from foveate.settings import check_strategy

    for name in names:
        check_strategy(name)


def _find(subject: str, store_path: Path, limit: int | None) -> Subject:
    """Read the file of this name, or the session if there is no such file."""
    path = Path(subject).expanduser()
    if path.is_file():
        return _read_file(path, limit)
    if path.is_dir():
        raise InputError(f"{subject} is a folder; name one transcript in it, or a session")
    try:
        with opened(store_path) as fov:
            return _read_session(fov.find_session(subject), limit)
    except SessionNotFound as error:
        if path.suffix or len(path.parts) > 1:
            raise InputError(f"{subject}: there is no such file, and no session of this name") from error
        raise


def _read_file(path: Path, limit: int | None) -> Subject:
    """Import a transcript into a temporary store and read its longest session."""
    import tempfile

    from foveate import sync
    from foveate.settings import load_settings

    raw = load_settings(overrides={"compress": {"enabled": False}, "store": {"synchronous": "normal"}})
    with (
        tempfile.TemporaryDirectory(prefix="foveate-compare-") as folder,
        sync.open(Path(folder) / "read.db", settings=raw) as fov,
    ):
        report = fov.import_file(path)
        if not report.sessions:
            raise InputError(f"{path}: no conversation was found in it (read as {report.format})")
        longest = max(report.sessions, key=lambda session: session.found)
        found = _read_session(fov.open_session(longest.id), limit)
    notes = []
    if len(report.sessions) > 1:
        notes.append(f"{longest.id} is the longest of {len(report.sessions):,} sessions in it.")
    unread = len(report.problems) + report.unlisted_problems
    if unread:
        notes.append(f"Not read: {several(unread, 'record')}; 'foveate import' says why.")
    return replace(found, name=path.name, note=" ".join(notes))


def _read_session(session: Session, limit: int | None) -> Subject:
    from foveate.replay.script import Surroundings

    info = session.info
    turns = session.load_turns(1, limit)
    documents = {name: session.documents.get(name) for name in DOCUMENTS}
    return Subject(
        name=info.id,
        turns=turns,
        model=info.model,
        around=Surroundings(info.title, tuple(pin.text for pin in session.pins()), documents),
        strategy_settings={info.strategy: info.strategy_settings} if info.strategy_settings else {},
        planted=_planted(turns) if info.platform == DEMO else (),
    )


def _planted(turns: list[Turn]) -> tuple[str, ...]:
    """Return the facts that `foveate demo` planted in these turns."""
    from foveate.demo import MAX_TURNS, load_conversation
    from foveate.text import turn_text

    facts = load_conversation(min(len(turns), MAX_TURNS)).facts
    return tuple(fact.needle for fact in facts if fact.needle in turn_text(turns[fact.turn - 1].messages))


def _compared(
    found: Subject,
    names: list[str],
    budgets: tuple[int, ...],
    needles: tuple[str, ...],
    *,
    every: int | None,
    progress: Progress,
) -> Comparison:
    import asyncio

    from foveate.replay.compare import compare
    from foveate.settings import strategy_names

    runs = len(budgets) * len(set(names) or strategy_names())
    task = progress.add_task("comparing", total=len(found.turns) * (1 + runs))
    return asyncio.run(
        compare(
            found.turns,
            strategies=names,
            budgets_tokens=budgets,
            needles=needles,
            strategy_settings=found.strategy_settings,
            model=found.model,
            around=found.around,
            every=every,
            progress=partial(progress.advance, task),
        )
    )


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, "utf-8")
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror}") from error


def show(out: Console, name: str, compared: Comparison) -> None:
    title = f"{name}: " if not compared.title else f"{name}, {shorten(compared.title, 60)}: "
    out.print(line((title, "bold"), f"{several(compared.turns, 'turn')}, {amount(compared.raw_tokens)} tokens"))
    took = f"{compared.seconds:.0f} s with {several(compared.processes, 'process', 'processes')}"
    out.print(line((compared.recommendation, "bold")))
    out.print(line((f"{compared.sampled()}; {several(compared.facts, 'fact')}; {took}", "dim")))
    for budget in compared.budgets:
        out.print(line((f"\nAt {budget:,} tokens", "bold"), ("  (* best of its row)", "dim")))
        _show_figures(out, compared, budget)
        if alike := compared.alike(budget):
            out.print(line((alike, "dim")))
        out.print(line(("\nTurns at each level, % at the end/on average", "dim")))
        _show_levels(out, compared.at(budget))
        out.print()
        for run in compared.at(budget):
            out.print(line((f"{run.strategy}: ", "bold"), compared.words(run)))
    out.print(line(("\nThe columns:", "bold")))
    for run in compared.at(compared.budgets[0]) if compared.budgets else ():
        out.print(line((f"{run.strategy}: ", "bold"), run.what))
    out.print(line(("The rows:", "bold")))
    for figure in compared.figures:
        out.print(line((f"{figure.name}: ", "dim"), figure.what))
    unsaid = [needle.text for needle in compared.runs[0].needles if needle.turn is None] if compared.runs else []
    if unsaid:
        named = ", ".join(repr(shorten(text, NEEDLE_CHARS)) for text in unsaid[:MAX_NEEDLES_NAMED])
        out.print(line((f"\nNot in the conversation, so no strategy can find it: {named}", "yellow")))


def _show_figures(out: Console, compared: Comparison, budget: int) -> None:
    runs = compared.at(budget)
    rows: list[list[str | Text]] = []
    for figure in compared.differing(budget):
        won = compared.winners(figure, budget)
        cells: list[str | Text] = [figure.name]
        for run in runs:
            text = figure.text(figure.value(run))
            cells.append(line((f"*{text}", BEST)) if run.strategy in won else text)
        rows.append(cells)
    print_table(out, [Column(""), *(Column(run.strategy, "number") for run in runs)], rows)


def _show_levels(out: Console, runs: tuple[StrategyRun, ...]) -> None:
    from foveate.session.picture import ABSENT, FIDELITY, level_name

    levels: list[str] = [
        level
        for level in (*FIDELITY, ABSENT)
        if any(level in run.strip or run.levels_on_average.get(level) for run in runs)
    ]
    rows = [[run.strategy, *(_shares(run, level) for level in levels)] for run in runs]
    heads = ["absent" if level == ABSENT else level for level in levels]
    print_table(out, [Column(""), *(Column(head, "number") for head in heads)], rows)
    named = (f"{head} {level_name(level)}" for head, level in zip(heads, levels, strict=True))
    out.print(line((", ".join(named), "dim")))


def _shares(run: StrategyRun, level: str) -> str:
    at_end, average = run.levels_at_end.get(level, 0.0), run.levels_on_average.get(level, 0.0)
    return f"{at_end:.0%}/{average:.0%}".replace("%", "") if at_end or average else ""
