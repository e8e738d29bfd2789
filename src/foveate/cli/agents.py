"""`foveate agents`: agents that work in the background."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from foveate.cli.ui.answers import Answer, Cells, print_values, store_group
from foveate.cli.ui.options import TOKENS, assignment, stacked
from foveate.cli.ui.terminal import Column, age, line, shorten, to_copy
from foveate.cli.ui.tool_options import ToolOptions, tool_options

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.subagents import AgentInfo, AgentTotals
    from foveate.sync import Foveate

CELLS: Cells[AgentInfo] = {
    Column("agent"): lambda info: info.id,
    Column("state"): lambda info: info.state,
    Column("kind", expendable=2): lambda info: info.kind,
    Column("for", expendable=1): lambda info: info.parent_session_id or "",
    Column("age"): lambda info: age(info.created_at),
    Column("task", "cut"): lambda info: " ".join(info.task.split()),
}
STYLES = {"done": "green", "failed": "red", "lost": "red", "cancelled": "dim", "waiting": "yellow", "running": "cyan"}
NOT_DONE = 3
"""Exit code of `wait`, `call` and `run` if the agent has no result, or has not ended."""
F = TypeVar("F", bound=Callable[..., Any])
agent_argument = click.argument("agent_id", metavar="AGENT")


@store_group("agents", "Agents that work on tasks: call, run, spawn, list, wait, cancel.")
def command() -> None:
    """Let models work on tasks: in this process ('call', 'run'), or in the background ('spawn'), run by
    'foveate worker' or 'foveate serve'.

    \b
    foveate agents spawn "Find out why the build is slow" --pack research --model openai:gpt-5-mini
    foveate agents list
    foveate agents wait a-1f2e3d4c5b
    foveate agents cancel a-1f2e3d4c5b
    """


@command.command(name="list")
@click.option("--state", metavar="STATE", help="queued, running, waiting, done, failed, cancelled or lost.")
@click.option("--session", "parent", metavar="SESSION", help="Only agents of this session.")
def list_(fov: Foveate, *, state: str | None, parent: str | None) -> Answer:
    """List the agents, newest first.

    \b
    foveate agents list --state waiting
    """
    found = fov.agents.list(state=state, parent=parent and fov.find_session(parent).id)
    empty = f"No agents. '{to_copy('agents', 'spawn', 'TASK')}' starts one."
    value = [_as_json(info) for info in found]
    return Answer(value, (lambda out: print_values(out, CELLS, found)) if found else empty)


@command.command()
@agent_argument
def show(fov: Foveate, agent_id: str) -> Answer:
    """Show an agent: its task, state and result, and how much of its limits it and its sub-agents have used.

    \b
    foveate agents show a-1f2e3d4c5b
    """
    info, totals = fov.agents.get(agent_id), fov.agents.totals(agent_id)
    return Answer({**_as_json(info), "totals": asdict(totals)}, lambda out: _print_tree(out, info, totals))


def agent_options(function: F) -> F:
    """Add the options of every command that starts an agent, passed as one argument `options`."""

    @functools.wraps(function)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        names = ("parent", "is_fork", "model", "max_tokens", "max_usd", "tools")
        options = _Options(**{name: named.pop(name) for name in names})
        if options.is_fork and options.parent is None:
            raise click.UsageError("--fork needs --session, the session whose turns the agent sees")
        return function(*arguments, options=options, **named)

    return stacked(*_OPTIONS)(wrapped)  # type: ignore[return-value]


_OPTIONS = (
    click.option("--session", "parent", metavar="SESSION", help="The session that the agent works for."),
    click.option("--fork", "is_fork", is_flag=True, help="Let the agent see that session's turns."),
    click.option("--model", metavar="NAME", help="The model to use, e.g. openai:gpt-5-mini."),
    click.option("--max-tokens", type=TOKENS, metavar="TOKENS", help="Limit of the agent and all agents it starts."),
    click.option("--max-usd", type=click.FloatRange(min=0), metavar="USD", help="Cost limit of the same agents."),
    tool_options,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options that an agent is started with."""

    parent: str | None
    is_fork: bool
    model: str | None
    max_tokens: int | None
    max_usd: float | None
    tools: ToolOptions

    def arguments(self, fov: Foveate) -> dict[str, Any]:
        """Return the options as arguments of the methods of `fov.agents`."""
        limits = {"tokens": self.max_tokens, "usd": self.max_usd}
        tools = self.tools
        return {
            "parent": self.parent and fov.find_session(self.parent).id,
            "fork": self.is_fork,
            "model": self.model,
            "packs": tools.packs,
            "roots": tools.choice.roots if tools.packs else (),
            "allow_exec": tools.allow_exec,
            "allow_unsandboxed": tools.allow_unsandboxed,
            # Nobody can be asked, and a command could do whatever a local tool does.
            "approve_local": tools.allow_exec,
            "approved": tuple(sorted(tools.approved)),
            "mcp_servers": tools.mcp,
            "limits": {name: value for name, value in limits.items() if value is not None} or None,
        }


