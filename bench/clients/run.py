"""Real clients against a scripted provider, straight or through the gateway.

    python bench/clients/run.py install                      # by name from the package indexes, into the cache
    python bench/clients/run.py record OUT [CLIENT…]         # straight: what each client sends, as OUT/CLIENT.jsonl
    python bench/clients/run.py check [CLIENT…]              # through `foveate serve`
    python bench/clients/run.py through URL PORT OUT [CLIENT…]    # any gateway whose provider is 127.0.0.1:PORT
    python bench/clients/run.py large [CLIENT…]              # 2 MB of history in each agent
    python bench/clients/run.py long [CLIENT…]               # the packages: 2 MB of history, 300 turns in 16,000 tokens
    python bench/clients/run.py session                      # the session of Claude Code in docs/lab/gateway.md

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

sys.path.extend(str(Path(__file__).resolve().parents[2] / folder) for folder in ("bench", "tests"))

import foveate.sync as foveate
from clients.agents import AGENTS, Agent, Conversation, Place, install
from support.recount import recount

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("FOVEATE_CLIENTS", "~/.cache/foveate-clients")).expanduser()
START_SECONDS = 180
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
def upstream(log: Path, *options: str, port: int | None = None) -> Iterator[str]:
    port = port or free_port()
    url = f"http://127.0.0.1:{port}"
    with process(
        [sys.executable, str(HERE / "upstream.py"), str(port), str(log), *options], url, log.with_suffix(".out")
    ):
        yield url


@contextmanager
def gateway(db: Path, provider: str, budget_tokens: int) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "foveate", "serve", "--port", str(port), "--upstream", provider, "--db", str(db)]
    os.environ["FOVEATE_SESSION__BUDGET_TOKENS"] = str(budget_tokens)
    with process(command, f"{url}/healthz", db.with_suffix(".out")):
        yield url


def talk(agent: Agent, place: Place, url: str) -> list[str]:
    """A conversation: a fact, a tool, a resumption, a fork, an edit, and of Claude Code a sub-agent and /compact."""
    known = Conversation()
    done: list[str] = []
    """The prompts that were answered."""

    def ask(prompt: str, *options: str) -> None:
        agent.ask(place, url, prompt if prompt.startswith("/") else f"{prompt} ({agent.name})", known, options)
        if not prompt.startswith("/"):
            done.append(prompt.removeprefix("edit: "))

    ask(f"Remember: the code of {agent.name} is 4711.")
    ask(agent.call("echo hello"))
    ask("What did the tool print?")
    if agent.forks:
        ask("And in this branch?", *agent.forks)
    if agent.name.startswith("claude-code"):
        ask(SUBAGENT)
        ask("/compact")
    ask("And what is the code?")
    if agent.name.startswith("sdk-"):
        ask("edit: And what was the code again?")
    else:
        agent.forget(place, "And what is the code?")
        ask("And what was the code again?")
    return done


def record(out: Path, names: Sequence[str], *, through: tuple[str, int] | None = None) -> None:
    """What the provider gets from each client: directly, or through a gateway's URL with the provider on this port.

    A request that a strict provider would reject is rejected if there is a gateway; without one it is counted.
    """
    gateway_url, port = through or (None, None)
    options = () if through else ("lenient",)
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        log = out / f"{name}.jsonl"
        log.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as folder, upstream(log, *options, port=port) as provider:
            place = Place(CACHE, Path(folder) / "home", Path(folder) / "work")
            started = time.monotonic()
            try:
                steps = talk(AGENTS[name], place, gateway_url or provider)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{name}: {error}")
                continue
            finally:
                shutil.rmtree(place.home, ignore_errors=True)
        entries = [entry for line in log.read_text("utf-8").splitlines() if (entry := json.loads(line))["format"]]
        found = Counter(fault for entry in entries for fault in entry["faults"])
        seconds, most = time.monotonic() - started, max(map(tokens_of, entries), default=0)
        sent = f"{len(steps)} prompts, {len(entries)} requests, at most {most:,} tokens"
        print(f"{name}: {sent}, {seconds:.0f} s, {dict(found.most_common(3)) or 'nothing rejected'}")


@dataclass
class Findings:
    """What was wrong with a run through the gateway."""

    requests: int = 0
    rejected: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    """Requests that have more tokens than the budget, counted again."""
    sessions: int = 0
    most_tokens: int = 0

    def line(self, name: str) -> str:
        counts = f"{self.requests} requests, at most {self.most_tokens:,} tokens, {self.sessions} sessions"
        wrong = {
            key: getattr(self, key) for key in ("rejected", "lost", "repeated", "mixed", "over") if getattr(self, key)
        }
        return f"{name}: {counts}; {wrong or 'nothing wrong'}"


def prompts_of(db: Path) -> dict[str, list[str]]:
    """The prompts in each session, without those that a fork shares and branches for a client's own summary."""
    found: dict[str, list[str]] = {}
    with foveate.open(db) as fov:
        for info in fov.sessions():
            shared = int((info.fork_turn_id or "T-0").removeprefix("T-"))
            session = fov.open_session(info.id)
            turns = session.load_turns(shared + 1) if info.turns > shared else []
            texts = [
                one.text for turn in turns for one in turn.messages if one.role == "user" and one.kind == "message"
            ]
            if not any("Respond with TEXT ONLY" in text for text in texts):
                found[info.id] = texts
    return found


