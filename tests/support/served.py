"""A server in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.command_line import Shell, command


@contextmanager
def served(shell: Shell, *arguments: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A real server, with the line it prints when it is ready."""
    words = command("serve", "--port", "0", "--json", *arguments)
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=shell.environment(**variables)
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        yield process, json.loads(line)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
