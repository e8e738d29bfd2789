"""`foveate keys`: access keys of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, Cells, listing, store_group
from foveate.cli.ui.terminal import Column, line, moment

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.budgets import KeyBudget, Period
    from foveate.session.keys import KeyInfo, NewKey
    from foveate.sync import Foveate

CELLS: Cells[KeyInfo] = {
    Column("key"): lambda key: key.id,
    Column("name", "cut"): lambda key: key.name,
    Column("tenant"): lambda key: key.tenant or "(all)",
    Column("rights"): lambda key: ", ".join(key.rights),
    Column("models", "cut"): lambda key: ", ".join(key.models) or "(all)",
    Column("routes", "cut"): lambda key: ", ".join(key.routes) or "(all)",
    Column("budget"): lambda key: _budget(key.budget),
    Column("spent"): lambda key: f"${key.use.spent_usd:.4f}" if key.use else "",
    Column("booked", expendable=2): lambda key: f"${key.use.booked_usd:.4f}" if key.use else "",
    Column("resets", expendable=3): lambda key: moment(key.use.resets_at) if key.use else "",
    Column("created", expendable=1): lambda key: moment(key.created_at),
    Column("revoked"): lambda key: moment(key.revoked_at) if key.revoked_at else "",
}
OF_BUDGETS = ("budget", "spent", "booked", "resets")
"""Columns that are shown if a key has a budget."""


@store_group("keys", "Keys of 'foveate serve': create, list, revoke.")
def command() -> None:
    """Manage the keys of 'foveate serve'. Once a key exists, every request needs one.

    \b
    foveate keys create laptop
    foveate keys create team --tenant acme --right gateway
    foveate keys list
    foveate keys revoke K-1a2b3c4d
    """


@command.command(create=True)
@click.argument("name", default="")
@click.option("--tenant", default="", help="Restrict the key to this tenant's sessions. Default: all sessions.")
@click.option(
    "--right",
    "rights",
    multiple=True,
    type=click.Choice(("gateway", "read", "write", "admin")),
    help="Repeatable. Default: gateway, read and write, with limits gateway alone; admin includes all.",
)
@click.option(
    "--model", "models", multiple=True, metavar="PATTERN", help="Limit the gateway to these models; repeatable."
)
@click.option(
    "--route",
    "routes",
    multiple=True,
    metavar="NAME",
    help="Limit the gateway to these routes, e.g. chat, models, count_tokens, embeddings; repeatable.",
)
@click.option("--budget-usd", type=float, help="Refuse calls of the gateway that could cost more in a period.")
@click.option("--soft", "soft_usd", type=float, help="Warn from this many dollars on.")
@click.option("--per", "period", type=click.Choice(("day", "month")), default="month", help="Period, in UTC.")
def create(
    fov: Foveate,
    *,
    name: str,
    tenant: str,
    rights: tuple[str, ...],
    models: tuple[str, ...],
    routes: tuple[str, ...],
    budget_usd: float | None,
    soft_usd: float | None,
    period: Period,
) -> Answer:
    """Create a key and print it. It is shown once; only its hash is stored.

    \b
    foveate keys create laptop
    foveate keys create team --tenant acme --right gateway --right read
    foveate keys create app --model 'gpt-5*' --route chat --route embeddings
    foveate keys create intern --budget-usd 20 --soft 15 --per month
    """
    made = fov.keys.create(
        name,
        tenant=tenant,
        rights=rights or None,
        models=models,
        routes=routes,
        budget_usd=budget_usd,
        soft_usd=soft_usd,
        period=period,
    )
    return Answer(made, lambda out: _show(out, made))


@command.command(name="list")
def list_(fov: Foveate) -> Answer:
    """List the keys, without their secrets, with what is spent and booked of their budgets.

    \b
    foveate keys list
    """
    found = fov.keys.list()
    has_budgets = any(key.use for key in found)
    cells = {column: cell for column, cell in CELLS.items() if has_budgets or column.name not in OF_BUDGETS}
    return listing(found, cells, empty="No keys. 'foveate keys create' makes one.")


@command.command()
@click.argument("key_id", metavar="KEY")
@click.option("--budget-usd", type=float, help="Refuse calls that could cost more in a period. Default: no limit.")
@click.option("--soft", "soft_usd", type=float, help="Warn from this many dollars on. Default: no warning.")
@click.option("--per", "period", type=click.Choice(("day", "month")), default="month", help="Period, in UTC.")
def budget(fov: Foveate, *, key_id: str, budget_usd: float | None, soft_usd: float | None, period: Period) -> Answer:
    """Replace the budget of a key; without amounts it has none. Applies within server.key_cache_seconds.

    \b
    foveate keys budget K-1a2b3c4d --budget-usd 50 --soft 40
    """
    fov.keys.set_budget(key_id, budget_usd=budget_usd, soft_usd=soft_usd, period=period)
    (info,) = (info for info in fov.keys.list() if info.id == key_id)
    value = {"key": info.id, "budget": info.budget, "spent_usd": 0.0, "booked_usd": 0.0}
    if (use := info.use) is None:
        return Answer(value, f"{info.id}: no budget.")
    booked = f", ${use.booked_usd:.4f} booked for calls in progress" if use.booked_usd else ""
    value |= {"spent_usd": use.spent_usd, "booked_usd": use.booked_usd}
    return Answer(value, f"{info.id}: {_budget(info.budget)}; ${use.spent_usd:.4f} spent{booked}.")


@command.command()
@click.argument("key_id", metavar="KEY")
def revoke(fov: Foveate, key_id: str) -> Answer:
    """Revoke a key by its id. It stops working within server.key_cache_seconds.

    \b
    foveate keys revoke K-1a2b3c4d
    """
    fov.keys.revoke(key_id)
    return Answer({"revoked": key_id}, f"Revoked {key_id}.")


def _budget(budget: KeyBudget) -> str:
    if not budget.is_limited:
        return ""
    limit = "no limit" if budget.usd is None else f"${budget.usd:g}"
    warning = "" if budget.soft_usd is None else f", warns at ${budget.soft_usd:g}"
    return f"{limit} a {budget.period}{warning}"


def _show(out: Console, made: NewKey) -> None:
    out.print(line((made.secret, "bold")), soft_wrap=True)
    whose = f"tenant {made.info.tenant}" if made.info.tenant else "all tenants"
    limits = [("models ", made.info.models), ("routes ", made.info.routes)]
    only = "".join(f"; {kind}{', '.join(names)} only" for kind, names in limits if names)
    text = f"{made.info.id}: {', '.join(made.info.rights)} for {whose}{only}. The key is not shown again."
    out.print(line((text, "dim")))
