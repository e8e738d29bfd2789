"""Measure any gateway, or any folder of requests, with the same yardsticks as our own.

    python bench/measure.py play TRANSCRIPT --url http://127.0.0.1:8484/v1 --upstream-port 9900 --out FOLDER
    python bench/measure.py score TRANSCRIPT FOLDER --budget 16000 [--json]

`play` is a client of the gateway and the provider behind it: it listens on the upstream port, sends the conversation of
a transcript through the gateway prompt by prompt, each time with the whole history as apps do, and answers with what
the transcript says. What arrives upstream is written to FOLDER as 0001.json, 0002.json, … (OpenAI's Chat Completions).
Start the gateway with `http://127.0.0.1:9900/v1` as its provider; for ours:

    foveate serve --upstream http://127.0.0.1:9900/v1

`score` reads such a folder, however it was made: a file for each prompt from the first on (`messages` in a JSON
object), in their order. It prints

- invalid: requests that a strict provider rejects (roles, calls and results, thinking; `tests/support/validators.py`);
- over: requests above the budget, and the largest one, in o200k tokens of their text;
- cached, price: the share of each request that the one before it began with, and the price of all of them relative to
  the same tokens without a cache (reads 0.1, writes 1.25);
- working set: of the paths, identifiers and numbers that a turn uses and that were said before, the share that its
  request has; beside it the same for the newest tokens of the transcript that fill the budget.

A transcript is any file that `foveate import` reads. Tool calls of a transcript are played as text, so that gateways
without tools are measured, too. Only loopback is used.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx2
from rich.progress import track

sys.path.extend(str(Path(__file__).resolve().parents[1] / folder) for folder in ("bench", "tests"))

import foveate.sync as foveate
from foveate.text import common_length, turn_text
from foveate.tokens import count_tokens
from support.validators import faults

READ, WRITE = 0.1, 1.25
"""Prices of cached and of newly written tokens, relative to the plain ones."""
SKIPPED_TURNS = 12
"""Turns before the first that counts for the working set: there is little to find."""
PATIENCE_SECONDS = 120
_REFERENCE = re.compile(r"[A-Za-z_][\w.-]*[/._-][\w./-]*\w|\b[a-z]+[A-Z]\w+|\b\w*\d\w*\b|\b[A-Z][a-zA-Z]*[A-Z]\w*")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A prompt of a transcript, and everything that followed it."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of a folder; shares are means over its requests."""

    requests: int
    invalid: int
    over_budget: int
    largest_tokens: int
    mean_tokens: int
    cached: float
    price: float
    working_set: float
    newest_tokens: float
    counted: int
    """Turns that used something that was said before."""


def read_exchanges(path: Path, limit: int | None) -> list[Exchange]:
    """Read the longest session of a transcript."""
    with tempfile.TemporaryDirectory() as folder, foveate.open(Path(folder) / "chat.db") as fov:
        fov.import_file(path)
        turns = max((fov.open_session(info.id).load_turns() for info in fov.sessions()), key=len)
    found = []
    for turn in turns:
        prompt = next((message.text for message in turn.messages if message.role == "user"), "")
        if prompt.strip():
            answer = turn_text(tuple(message for message in turn.messages if message.role != "user")).strip()
            found.append(Exchange(prompt, answer or "Done."))
    return found[:limit]


