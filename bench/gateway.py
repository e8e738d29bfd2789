"""The gateway against a plain proxy, on a fixed piece of work, and on a real conversation.

    python bench/gateway.py [latency|streams|memory|work|session]
    python bench/gateway.py beside                        this gateway beside one without accounts and logs
    python bench/gateway.py beside --other FOLDER/src     this gateway beside that of another version

`session` needs ../shared/data.

Everything runs on loopback: a scripted upstream, a plain pass-through proxy and the gateway, each in its own process.
Ratios in one run count; absolute times depend on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from cache import FILES, load_turns
from foveate.formats import render_messages
from foveate.replay.replay import replay
from foveate.settings import Settings
from foveate.tokens import count_tokens
from foveate.turn import Message, Turn

FOLDER = Path(__file__).parent
WORDS = (
    "The tide table of the harbour lists the {n}th berth with a depth of {n} metres, and crane {n} serves it until "
    "the evening, unless the wind from the north is stronger than {n} knots. "
)
FACT = "The emergency code of the lighthouse is VK-4471-Q."
CALL = "List the berths first."
"""The scripted upstream answers this with a tool call."""
BREAKPOINT = b',"cache_control":{"type":"ephemeral"}'
"""Breakpoints are no part of what a provider caches."""
MODEL = "claude-haiku-4-5"
TOOL = {"name": "ls", "description": "List files.", "input_schema": {"type": "object", "properties": {}}}
HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "sk-bench"}
VERBOSE = bool(os.environ.get("BENCH_VERBOSE"))
SENTENCES = 10
"""In each prompt; with the scripted answer a turn then has about 605 tokens of o200k_base."""
SIZES = {"2 kB": 2_000, "400 kB": 400_000, "2 MB": 2_000_000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ["latency", "streams", "memory", "work", "session", "beside", "all"]
    parser.add_argument("part", nargs="?", choices=parts, default="all")
    parser.add_argument("--other", type=Path, help="of `beside`: the folder with another version's package")
    parser.add_argument("--requests", type=int, default=60, help="requests for each size or load")
    parser.add_argument("--transcript", choices=list(FILES), default="aider", help="of `session`")
    parser.add_argument("--turns", type=int, default=300, help="of `session`")
    parser.add_argument("--budget", type=int, default=16_000, help="of `session`")
    arguments = parser.parse_args()
    if arguments.part in ("latency", "all"):
        asyncio.run(latency(arguments.requests))
    if arguments.part in ("streams", "all"):
        asyncio.run(streams(arguments.requests * 10))
    if arguments.part in ("memory", "all"):
        asyncio.run(memory(arguments.requests * 10))
    if arguments.part in ("work", "all"):
        asyncio.run(work())
    if arguments.part == "beside":
        asyncio.run(beside(arguments.requests, arguments.other.resolve() if arguments.other else None))
    if arguments.part in ("session", "all"):
        asyncio.run(session(arguments.transcript, arguments.turns, arguments.budget))


@contextmanager
def servers(*, budget: int = 100_000, with_other: bool = False, other: Path | None = None) -> Iterator[dict[str, str]]:
    """The upstream, the plain proxy and the gateway; their URLs. `with_other`: also the gateway of the version in
    `other`, or without it this version's without accounts and logs."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("upstream", "proxy", "gateway", *(["other"] if with_other else []))
        ports = {name: _free_port() for name in names}
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        environment = {**os.environ, "FOVEATE_SESSION__BUDGET_TOKENS": str(budget), "BENCH_UPSTREAM": urls["upstream"]}
        uvicorn = [sys.executable, "-m", "uvicorn", "--app-dir", str(FOLDER), "--log-level", "warning"]
        uvicorn += ["--timeout-keep-alive", "600", "--port"]
        options = ["serve", "--upstream", urls["upstream"], "--port"]
        serve = [sys.executable, "-m", "foveate", *options]
        started = [
            subprocess.Popen([*uvicorn, str(ports["upstream"]), "gateway_servers:upstream"], env=environment),
            subprocess.Popen([*uvicorn, str(ports["proxy"]), "gateway_servers:proxy"], env=environment),
            subprocess.Popen(
                [*serve, str(ports["gateway"]), "--db", f"{folder}/bench.db"],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=None if VERBOSE else subprocess.DEVNULL,
            ),
        ]
        if with_other:
            without = [sys.executable, f"{FOLDER}/gateway_servers.py", *options]
            started.append(
                subprocess.Popen(
                    [*(serve if other else without), str(ports["other"]), "--db", f"{folder}/other.db"],
                    env={**environment, "PYTHONPATH": str(other)} if other else environment,
                    stdout=subprocess.DEVNULL,
                    stderr=None if VERBOSE else subprocess.DEVNULL,
                )
            )
        try:
            for url in urls.values():
                _wait_for(url)
            yield {
                **urls,
                "pid": str(started[2].pid),
                "proxy_pid": str(started[1].pid),
                "other_pid": str(started[-1].pid),
            }
        finally:
            for process in started:
                process.send_signal(signal.SIGTERM)
            for process in started:
                process.wait(20)


