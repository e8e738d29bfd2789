"""`foveate keys`: who may use the server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import json_option, opened, store_option
from foveate.cli.ui.terminal import Column, console, line, moment, print_json, print_listing

if TYPE_CHECKING:
    from foveate.session.keys import KeyInfo

COLUMNS = (
    Column("key"),
    Column("name", "cut"),
    Column("tenant"),
    Column("rights"),
    Column("created", expendable=1),
    Column("revoked"),
)


@click.group(name="keys", short_help="Keys of 'foveate serve': create, list, revoke.")
def command() -> None:
    """Manage the keys of 'foveate serve'. Once a key was created, every request needs one.

    \b
    foveate keys create laptop
    foveate keys create team --tenant acme --right gateway
    foveate keys list
    foveate keys revoke K-1a2b3c4d
    """


@command.command()
@click.argument("name", default="")
@click.option("--tenant", default="", help="Only its sessions can be seen. Default: the owner, who sees all.")
@click.option(
    "--right",
    "rights",
    multiple=True,
    type=click.Choice(("gateway", "read", "write", "admin")),
    help="Repeatable. Default: gateway, read and write; admin includes all.",
)
@store_option
@json_option
def create(*, name: str, tenant: str, rights: tuple[str, ...], store_path: Path, as_json: bool) -> None:
    """Create a key and print it. It is shown once; only its hash is stored.

    \b
    foveate keys create laptop
    foveate keys create team --tenant acme --right gateway --right read
    """
    with opened(store_path, create=True) as fov:
        made = fov.keys.create(name, tenant=tenant, rights=rights or ("gateway", "read", "write"))
    if as_json:
        print_json(made)
        return
    out = console()
    out.print(line((made.secret, "bold")), soft_wrap=True)
    whose = f"tenant {made.info.tenant}" if made.info.tenant else "all tenants"
    out.print(line((f"{made.info.id}: {', '.join(made.info.rights)} for {whose}. The key is not shown again.", "dim")))


@command.command(name="list")
@store_option
@json_option
def list_(*, store_path: Path, as_json: bool) -> None:
    """List the keys, without their secrets.

    \b
    foveate keys list
    """
    with opened(store_path) as fov:
        found = fov.keys.list()
    print_listing(found, COLUMNS, _row, as_json=as_json, empty="No keys. 'foveate keys create' makes one.")


@command.command()
@click.argument("key_id", metavar="KEY")
@store_option
@json_option
def revoke(*, key_id: str, store_path: Path, as_json: bool) -> None:
    """Revoke a key by its id. It stops working at once, or within server.key_cache_seconds.

    \b
    foveate keys revoke K-1a2b3c4d
    """
    with opened(store_path) as fov:
        fov.keys.revoke(key_id)
    if as_json:
        print_json({"revoked": key_id})
    else:
        click.echo(f"Revoked {key_id}.")


def _row(key: KeyInfo) -> tuple[str, ...]:
    revoked = moment(key.revoked_at) if key.revoked_at else ""
    return (key.id, key.name, key.tenant or "(all)", ", ".join(key.rights), moment(key.created_at), revoked)
