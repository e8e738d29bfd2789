"""A server in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.command_line import Shell
from support.command_line import command as words_of


@contextmanager
def served(
    shell: Shell, *arguments: str, command: str = "serve", **variables: str
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A real server, with the line it prints when it is ready; of `ui`, its address alone."""
    is_ui = command == "ui"
    words = words_of(command, "--port", "0", "--no-browser" if is_ui else "--json", *arguments)
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=shell.environment(**variables)
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        yield process, {"url": re.findall(r"http://\S+", line)[0]} if is_ui else json.loads(line)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
