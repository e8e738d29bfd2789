"""The dashboard's pages: time on the server and bytes, by the length of a session and by the number of sessions.

    python bench/dashboard.py                          # a session of 10,000 turns, and 10,000 sessions
    python bench/dashboard.py --turns 1000 --sessions 100
    python bench/dashboard.py --browser /usr/bin/chromium   # also an open page: first content, CPU when idle

Pages are asked for in the same process; times are CPU time of the server, all threads together. Sizes are compressed
with gzip, as a proxy would; scripts and styles are those that a browser loads once.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

import foveate.sync as foveate
from foveate.client import open as open_store
from foveate.server.app import create_app
from foveate.server.dashboard.table import STATIC

SESSION = "/ui/sessions/long"
PAGES = (
    "/",
    "/?offset=5000",
    SESSION,
    f"{SESSION}/picture",
    f"{SESSION}/turns",
    f"{SESSION}/turns/T-5",
    "/ui/sessions/large/picture",
    "/ui/search?q=port",
    "/ui/compare",
    "/ui/costs",
    "/ui/knowledge",
    "/ui/settings",
    "/ui/settings?q=budget",
    "/ui/prompts",
)
ROUNDS = 5
LARGE_LINE = "The tide table of the harbour lists berth 17 with a depth of 9 metres.\n"
LARGE_BYTES = 50_000_000
"""The newest message of a second session."""
IDLE_SECONDS = 30


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
        question = {"role": "user", "content": LARGE_LINE * (LARGE_BYTES // len(LARGE_LINE))}
        fov.session("large").record([question, {"role": "assistant", "content": "Read."}])
        fov.settle()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--browser", help="Chromium's path: also measure an open page")
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
            print("| page | CPU ms, first | CPU ms, best of 5 more | bytes | compressed |\n|" + " --- |" * 5)
            for page in PAGES:
                times = []
                for _ in range(1 + ROUNDS):
                    start = time.process_time()
                    answer = client.get(page)
                    times.append((time.process_time() - start) * 1000)
                    assert answer.status_code == 200, (page, answer.text[:200])
                body = answer.content
                packed = len(gzip.compress(body))
                print(f"| {page} | {times[0]:.0f} | {min(times[1:]):.0f} | {len(body):,} | {packed:,} |")
            static = [client.get(f"/ui/static/{name}").content for name in STATIC]
            print(f"scripts and styles: {sum(map(len, static)):,}, {sum(len(gzip.compress(one)) for one in static):,}")
        if options.browser:
            measure_browser(path, options.browser)


def measure_browser(path: Path, browser: str) -> None:
    """Print when the picture of a long session is there, and what an open page takes while nothing happens."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "foveate", "serve", "--port", "0", "--db", str(path), "--json"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        sync_playwright() as started,
    ):
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        opened = started.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = opened.new_page()
        for place in ("first", "again"):
            start = time.perf_counter()
            page.goto(f"{url}{SESSION}", wait_until="commit")
            page.locator("h1").wait_for()
            text = time.perf_counter() - start
            page.locator(".timeline .column").first.wait_for()
            print(
                f"{place}: text after {text * 1000:.0f} ms, picture after {(time.perf_counter() - start) * 1000:.0f} ms"
            )
        page.wait_for_timeout(3_000)
        tools = page.context.new_cdp_session(page)
        tools.send("Performance.enable")
        before, ticks = task_seconds(tools), server_seconds(server.pid)
        page.wait_for_timeout(IDLE_SECONDS * 1_000)
        print(
            f"idle for {IDLE_SECONDS} s: page {(task_seconds(tools) - before) * 1000:.0f} ms of CPU, "
            f"server {(server_seconds(server.pid) - ticks) * 1000:.0f} ms"
        )
        opened.close()
        server.terminate()


def task_seconds(tools: Any) -> float:
    """The time that the page's tasks have taken."""
    found = {metric["name"]: metric["value"] for metric in tools.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


def server_seconds(pid: int) -> float:
    """The CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
