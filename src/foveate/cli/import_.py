"""`foveate import`: import transcripts."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import opened
from foveate.cli.ui.terminal import Column, console, line, print_table, printable, progress_bar, to_copy
from foveate.errors import FoveateError, InputError
from foveate.text import amount, several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from foveate.importer import ImportedSession, ImportReport
    from foveate.sync import Foveate

SUFFIXES = (".jsonl", ".json", ".traj", ".zip", ".md", ".vscdb")
NAMES = ("opencode.db",)
STDIN = Path("-")
COLUMNS = (
    Column("session", "fold"),
    Column("format"),
    Column("turns", "number"),
    Column("messages", "number"),
    Column("new", "number"),
)
HEAD_BYTES = 4_096
MAX_SESSIONS_SHOWN = 40
MAX_PROBLEMS_SHOWN = 20
MAX_RENAMED_SHOWN = 10
MAX_FAILURES_SHOWN = 5


@store_command("import", "Import transcripts, files or whole folders.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "format_name", metavar="NAME", help="The files' format. Default: detected.")
@click.option("--session", "session_id", metavar="ID", help="The session's id, for a single file.")
@click.option(
    "--compress/--no-compress",
    "compress",
    default=None,
    help="Also index and compress what is new, now. Default: ask in a terminal, else later.",
)
def command(
    *,
    paths: tuple[Path, ...],
    format_name: str | None,
    session_id: str | None,
    compress: bool | None,
    store_path: Path,
    as_json: bool,
) -> Answer:
    """Import transcripts: files, or folders that are searched for them.

    Claude Code, Codex, Gemini CLI, OpenCode, Cline, Cursor, Copilot Chat, pi, Aider, exports of ChatGPT and claude.ai
    (also zipped), sessions of the OpenAI Agents SDK, LangChain messages and LangSmith runs, SWE-agent, tau-bench and
    plain JSONL are detected automatically; - reads standard input. Importing again adds only what is new, and keeps a
    title, labels, a model or a budget that you changed. A file without a session id becomes a session with the file's
    name; a different file with that name becomes talk-2.
    Unreadable records are listed, and the exit code is then 1. The model that a transcript names is stored as
    information only; it is never called.

    \b
    foveate import ~/.claude/projects
    foveate import ~/.codex/sessions ~/Downloads/chatgpt-export.zip
    foveate import talk.jsonl --session support-42
    ssh host cat talk.jsonl | foveate import -
    """
    with _given(paths) as named:
        files = list(_files(named))
        if session_id and len(files) != 1:
            raise InputError(f"--session is for a single file; got {len(files)}")
        with opened(store_path, create=True) as fov:
            reports, failures = _import_all(fov, files, format_name, session_id, shown=not as_json)
            found = [session.id for report in reports for session in report.sessions]
            if not as_json:
                _show(console(), reports, failures, is_named=session_id is not None)
            left = _compress(fov, found, compress, shown=not as_json)
    is_whole = any(report.sessions for report in reports) and not any(report.problems for report in reports)
    return Answer(
        {"reports": [asdict(report) for report in reports], "failures": failures},
        lambda out: _show_left(out, left),
        0 if is_whole and not failures else 1,
    )


@contextmanager
def _given(paths: tuple[Path, ...]) -> Iterator[tuple[Path, ...]]:
    """Yield the paths, with `-` replaced by a temporary file that holds standard input."""
    if STDIN not in paths:
        yield paths
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / "stdin"
        with file.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        with file.open("rb") as copy:
            start = copy.read(HEAD_BYTES).lstrip()[:1]
        # The format is detected from the content; the suffix only tells JSON from other text.
        named = file.rename(file.with_suffix({b"{": ".jsonl", b"[": ".json", b"P": ".zip"}.get(start, ".md")))
        yield tuple(named if path == STDIN else path for path in paths)


def _files(paths: tuple[Path, ...]) -> Iterator[Path]:
    for given in paths:
        path = given.expanduser()
        if path.is_dir():
            files = (file for file in path.rglob("*") if file.suffix in SUFFIXES or file.name in NAMES)
            found = sorted(file for file in files if file.is_file())
            if not found:
                raise InputError(f"{given}: no transcripts in this folder (looked for {', '.join(SUFFIXES)})")
            yield from found
        elif path.exists():
            yield path
        else:
            raise InputError(f"{given}: there is no such file or folder")


def _import_all(
    fov: Foveate, files: list[Path], format_name: str | None, session_id: str | None, *, shown: bool
) -> tuple[list[ImportReport], list[str]]:
    reports: list[ImportReport] = []
    failures: list[str] = []
    sizes = {path: path.stat().st_size for path in files}
    before = 0
    with progress_bar(shown=shown, is_bytes=True) as progress:
        task = progress.add_task("importing", total=sum(sizes.values()))
        for path in files:
            progress.update(task, description=printable(path.name[-40:]))
            advance = partial(_advance, progress, task, before)
            try:
                reports.append(fov.import_file(path, format=format_name, session_id=session_id, progress=advance))
            except InputError as error:
                failures.append(str(error))
            before += sizes[path]
            progress.update(task, completed=before)
    if not reports and len(failures) == 1:
        raise FoveateError(failures[0])
    return reports, failures


def _compress(fov: Foveate, ids: list[str], chosen: bool | None, *, shown: bool) -> int:
    """Index and compress sessions, if that is wanted; return how many turns are left for later."""
    pending = sum(fov.open_session(name).stats().pending for name in ids)
    if not pending or not fov.settings.compress.enabled:
        return 0
    if chosen is None:
        model = fov.settings.models.default
        by_whom = f" (with {model}; rules first)" if model else ""
        question = f"Index and compress {several(pending, 'turn')} now{by_whom}? Until then search may miss older ones."
        is_asked = shown and sys.stdin.isatty() and sys.stdout.isatty()
        with suppress(click.Abort):  # the import itself is done
            chosen = is_asked and click.confirm(question, default=True, err=True)
    if not chosen:
        return pending
    with progress_bar(shown=shown) as progress:
        task = progress.add_task("compressing", total=pending)
        for name in ids:
            fov.settle(session_id=name, progress=partial(progress.advance, task))
    return 0


def _advance(progress: Progress, task: TaskID, before: int, done: int) -> None:
    progress.update(task, completed=before + done)


def _print_renamed(out: Console, rows: list[tuple[ImportReport, ImportedSession]]) -> None:
    """Print the sessions that were renamed because another file had their name."""
    renamed = [(report, session) for report, session in rows if session.id != session.name]
    for report, session in renamed[:MAX_RENAMED_SHOWN]:
        out.print(line(f"{report.source} became {session.id}: the session {session.name} is of another file"))
    if len(renamed) > MAX_RENAMED_SHOWN:
        out.print(f"… and {len(renamed) - MAX_RENAMED_SHOWN} more like that (--json lists them)")


def _skipped(reports: list[ImportReport], failures: list[str]) -> str:
    """Summarise in one line what was not imported."""
    empty = sum(not report.sessions and not report.problems for report in reports)
    sessions = sum(report.skipped_sessions for report in reports if report.sessions)
    parts = (
        (len(failures), "unreadable file"),
        (empty, "file without a conversation", "files without a conversation"),
        (sessions, "session without a message", "sessions without a message"),
    )
    return ", ".join(several(count, *words) for count, *words in parts if count)


def _show(out: Console, reports: list[ImportReport], failures: list[str], *, is_named: bool) -> None:
    rows = [(report, session) for report in reports for session in report.sessions]
    lines = []
    for report, session in rows[:MAX_SESSIONS_SHOWN]:
        new = line((f"+{session.added}", "green") if session.added else ("0", "dim"))
        lines.append((session.id, report.format, str(session.turns), str(session.found), new))
    if lines:
        print_table(out, COLUMNS, lines)
    if len(rows) > MAX_SESSIONS_SHOWN:
        more = several(len(rows) - MAX_SESSIONS_SHOWN, "more session")
        out.print(f"… and {more} ('foveate sessions' lists all)")
    if not is_named:
        _print_renamed(out, rows)
    problems = [(Path(report.source).name, problem) for report in reports for problem in report.problems]
    for source, problem in problems[:MAX_PROBLEMS_SHOWN]:
        out.print(line(("not read", "yellow"), f"  {source}, {problem.place}: {problem.reason}"))
    if len(problems) > MAX_PROBLEMS_SHOWN:
        out.print(f"… and {len(problems) - MAX_PROBLEMS_SHOWN} more (--json lists them)")
    for failure in failures[:MAX_FAILURES_SHOWN]:
        out.print(line(("skipped", "yellow"), f"  {failure}"))
    if skipped := _skipped(reports, failures):
        out.print(line((f"Skipped: {skipped} (--json lists them).", "yellow")))
    found, added = sum(report.found for report in reports), sum(report.added for report in reports)
    size = sum(report.bytes_read for report in reports)
    unread = len(problems) + sum(report.unlisted_problems for report in reports)
    note = f", {several(unread, 'line')} not read" if unread else ""
    total = f"{several(len(rows), 'session')}, {several(found, 'message')}, {added:,} of them new"
    out.print(line(total, (note, "yellow"), f"; {amount(size)}B read"))


def _show_left(out: Console, left: int) -> None:
    if left:
        now = f"'{to_copy('store', 'compress', '--all')}' does it now"
        waiting = f"Not indexed and compressed yet: {several(left, 'turn')}"
        out.print(line(f"{waiting}. {now}; any program that opens the store does it later."))
