"""Screenshots of the dashboard's pages: wide, on a phone, and dark; of a used store and of an empty one.

    python bench/screens.py FOLDER              # every page of both stores, as NAME-wide.png, NAME-phone.png, …
    python bench/screens.py FOLDER --only knowledge costs
    python bench/screens.py --docs              # the pictures of docs/images

Needs Chromium, playwright and the folders src, tests and bench in PYTHONPATH. The output has the height of each page,
and that of its header as a share of the screen.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import foveate
from conversation import make_conversation
from foveate.client import Foveate
from foveate.knowledge.run import learn
from foveate.store.knowledge import KnowledgeChanges, NewRun
from foveate.store.rows import DAY_US, NANO, CallRow
from foveate.store.sql import now_us
from knowledge_data import load_histories, turn_times
from support.browser import chromium

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
DEMO_TURNS, DEMO_BUDGET_TOKENS = 120, 16_000
KNOWN_HISTORIES, NEW_HISTORIES = 2, 1
"""Histories whose knowledge is five days old, and new ones."""
DAYS = 9
MAX_SCREENS = 3
"""A longer page is cut after so many screens."""
MODEL = "scripted:script.toml"
SCRIPT = """
[[reply]]
contains = "write the port"
results = 0
calls_tool = "write_file"
arguments = { path = "ports.txt", content = "shop 8443" }
[[reply]]
says = "The shop listens on **8443** since the move, see `deploy/shop.toml`."
"""
REJECTED = (
    ("lesson", "Deploy on Fridays", "its source turns do not say it: 'Fridays'"),
    ("reference", "The AIS feed's format", "a number is in none of its source turns: 27"),
)


@dataclass(frozen=True, slots=True)
class Screen:
    """A page to look at."""

    name: str
    path: str
    wait: str = "h1"
    """What the page must show before it is taken."""


SCREENS = (
    Screen("sessions", "/", "#rows tr"),
    Screen("session", "/ui/sessions/demo", ".timeline .column"),
    Screen("turn", "/ui/sessions/demo/turns/T-20"),
    Screen("search", "/ui/search?q=berth"),
    Screen("compare", "/ui/compare?session=demo"),
    Screen("costs", "/ui/costs", ".chart canvas"),
    Screen("knowledge", "/ui/knowledge"),
    Screen("agents", "/ui/agents"),
    Screen("prompts", "/ui/prompts"),
    Screen("cabinet", "/ui/cabinet"),
    Screen("import", "/ui/import"),
    Screen("settings", "/ui/settings"),
)
EMPTY = tuple(
    Screen(f"empty-{one.name}", one.path)
    for one in SCREENS
    if one.name in ("sessions", "compare", "costs", "knowledge", "agents", "cabinet")
)
WIDE = {"width": 1280, "height": 960}
PHONE = {"width": 390, "height": 844}
VIEWS: dict[str, dict[str, Any]] = {
    "wide": {"viewport": WIDE},
    "phone": {"viewport": PHONE, "device_scale_factor": 2},
    "wide-dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone-dark": {"viewport": PHONE, "device_scale_factor": 2, "color_scheme": "dark"},
}
DOCS = (
    ("session", "wide"),
    ("session", "wide-dark"),
    ("session", "phone-dark"),
    ("sessions", "wide"),
    ("sessions", "phone-dark"),
    ("knowledge", "wide"),
)


async def fill(path: Path) -> None:
    async with foveate.open(path) as fov:
        demo = await fov.session("demo", channel="quayside", budget_tokens=DEMO_BUDGET_TOKENS, title="Berth booking")
        for turn in make_conversation(DEMO_TURNS, 42).turns:
            await demo.record(turn)
        await demo.context("Which berth is free?")
        histories = load_histories("dev")
        await record(fov, histories[:KNOWN_HISTORIES])
        await learn(fov)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE knowledge SET created_us = created_us - ?", (5 * DAY_US,))
    async with foveate.open(path) as fov:
        await record(fov, histories[KNOWN_HISTORIES : KNOWN_HISTORIES + NEW_HISTORIES])
        await learn(fov)
        await review(fov)
        await spend(fov)
        fork = await (await fov.open_session("demo")).fork("demo-queue", "T-40")
        await fork.record([{"role": "user", "content": "Try the queue without a broker."}])
        for task in ("Read the runbook and list the ports.", "Find out why the nightly build is slow."):
            await fov.agents.spawn(task, kind="call", parent="demo", model=MODEL)
        await fov.cabinet.file(b"ports: 8443, 9100\n" * 40, media_type="text/plain", name="ports.txt", source="exec")
        await fov.settle()


async def record(fov: Foveate, histories: Any) -> None:
    for history in histories:
        for number, sitting in enumerate(history.sessions):
            session = await fov.session(history.session_id(number), channel=history.scope.partition(":")[2])
            for messages, _ in turn_times(sitting):
                await session.record(messages)


async def review(fov: Foveate) -> None:
    """Decide about some proposals, as a person would, and add a run of a model that had proposals rejected."""
    lessons = await fov.knowledge.list(kind="lesson", state="proposed")
    for item in lessons[:4]:
        await fov.knowledge.approve(item.id)
    await fov.knowledge.pin(lessons[4].id)
    await fov.knowledge.retire(lessons[5].id, "that was about one pull request")
    await fov.knowledge.add("Ports of the shop", "The shop listens on 8443, its metrics on 9100.", scope="project:")
    run = await fov.store.knowledge.begin_run(
        NewRun(
            id="run-1",
            tenant="",
            scope="project:berth",
            watermark="mark",
            prompt_version="1",
            owner="screens",
            lease_seconds=60,
        )
    )
    found = [{"kind": kind, "title": title, "text": title, "reason": why} for kind, title, why in REJECTED]
    await fov.store.knowledge.finish_run(run.id, "screens", json.dumps({"rejected": found}), KnowledgeChanges())


async def spend(fov: Foveate) -> None:
    calls = (("gateway", "anthropic:claude-sonnet-4-5", 41_000), ("compress", "openai:gpt-5-mini", 6_000))
    for day in range(DAYS):
        for number, (purpose, model, tokens) in enumerate(calls * 3):
            cached = int(tokens * min(0.9, 0.2 + day / 10))
            await fov.store.calls.add(
                CallRow(
                    session_id="demo",
                    turn=number + 1,
                    at_us=now_us() - day * DAY_US,
                    provider=model.partition(":")[0],
                    model=model,
                    purpose=purpose,
                    input_tokens=tokens,
                    output_tokens=700,
                    cached_tokens=cached,
                    nano_usd=int((tokens - cached) * 3e-6 * NANO),
                    is_estimate=False,
                    latency_us=900_000,
                    outcome="timeout" if (day, number) == (3, 1) else "ok",
                    predicted_tokens=int(cached * 1.05) if purpose == "gateway" else None,
                    whole_tokens=tokens * 4 if purpose == "gateway" else None,
                    whole_nano_usd=int(tokens * 4e-6 * NANO) if purpose == "gateway" else None,
                )
            )


@contextmanager
def serving(path: Path) -> Iterator[str]:
    """Serve a store from its folder, so that its pages name no other folder."""
    (path.parent / "shop").mkdir(exist_ok=True)
    environment = os.environ | {
        "FOVEATE_MODELS__CHAT": MODEL,
        "FOVEATE_KNOWLEDGE__SCHEDULE": "off",
        "FOVEATE_KNOWLEDGE__QUIET_MINUTES": "0",
        "FOVEATE_AGENTS__ROOTS": str(path.parent / "shop"),
    }
    command = [sys.executable, "-m", "foveate", "serve", "--port", "0", "--db", str(path), "--json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, cwd=path.parent
    )
    with process as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["url"]
        finally:
            server.terminate()


def take(browser: Any, url: str, screen: Screen, view: str, file: Path, *, is_whole: bool = True) -> None:
    """Take a page as it looks when it is opened: its first screens, or the first one."""
    context = browser.new_context(**VIEWS[view])
    page = context.new_page()
    page.goto(f"{url}{screen.path}")
    page.locator(screen.wait).first.wait_for(state="attached")
    page.wait_for_timeout(700)
    header = page.locator("header.top").bounding_box()["height"] / VIEWS[view]["viewport"]["height"]
    height = page.evaluate("document.documentElement.scrollHeight")
    if is_whole:
        size = VIEWS[view]["viewport"]
        page.set_viewport_size({**size, "height": min(height, MAX_SCREENS * size["height"])})
    page.screenshot(path=file, scale="device" if is_whole else "css")
    print(f"{file.name}: {height:,} px, header {header:.0%}")
    context.close()


def take_report(browser: Any, url: str, folder: Path) -> None:
    """Take the report of a comparison."""
    page = browser.new_context(viewport=WIDE).new_page()
    page.goto(f"{url}/ui/compare?session=demo")
    page.locator("input[name=budgets]").fill("8k")
    page.locator("button", has_text="Compare").click()
    page.locator("h2", has_text="At 8,000 tokens").wait_for(timeout=600_000)
    screen = Screen("report", page.url.removeprefix(url), ".plot canvas")
    for view in VIEWS:
        take(browser, url, screen, view, folder / f"report-{view}.png")
    page.context.close()


def take_chat(browser: Any, url: str, view: str, file: Path) -> None:
    """Take a chat whose model asks for an approval."""
    context = browser.new_context(**VIEWS[view])
    page = context.new_page()
    page.request.post(f"{url}/api/v1/sessions", data={"id": f"chat-{view}", "title": "Ports of the shop"})
    page.goto(f"{url}/ui/sessions/chat-{view}")
    page.locator("#prompt").fill("Which port does the shop use?")
    page.locator("#prompt").press("Enter")
    page.locator(".turn-line").first.wait_for()
    page.locator("summary", has_text="Tools").click()
    page.locator("input[value=file-ops]").check()
    page.locator("#prompt").fill("Please write the port into ports.txt")
    page.locator("#prompt").press("Enter")
    page.locator(".approval").wait_for()
    page.locator("#chat").scroll_into_view_if_needed()
    page.screenshot(path=file, scale="css")
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--docs", action="store_true", help="Write the pictures of docs/images.")
    parser.add_argument("--only", nargs="*", default=(), help="Names of pages.")
    parser.add_argument("--store", type=Path, help="Keep the filled store in this folder, and use it again.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = options.store or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        (work / "script.toml").write_text(SCRIPT)
        if not (work / "a.db").exists():
            asyncio.run(fill(work / "a.db"))
        with chromium() as browser:
            if options.docs:
                take_docs(browser, work)
            else:
                take_all(browser, work, options.folder or Path("screens"), options.only)


def take_docs(browser: Any, work: Path) -> None:
    screens = {one.name: one for one in SCREENS}
    with serving(work / "a.db") as url:
        for name, view in DOCS:
            take(browser, url, screens[name], view, IMAGES / f"dashboard-{name}-{view}.png", is_whole=False)
        for view in ("wide", "phone"):
            take_chat(browser, url, view, IMAGES / f"dashboard-chat-{view}.png")


def take_all(browser: Any, work: Path, folder: Path, only: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, screens in (("a.db", SCREENS), ("empty.db", EMPTY)):
        with serving(work / name) as url:
            for screen in screens:
                if not only or screen.name in only:
                    for view in VIEWS:
                        take(browser, url, screen, view, folder / f"{screen.name}-{view}.png")
            if name == "a.db" and (not only or "report" in only):
                take_report(browser, url, folder)


if __name__ == "__main__":
    main()
