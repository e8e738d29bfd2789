"""Kill -9 of the server under load: `python bench/gateway_kill.py [--kills 100]`.

Clients talk through the gateway, each sending its whole history; the server is killed and started again at random
moments. Counted: answers that a client got whole and that are not in the log, turns that are there twice, and clients
that could not go on.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2

import foveate
from gateway import FOLDER, HEADERS, MODEL, _first_byte, _free_port, _user, _wait_for

CLIENTS = 8
START_SECONDS = 300
"""A server may take long to start on a busy machine."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    asyncio.run(storm(arguments.kills, random.Random(arguments.seed)))


async def storm(kills: int, chance: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "storm.db"
        ports = {name: _free_port() for name in ("upstream", "gateway")}
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        uvicorn = [sys.executable, "-m", "uvicorn", "--app-dir", str(FOLDER), "--log-level", "warning", "--port"]
        upstream = subprocess.Popen([*uvicorn, str(ports["upstream"]), "gateway_servers:upstream"])  # noqa: ASYNC220
        _wait_for(urls["upstream"])
        serve = [sys.executable, "-m", "foveate", "serve", "--upstream", urls["upstream"], "--db", str(path), "--port"]
        stop = asyncio.Event()
        talks: list[list[dict[str, Any]]] = [[] for _ in range(CLIENTS)]
        clients = [asyncio.create_task(_talk(urls["gateway"], n, talks[n], stop)) for n in range(CLIENTS)]
        for number in range(kills + 1):
            server = subprocess.Popen(  # noqa: ASYNC220
                [*serve, str(ports["gateway"])], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
            )
            await asyncio.to_thread(_wait_for, urls["gateway"], START_SECONDS)
            await asyncio.sleep(chance.uniform(0.1, 1.5))
            if number < kills:
                server.send_signal(signal.SIGKILL)
                await asyncio.to_thread(server.wait)
                print(f"\r{number + 1} kills", end="", flush=True)
        stop.set()
        retries = sum(await asyncio.gather(*clients))
        server.send_signal(signal.SIGTERM)
        await asyncio.to_thread(server.wait, 30)
        upstream.terminate()
        await _report(path, talks, kills, retries)


async def _talk(url: str, which: int, history: list[dict[str, Any]], stop: asyncio.Event) -> int:
    """A client that sends its whole history, and the same again after a failure; how often that was."""
    retries = 0
    async with httpx2.AsyncClient(timeout=20) as client:
        while not stop.is_set():
            history.append(_user(f"client {which}, question {len(history) // 2}"))
            while True:
                try:
                    answer = await _whole_answer(client, url, history)
                except (httpx2.HTTPError, AssertionError, ValueError):
                    retries += 1
                    await asyncio.sleep(0.1)
                    if stop.is_set() and retries > 100_000:
                        return retries
                else:
                    break
            history.append({"role": "assistant", "content": answer})
    return retries


async def _whole_answer(client: httpx2.AsyncClient, url: str, history: list[dict[str, Any]]) -> str:
    body = {"model": MODEL, "max_tokens": 100, "messages": history}
    if len(history) % 4 == 1:
        return (await _first_byte(client, url, history))[1]
    reply = await client.post(f"{url}/v1/messages", json=body, headers=HEADERS)
    if reply.status_code != httpx2.codes.OK:
        raise ValueError(reply.text[:200])
    return str(reply.json()["content"][0]["text"])


async def _report(path: Path, talks: list[list[dict[str, Any]]], kills: int, retries: int) -> None:
    lost = doubled = turns = 0
    async with foveate.open(path) as fov:
        logs = []
        for info in await fov.sessions():
            loaded = await (await fov.open_session(info.id)).load_turns()
            logs.append([m.text for turn in loaded for m in turn.messages if m.kind == "message"])
        problems = [finding async for finding in fov.check() if finding.problem]
    for history in talks:
        said = [message["content"] for message in history]
        turns += len(said) // 2
        holders = [log for log in logs if log[: len(said)] == said]
        lost += not holders
        doubled += sum(len(log) != len(set(log)) for log in holders)
    print(
        f"\n{kills} kills, {turns} turns of {len(talks)} clients, {retries} retries: "
        f"{lost} conversations not whole in the log, {doubled} with a message twice, {len(problems)} findings of doctor"
    )


if __name__ == "__main__":
    main()
