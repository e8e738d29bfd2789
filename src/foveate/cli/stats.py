"""`foveate stats`: sizes of sessions and of the store; with `--cost`, model calls and their price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, Cells, print_values, store_command
from foveate.cli.ui.options import StoreUrl
from foveate.cli.ui.terminal import Column, line, moment, reliable, waiting_for_model
from foveate.text import amount, several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from foveate.session.values import (
        CostRow,
        ModelsSettings,
        ProviderState,
        Reliability,
        SessionStats,
        SpendDimension,
        SpendRow,
    )
    from foveate.sync import Foveate

CELLS: Cells[_Row] = {
    Column("session", "fold"): lambda row: row.name,
    Column("turns", "number"): lambda row: str(row.stats.turns),
    Column("messages", "number", expendable=5): lambda row: str(row.stats.messages),
    Column("calls", "number", expendable=6): lambda row: str(row.stats.tool_calls),
    Column("tokens", "number"): lambda row: amount(row.stats.tokens),
    Column("raw", "number", expendable=3): lambda row: f"{amount(row.stats.raw_bytes)}B",
    Column("stored", "number"): lambda row: f"{amount(row.stats.stored_bytes)}B",
    Column("ratio", "number", expendable=4): lambda row: f"{row.stats.compression_ratio:.1f}x",
    Column("compressed", "number", expendable=2): lambda row: f"{row.done} of {row.done + row.stats.pending}",
    Column("by model", "number", expendable=1): lambda row: (
        f"{row.stats.by_model} (+{row.stats.waiting} queued)" if row.stats.waiting else str(row.stats.by_model or "")
    ),
    Column("fallbacks", "number", expendable=1): lambda row: str(row.stats.fallbacks or ""),
    Column("reliability", expendable=2): lambda row: reliable(row.trust),
    Column("first", expendable=8): lambda row: moment(row.stats.first_at),
    Column("last", expendable=7): lambda row: moment(row.stats.last_at),
}
COST_CELLS: Cells[CostRow] = {
    Column("day"): lambda row: row.day,
    Column("session", "cut"): lambda row: row.session_id or "-",
    Column("purpose"): lambda row: row.purpose,
    Column("model", "cut"): lambda row: row.model,
    Column("calls", "number"): lambda row: str(row.calls),
    Column("failed", "number", expendable=4): lambda row: str(row.failed),
    Column("unfit", "number", expendable=5): lambda row: str(row.unfit),
    Column("seconds", "number", expendable=6): lambda row: f"{row.latency_us / row.calls / 1_000_000:.1f}",
    Column("in", "number", expendable=1): lambda row: amount(row.input_tokens),
    Column("cached", "number", expendable=3): lambda row: amount(row.cached_tokens),
    Column("out", "number", expendable=2): lambda row: amount(row.output_tokens),
    Column("price", "number"): lambda row: _price([row]),
}
SPEND_CELLS: Cells[SpendRow] = {
    Column("calls", "number"): lambda row: str(row.calls),
    Column("failed", "number", expendable=5): lambda row: str(row.failed),
    Column("seconds", "number", expendable=7): lambda row: f"{row.latency_us / row.calls / 1_000_000:.1f}",
    Column("first byte", "number", expendable=8): lambda row: f"{row.first_byte_us / row.calls / 1_000_000:.2f}",
    Column("in", "number", expendable=1): lambda row: amount(row.input_tokens),
    Column("cached", "number", expendable=3): lambda row: _part(row.cached_tokens, row.input_tokens),
    Column("predicted", "number", expendable=4): lambda row: (
        _part(row.confirmed_tokens, row.predicted_tokens) if row.predicted_tokens else ""
    ),
    Column("out", "number", expendable=2): lambda row: amount(row.output_tokens),
    Column("thinking", "number", expendable=9): lambda row: amount(row.thinking_tokens) if row.thinking_tokens else "",
    Column("price", "number"): lambda row: f"{'~' if row.is_estimate and row.nano_usd else ''}${row.usd:.4f}",
    Column("saved", "number", expendable=6): lambda row: f"${row.saved_usd:.4f}" if row.saved_usd else "",
}


GATEWAY = "gateway"
"""The purpose of a client's call."""
NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Row:
    """A session in the table."""

    name: str
    stats: SessionStats
    trust: Reliability | None

    @property
    def done(self) -> int:
        return self.stats.rendered + self.stats.fallbacks


