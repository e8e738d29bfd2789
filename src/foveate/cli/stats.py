"""`foveate stats`: what is kept, and what it takes; `--cost`: what models were asked, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import StoreUrl, json_option, opened, store_option
from foveate.cli.ui.terminal import (
    Column,
    console,
    line,
    moment,
    print_json,
    print_table,
    reliable,
    waiting_for_model,
)
from foveate.text import amount, several

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from foveate.session.values import CostRow, ModelsSettings, ProviderState

COLUMNS = (
    Column("session", "fold"),
    Column("turns", "number"),
    Column("messages", "number", expendable=5),
    Column("calls", "number", expendable=6),
    Column("tokens", "number"),
    Column("raw", "number", expendable=3),
    Column("stored", "number"),
    Column("ratio", "number", expendable=4),
    Column("compressed", "number", expendable=2),
    Column("by model", "number", expendable=1),
    Column("fallbacks", "number", expendable=1),
    Column("reliability", expendable=2),
    Column("first", expendable=8),
    Column("last", expendable=7),
)
COST_COLUMNS = (
    Column("day"),
    Column("session", "cut"),
    Column("purpose"),
    Column("model", "cut"),
    Column("calls", "number"),
    Column("failed", "number", expendable=4),
    Column("unfit", "number", expendable=5),
    Column("seconds", "number", expendable=6),
    Column("in", "number", expendable=1),
    Column("cached", "number", expendable=3),
    Column("out", "number", expendable=2),
    Column("price", "number"),
)
PROVIDER_COLUMNS = (
    Column("provider", "cut"),
    Column("state", "fold"),
    Column("requests", "number"),
    Column("tokens", "number"),
)


@dataclass(frozen=True, slots=True)
class Bill:
    """What models were asked, and what it cost."""

    costs: Sequence[CostRow]
    session_id: str | None
    """Whose calls are shown; None: everyone's."""
    providers: Sequence[ProviderState]
    settings: ModelsSettings

    @property
    def shown(self) -> list[CostRow]:
        return [row for row in self.costs if self.session_id in (None, row.session_id)]


@click.command(name="stats", short_help="Sizes of a session or of the store; --cost for calls of models.")
@click.argument("session_id", metavar="[SESSION]", required=False)
@click.option("--cost", "is_cost", is_flag=True, help="Calls of models, and what they cost.")
@store_option
@json_option
def command(*, session_id: str | None, is_cost: bool, store_path: Path, as_json: bool) -> None:
    """Sizes of one session or of all: turns, tokens, raw and stored bytes, and how many turns are compressed; for the
    checkpoint strategy also the reliability.

    With --cost: calls of models by day, session, purpose and model, with failures, rejected answers and the average
    seconds. Then the providers asked in the last hour, which of them are paused after failures, their use in the last
    minute, and today's share of the daily limit (models.daily_usd). A price with ~ is an estimate.

    \b
    foveate stats
    foveate stats demo --json
    foveate stats --cost
    """
    if is_cost:
        _show_costs(session_id, store_path, as_json=as_json)
        return
    with opened(store_path) as fov:
        ids = [fov.find_session(session_id).id] if session_id else [info.id for info in fov.sessions()]
        found = {name: fov.open_session(name).stats() for name in ids}
        trust = {name: fov.reliability(name) for name in ids}
        bill = Bill(fov.costs(), None, fov.providers(), fov.settings.models)
    size = None if isinstance(store_path, StoreUrl) else store_path.expanduser().stat().st_size
    if as_json:
        told = {
            name: {"stats": stats, "compression_ratio": stats.compression_ratio, "reliability": trust[name]}
            for name, stats in found.items()
        }
        print_json({"file_bytes": size, "sessions": told, "providers": bill.providers})
        return
    rows = [
        (
            name,
            str(stats.turns),
            str(stats.messages),
            str(stats.tool_calls),
            amount(stats.tokens),
            f"{amount(stats.raw_bytes)}B",
            f"{amount(stats.stored_bytes)}B",
            f"{stats.compression_ratio:.1f}x",
            f"{stats.rendered + stats.fallbacks} of {stats.rendered + stats.fallbacks + stats.pending}",
            f"{stats.by_model} (+{stats.waiting} queued)" if stats.waiting else str(stats.by_model or ""),
            str(stats.fallbacks or ""),
            reliable(trust[name]),
            moment(stats.first_at),
            moment(stats.last_at),
        )
        for name, stats in found.items()
    ]
    out = console()
    if rows:
        print_table(out, COLUMNS, rows)
    if size is not None:
        whole = "the whole store takes " if session_id else f"{several(len(rows), 'session')}, "
        out.print(line((f"{store_path}: {whole}{amount(size)}B on disk", "dim")))
    if waiting := waiting_for_model(found.values()):
        out.print(line((f"{waiting}.", "dim")))
    for state in bill.providers:
        if state.breaker != "closed":
            out.print(line((f"{state.provider}: ", "dim")).append_text(_standing(state)))
    if bill.costs:
        out.print(line((f"Models: {_today(bill.costs, bill.settings.daily_usd)}; --cost shows more", "dim")))


