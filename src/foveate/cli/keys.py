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
    from foveate.settings import Settings
    from foveate.sync import Foveate

CELLS: Cells[KeyInfo] = {
    Column("key"): lambda key: key.id,
    Column("name", "cut"): lambda key: key.name,
    Column("tenant", expendable=1): lambda key: key.tenant,
    Column("rights", "fold"): lambda key: ", ".join(key.rights),
    Column("models", "cut", expendable=2): lambda key: ", ".join(key.models),
    Column("routes", "cut", expendable=3): lambda key: ", ".join(key.routes),
    Column("budget"): lambda key: _limit(key.budget) if key.budget.is_limited else "",
    Column("warning", expendable=4): lambda key: _usd(key.budget.soft_usd),
    Column("spent"): lambda key: f"${key.use.spent_usd:.2f}" if key.use else "",
    Column("booked", expendable=5): lambda key: f"${key.use.booked_usd:.2f}" if key.use else "",
    Column("resets", expendable=7): lambda key: moment(key.use.resets_at) if key.use else "",
    Column("created", expendable=6): lambda key: moment(key.created_at),
    Column("revoked"): lambda key: moment(key.revoked_at) if key.revoked_at else "",
}


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
@click.option("--per", "period", type=click.Choice(("day", "month")), help="Period, in UTC. Default: month.")
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
    period: Period | None,
) -> Answer:
    """Create a key and print it. It is shown once; only its hash is stored.

    \b
    foveate keys create laptop
    foveate keys create team --tenant acme --right gateway --right read
    foveate keys create app --model 'gpt-5*' --route chat --route embeddings
    foveate keys create intern --budget-usd 20 --soft 15 --per month
    """
    has_budget = _has_amount(budget_usd, soft_usd, period)
    made = fov.keys.create(
        name,
        tenant=tenant,
        rights=rights or None,
        models=models,
        routes=routes,
        budget_usd=budget_usd,
        soft_usd=soft_usd,
        period=period or "month",
    )
    free = _free(fov.settings) if has_budget else []
    return Answer(made, lambda out: _show(out, made, free))


@command.command(name="list")
def list_(fov: Foveate) -> Answer:
    """List the keys, without their secrets, with what is spent of their budgets.

    A key without a tenant, models or routes is for all. A narrow terminal shows fewer columns; --json has everything.

    \b
    foveate keys list
    """
    return listing(fov.keys.list(), CELLS, empty="No keys. 'foveate keys create' makes one.")


@command.command()
@click.argument("key_id", metavar="KEY")
@click.option("--budget-usd", type=float, help="Refuse calls that could cost more in a period. Default: no limit.")
@click.option("--soft", "soft_usd", type=float, help="Warn from this many dollars on. Default: no warning.")
@click.option("--per", "period", type=click.Choice(("day", "month")), help="Period, in UTC. Default: as it is.")
@click.option("--remove", "is_removed", is_flag=True, help="Remove the budget.")
def budget(
    fov: Foveate,
    *,
    key_id: str,
    budget_usd: float | None,
    soft_usd: float | None,
    period: Period | None,
    is_removed: bool,
) -> Answer:
    """Show the budget of a key, or with amounts replace it. Applies within server.key_cache_seconds.

    \b
    foveate keys budget K-1a2b3c4d
    foveate keys budget K-1a2b3c4d --budget-usd 50 --soft 40
    foveate keys budget K-1a2b3c4d --remove
    """
    is_set = _has_amount(budget_usd, soft_usd, period)
    if is_set and is_removed:
        raise click.UsageError("--remove takes no amounts.")
    info = _active(fov, key_id)
    if is_set or is_removed:
        per = period or info.budget.period
        fov.keys.set_budget(key_id, budget_usd=budget_usd, soft_usd=soft_usd, period=per)
        info = _active(fov, key_id)
    value = {"key": info.id, "budget": info.budget, "spent_usd": 0.0, "booked_usd": 0.0, "lost_usd": 0.0}
    if (use := info.use) is None:
        return Answer(value, f"{info.id}: no budget.")
    booked = f", ${use.booked_usd:.4f} booked for calls in progress" if use.booked_usd else ""
    value |= {"spent_usd": use.spent_usd, "booked_usd": use.booked_usd, "lost_usd": use.lost_usd}
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


def _has_amount(budget_usd: float | None, soft_usd: float | None, period: Period | None) -> bool:
    """Return whether the options have an amount. A period without one is an error."""
    has_amount = budget_usd is not None or soft_usd is not None
    if period is not None and not has_amount:
        raise click.UsageError("--per needs an amount: --budget-usd or --soft.")
    return has_amount


def _active(fov: Foveate, key_id: str) -> KeyInfo:
    from foveate.errors import NotFound

    found = next((info for info in fov.keys.list() if info.id == key_id and info.revoked_at is None), None)
    if found is None:
        raise NotFound(f"no active key {key_id!r}; 'foveate keys list' shows all")
    return found


def _free(settings: Settings) -> list[str]:
    """Return the gateway's providers whose calls may cost nothing, so that no budget counts them."""
    from foveate.session.call_costs import free_upstreams

    server = settings.server
    urls = {name: one.url for name, one in server.upstreams.items()}
    return free_upstreams({**urls, **({"server.upstream": server.upstream} if server.upstream else {})})


def _budget(budget: KeyBudget) -> str:
    if not budget.is_limited:
        return ""
    warning = "" if budget.soft_usd is None else f", warns at {_usd(budget.soft_usd)}"
    return f"{_limit(budget)}{warning}"


def _limit(budget: KeyBudget) -> str:
    return f"{_usd(budget.usd) or 'no limit'} a {budget.period}"


def _usd(amount: float | None) -> str:
    return "" if amount is None else f"${amount:g}"


def _show(out: Console, made: NewKey, free: list[str]) -> None:
    out.print(line((made.secret, "bold")), soft_wrap=True)
    whose = f"tenant {made.info.tenant}" if made.info.tenant else "all tenants"
    limits = [("models ", made.info.models), ("routes ", made.info.routes)]
    only = "".join(f"; {kind}{', '.join(names)} only" for kind, names in limits if names)
    budget = f"; {_budget(made.info.budget)}" if made.info.budget.is_limited else ""
    text = f"{made.info.id}: {', '.join(made.info.rights)} for {whose}{only}{budget}. The key is not shown again."
    out.print(line((text, "dim")))
    if free:
        why = "on this machine, so its models are free and no budget counts them, unless models.prices has a price"
        out.print(line((f"Upstream {', '.join(free)}: {why}.", "yellow")))
