"""`foveate erase`: erase turns or a text everywhere in the store; without --yes, a preview."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foveate.cli.export import write_new
from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import yes_option
from foveate.cli.ui.terminal import line
from foveate.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.erase import EraseReport, Erasure
    from foveate.sync import Foveate


@store_command("erase", "Erase turns or a text everywhere; without --yes, a preview.")
@click.argument("session_id", metavar="[SESSION]", required=False)
@click.argument("turns", metavar="[T-n]...", nargs=-1)
@click.option("--text", metavar="TEXT", help="Erase this text, exactly as written, wherever it occurs.")
@click.option("--all", "everywhere", is_flag=True, help="With --text: in all sessions.")
@click.option("--forks", is_flag=True, help="Also for the forks that read these turns.")
@click.option("--pins", is_flag=True, help="Also the pins that quote it.")
@click.option(
    "--export", "file", type=click.Path(path_type=Path), metavar="FILE", help="First write what would be erased."
)
@click.option("--log", "shows_log", is_flag=True, help="List what was erased in the session, when and by whom.")
@click.option("--sweep", is_flag=True, help="Finish an interrupted erasure: overwrite the free pages of the file.")
@yes_option("Erase it. Without this nothing changes.")
def command(
    fov: Foveate,
    *,
    session_id: str | None,
    turns: tuple[str, ...],
    text: str | None,
    everywhere: bool,
    forks: bool,
    pins: bool,
    file: Path | None,
    shows_log: bool,
    sweep: bool,
    yes: bool,
) -> Answer:
    """Erase turns, or one text, and everything made from them: renditions, eras, checkpoints, topics, plans, boards,
    search entries, whole tool results, stored responses, and what was learned from them.

    An erased turn keeps its id, size and time. A text is replaced by [erased] in every message, document, goal, title
    and item of knowledge; upper and lower case count. The file is rewritten at the end, so that its free pages have
    nothing of it. Copies are out of reach: backups, exports, transcripts of clients, and what models were sent.

    \b
    foveate erase demo T-4                       preview
    foveate erase demo T-4 --yes
    foveate erase demo --text "hunter2" --yes
    foveate erase --all --text "hunter2" --yes
    """
    by = f"{getpass.getuser()} (command line)"
    if everywhere and (session_id or text is None):
        raise InputError("--all takes --text and no session")
    if session_id is None and not everywhere:
        raise InputError("name a session, or use --all with --text")
    if shows_log and session_id:
        log = fov.find_session(session_id).erasures()
        return Answer(log, lambda out: _show_log(out, log))
    if sweep:
        rest = fov.overwrite_erased()
        return Answer({"rest": rest}, rest or "Nothing erased is left in the file.")
    if bool(turns) == (text is not None):
        raise InputError("give turns, e.g. T-4, or --text")
    chosen = {"forks": forks, "pins": pins, "by": by}
    reports = _erase(fov, session_id, turns, text, {**chosen, "dry_run": True})
    if file is not None:
        write_new(file.expanduser(), _content(fov, reports))
    if yes:
        reports = _erase(fov, session_id, turns, text, {**chosen, "dry_run": False})
    value = {"erased": yes and any(report.is_erased for report in reports), "sessions": reports, "export": file}
    return Answer(value, lambda out: _show(out, reports, file, yes=yes))


def _erase(
    fov: Foveate, session_id: str | None, turns: tuple[str, ...], text: str | None, chosen: dict[str, Any]
) -> list[EraseReport]:
    if session_id is None:
        return fov.erase_text(text or "", **chosen)
    return [fov.find_session(session_id).erase(*turns, text=text, **chosen)]


def _content(fov: Foveate, reports: list[EraseReport]) -> list[str]:
    """Return what would be erased, as JSON: the turns as an export has them."""
    found = []
    for report in reports:
        session = fov.open_session(report.session_id)
        turns = [json.loads("".join(session.export("json", first=turn, last=turn)))["turns"] for turn in report.turns]
        pins = [{"id": pin.id, "session": pin.session_id, "text": pin.text} for pin in report.pins]
        listed = [turn for part in turns for turn in part]
        found.append({"session": report.session_id, "turns": listed, "pins": pins, "counts": dict(report.counts)})
    return [json.dumps({"foveate_erasure": 1, "sessions": found}, ensure_ascii=False, indent=2), "\n"]


def _show(out: Console, reports: list[EraseReport], file: Path | None, *, yes: bool) -> None:
    if file is not None:
        out.print(f"Wrote {file}.")
    if not any(report.counts or report.pins for report in reports):
        out.print("Nothing to erase: it does not occur.")
        return
    for report in reports:
        head = "Erased in" if report.is_erased else "Would erase in"
        turns = f": {', '.join(report.turns)}" if report.turns else ""
        out.print(line((f"{head} {report.session_id}{turns}", "bold")), soft_wrap=True)
        for name, count in report.counts.items():
            out.print(line(f"  {count:>9,}  {name}"))
        if report.forks:
            lose = "lost them too" if report.is_erased else "lose them too (--forks)"
            out.print(line(f"  Forks that read these turns: {', '.join(report.forks)}; they {lose}"), soft_wrap=True)
        for pin in report.pins:
            out.print(line(f"  {pin.id} of {pin.session_id} quotes it; --pins erases it: {pin.text}"), soft_wrap=True)
        if report.kept_items:
            kept = ", ".join(report.kept_items)
            out.print(
                line(f"  Kept, because a person decided on them: {kept}; see 'foveate knowledge'"), soft_wrap=True
            )
    if not yes:
        out.print("Nothing was changed; --yes erases it.")
    for note in dict.fromkeys(note for report in reports for note in report.notes):
        out.print(line(f"{note}."), soft_wrap=True)


def _show_log(out: Console, log: list[Erasure]) -> None:
    if not log:
        out.print("Nothing was erased in this session.")
    for row in log:
        what = ", ".join(row.turns) or "no turn"
        kind = "a text in " if row.kind == "text" else ""
        rest = "" if row.overwritten_at else "; free pages not overwritten yet"
        out.print(line(f"{row.at:%Y-%m-%d %H:%M} UTC  {kind}{what}, by {row.by or 'a program'}{rest}"), soft_wrap=True)
