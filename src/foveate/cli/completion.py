"""`foveate completion`: the script that completes commands, options and sessions in a shell."""

from __future__ import annotations

import click

from foveate.cli.ui.options import json_option
from foveate.cli.ui.terminal import print_json


@click.command(name="completion", short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def command(*, shell: str, as_json: bool) -> None:
    """Print a script that completes commands, options, and sessions by id and title.

    \b
    echo 'eval "$(foveate completion bash)"' >> ~/.bashrc
    echo 'eval "$(foveate completion zsh)"' >> ~/.zshrc
    foveate completion fish > ~/.config/fish/completions/foveate.fish
    """
    from click.shell_completion import get_completion_class

    from foveate.cli import COMPLETION, cli
    from foveate.cli.ui import completion  # noqa: F401 - registers our script for Bash

    found = get_completion_class(shell)
    assert found is not None
    script = found(cli, {}, "foveate", COMPLETION).source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