def tokens_of(entry: Mapping[str, Any]) -> int:
    """The tokens of a logged request, counted independently of the gateway."""
    body, name = entry["body"], entry["format"]
    system = body.get("system") or body.get("instructions") or body.get("systemInstruction", {}).get("parts") or ""
    if isinstance(system, list):
        system = "\n".join(block.get("text", "") for block in system)
    request = {**body, "system": system}
    if name == "gemini":
        request = {"contents": body["contents"], "config": {"system_instruction": system, "tools": body.get("tools")}}
    return recount(name, request, model=body.get("model"))


def examine(log: Path, db: Path, asked: Sequence[str], budget_tokens: int) -> Findings:
    """Compare what was asked with what went upstream and what is in the log."""
    entries = [entry for line in log.read_text("utf-8").splitlines() if (entry := json.loads(line))["format"]]
    found = Findings(requests=len(entries), rejected=[fault for entry in entries for fault in entry["faults"]])
    counted = [tokens_of(entry) for entry in entries]
    found.most_tokens = max(counted, default=0)
    found.over = [f"{tokens:,}" for tokens in counted if tokens > budget_tokens]
    sessions = prompts_of(db)
    found.sessions = len(sessions)
    for prompt in asked:
        times = sum(prompt in text.replace('\\"', '"') for texts in sessions.values() for text in texts)
        if times != 1:
            (found.repeated if times else found.lost).append(prompt[:60])
    for name, texts in sessions.items():
        owners = {agent for agent in AGENTS for text in texts if f"({agent})" in text}
        if len(owners) > 1:
            found.mixed.append(f"{name}: {sorted(owners)}")
    return found


