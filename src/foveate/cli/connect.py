"""`foveate connect`: add Foveate to the settings of a coding agent."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import DEFAULT_STORE, yes_option
from foveate.cli.ui.terminal import console, line, print_diff, printable

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.connections.check import CheckResult
    from foveate.connections.clients import ConnectionRequest
    from foveate.connections.connection import ConnectionPlan

DEFAULT_URL = "http://127.0.0.1:8484"
CLIENT_NAMES = ("claude", "codex", "opencode", "aider", "cline", "continue")
UPSTREAMS = {
    "claude": "https://api.anthropic.com",
    "codex": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
}
"""The provider of a client, or of one that is routed by name."""


@store_command("connect", "Connect a coding agent: Claude Code, Codex, OpenCode, ….")
@click.argument("name", metavar="CLIENT", type=click.Choice(CLIENT_NAMES))
@click.option(
    "--mode",
    type=click.Choice(["gateway", "hooks"]),
    help="gateway: requests go through 'foveate serve'. hooks: hooks and MCP, no gateway. Default: gateway.",
)
@click.option("--url", metavar="URL", help=f"Address of the gateway. Default: {DEFAULT_URL}.")
@click.option("--provider", "providers", multiple=True, help="Provider to route; repeatable. Default: the one in use.")
@click.option("--check", "is_check", is_flag=True, help="Change nothing; report whether the connection works.")
@yes_option("Write the changes without asking.")
def command(
    *,
    name: str,
    mode: str | None,
    url: str | None,
    providers: tuple[str, ...],
    is_check: bool,
    yes: bool,
    store_path: Path,
    as_json: bool,
) -> Answer:
    """Connect a coding agent: claude, codex, opencode, aider, cline or continue.

    Shows the changes to its settings as a diff and asks before writing them. Only your own settings are changed,
    never files of a project or of a git repository. The old files are kept in ~/.foveate/connections/backups, and
    'foveate disconnect' removes what was added.

    \b
    foveate connect claude                 through the gateway: foveate serve
    foveate connect codex --mode hooks     record and recall by hooks, no gateway
    foveate connect claude --check         is it connected, and does it work?
    """
    from foveate.connections.clients import CLIENTS
    from foveate.connections.connection import Connections

    client = CLIENTS[name]
    connections = Connections(Path.home())
    if is_check:
        from foveate.connections.check import check

        return _checked(check(client, connections))
    known = connections.record(client)
    request = _request(
        mode=mode or (known.mode if known else "gateway"),
        url=url or (known.url if known else DEFAULT_URL),
        providers=providers,
        store_path=store_path,
    )
    plan = connections.plan_connect(client, request)
    is_written = plan.is_changed and confirmed(plan, yes=yes, as_json=as_json, verb="Connect")
    if is_written or (known is None and not plan.is_changed):
        connections.write(plan)

    def show(out: Console) -> None:
        if not plan.is_changed:
            out.print(line((f"{client.title} is connected already.", "green")))
        elif is_written:
            out.print(line((f"Connected {client.title}.", "green")))
        if is_written or not plan.is_changed:
            _next_steps(out, plan, request)

    found = {"client": name, "mode": request.mode, "written": is_written, "diff": plan.diff()}
    return Answer(found, show, 0 if is_written or not plan.is_changed else 1)


def confirmed(plan: ConnectionPlan, *, yes: bool, as_json: bool, verb: str) -> bool:
    """Show the diff and ask for confirmation; without a terminal, --yes is needed."""
    if not as_json:
        print_diff(console(), plan.diff().splitlines())
    if yes:
        return True
    if as_json or not sys.stdin.isatty():
        if not as_json:
            click.echo("Nothing was written; --yes writes these changes.")
        return False
    return click.confirm(f"{verb} {plan.client.title} with these changes?")


def _request(*, mode: str, url: str, providers: tuple[str, ...], store_path: Path) -> ConnectionRequest:
    from foveate.connections.clients import ConnectionRequest

    if not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"{url!r} is not a URL such as {DEFAULT_URL}", param_hint="--url")
    return ConnectionRequest(
        mode="hooks" if mode == "hooks" else "gateway",
        url=url.rstrip("/").removesuffix("/v1"),
        command=own_command(),
        options=() if store_path == DEFAULT_STORE else ("--db", str(store_path.expanduser().resolve())),
        home=Path.home(),
        environment=os.environ,
        providers=providers,
    )


def own_command() -> list[str]:
    """Return the command that starts this program, by its full path, since a client's PATH may differ."""
    found = shutil.which("foveate")
    return [found] if found else [sys.executable, "-m", "foveate"]


def _next_steps(out: Console, plan: ConnectionPlan, request: ConnectionRequest) -> None:
    client = plan.client
    if request.mode == "gateway":
        is_routed = any("openrouter" in change.path for file in plan.files for change in file.changes)
        upstream = plan.replaced_url or UPSTREAMS.get("openrouter" if is_routed else client.name, "URL")
        out.print(line("Start the gateway: ", (printable(f"foveate serve --upstream {upstream}"), "bold")))
        undo = f"'foveate disconnect {client.name}' undoes the connection."
        out.print(line(f"While it is not running, {client.title} can't connect; {undo}"))
    elif client.hint:
        out.print(line(client.hint))
    out.print(line("Test it: ", (f"foveate connect {client.name} --check", "bold")))


def _checked(result: CheckResult) -> Answer:
    def show(out: Console) -> None:
        for one in result.findings:
            out.print(line(("ok      ", "green") if one.is_ok else ("problem ", "yellow"), printable(one.text)))

    findings = [{"ok": one.is_ok, "text": one.text} for one in result.findings]
    return Answer({"ok": result.is_ok, "findings": findings}, show, 0 if result.is_ok else 1)