@contextmanager
def upstream(port: int, answers: dict[str, str], folder: Path) -> Iterator[None]:
    """Serve the provider: it writes each request to the folder and answers the newest prompt in it."""
    numbers = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            number = next(numbers)
            (folder / f"{number:04}.json").write_text(json.dumps(body, ensure_ascii=False), "utf-8")
            said = next(_text(message) for message in reversed(body["messages"]) if message["role"] == "user")
            answer = next((answer for prompt, answer in answers.items() if prompt in said), "Done.")
            message = {"role": "assistant", "content": answer}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._send({"id": f"c-{number}", "object": "chat.completion", "created": 0, "model": "scripted",
                        "choices": [choice], "usage": usage})  # fmt: skip

        def _send(self, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def play(exchanges: Sequence[Exchange], url: str, port: int, folder: Path, model: str) -> None:
    """Send the conversation through a gateway."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.json")):
        raise SystemExit(f"{folder} has requests already; name an empty folder")
    messages: list[dict[str, str]] = []
    key = os.environ.get("OPENAI_API_KEY", "sk-none")
    with (
        upstream(port, {each.prompt: each.answer for each in exchanges}, folder),
        httpx2.Client(timeout=PATIENCE_SECONDS, headers={"authorization": f"Bearer {key}"}) as client,
    ):
        for each in track(exchanges, description="playing", disable=not sys.stderr.isatty()):
            messages.append({"role": "user", "content": each.prompt})
            response = client.post(f"{url.rstrip('/')}/chat/completions", json={"model": model, "messages": messages})
            if response.is_error:
                raise SystemExit(f"{url} answered {response.status_code}: {response.text[:300]}")
            messages.append({"role": "assistant", "content": each.answer})


def score(exchanges: Sequence[Exchange], requests: Sequence[dict[str, Any]], budget_tokens: int) -> Score:
    """Score requests, one for each exchange."""
    texts = [request_text(request) for request in requests]
    sizes = [count_tokens(text) for text in texts]
    cached = [count_tokens(common_start(before, text)) for before, text in itertools.pairwise(["", *texts])]
    whole = sum(sizes)
    price = sum(READ * old + WRITE * (size - old) for size, old in zip(sizes, cached, strict=True)) / whole
    seen: set[str] = set()
    shown: list[float] = []
    newest: list[float] = []
    said: list[str] = []
    for number, (each, text) in enumerate(zip(exchanges, texts, strict=False)):
        used = (references(each.answer) & seen) - references(each.prompt)
        if number >= SKIPPED_TURNS and used:
            shown.append(len(used & references(text)) / len(used))
            newest.append(len(used & references(newest_text(said, budget_tokens))) / len(used))
        said += [each.prompt, each.answer]
        seen |= references(each.prompt) | references(each.answer)
    return Score(
        requests=len(requests),
        invalid=sum(bool(faults("openai", request)) for request in requests),
        over_budget=sum(size > budget_tokens for size in sizes),
        largest_tokens=max(sizes),
        mean_tokens=round(fmean(sizes)),
        cached=round(sum(cached) / whole, 3),
        price=round(price, 3),
        working_set=round(fmean(shown), 3) if shown else 0.0,
        newest_tokens=round(fmean(newest), 3) if newest else 0.0,
        counted=len(shown),
    )


def common_start(one: str, other: str) -> str:
    """Return what both texts begin with."""
    return one[: common_length(one, other)]


def request_text(request: dict[str, Any]) -> str:
    """Return what a provider reads of a request, in its order: tools, then messages."""
    tools = json.dumps(request["tools"], ensure_ascii=False) + "\n" if request.get("tools") else ""
    return tools + "\n".join(f"{message['role']}: {_text(message)}" for message in request["messages"])


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)
    return text + (json.dumps(message["tool_calls"], ensure_ascii=False) if message.get("tool_calls") else "")


def references(text: str) -> set[str]:
    """Return the paths, identifiers and numbers of a text."""
    return {found for found in _REFERENCE.findall(text) if 4 <= len(found) <= 80}


def newest_text(said: Sequence[str], budget_tokens: int) -> str:
    """Return the newest tokens that fill the budget."""
    kept: list[str] = []
    left = budget_tokens
    for text in reversed(said):
        tokens = count_tokens(text)
        if tokens > left:
            kept.append(text[len(text) - int(len(text) * left / tokens) :])
            break
        kept.append(text)
        left -= tokens
    return "\n".join(reversed(kept))


def read_requests(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
    if not found:
        raise SystemExit(f"{folder} has no *.json files")
    for number, request in enumerate(found, 1):
        if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
            raise SystemExit(f"request {number} in {folder} has no list of messages")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    playing, scoring = commands.add_parser("play"), commands.add_parser("score")
    for command in (playing, scoring):
        command.add_argument("transcript", type=Path)
        command.add_argument("--turns", type=int, help="only the first turns")
    playing.add_argument("--url", default="http://127.0.0.1:8484/v1", help="the gateway's base URL")
    playing.add_argument("--upstream-port", type=int, default=9900)
    playing.add_argument("--model", default="gpt-5-mini")
    playing.add_argument("--out", type=Path, required=True)
    scoring.add_argument("folder", type=Path)
    scoring.add_argument("--budget", type=int, required=True)
    scoring.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    exchanges = read_exchanges(arguments.transcript, arguments.turns)
    if arguments.command == "play":
        play(exchanges, arguments.url, arguments.upstream_port, arguments.out, arguments.model)
        print(f"{len(exchanges)} prompts played; score them with: measure.py score … {arguments.out}")
        return
    found = asdict(score(exchanges, read_requests(arguments.folder), arguments.budget))
    print(json.dumps(found) if arguments.json else "\n".join(f"{name:15} {value:,}" for name, value in found.items()))


if __name__ == "__main__":
    main()