def check(names: Sequence[str]) -> None:
    """All clients through one gateway."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        log, db = root / "clients.jsonl", root / "clients.db"
        asked: list[str] = []
        with upstream(log) as provider, gateway(db, provider, 100_000) as url:
            for name in names:
                place = Place(CACHE, root / name / "home", root / name / "work")
                try:
                    asked += [f"{prompt} ({name})" for prompt in talk(AGENTS[name], place, url)]
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    print(f"{name} failed: {error}")
        print(examine(log, db, asked, 100_000).line(", ".join(names)))
        for name in names:
            own = [prompt for prompt in asked if prompt.endswith(f"({name})")]
            print(f"  {name}: {len(own)} prompts, {_missing(db, own)}", flush=True)


def _missing(db: Path, asked: Sequence[str]) -> str:
    texts = [text.replace('\\"', '"') for texts in prompts_of(db).values() for text in texts]
    counts = Counter({prompt: sum(prompt in text for text in texts) for prompt in asked})
    wrong = {prompt[:60]: count for prompt, count in counts.items() if count != 1}
    return f"not once in the log: {wrong}" if wrong else "each once in the log"


def check_large(names: Sequence[str]) -> None:
    """A history of 2 MB in each real client, one prompt at a time."""
    for name in names or [name for name in AGENTS if not name.startswith("sdk-")]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            log, db = root / "large.jsonl", root / "large.db"
            started, known, asked = time.monotonic(), Conversation(), []
            place = Place(CACHE, root / "home", root / "work")
            with upstream(log) as provider, gateway(db, provider, 100_000) as url:
                try:
                    for number in range(1, 7):
                        AGENTS[name].ask(place, url, f"This is number {number} of them: go on. [[big 400]]", known)
                        asked.append(f"number {number} ")
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    print(f"{name} failed: {error}")
            found = examine(log, db, asked, 100_000).line(f"{name}, {len(asked)} prompts, 2 MB")
            print(f"{found}, {time.monotonic() - started:.0f} s", flush=True)


def check_long(names: Sequence[str]) -> None:
    """A history of 2 MB, then 300 turns in 16,000 tokens, by the providers' packages."""
    for title, budget, prompts in (
        ("2 MB", 100_000, ["repeat 6: Tell me more. [[big 400]]"]),
        ("300 turns at 16k", 16_000, ["repeat 300: The harbour master wrote down what every ship brought. [[big 2]]"]),
    ):
        for name in names or ("sdk-anthropic", "sdk-openai", "sdk-openai-responses", "sdk-gemini"):
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                log, db = root / "long.jsonl", root / "long.db"
                started = time.monotonic()
                with upstream(log) as provider, gateway(db, provider, budget) as url:
                    place = Place(CACHE, root / "home", root / "work")
                    for prompt in prompts:
                        AGENTS[name].ask(place, url, prompt, Conversation())
                times = int(prompts[0].split()[1].rstrip(":"))
                asked = [f"number {number} " for number in range(1, times + 1)]
                found = examine(log, db, asked, budget).line(f"{name}, {title}")
                print(f"{found}, {time.monotonic() - started:.0f} s", flush=True)


def show_session() -> None:
    """Three prompts of Claude Code through the gateway, printed as in a terminal."""
    agent = AGENTS["claude-code"]
    known = Conversation()
    prompts = ("Remember: the port of the harbour service is 8443.", "Tell me about tides. [[big 200]]")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        log, db = root / "upstream.jsonl", root / "chat.db"
        with upstream(log) as provider, gateway(db, provider, 48_000) as url:
            print(f"$ foveate serve --upstream {provider}\n{db.with_suffix('.out').read_text().strip()}\n")
            for prompt in (*prompts, "What is the port of the harbour service?"):
                said = json.loads(agent.ask(Place(CACHE, root / "home", root / "work"), url, prompt, known))["result"]
                option = "--continue " if known.number > 1 else ""
                print(f"$ ANTHROPIC_BASE_URL={url} claude {option}-p '{prompt}'\n{shortened(said)}\n")
        entries = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        counted = [tokens_of(entry) for entry in entries if entry["format"]]
        with foveate.open(db) as fov:
            (info,) = fov.sessions()
        for words in (["sessions", "--origin"], ["show", info.id]):
            command = [sys.executable, "-m", "foveate", *words, "--db", str(db)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            print(f"$ foveate {' '.join(words)}\n{shortened(done.stdout or done.stderr, 1_500)}\n")
        print(f"tokens of each request upstream: {', '.join(f'{tokens:,}' for tokens in counted)}")


def shortened(text: str, limit: int = 200) -> str:
    return text.strip() if len(text) <= limit else f"{text[:limit].strip()} … ({len(text):,} characters)"


def main(words: Sequence[str]) -> None:
    match words:
        case ["install"]:
            install(CACHE)
        case ["record", out, *names]:
            record(Path(out), names or list(AGENTS))
        case ["through", url, port, out, *names]:
            record(Path(out), names or list(AGENTS), through=(url, int(port)))
        case ["check", *names]:
            check(names or list(AGENTS))
        case ["large", *names]:
            check_large(names)
        case ["long", *names]:
            check_long(names)
        case ["session"]:
            show_session()
        case _:
            print(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
