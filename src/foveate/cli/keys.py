"""`foveate keys`: access keys of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, Cells, listing, store_group
from foveate.cli.ui.terminal import Column, line, moment

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.keys import KeyInfo, NewKey
    from foveate.sync import Foveate

CELLS: Cells[KeyInfo] = {
    Column("key"): lambda key: key.id,
    Column("name", "cut"): lambda key: key.name,
    Column("tenant"): lambda key: key.tenant or "(all)",
    Column("rights"): lambda key: ", ".join(key.rights),
    Column("models", "cut"): lambda key: ", ".join(key.models) or "(all)",
    Column("routes", "cut"): lambda key: ", ".join(key.routes) or "(all)",
    Column("created", expendable=1): lambda key: moment(key.created_at),
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
def create(
    fov: Foveate, *, name: str, tenant: str, rights: tuple[str, ...], models: tuple[str, ...], routes: tuple[str, ...]
) -> Answer:
    """Create a key and print it. It is shown once; only its hash is stored.

    \b
    foveate keys create laptop
    foveate keys create team --tenant acme --right gateway --right read
    foveate keys create app --model 'gpt-5*' --route chat --route embeddings
    """
    made = fov.keys.create(name, tenant=tenant, rights=rights or None, models=models, routes=routes)
    return Answer(made, lambda out: _show(out, made))


@command.command(name="list")
def list_(fov: Foveate) -> Answer:
    """List the keys, without their secrets.

    \b
    foveate keys list
    """
    return listing(fov.keys.list(), CELLS, empty="No keys. 'foveate keys create' makes one.")


@command.command()
@click.argument("key_id", metavar="KEY")
def revoke(fov: Foveate, key_id: str) -> Answer:
    """Revoke a key by its id. It stops working within server.key_cache_seconds.

    \b
    foveate keys revoke K-1a2b3c4d
    """
    fov.keys.revoke(key_id)
    return Answer({"revoked": key_id}, f"Revoked {key_id}.")


def _show(out: Console, made: NewKey) -> None:
    out.print(line((made.secret, "bold")), soft_wrap=True)
    whose = f"tenant {made.info.tenant}" if made.info.tenant else "all tenants"
    limits = [("models ", made.info.models), ("routes ", made.info.routes)]
    only = "".join(f"; {kind}{', '.join(names)} only" for kind, names in limits if names)
    text = f"{made.info.id}: {', '.join(made.info.rights)} for {whose}{only}. The key is not shown again."
    out.print(line((text, "dim")))
