"""Real clients against a scripted provider, straight or through the gateway.

    python bench/clients/run.py install                      # by name from the package indexes, into the cache
    python bench/clients/run.py record OUT [CLIENT…]         # straight: what each client sends, as OUT/CLIENT.jsonl
    python bench/clients/run.py check [CLIENT…]              # through `foveate serve`

The cache is $FOVEATE_CLIENTS, or ~/.cache/foveate-clients. Not part of `make test`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from clients.agents import AGENTS, Agent, Conversation, Place, install

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("FOVEATE_CLIENTS", "~/.cache/foveate-clients")).expanduser()
START_SECONDS = 60
STEPS = ("first", "tool", "resume", "fork", "subagent", "compact", "after")
SUBAGENT = (
    'Please [[call Agent {"description": "count", "prompt": "Count to three.", "subagent_type": "general-purpose",'
    ' "run_in_background": false}]]'
)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def process(command: Sequence[str], url: str, out: Path) -> Iterator[None]:
    """A server process, until the block ends."""
    with out.open("w") as file:
        running = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                urlopen(url, timeout=1).close()
                break
            except OSError as error:
                if getattr(error, "code", None):  # it answers
                    break
                if time.monotonic() > until or running.poll() is not None:
                    raise RuntimeError(f"{command} did not start: {out.read_text()[-500:]}") from error
                time.sleep(0.1)
        yield
    finally:
        running.terminate()
        running.wait(30)


@contextmanager
def upstream(log: Path, *options: str) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with process(
        [sys.executable, str(HERE / "upstream.py"), str(port), str(log), *options], url, log.with_suffix(".out")
    ):
        yield url


@contextmanager
def gateway(db: Path, provider: str) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "foveate", "serve", "--port", str(port), "--upstream", provider, "--db", str(db)]
    with process(command, f"{url}/healthz", db.with_suffix(".out")):
        yield url


def talk(agent: Agent, place: Place, url: str, note: str = "") -> list[str]:
    """A conversation: a fact, a tool, a resumption, a fork, and where the client has them a sub-agent and /compact."""
    known = Conversation()
    done: list[str] = []

    def ask(step: str, prompt: str, *options: str) -> None:
        agent.ask(place, url, prompt, known, options)
        done.append(step)

    ask("first", f"Remember{note}: the code of {agent.name} is 4711.")
    ask("tool", agent.call("echo hello"))
    ask("resume", "What did the tool print?")
    if agent.forks:
        ask("fork", "And in this branch?", *agent.forks)
    if agent.name.startswith("claude-code"):
        ask("subagent", SUBAGENT)
        ask("compact", "/compact")
    ask("after", "And what is the code?")
    return done


def record(out: Path, names: Sequence[str]) -> None:
    """What each client sends when nothing is between it and the provider."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        log = out / f"{name}.jsonl"
        log.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as folder, upstream(log, "lenient") as url:
            place = Place(CACHE, Path(folder) / "home", Path(folder) / "work")
            started = time.monotonic()
            try:
                steps = talk(AGENTS[name], place, url)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{name}: {error}")
                continue
            finally:
                shutil.rmtree(place.home, ignore_errors=True)
        entries = [entry for line in log.read_text("utf-8").splitlines() if (entry := json.loads(line))["format"]]
        found = Counter(fault for entry in entries for fault in entry["faults"])
        seconds = time.monotonic() - started
        print(f"{name}: {len(steps)} prompts, {len(entries)} requests, {seconds:.0f} s, {dict(found.most_common(3))}")


def main(words: Sequence[str]) -> None:
    match words:
        case ["install"]:
            install(CACHE)
        case ["record", out, *names]:
            record(Path(out), names or list(AGENTS))
        case _:
            print(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