def _show_costs(session_id: str | None, store_path: Path, *, as_json: bool) -> None:
    with opened(store_path) as fov:
        of = fov.find_session(session_id).id if session_id else None
        bill = Bill(fov.costs(), of, fov.providers(), fov.settings.models)
    if not as_json:
        print_bill(console(), bill)
        return
    told = {
        "costs": bill.shown,
        "total_usd": _usd(bill.shown),
        "today_usd": _usd(_of_today(bill.costs)),
        "daily_usd": bill.settings.daily_usd,
        "providers": bill.providers,
    }
    print_json(told)


def print_bill(out: Console, bill: Bill) -> None:
    """The selected calls, the state of the providers, and today's share of the cap."""
    if bill.shown:
        names_session = bill.session_id is None
        print_table(out, COST_COLUMNS, [_cost_cells(row, names_session=names_session) for row in bill.shown])
        calls, failed = sum(row.calls for row in bill.shown), sum(row.failed for row in bill.shown)
        out.print(line(f"{several(calls, 'call')}, {failed} of them failed, for {_price(bill.shown)} together."))
    else:
        out.print(line("No model was called yet."))
    if bill.providers:
        out.print()
        print_table(out, PROVIDER_COLUMNS, [_provider_cells(state, bill.settings) for state in bill.providers])
    out.print(line((f"{_today(bill.costs, bill.settings.daily_usd)}.", "dim")))


def _provider_cells(state: ProviderState, settings: ModelsSettings) -> tuple[str | Text, ...]:
    return (
        state.provider,
        _standing(state),
        _share(state.requests_last_minute, settings.requests_per_minute),
        _share(state.tokens_last_minute, settings.tokens_per_minute),
    )


def _standing(state: ProviderState) -> Text:
    failures = f"{several(state.failures, 'failure')}: {state.last_problem}"
    if state.breaker == "closed" and state.retry_after_seconds > 0:
        return line((f"asked for a pause of {state.retry_after_seconds:.0f} s", "yellow"))
    if state.breaker == "closed":
        return line((failures, "yellow")) if state.failures else line(("answers", "green"))
    if state.retry_after_seconds > 0:
        return line((f"paused for {state.retry_after_seconds:.0f} s after {failures}", "red"))
    return line((f"will be tried again after {failures}", "yellow"))


def _share(used: int, limit: int | None) -> str:
    return f"{amount(used)} a minute" if limit is None else f"{amount(used)} of {amount(limit)} a minute"


def _cost_cells(row: CostRow, *, names_session: bool) -> tuple[str, ...]:
    return (
        row.day,
        (row.session_id or "-") if names_session else "",
        row.purpose,
        row.model,
        str(row.calls),
        str(row.failed),
        str(row.unfit),
        f"{row.latency_us / row.calls / 1_000_000:.1f}",
        amount(row.input_tokens),
        amount(row.cached_tokens),
        amount(row.output_tokens),
        _price([row]),
    )


def _today(costs: Sequence[CostRow], daily_usd: float | None) -> str:
    """What all sessions cost today, since the cap is for all together."""
    cap = "without a limit" if daily_usd is None else f"of ${daily_usd:g} a day"
    return f"{_price(_of_today(costs))} today (UTC) {cap}"


def _of_today(costs: Sequence[CostRow]) -> list[CostRow]:
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return [row for row in costs if row.day == today]


def _price(costs: Sequence[CostRow]) -> str:
    return f"{'~' if any(row.is_estimate and row.nano_usd for row in costs) else ''}${_usd(costs):.4f}"


def _usd(costs: Sequence[CostRow]) -> float:
    return sum(row.usd for row in costs)