@command.command(create=True)
@click.argument("task")
@click.option("--call", "is_call", is_flag=True, help="One prompt and its answer, instead of a run to completion.")
@agent_options
def spawn(fov: Foveate, *, task: str, is_call: bool, options: _Options) -> Answer:
    """Start an agent in the background. A worker runs it; this command returns immediately.

    \b
    foveate agents spawn "Write the release notes" --session work --fork
    foveate agents spawn "Make the tests pass" --pack core-codex --allow-exec --root ~/src/shop
    """
    made = fov.agents.spawn(task, kind="call" if is_call else "run", **options.arguments(fov))
    return Answer(_as_json(made), lambda out: _print_start(out, made))


@command.command(create=True)
@click.argument("prompt", default="")
@click.option("--prompt", "prompt_key", metavar="KEY", help="A stored prompt, instead of PROMPT.")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="A variable of the stored prompt.")
@agent_options
def call(fov: Foveate, *, prompt: str, prompt_key: str | None, pairs: tuple[str, ...], options: _Options) -> Answer:
    """Send a prompt, or a stored one, to a model in a new session, and print the answer. Exit code 3 if there is none.

    \b
    foveate agents call "Which port does the server use?" --session work --fork
    foveate agents call --prompt reviews/code --set language=Python --pack file-ops
    """
    variables = dict(assignment(pair, "NAME=VALUE", "language=Python") for pair in pairs)
    return _ended(fov.agents.call(prompt, prompt_key=prompt_key, variables=variables or None, **options.arguments(fov)))


@command.command(create=True)
@click.argument("task")
@agent_options
def run(fov: Foveate, *, task: str, options: _Options) -> Answer:
    """Run an agent in this process until it ends, and print its result. Exit code 3 if it has none.

    If the agent needs an approval or an answer, this command ends; after 'agents approve' or 'agents answer' a worker
    continues it.

    \b
    foveate agents run "Make the tests pass" --pack core-codex --allow-exec --root ~/src/shop
    """
    return _ended(fov.agents.run(task, **options.arguments(fov)))


@command.command()
@agent_argument
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="How long to wait. Default: no limit.")
def wait(fov: Foveate, *, agent_id: str, timeout: float | None) -> Answer:
    """Wait until an agent ends, and print its result. Exit code 3 if it has none.

    \b
    foveate agents wait a-1f2e3d4c5b --timeout 600
    """
    return _ended(fov.agents.wait(agent_id, timeout_seconds=timeout))


@command.command()
@agent_argument
def cancel(fov: Foveate, *, agent_id: str) -> Answer:
    """Cancel an agent and all agents it started, including calls in progress.

    \b
    foveate agents cancel a-1f2e3d4c5b
    """
    cancelled = fov.agents.cancel(agent_id)
    listed = ", ".join(info.id for info in cancelled)
    message = f"Cancelled {listed}." if cancelled else f"{agent_id} had ended already."
    return Answer([_as_json(info) for info in cancelled], message)


@command.command()
@agent_argument
@click.option("--deny", is_flag=True, help="Do not execute the call; the model gets a refusal.")
@click.option("--for-session", is_flag=True, help="Do not ask about this tool again.")
def approve(fov: Foveate, *, agent_id: str, deny: bool, for_session: bool) -> Answer:
    """Approve or deny the tool call that an agent waits for.

    \b
    foveate agents approve a-1f2e3d4c5b
    foveate agents approve a-1f2e3d4c5b --deny
    """
    return _state(fov.agents.approve(agent_id, allow=not deny, for_session=for_session))


@command.command()
@agent_argument
@click.argument("text")
def answer(fov: Foveate, *, agent_id: str, text: str) -> Answer:
    """Answer the question that an agent is waiting on.

    \b
    foveate agents answer a-1f2e3d4c5b "Use port 8443."
    """
    return _state(fov.agents.answer(agent_id, text))


def _ended(info: AgentInfo) -> Answer:
    """Return the result of an agent, or its state and exit code 3 if it has none."""
    if info.state == "done":
        return Answer(_as_json(info), info.result or "")
    return Answer(_as_json(info), lambda out: _print(out, info), NOT_DONE)


def _state(info: AgentInfo) -> Answer:
    return Answer(_as_json(info), f"{info.id} is {info.state}.")


def _as_json(info: AgentInfo) -> dict[str, object]:
    import msgspec

    shown: dict[str, object] = msgspec.to_builtins(info)
    return shown


def _print_start(out: Console, made: AgentInfo) -> None:
    out.print(line(("Started ", "green"), (made.id, "bold"), "; 'foveate worker' runs it."))
    out.print(line((f"Its result: {to_copy('agents', 'wait', made.id)}", "dim")))


def _print_tree(out: Console, info: AgentInfo, totals: AgentTotals) -> None:
    _print(out, info)
    limits = totals.limits
    usd = f"${totals.nano_usd / 1e9:.4f} of ${limits.max_nano_usd / 1e9:.2f}"
    used = f"{totals.agents} of {limits.max_agents} agents, {totals.tokens:,} of {limits.max_tokens:,} tokens, {usd}"
    out.print(line((f"Its tree ({info.tree}): {used}.", "dim")), soft_wrap=True)
    out.print(line((f"Its log: {to_copy('show', info.session_id, 'T-1')}", "dim")), soft_wrap=True)


def _print(out: Console, info: AgentInfo) -> None:
    from foveate.session.subagents import PendingApproval, PendingQuestion

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
