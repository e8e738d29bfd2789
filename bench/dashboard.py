"""The dashboard's pages: time on the server and bytes, by the length of a session and by the number of sessions.

    python bench/dashboard.py                          # a session of 10,000 turns, and 10,000 sessions
    python bench/dashboard.py --turns 1000 --sessions 100

Pages are asked for in the same process, so times are those of the server. Sizes are compressed with gzip, as a proxy
would; scripts and styles are those that a browser loads once.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import time
from pathlib import Path

from starlette.testclient import TestClient

import foveate.sync as foveate
from foveate.client import open as open_store
from foveate.server.app import create_app
from foveate.server.dashboard.table import STATIC

SESSION = "/ui/sessions/long"
PAGES = ("/", SESSION, f"{SESSION}/picture", f"{SESSION}/turns", f"{SESSION}/turns/T-5", "/ui/search?q=port")
ROUNDS = 5


def fill(path: Path, turns: int, sessions: int) -> None:
    with foveate.open(path) as fov:
        for number in range(sessions):
            fov.session(f"session-{number:05}", title=f"Session {number}", channel=f"project-{number % 20}")
        long = fov.session("long")
        for start in range(0, turns, 500):
            said = []
            for number in range(start, min(turns, start + 500)):
                said.append({"role": "user", "content": f"Question {number}: which port does service {number} use?"})
                said.append({"role": "assistant", "content": f"Service {number} listens on {8000 + number % 999}."})
            long.record(said)
        fov.prepare("long")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        fill(path, options.turns, options.sessions)
        opened = {}

        async def app(scope, receive, send):  # type: ignore[no-untyped-def]
            if "app" not in opened:
                opened["app"] = create_app(await open_store(path))
            await opened["app"](scope, receive, send)

        with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1)) as client:
            print(f"{options.turns:,} turns, {options.sessions:,} sessions")
            print("| page | first, ms | again (best of 5), ms | bytes | compressed |\n| --- | --- | --- | --- | --- |")
            for page in PAGES:
                times = []
                for _ in range(1 + ROUNDS):
                    start = time.perf_counter()
                    answer = client.get(page)
                    times.append((time.perf_counter() - start) * 1000)
                    assert answer.status_code == 200, (page, answer.text[:200])
                body = answer.content
                packed = len(gzip.compress(body))
                print(f"| {page} | {times[0]:.0f} | {min(times[1:]):.0f} | {len(body):,} | {packed:,} |")
            static = [client.get(f"/ui/static/{name}").content for name in STATIC]
            print(f"scripts and styles: {sum(map(len, static)):,}, {sum(len(gzip.compress(one)) for one in static):,}")


if __name__ == "__main__":
    main()
