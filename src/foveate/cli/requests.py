"""`foveate requests`: what the gateway sent to providers for a session, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, Cells, listing, print_values, store_command
from foveate.cli.ui.terminal import Column, line, moment
from foveate.text import amount, several

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.sent import RequestPart, SentRequest
    from foveate.sync import Foveate

REQUEST_PREFIX = "req_"
CELLS: Cells[SentRequest] = {
    Column("request", "number"): lambda one: str(one.number),
    Column("time"): lambda one: moment(one.at),
    Column("turn", expendable=3): lambda one: one.turn_id or "",
    Column("model", "cut"): lambda one: one.model,
    Column("status", "number", expendable=4): lambda one: str(one.status),
    Column("tokens", "number"): lambda one: amount(one.input_tokens or one.tokens),
    Column("cached", "number"): lambda one: one.cached,
    Column("price", "number", expendable=1): lambda one: f"${one.usd:.4f}",
    Column("since the one before"): lambda one: one.changes,
    Column("id", "cut", expendable=2): lambda one: one.request_id,
}
PART_CELLS: Cells[RequestPart] = {
    Column("part"): lambda part: part.name,
    Column("role", "cut"): lambda part: part.role,
    Column("tokens", "number"): lambda part: amount(part.tokens),
    Column("change"): lambda part: part.change,
}


@store_command("requests", "Requests of a session as the gateway sent them.")
@click.argument("session_id", metavar="SESSION|REQUEST_ID")
@click.argument("number", metavar="[N]", type=click.IntRange(1), required=False)
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Newest requests to list.")
@click.option("--body", "is_body", is_flag=True, help="Print the body alone, exactly as sent.")
def command(fov: Foveate, *, session_id: str, number: int | None, limit: int, is_body: bool) -> Answer:
    """List the newest requests of a session as the gateway sent them, or show one: its picture, its parts, and what
    changed since the one before. A request is also found by its id alone, e.g. from the log or the header
    X-Foveate-Request-Id of an answer. The list has cached tokens as "reported of predicted". The server keeps the last
    server.kept_requests (50) of each session, without headers and keys.

    \b
    foveate requests demo
    foveate requests demo 12
    foveate requests demo 12 --body > request.json
    foveate requests req_60952f6201308e8c
    """
    if number is None and session_id.startswith(REQUEST_PREFIX):
        found = fov.find_request(session_id)
    elif number is not None:
        found = fov.find_session(session_id).request(number)
    elif is_body:
        raise click.UsageError("--body needs the number or the id of a request.")
    else:
        listed = fov.find_session(session_id).requests(limit)
        return listing(listed, CELLS, empty="No request of this session is kept.")
    if is_body:
        return Answer(found, lambda _: click.echo(found.body or "", nl=False))
    return Answer(found, lambda out: _show(out, found))


def _show(out: Console, found: SentRequest) -> None:
    from foveate.cli.ui.picture import draw_picture
    from foveate.session.picture import cause_name

    out.print(
        line((f"Request {found.number}", "bold"), f" ({found.request_id}), {moment(found.at)}, {found.turn_id or ''}")
    )
    out.print(line(f"POST {found.path} to {found.provider}: {found.status}, {several(found.bytes, 'byte')}"))
    if found.body is None:
        out.print(line(("Its body is no longer readable: what it differs from was removed.", "yellow")))
        return
    if found.picture is not None:
        draw_picture(out, found.picture)
        out.print()
    print_values(out, PART_CELLS, found.parts)
    since = "first request that is kept" if found.previous is None else f"since request {found.previous}"
    if found.kept_tokens is not None:
        changes = (
            f"{amount(found.kept_tokens)} tokens kept, {amount(found.rewritten_tokens or 0)} rewritten, "
            f"{amount(found.appended_tokens or 0)} appended"
        )
        out.print(line(f"{changes} ({since})."))
    if found.cause:
        out.print(line(f"Its plan was made anew: {cause_name(found.cause)}."))
    predicted = f"{amount(found.predicted_tokens)} were" if found.predicted_tokens else "none were"
    cached = f"The provider reported {amount(found.cached_tokens)} cached tokens; {predicted} predicted."
    out.print(line(f"{cached} ${found.usd:.4f}."))
