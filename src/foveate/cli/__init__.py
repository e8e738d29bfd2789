"""The command line: one file per command, loaded when it is used."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pkgutil import iter_modules

import click

import foveate
from foveate.cli.ui.answers import StoreGroup
from foveate.cli.ui.options import STORE_VARIABLE
from foveate.cli.ui.output import standard_output
from foveate.cli.ui.terminal import whole_error
from foveate.errors import FoveateError, InputError, nearest

NOT_COMMANDS = {"ui"}
"""Packages in this folder that are not commands; the command `ui` is in the module `ui_`."""
RENAMED = ("import", "ui")
"""Commands whose module name ends in `_`, because the bare name is taken."""
COMPLETION = "_FOVEATE_COMPLETE"
"""Environment variable that a shell's completion script sets."""
INTERRUPTED = 130
INVALID = 2
"""Exit code for invalid options, as Click's own; of services also for invalid settings, where a restart can't help."""
SERVICES = ("serve", "worker")
ADVANCED = "Advanced"
GROUPS = {
    "Daily use": ("import", "sessions", "show", "search", "chat", "context", "pin", "unpin", "export", "demo"),
    "Inspect": ("knowledge", "requests", "stats", "tokens", "compare"),
    "Connect": ("connect", "disconnect", "watch", "handoff", "mcp"),
    "Serve": ("serve", "ui", "worker", "keys"),
    "Maintain": ("store", "erase", "models", "doctor"),
    ADVANCED: ("cabinet", "prompts", "run", "agents", "tools"),
}
NESTED = {
    "sessions": ("board", "checkpoints", "fork", "goal", "levels", "replay", "shrink", "topics"),
    "knowledge": ("learn",),
    "store": ("compress", "copy", "prune"),
}
"""Commands of a group that have modules of their own. Their names without the group are aliases, for one release."""
HIDDEN = {"hook", *(name for names in NESTED.values() for name in names)}


class _Invalid(click.ClickException):
    exit_code = INVALID


class _Commands(click.Group):
    """Loads each command from the module of its name, and reports user errors in one sentence, without a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except FoveateError as error:
            is_invalid = ctx.invoked_subcommand in SERVICES and isinstance(error, InputError)
            failure = _Invalid if is_invalid else click.ClickException
            raise failure(whole_error(error)) from error
        except click.NoSuchOption as error:
            group = error.ctx.command if error.ctx else None
            if not isinstance(group, click.Group) or group is self:
                raise
            known = ", ".join(group.commands)
            raise click.UsageError(f"{error.message} Options come after a subcommand: {known}.", error.ctx) from error
        except PermissionError as error:
            raise click.ClickException(f"{error.filename}: {error.strerror}") from error
        except KeyboardInterrupt:
            click.secho("\nInterrupted; everything recorded so far is kept.", fg="yellow", err=True)
            ctx.exit(INTERRUPTED)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(modules() - HIDDEN)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in groups; a command without a group is listed as advanced."""
        grouped = {name for names in GROUPS.values() for name in names}
        rest = [name for name in self.list_commands(ctx) if name not in grouped]
        width = max(map(len, self.list_commands(ctx)))
        for title, names in GROUPS.items():
            found = {name: self.get_command(ctx, name) for name in (*names, *(rest if title == ADVANCED else ()))}
            limit = formatter.width - 6 - width
            rows = [(name.ljust(width), one.get_short_help_str(limit)) for name, one in found.items() if one]
            with formatter.section(title):
                formatter.write_dl(rows)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in modules():
            return None
        suffix = "_" if cmd_name in RENAMED else ""
        command: click.Command = import_module(f"{__name__}.{cmd_name}{suffix}").command
        if isinstance(command, StoreGroup) and cmd_name in NESTED:
            command.nest(NESTED[cmd_name], self.get_command)
        if COMPLETION in os.environ:
            from foveate.cli.ui.completion import complete_sessions

            complete_sessions(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        group = next((group for group, names in NESTED.items() if args[0] in names), "")
        if group and sys.stderr.isatty():
            now = f"'foveate {group} {args[0]}'"
            click.secho(f"This command is now {now}; the old name works for one more release.", dim=True, err=True)
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if near := nearest(args[0], modules()):
                raise click.UsageError(f"{error.message} {near.capitalize()}", ctx) from error
            raise


def modules() -> set[str]:
    """Return the names of all modules with a command."""
    names = (module.name for module in iter_modules(__path__))
    return {name.rstrip("_") for name in names if name not in NOT_COMMANDS}


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(foveate.__version__, prog_name="foveate")
@click.option("--db", metavar="FILE", help="The store of the command: a file or a postgresql:// URL.")
@click.pass_context
def cli(ctx: click.Context, db: str | None) -> None:
    """Endless LLM conversations in a fixed token budget. Nothing is lost.

    \b
    foveate import ~/.claude/projects      import your transcripts
    foveate sessions                       list them
    foveate show SESSION T-1               read a turn
    foveate context SESSION                see what a model gets now
    foveate demo                           try it on a sample conversation

    Everything is stored in ~/.foveate/foveate.db, or in the file that --db or $FOVEATE_DB names.
    """
    if db is not None:
        before = os.environ.get(STORE_VARIABLE)
        os.environ[STORE_VARIABLE] = db
        ctx.call_on_close(lambda: _restore(before))


def _restore(value: str | None) -> None:
    if value is None:
        os.environ.pop(STORE_VARIABLE, None)
    else:
        os.environ[STORE_VARIABLE] = value


def main() -> None:
    """Run the command line."""
    if COMPLETION in os.environ:
        from foveate.cli.ui import completion  # noqa: F401 - registers our script for Bash
    with standard_output():
        cli(prog_name="foveate")
