"""`foveate agents`: agents that work in the background."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.options import TOKENS, json_option, opened, store_option
from foveate.cli.ui.terminal import Column, age, console, line, print_json, print_table, shorten, to_copy
from foveate.cli.ui.tool_options import ToolOptions, tool_options

if TYPE_CHECKING:
    from foveate.session.subagents import AgentInfo

COLUMNS = (Column("agent"), Column("state"), Column("kind", expendable=2), Column("for", expendable=1), Column("age"),
           Column("task", "cut"))  # fmt: skip
STYLES = {"done": "green", "failed": "red", "lost": "red", "cancelled": "dim", "waiting": "yellow", "running": "cyan"}
NOT_DONE = 3
"""Exit code of `wait` for an agent that ended without a result, or did not end."""


@click.group(name="agents", short_help="Agents that work in the background: list, spawn, wait, cancel.")
def command() -> None:
    """Let models work on tasks in the background. 'foveate worker' or 'foveate serve' runs them.

    \b
    foveate agents spawn "Find out why the build is slow" --pack research --model openai:gpt-5-mini
    foveate agents list
    foveate agents wait a-1f2e3d4c5b
    foveate agents cancel a-1f2e3d4c5b
    """


@command.command(name="list")
@click.option("--state", metavar="STATE", help="queued, running, waiting, done, failed, cancelled or lost.")
@click.option("--session", "parent", metavar="SESSION", help="Those that work for this session.")
@store_option
@json_option
def list_(*, state: str | None, parent: str | None, store_path: Path, as_json: bool) -> None:
    """List the agents, the newest first.

    \b
    foveate agents list --state waiting
    """
    with opened(store_path) as fov:
        found = fov.agents.list(state=state, parent=parent and fov.find_session(parent).id)
    if as_json:
        print_json([_as_json(info) for info in found])
        return
    out = console()
    if not found:
        out.print(line(f"No agents. '{to_copy('agents', 'spawn', 'TASK')}' starts one."))
        return
    print_table(out, COLUMNS, [_row(info) for info in found])


@command.command(name="show")
@click.argument("agent_id", metavar="AGENT")
@store_option
@json_option
def show(*, agent_id: str, store_path: Path, as_json: bool) -> None:
    """Show an agent: its task, state and result, and what its tree has used of its limits.

    \b
    foveate agents show a-1f2e3d4c5b
    """
    with opened(store_path) as fov:
        info = fov.agents.get(agent_id)
        totals = fov.agents.totals(agent_id)
    if as_json:
        print_json({**_as_json(info), "totals": asdict(totals)})
        return
    _print(info)
    limits = totals.limits
    usd = f"${totals.nano_usd / 1e9:.4f} of ${limits.max_nano_usd / 1e9:.2f}"
    used = f"{totals.agents} of {limits.max_agents} agents, {totals.tokens:,} of {limits.max_tokens:,} tokens, {usd}"
    console().print(line((f"Its tree ({info.tree}): {used}.", "dim")), soft_wrap=True)
    console().print(line((f"Its log: {to_copy('show', info.session_id, 'T-1')}", "dim")), soft_wrap=True)


@command.command(name="spawn")
@click.argument("task")
@click.option("--session", "parent", metavar="SESSION", help="The session that it works for.")
@click.option("--fork", "is_fork", is_flag=True, help="Let it see that session's turns.")
@click.option("--call", "is_call", is_flag=True, help="One prompt and its answer, instead of a run to completion.")
@click.option("--model", metavar="NAME", help="The model that works, e.g. openai:gpt-5-mini.")
@click.option("--max-tokens", type=TOKENS, metavar="TOKENS", help="Limit of the agent and all it starts.")
@click.option("--max-usd", type=click.FloatRange(min=0), metavar="USD", help="Limit of their cost.")
@tool_options
@store_option
@json_option
def spawn(
    *,
    task: str,
    parent: str | None,
    is_fork: bool,
    is_call: bool,
    model: str | None,
    max_tokens: int | None,
    max_usd: float | None,
    tools: ToolOptions,
    store_path: Path,
    as_json: bool,
) -> None:
    """Start an agent in the background. A worker runs it; this command returns at once.

    \b
    foveate agents spawn "Write the release notes" --session work --fork
    foveate agents spawn "Make the tests pass" --pack core-codex --allow-exec --root ~/src/shop
    """
    if is_fork and parent is None:
        raise click.UsageError("--fork needs --session: the session whose turns it sees")
    if tools.mcp:
        raise click.UsageError("--mcp is for chat and run; a background agent has no MCP servers")
    limits = {name: value for name, value in (("tokens", max_tokens), ("usd", max_usd)) if value is not None}
    with opened(store_path, create=True) as fov:
        made = fov.agents.spawn(
            task,
            kind="call" if is_call else "run",
            parent=parent and fov.find_session(parent).id,
            fork=is_fork,
            model=model,
            packs=tools.packs,
            roots=tools.choice.roots if tools.packs else (),
            allow_exec=tools.allow_exec,
            allow_unsandboxed=tools.allow_unsandboxed,
            approve_local=tools.allow_exec,  # nobody is at its terminal, and a command could do what a local tool does
            approved=tuple(sorted(tools.approved)),
            limits=limits or None,
        )
    if as_json:
        print_json(_as_json(made))
        return
    out = console()
    out.print(line(("Started ", "green"), (made.id, "bold"), "; 'foveate worker' runs it."))
    out.print(line((f"Its result: {to_copy('agents', 'wait', made.id)}", "dim")))


@command.command(name="wait")
@click.argument("agent_id", metavar="AGENT")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Longest wait. Default: no limit.")
@store_option
@json_option
def wait(*, agent_id: str, timeout: float | None, store_path: Path, as_json: bool) -> None:
    """Wait until an agent has ended, and print its result. Exit code 3 if it has none.

    \b
    foveate agents wait a-1f2e3d4c5b --timeout 600
    """
    with opened(store_path) as fov:
        info = fov.agents.wait(agent_id, timeout_seconds=timeout)
    if as_json:
        print_json(_as_json(info))
    elif info.state == "done":
        console().print(line(info.result or ""), soft_wrap=True)
    else:
        _print(info)
    if info.state != "done":
        raise SystemExit(NOT_DONE)


@command.command(name="cancel")
@click.argument("agent_id", metavar="AGENT")
@store_option
@json_option
def cancel(*, agent_id: str, store_path: Path, as_json: bool) -> None:
    """Cancel an agent and all that it started, calls in progress included.

    \b
    foveate agents cancel a-1f2e3d4c5b
    """
    with opened(store_path) as fov:
        cancelled = fov.agents.cancel(agent_id)
    if as_json:
        print_json([_as_json(info) for info in cancelled])
        return
    listed = ", ".join(info.id for info in cancelled)
    console().print(line(f"Cancelled {listed}." if cancelled else f"{agent_id} had ended already."))


@command.command(name="approve")
@click.argument("agent_id", metavar="AGENT")
@click.option("--deny", is_flag=True, help="Do not execute the call; the model is told so.")
@click.option("--for-session", is_flag=True, help="Do not ask about this tool again.")
@store_option
@json_option
def approve(*, agent_id: str, deny: bool, for_session: bool, store_path: Path, as_json: bool) -> None:
    """Decide about the tool call that an agent waits with.

    \b
    foveate agents approve a-1f2e3d4c5b
    foveate agents approve a-1f2e3d4c5b --deny
    """
    with opened(store_path) as fov:
        info = fov.agents.approve(agent_id, allow=not deny, for_session=for_session)
    _shown(info, as_json=as_json)


@command.command(name="answer")
@click.argument("agent_id", metavar="AGENT")
@click.argument("text")
@store_option
@json_option
def answer(*, agent_id: str, text: str, store_path: Path, as_json: bool) -> None:
    """Answer the question that an agent waits with.

    \b
    foveate agents answer a-1f2e3d4c5b "Use port 8443."
    """
    with opened(store_path) as fov:
        info = fov.agents.answer(agent_id, text)
    _shown(info, as_json=as_json)


def _row(info: AgentInfo) -> tuple[str, ...]:
    task = " ".join(info.task.split())
    return (info.id, info.state, info.kind, info.parent_session_id or "", age(info.created_at), task)


def _shown(info: AgentInfo, *, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(info))
    else:
        console().print(line(f"{info.id} is {info.state}."))


def _as_json(info: AgentInfo) -> dict[str, object]:
    import msgspec

    shown: dict[str, object] = msgspec.to_builtins(info)
    return shown


def _print(info: AgentInfo) -> None:
    from foveate.session.subagents import PendingApproval, PendingQuestion

    out = console()
    out.print(line((info.id, "bold"), " ", (info.state, STYLES.get(info.state, "")), f"  {shorten(info.task, 200)}"))
    match info.waits:
        case PendingApproval(tool=tool, arguments=arguments):
            out.print(line(f"Waits for your approval of {tool} {arguments}"), soft_wrap=True)
            out.print(line((f"{to_copy('agents', 'approve', info.id)} [--deny]", "dim")))
        case PendingQuestion(question=question):
            out.print(line(f"Asks: {question}"), soft_wrap=True)
            out.print(line((f'{to_copy("agents", "answer", info.id)} "…"', "dim")))
    if info.problem:
        out.print(line((info.problem, "yellow")), soft_wrap=True)
    if info.result:
        out.print(line(info.result), soft_wrap=True)