async def latency(count: int) -> None:
    """Time to the first byte for a conversation whose client sends it whole, by its size."""
    with servers() as urls:
        print(f"{'first byte, ms':16} {'proxy p50':>10} {'p99':>8} {'gateway p50':>12} {'p99':>8} {'added p50':>10}")
        for name, size in SIZES.items():
            measured: dict[str, list[float]] = {}
            clients = {"proxy": _history(size, "p"), "gateway": _history(size, "g")}
            async with httpx2.AsyncClient(timeout=60) as client:
                for number in range(count + 5):
                    for where, history in clients.items():
                        history.append(_user(f"question {number}"))
                        seconds, answer = await _first_byte(client, urls[where], history)
                        history.append({"role": "assistant", "content": answer})
                        if number >= 5:  # the first ones warm up
                            measured.setdefault(where, []).append(seconds * 1_000)
            proxy, gateway = measured["proxy"], measured["gateway"]
            added = _percentile(gateway, 50) - _percentile(proxy, 50)
            print(
                f"{name:16} {_percentile(proxy, 50):10.1f} {_percentile(proxy, 99):8.1f} "
                f"{_percentile(gateway, 50):12.1f} {_percentile(gateway, 99):8.1f} {added:10.1f}"
            )


async def beside(count: int, other: Path | None) -> None:
    """First byte and CPU time of two gateways (the other, this). They take turns, so both meet the same load."""
    with servers(with_other=True, other=other) as urls:
        pids = {"gateway": urls["pid"], "other": urls["other_pid"]}
        print(f"{'':10} {'other p50':>10} {'this p50':>10} {'median of pairs':>16} {'CPU':>14} {'of the loop':>14}")
        for name, size in SIZES.items():
            measured: dict[str, list[float]] = {where: [] for where in pids}
            clients = {where: _history(size, where) for where in pids}
            async with httpx2.AsyncClient(timeout=60) as client:
                used: dict[str, tuple[float, float]] = {}
                for number in range(count + 5):
                    if number == 5:  # the first ones warm up
                        await asyncio.sleep(2)
                        used = {where: (_cpu_ms(pid), _loop_ms(pid)) for where, pid in pids.items()}
                    for where in sorted(pids, reverse=bool(number % 2)):
                        history = clients[where]
                        history.append(_user(f"question {number}"))
                        seconds, answer = await _first_byte(client, urls[where], history)
                        history.append({"role": "assistant", "content": answer})
                        if number >= 5:
                            measured[where].append(seconds * 1_000)
                await asyncio.sleep(2)  # what is written afterwards counts
                cpu = {where: (_cpu_ms(pid) - used[where][0]) / count for where, pid in pids.items()}
                loop = {where: (_loop_ms(pid) - used[where][1]) / count for where, pid in pids.items()}
            pairs = [this - that for this, that in zip(measured["gateway"], measured["other"], strict=True)]
            print(
                f"{name:10} {_percentile(measured['other'], 50):10.2f} {_percentile(measured['gateway'], 50):10.2f} "
                f"{_percentile(pairs, 50):+16.2f} {cpu['other']:6.1f}{cpu['gateway']:8.1f} "
                f"{loop['other']:6.2f}{loop['gateway']:8.2f}"
            )