@dataclass(frozen=True, slots=True)
class Bill:
    """Model calls and their cost."""

    costs: Sequence[CostRow]
    session_id: str | None
    """The session whose calls are shown; None for all sessions."""
    providers: Sequence[ProviderState]
    settings: ModelsSettings

    @property
    def shown(self) -> list[CostRow]:
        return [row for row in self.costs if self.session_id in (None, row.session_id)]


@store_command("stats", "Sizes of a session or of the store; --cost for model calls.")
@click.argument("session_id", metavar="[SESSION]", required=False)
@click.option("--cost", "is_cost", is_flag=True, help="Show model calls and their cost.")
@click.option(
    "--by",
    type=click.Choice(("day", "key", "project", "model", "session", "client", "purpose", "tenant")),
    help="With --cost: one line per day, key, project, …",
)
@click.option("--days", type=click.FloatRange(0, min_open=True), help="With --by: only the last days.")
def command(
    fov: Foveate,
    *,
    session_id: str | None,
    is_cost: bool,
    by: SpendDimension | None,
    days: float | None,
    store_path: Path,
) -> Answer:
    """Show the sizes of one session or of all: turns, tokens, raw and stored bytes, and how many turns are compressed;
    for the checkpoint strategy also the reliability.

    With --cost: model calls by day, session, purpose and model, with failures, rejected answers and average seconds.
    Calls of the gateway's clients have the purpose `gateway`; models.daily_usd does not count them. Then the providers
    called in the last hour, which of them are paused after failures, their use in the last minute,
    and today's share of the daily limit (models.daily_usd). A price with ~ is an estimate.

    With --by: `predicted` is the share of the tokens that the provider was expected to have cached and reported as
    cached, and `saved` what sending whole conversations would have cost in addition.

    \b
    foveate stats
    foveate stats demo --json
    foveate stats --cost
    foveate stats --cost --by key --days 30
    """
    from foveate.session.checkpoints import advice  # it loads the strategies

    chosen = fov.find_session(session_id).id if session_id else None
    if (by or days is not None) and not is_cost:
        raise click.UsageError("--by and --days need --cost.")
    if days is not None and not by:
        raise click.UsageError("--days needs --by.")
    if by:
        return _spending(by, fov.spending(by, days=days, session_id=chosen), fov)
    if is_cost:
        bill = Bill(fov.costs(), chosen, fov.providers(), fov.settings.models)
        return Answer(_bill_value(bill), lambda out: print_bill(out, bill))
    ids = [chosen] if chosen else [info.id for info in fov.sessions()]
    rows = [_Row(name, fov.open_session(name).stats(), fov.reliability(name)) for name in ids]
    bill = Bill(fov.costs(), None, fov.providers(), fov.settings.models)
    size = None if isinstance(store_path, StoreUrl) else store_path.expanduser().stat().st_size
    sessions = {
        row.name: {"stats": row.stats, "compression_ratio": row.stats.compression_ratio, "reliability": row.trust}
        for row in rows
    }
    whole = "the whole store takes " if session_id else f"{several(len(rows), 'session')}, "
    on_disk = "" if size is None else f"{store_path}: {whole}{amount(size)}B on disk"
    value = {"file_bytes": size, "sessions": sessions, "providers": bill.providers}
    advised = advice(rows[0].trust.level, fov.find_session(chosen).info) if chosen and rows[0].trust else ""
    return Answer(value, lambda out: _show(out, rows, on_disk, bill, advised))


def _spending(by: SpendDimension, rows: Sequence[SpendRow], fov: Foveate) -> Answer:
    names = {key.id: key.name for key in fov.keys.list()} if by == "key" else {}

    named: Cells[SpendRow] = {Column("name", "cut"): lambda row: names.get(row.name, "")} if by == "key" else {}
    first = Column(by) if by in ("day", "key") else Column(by, "cut")
    cells: Cells[SpendRow] = {first: lambda row: row.name or "-", **named, **SPEND_CELLS}

    def show(out: Console) -> None:
        if not rows:
            out.print(line("No model was called yet."))
            return
        print_values(out, cells, rows)
        usd, whole = sum(row.nano_usd for row in rows), sum(row.whole_nano_usd for row in rows)
        saved = f"; whole conversations would have cost ${whole / NANO:.4f}" if whole != usd else ""
        out.print(line((f"${usd / NANO:.4f} in total{saved}.", "dim")))

    value = [{**_fields(row), "usd": row.usd, "saved_usd": row.saved_usd} for row in rows]
    return Answer({"by": by, "spending": value}, show)


