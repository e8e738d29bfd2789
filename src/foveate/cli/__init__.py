"""The command line: one file per command, loaded when it is used."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pkgutil import iter_modules

import click

import foveate

NOT_COMMANDS = {"terminal", "options"}
USER_ERROR = 1
INTERRUPTED = 130


class _Commands(click.Group):
    """Finds each command in the module of its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name.rstrip("_") for module in iter_modules(__path__) if module.name not in NOT_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        suffix = "_" if cmd_name == "import" else ""
        command: click.Command = import_module(f"{__name__}.{cmd_name}{suffix}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from error


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(foveate.__version__, prog_name="foveate")
def cli() -> None:
    """Keeps LLM conversations for good, and exactly.

    \b
    foveate import ~/.claude/projects      bring in what you have
    foveate sessions                       see it
    foveate show SESSION T-1               read a turn
    foveate demo                           try it on a made-up conversation

    Everything is kept in ~/.foveate/foveate.db, or where --db or $FOVEATE_DB says.
    """


def main() -> None:
    """Run the command line; a user's mistake is told in a sentence, without a traceback."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.secho("Interrupted; what was recorded before is kept.", fg="yellow", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader went away, as `head` does. Nothing more can be written, not even by the interpreter's own flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(USER_ERROR)
    except foveate.FoveateError as error:
        click.echo(click.style("Error: ", fg="red", bold=True) + str(error), err=True)
        sys.exit(USER_ERROR)
