"""`foveate context`: the live context of a session, or a preview at another budget."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import TOKENS, read_utf8
from foveate.cli.ui.terminal import (
    Column,
    console,
    line,
    not_compressed,
    print_exactly,
    print_json,
    print_table,
    timeline_width,
    to_copy,
)
from foveate.errors import Damaged

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session import ProviderFormat
    from foveate.session.values import Context
    from foveate.sync import Foveate, Session

REASON_COLUMNS = (
    Column("message"),
    Column("of"),
    Column("became"),
    Column("tokens", "number"),
    Column("shown", "number"),
    Column("why"),
)
EACH = "each message"
"""The value of `--why` without a turn."""
UNFINISHED = {"meanwhile", "uncompressed"}
"""Notes of a plan whose strategy is still being built, or whose turns are not all compressed."""


@store_command("context", "What a model would get now: a picture, the text, or a request.")
@click.option("--prompt", default="", metavar="TEXT", help="The next prompt.")
@click.option("--budget", type=TOKENS, metavar="TOKENS", help="Preview at a different budget, e.g. 8k.")
@click.option(
    "--system",
    "system_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the system prompt.",
)
@click.option("--strategy", metavar="NAME", help="Preview with a different strategy.")
@click.option(
    "--why",
    is_flag=False,
    flag_value=EACH,
    metavar="[TURN]",
    help="Why a turn is shown as it is, and how to show more of it. Without TURN: each message (hybrid).",
)
@click.option("--text", "as_text", is_flag=True, help="Print the text of the request, message by message.")
@click.option(
    "--request",
    "format_name",
    metavar="FORMAT",
    help="Print the request: openai, openai-responses, anthropic or gemini.",
)
def command(
    fov: Foveate,
    session: Session,
    *,
    session_id: str,
    prompt: str,
    budget: int | None,
    system_path: Path | None,
    strategy: str | None,
    why: str | None,
    as_text: bool,
    format_name: ProviderFormat | None,
) -> Answer:
    """Show the context that a model would get: which turns at which level, and their tokens.

    At the session's own budget it is the live context, and its plan is saved. A different budget or strategy makes a
    preview, which is planned from scratch and not saved.

    \b
    foveate context demo                       live
    foveate context demo --budget 8000         preview
    foveate context demo --strategy topics     preview
    foveate context demo --prompt "Which port did we choose?" --request anthropic
    foveate context demo --text | less
    foveate context demo --why T-42            why this turn is shown as it is
    foveate context agent --why                what each message became (hybrid)
    """
    ask = partial(
        session.context,
        prompt,
        budget_tokens=budget,
        system=read_utf8(system_path) if system_path else "",
        strategy=strategy,
    )
    context = ask()
    if context.planned.notes.keys() & UNFINISHED and fov.settings.compress.enabled:
        # A person would rather wait for local work to finish, but not for models, which cost money.
        is_strategy = "meanwhile" in context.planned.notes
        try:
            fov.settle(session_id=session.id) if is_strategy else fov.prepare(session.id)
        except Damaged as error:  # the damaged turn may not even be in this context
            console(stderr=True).print(line((f"{error}", "yellow")), soft_wrap=True)
        context = ask()
    request = context.request(format_name) if format_name and not as_text else {}
    warn_of_strategy(session)
    if why:
        return _reasons(session, context) if why == EACH else _reason(session, context, why)
    if as_text:
        text = context.sent_text
        value = {"text": text, "tokens": context.tokens, "budget_tokens": context.budget_tokens}
        return Answer(value, lambda _: print_exactly(text))
    if format_name:
        return Answer(request, lambda _: print_json(request))
    is_other = context.planned.strategy != session.info.strategy
    one_off = context.budget_tokens != session.info.budget_tokens or is_other
    pending = session.stats().pending
    picture = session.picture(context, columns=timeline_width())

    def show(out: Console) -> None:
        from foveate.cli.ui.picture import draw

        changed = ("--budget", str(budget)) if budget else ()
        call = to_copy("context", session_id, *changed, *(("--strategy", strategy) if strategy else ()))
        draw(out, context, picture, one_off=one_off, is_other=is_other, call=call)
        if pending:
            out.print(line((f"{not_compressed(pending, session_id)}.", "yellow")))

    return Answer(_as_json(context, one_off=one_off, pending=pending), show)


def _reason(session: Session, context: Context, turn: str) -> Answer:
    """Explain one turn."""
    from foveate.cli.ui.picture import draw_reason

    reason = session.explain_turn(turn, context)
    return Answer(
        asdict(reason), lambda out: draw_reason(out, reason, to_copy("sessions", "levels", session.id, reason.id))
    )


def _reasons(session: Session, context: Context) -> Answer:
    """Print a line for each message: its form, its tokens before and after, and the reason."""
    reports = session.message_reports(context)

    def show(out: Console) -> None:
        rows = [
            (f"{one.turn}.{one.position}", one.speaker, one.form, f"{one.tokens:,}", f"{one.shown_tokens:,}", one.why)
            for one in reports
        ]
        print_table(out, REASON_COLUMNS, rows)

    return Answer([asdict(one) for one in reports], show)


def warn_of_strategy(session: Session) -> None:
    """Print a warning if a session is shown by a fallback strategy."""
    if problem := session.strategy_problem:
        console(stderr=True).print(line((f"{session.id}: {problem}", "yellow")), soft_wrap=True)


def _as_json(context: Context, *, one_off: bool, pending: int) -> dict[str, object]:
    from foveate.session.picture import bands_of

    segments = [{name: value for name, value in asdict(part).items() if name != "text"} for part in context.segments]
    planned = context.planned
    return {
        "tokens": context.tokens,
        "budget_tokens": context.budget_tokens,
        "one_off": one_off,
        "strategy": planned.strategy,
        "notes": planned.notes,
        "history_room_tokens": planned.room_tokens,
        "cached_share": context.stable_tokens / max(1, context.tokens),
        "bands": bands_of(context),
        "plan": {
            "cause": planned.cause,
            "is_new": planned.is_new,
            "last_turn": planned.last_turn,
            "tokens": planned.tokens,
            "raw_tokens": planned.raw_tokens,
            "compression_ratio": planned.compression_ratio,
            "changed_share": planned.changed_share,
            "made_at": planned.made_at,
            "trigger_turn": planned.trigger_turn,
            "turns_without_words": planned.turns_without_words,
        },
        "changes": planned.changes,
        "prefetched": [entry.name for entry in context.board.prefetched],
        "segments": segments,
        "pending_turns": pending,
    }