def _fields(row: SpendRow) -> dict[str, object]:
    return {field: getattr(row, field) for field in row.__dataclass_fields__}


def _part(tokens: int, of: int) -> str:
    return f"{amount(tokens)} ({tokens / of:.0%})" if of else ""


def _show(out: Console, rows: Sequence[_Row], on_disk: str, bill: Bill, advised: str) -> None:
    if rows:
        print_values(out, CELLS, rows)
    if advised:
        out.print(line((advised, "yellow")))
    if on_disk:
        out.print(line((on_disk, "dim")))
    if waiting := waiting_for_model(row.stats for row in rows):
        out.print(line((f"{waiting}.", "dim")))
    for state in bill.providers:
        if state.breaker != "closed":
            out.print(line((f"{state.provider}: ", "dim")).append_text(_state_text(state)))
    if bill.costs:
        out.print(line((f"Models: {_today(bill.costs, bill.settings.daily_usd)}; --cost shows more", "dim")))


def _bill_value(bill: Bill) -> dict[str, object]:
    return {
        "costs": bill.shown,
        "total_usd": _usd(bill.shown),
        "today_usd": _usd(_of_today(bill.costs)),
        "daily_usd": bill.settings.daily_usd,
        "providers": bill.providers,
    }


def print_bill(out: Console, bill: Bill) -> None:
    """Print the selected calls, the state of the providers, and today's share of the daily limit."""
    if bill.shown:
        is_of_one = bill.session_id is not None
        cells = {column: cell for column, cell in COST_CELLS.items() if not (is_of_one and column.name == "session")}
        print_values(out, cells, bill.shown)
        calls, failed = sum(row.calls for row in bill.shown), sum(row.failed for row in bill.shown)
        out.print(line(f"{several(calls, 'call')}, {failed} of them failed, {_price(bill.shown)} in total."))
    else:
        out.print(line("No model was called yet."))
    if bill.providers:
        out.print()
        print_values(out, _provider_cells(bill.settings), bill.providers)
    out.print(line((f"Foveate's own calls: {_today(bill.costs, bill.settings.daily_usd)}.", "dim")))


def _provider_cells(settings: ModelsSettings) -> Cells[ProviderState]:
    return {
        Column("provider", "cut"): lambda state: state.provider,
        Column("state", "fold"): _state_text,
        Column("requests", "number"): lambda state: _share(state.requests_last_minute, settings.requests_per_minute),
        Column("tokens", "number"): lambda state: _share(state.tokens_last_minute, settings.tokens_per_minute),
    }


def _state_text(state: ProviderState) -> Text:
    failures = f"{several(state.failures, 'failure')}: {state.last_problem}"
    if state.breaker == "closed" and state.retry_after_seconds > 0:
        return line((f"rate-limited for {state.retry_after_seconds:.0f} s", "yellow"))
    if state.breaker == "closed":
        return line((failures, "yellow")) if state.failures else line(("answers", "green"))
    if state.retry_after_seconds > 0:
        return line((f"paused for {state.retry_after_seconds:.0f} s after {failures}", "red"))
    return line((f"will be retried after {failures}", "yellow"))


def _share(used: int, limit: int | None) -> str:
    return f"{amount(used)} a minute" if limit is None else f"{amount(used)} of {amount(limit)} a minute"


def _today(costs: Sequence[CostRow], daily_usd: float | None) -> str:
    """Return today's cost of Foveate's own calls in all sessions, since they share the daily limit."""
    cap = "without a limit" if daily_usd is None else f"of ${daily_usd:g} a day"
    return f"{_price(_of_today(costs))} today (UTC) {cap}"


def _of_today(costs: Sequence[CostRow]) -> list[CostRow]:
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return [row for row in costs if row.day == today and row.purpose != GATEWAY]


def _price(costs: Sequence[CostRow]) -> str:
    return f"{'~' if any(row.is_estimate and row.nano_usd for row in costs) else ''}${_usd(costs):.4f}"


def _usd(costs: Sequence[CostRow]) -> float:
    return sum(row.usd for row in costs)