async def streams(count: int) -> None:
    """Requests per second with 64 streams at once, each a conversation of its own."""
    with servers() as urls:
        rates, cpu = {}, {}
        pids = {"proxy": urls["proxy_pid"], "gateway": urls["pid"]}
        memory = [_resident_mb(urls["pid"])]
        for where in ("proxy", "gateway", "proxy", "gateway"):
            used = _cpu_ms(pids[where])
            async with httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=64)) as client:
                began = time.perf_counter()
                await asyncio.gather(*(_conversation(client, urls[where], n, count // 64) for n in range(64)))
                rates[where] = count // 64 * 64 / (time.perf_counter() - began)
            cpu[where] = (_cpu_ms(pids[where]) - used) / (count // 64 * 64)
            memory.append(_resident_mb(urls["pid"]))
        ratio = rates["gateway"] / rates["proxy"]
        print(f"64 streams: proxy {rates['proxy']:.0f}/s, gateway {rates['gateway']:.0f}/s, ratio {ratio:.2f}")
        print(f"CPU per request: proxy {cpu['proxy']:.1f} ms, gateway {cpu['gateway']:.1f} ms")
        print(f"memory of the gateway, MB: {', '.join(f'{megabytes:.0f}' for megabytes in memory)}")


async def memory(count: int) -> None:
    """Memory of the gateway while it serves 64 conversations at a time, each of 20 requests."""
    with servers() as urls:
        used = []
        async with httpx2.AsyncClient(timeout=120, limits=httpx2.Limits(max_connections=64)) as client:
            for start in range(0, count, 64 * 20):
                numbers = range(start, start + 64)
                await asyncio.gather(*(_conversation(client, urls["gateway"], number, 20) for number in numbers))
                used.append(_resident_mb(urls["pid"]))
        print(f"memory of the gateway, MB, after every {64 * 20:,} requests: {', '.join(f'{mb:.0f}' for mb in used)}")


async def work() -> None:
    """120 turns of about 605 tokens, a tool pair in every fifth: what goes upstream."""
    for budget in (11_000, 25_000):
        with servers(budget=budget) as urls:
            async with httpx2.AsyncClient(timeout=60) as client:
                log, history = await _work(client, urls)
                twins = await _twins(client, urls["gateway"])
        most = max(tokens for tokens, _ in log)
        pairs = [(before, after) for (_, before), (_, after) in itertools.pairwise(log)]
        shares = [_common(before, after) / len(after) for before, after in pairs]
        if VERBOSE:
            print(" ".join(f"{share:.2f}" for share in shares))
        whole, total = sum(_common(*pair) for pair in pairs), sum(len(after) for _, after in pairs)
        found = FACT in log[-1][1].decode()
        whole_tokens = count_tokens("".join(map(_text, history)), "o200k_base")
        print(
            f"budget {budget:,}: client sends up to {whole_tokens:,} tokens, most sent on {most:,}; "
            f"common prefix {whole / total:.3f} of all bytes (mean {sum(shares) / len(shares):.3f}); "
            f"twins kept apart: {twins}; fact of turn 1 at turn 120: {found}"
        )


async def session(transcript: str, turns: int, budget: int) -> None:
    """The cached share of a real conversation through the gateway, and by `bench/cache.py`, which has no HTTP."""
    loaded = await asyncio.to_thread(load_turns, FILES[transcript])
    played = [turn for found in loaded if (turn := _answered(found))][:turns]
    # Tokens are counted as in `bench/cache.py`, which names no model.
    options: dict[str, Any] = {"model": "gpt-4o", "max_tokens": 500}
    with servers(budget=budget) as urls:
        async with httpx2.AsyncClient(timeout=120) as client:
            log: list[tuple[int, bytes]] = []
            history: list[dict[str, Any]] = []
            for turn in played:
                for message in render_messages("anthropic", turn.messages):
                    assert isinstance(message, dict), "a rendered message is an object"
                    if message["role"] == "assistant" and history:
                        blocks = message["content"]
                        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
                        (await client.post(f"{urls['upstream']}/next", json=blocks)).raise_for_status()
                        await _send(client, urls, history, log, **options)
                    else:
                        history.append(dict(message))
    pairs = [(before, after) for (_, before), (_, after) in itertools.pairwise(log)]
    cached = sum(_common(*pair) for pair in pairs) / sum(len(after) for _, after in pairs)
    report = await replay(played, budget_tokens=budget, settings=Settings())
    most = max(tokens for tokens, _ in log)
    print(
        f"{transcript}, {len(played)} turns at {budget:,}: {len(log)} requests, most sent on {most:,} tokens; "
        f"common prefix {cached:.3f}; bench/cache.py {report.cached_share:.3f} of {len(report.calls)} calls"
    )


def _answered(turn: Turn) -> Turn | None:
    """What a client sends of a turn: from the prompt to the last answer; None without an answer."""
    said: list[Message] = []
    for message in turn.messages:
        is_first = not said and message.role != "user"
        is_second = bool(said) and message.role == said[-1].role == "assistant"
        if message.kind == "message" and not is_first and not is_second:
            said.append(message)
    while said and said[-1].role != "assistant":
        said.pop()
    return replace(turn, messages=tuple(said)) if said else None


async def _work(
    client: httpx2.AsyncClient, urls: dict[str, str]
) -> tuple[list[tuple[int, bytes]], list[dict[str, Any]]]:
    """Tokens and bodies of the requests that went upstream, and the client's whole history."""
    history: list[dict[str, Any]] = []
    log: list[tuple[int, bytes]] = []
    for number in range(1, 121):
        said = "".join(WORDS.format(n=number * 100 + part) for part in range(SENTENCES))
        prompt = f"{FACT} {said}" if number == 1 else f"{CALL} {said}" if number % 5 == 0 else said
        if number == 120:
            prompt = "What is the emergency code of the lighthouse?"
        history.append(_user(prompt))
        await _send(client, urls, history, log)
        calls = [block for block in history[-1]["content"] if block["type"] == "tool_use"]
        if calls:
            result = {"type": "tool_result", "tool_use_id": calls[0]["id"], "content": f"berth {number}: 4 ships"}
            history.append({"role": "user", "content": [result]})
            await _send(client, urls, history, log)
    return log, history


async def _send(
    client: httpx2.AsyncClient,
    urls: dict[str, str],
    history: list[dict[str, Any]],
    log: list[tuple[int, bytes]],
    **options: Any,
) -> None:
    body = {"model": MODEL, "max_tokens": 500, "tools": [TOOL], **options, "messages": history}
    reply = await client.post(f"{urls['gateway']}/v1/messages", json=body, headers=HEADERS)
    reply.raise_for_status()
    history.append({"role": "assistant", "content": reply.json()["content"]})
    seen = (await client.get(f"{urls['upstream']}/last")).content.replace(BREAKPOINT, b"")
    log.append((int(reply.headers["x-foveate-context-tokens"]), seen))
    # A model takes longer to answer than a turn takes to compress, the scripted upstream does not.
    name = reply.headers["x-foveate-session"]
    (await client.post(f"{urls['gateway']}/api/v1/sessions/{name}/settle")).raise_for_status()


async def _twins(client: httpx2.AsyncClient, url: str) -> bool:
    """Two conversations with the same first message, interleaved, stay two."""
    talks: list[list[dict[str, Any]]] = [[_user("hello there")], [_user("hello there")]]
    names: list[set[str]] = [set(), set()]
    for number in range(4):
        for index, history in enumerate(talks):
            body = {"model": MODEL, "max_tokens": 100, "messages": history}
            reply = await client.post(f"{url}/v1/messages", json=body, headers=HEADERS)
            names[index].add(reply.headers["x-foveate-session"])
            history += [{"role": "assistant", "content": reply.json()["content"]}, _user(f"talk {index}, {number}")]
    return not names[0] & names[1] and all(len(found) == 1 for found in names)


async def _conversation(client: httpx2.AsyncClient, url: str, which: int, count: int) -> None:
    history: list[dict[str, Any]] = []
    for number in range(count):
        history.append(_user(f"conversation {which}, question {number}"))
        _, answer = await _first_byte(client, url, history)
        history.append({"role": "assistant", "content": answer})


async def _first_byte(client: httpx2.AsyncClient, url: str, history: list[dict[str, Any]]) -> tuple[float, str]:
    body = {"model": MODEL, "max_tokens": 100, "messages": history, "stream": True}
    content = msgspec.json.encode(body)
    began = time.perf_counter()
    async with client.stream("POST", f"{url}/v1/messages", content=content, headers=HEADERS) as response:
        first, data = 0.0, b""
        async for chunk in response.aiter_bytes():
            first = first or time.perf_counter() - began
            data += chunk
    assert response.status_code == 200, data[:300]
    events = [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: {")]
    deltas = (event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
    return first, "".join(deltas)


def _history(size: int, mark: str) -> list[dict[str, Any]]:
    """A conversation of about `size` bytes."""
    turns: list[dict[str, Any]] = []
    while sum(len(turn["content"]) for turn in turns) < size:
        said = "".join(WORDS.format(n=len(turns) * 10 + part) for part in range(6))
        turns += [_user(f"{mark} {said}"), {"role": "assistant", "content": said}]
    return turns


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(str(block.get("text", block)) for block in content)


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _common(before: bytes, after: bytes) -> int:
    """Bytes that two bodies begin with alike."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == after[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def _cpu_ms(pid: str) -> float:
    """CPU time of a process so far, with the processes it started and waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") * 1_000


def _loop_ms(pid: str) -> float:
    """CPU time so far of a process's main thread, where the event loop runs: what requests wait for each other."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text("utf-8").split()[0]) / 1e6


def _resident_mb(pid: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1_000


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(url: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            httpx2.get(f"{url}/healthz", timeout=5)
        except httpx2.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


if __name__ == "__main__":
    main()
