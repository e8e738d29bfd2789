"""The dashboard in a real browser: every page, live updates, seal and undo, chat, compare, import, preview.

Needs Chromium, which `make browser` installs; without it these tests are skipped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foveate.sync as foveate
from support.servers import listening

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe_sync = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; 'make browser' installs it")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCRIPT = """
[[reply]]
contains = "write it down"
results = 0
calls_tool = "write_file"
arguments = { path = "note.txt", content = "port <b>8443</b>" }
[[reply]]
contains = "write it down"
says = "Done with the file."
[[reply]]
says = "The port is 8443."
"""
PAGES = (
    "/",
    "/ui/search?q=port",
    "/ui/sessions/work",
    "/ui/sessions/work/turns/T-2",
    "/ui/compare",
    "/ui/costs",
    "/ui/knowledge",
    "/ui/agents",
    "/ui/cabinet",
    "/ui/import",
    "/ui/settings",
    "/ui/sessions/none",
)


class Watched:
    """A page with everything that must not happen on it."""

    def __init__(self, page: Any, base: str) -> None:
        self.page = page
        self.base = base
        self.faults: list[str] = []
        page.on("console", lambda message: self._note(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self._note(str(error)))
        page.on("request", lambda request: self._check(request.url))

    def _note(self, text: str) -> None:
        if "404 (Not Found)" not in text:
            self.faults.append(text)

    def _check(self, url: str) -> None:
        if not url.startswith((self.base, "data:")):
            self.faults.append(f"a request to {url}")

    def open(self, path: str) -> Any:
        self.page.goto(f"{self.base}{path}")
        return self.page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def base(folder: Path) -> Iterator[str]:
    (folder / "script.toml").write_text(SCRIPT)
    with foveate.open(folder / "a.db") as fov:
        work = fov.session("work", title="Work <b>x</b>", strategy="topics", channel="shop")
        for number in range(6):
            said = {"role": "user", "content": f"Question {number} about port {8000 + number}"}
            work.record([said, {"role": "assistant", "content": f"The port is {8000 + number}."}])
        fov.settle()
    model = f"scripted:{folder / 'script.toml'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOVEATE_MODELS__CHAT", model)
        patch.setenv("FOVEATE_AGENTS__ROOTS", str(folder))
        with listening(folder / "a.db") as url:
            yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def watched(browser: Any, base: str) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    context.set_default_timeout(20_000)
    page = Watched(context.new_page(), base)
    yield page
    context.close()
    assert page.faults == []


def test_every_page_opens_without_an_error_or_a_request_elsewhere(watched: Watched) -> None:
    for path in PAGES:
        page = watched.open(path)
        assert page.locator("h1").count() == 1, path


def test_a_cell_opens_its_turn_and_a_preview_redraws_the_picture(watched: Watched) -> None:
    page = watched.open("/ui/sessions/work")
    page.locator(".cell").first.click()
    page.locator("#turn-name", has_text="T-1").wait_for()
    assert page.locator(".level").count() >= 3
    page.locator("input[name=budget]").first.fill("3k")
    page.locator("text=Preview").first.click()
    page.locator("text=at 3,000 tokens: planned from scratch; nothing is saved").wait_for()


def test_a_topic_is_sealed_and_undone(watched: Watched) -> None:
    page = watched.open("/ui/sessions/work")
    page.locator("button", has_text="Seal the topic").click()
    page.locator("button", has_text="Undo").click()
    page.locator("text=The seal was undone.").wait_for()


def test_a_chat_answers_and_the_page_updates_itself(watched: Watched) -> None:
    page = watched.open("/ui/sessions/work")
    page.locator("#connection", has_text="live").wait_for()
    page.locator("#prompt").fill("Which port?")
    page.locator("button", has_text="Send").click()
    page.locator(".m-assistant", has_text="8443").wait_for()
    page.locator("#live li", has_text="turn-recorded").first.wait_for()
    page.locator(".cell[aria-label^='T-7']").wait_for()


def ask_for_a_file(watched: Watched, session: str) -> Any:
    watched.page.request.post(f"{watched.base}/api/v1/sessions", data={"id": session})
    page = watched.open(f"/ui/sessions/{session}")
    page.locator("summary", has_text="Tools").click()
    page.locator("input[value=file-ops]").check()
    page.locator("#prompt").fill("Please write it down")
    page.locator("button", has_text="Send").click()
    page.locator(".approval", has_text="port <b>8443</b>").wait_for()
    return page


def test_a_tool_call_is_executed_once_it_is_approved_in_any_browser(watched: Watched, folder: Path) -> None:
    page = ask_for_a_file(watched, "denied")
    page.locator("button", has_text="Deny").click()
    page.locator("text=write_file was denied").wait_for()
    page.locator(".m-assistant", has_text="Done with the file.").wait_for()
    assert not (folder / "note.txt").exists()
    page = ask_for_a_file(watched, "approved")
    other = page.context.new_page()
    other.goto(page.url)
    other.locator(".approval button", has_text="Approve").first.click()
    other.locator("text=write_file was approved.").wait_for()
    page.locator(".turn-line", has_text="scripted").wait_for()
    assert (folder / "note.txt").read_text() == "port <b>8443</b>"


def test_a_call_that_waits_for_approval_ends_with_its_browser(watched: Watched, base: str, folder: Path) -> None:
    (folder / "note.txt").unlink(missing_ok=True)
    page = ask_for_a_file(watched, "stopped")
    name = page.locator(".approval").get_attribute("action")
    page.locator("button", has_text="Stop").click()
    page.locator(".problem", has_text="Stopped.").wait_for()
    assert page.locator(".approval").count() == 0
    other = page.context.new_page()  # the server learns of the end a moment after the page shows it
    for _ in range(100):
        other.goto(page.url)
        if not other.locator(".approval").count():
            break
        other.wait_for_timeout(100)
    late = page.request.post(f"{base}{name}", form={"decision": "once"})
    assert (late.status, "no longer waits" in late.text()) == (409, True)
    assert not (folder / "note.txt").exists()


def test_an_edited_prompt_is_sent_in_a_fork(watched: Watched) -> None:
    page = watched.open("/ui/sessions/work")
    page.locator(".cell").nth(1).click()
    page.locator("button", has_text="Edit the prompt in a fork").click()
    page.wait_for_url("**/work-edit-1?edit=T-2#chat")
    assert page.locator("#prompt").input_value() == "Question 1 about port 8001"
    page.locator("#prompt").fill("Which port instead?")
    page.locator("button", has_text="Send").click()
    page.locator(".turn-line", has_text="T-2").wait_for()
    assert page.locator(".said", has_text="Which port instead?").count() == 1


def test_the_list_shows_what_others_record(watched: Watched, base: str) -> None:
    page = watched.open("/")
    page.locator("#connection", has_text="live").wait_for()
    page.request.post(f"{base}/api/v1/sessions", data={"id": "fresh-one"})
    page.request.post(f"{base}/api/v1/sessions/fresh-one/turns", data={"messages": [{"role": "user", "content": "hi"}]})
    page.locator("a", has_text="fresh-one").first.wait_for()


def test_strategies_are_compared(watched: Watched) -> None:
    page = watched.open("/ui/compare?session=work")
    for name in ("checkpoint", "hybrid", "oneshot", "topics"):
        page.locator(f"input[value={name}]").uncheck()
    page.locator("input[name=budgets]").fill("2k")
    page.locator("button", has_text="Compare").click()
    page.locator("h2", has_text="At 2,000 tokens").wait_for()
    page.locator(".plot canvas").nth(3).wait_for()
    assert page.locator(".strip i").count() > 1


def test_an_uploaded_transcript_is_compared_and_not_imported(watched: Watched, tmp_path: Path) -> None:
    file = tmp_path / "upload.jsonl"
    file.write_text('{"role":"user","content":"from a file"}\n{"role":"assistant","content":"yes"}\n' * 4)
    page = watched.open("/ui/compare")
    page.locator("input[type=file]").set_input_files(str(file))
    for name in ("checkpoint", "hybrid", "oneshot", "topics"):
        page.locator(f"input[value={name}]").uncheck()
    page.locator("input[name=budgets]").fill("2k")
    page.locator("button", has_text="Compare").click()
    page.locator("h2", has_text="At 2,000 tokens").wait_for()
    assert "upload.jsonl" in page.locator("h1").inner_text()
    watched.open("/")
    assert page.locator("a", has_text="upload").count() == 0


def test_a_file_is_imported(watched: Watched, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text('{"role":"user","content":"from a file"}\n{"role":"assistant","content":"yes"}\n')
    page = watched.open("/ui/import")
    page.locator("input[type=file]").set_input_files(str(file))
    page.locator("button", has_text="Import").click()
    page.locator("text=2 of 2 messages are new").wait_for()


@pytest.mark.parametrize(
    "paths", [("/", "/ui/sessions/work"), pytest.param(PAGES, marks=pytest.mark.thorough)], ids=["main", "all"]
)
def test_axe_finds_no_serious_fault(watched: Watched, paths: tuple[str, ...]) -> None:
    axe = axe_sync.Axe()
    for path in paths:
        page = watched.open(path)
        if path == "/ui/sessions/work":
            page.locator(".cell").first.click()
            page.locator("#turn-name").wait_for()
        found = axe.run(page).response["violations"]
        serious = [
            (each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")
        ]
        assert serious == [], path


def test_everything_is_reached_by_keyboard(watched: Watched) -> None:
    page = watched.open("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.getAttribute('href') || document.activeElement.id"))
    assert {"/", "/ui/compare", "/ui/settings", "search", "/ui/sessions/work"} <= reached


@pytest.mark.thorough
def test_a_page_goes_on_after_a_restart_of_the_server(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    with listening(tmp_path / "a.db") as url:
        page.request.post(f"{url}/api/v1/sessions", data={"id": "s"})
        page.goto(f"{url}/ui/sessions/s")
        page.locator("#connection", has_text="live").wait_for()
    page.locator("#connection", has_text="connection lost").wait_for()
    with foveate.open(tmp_path / "a.db") as fov:
        fov.session("s").record([{"role": "user", "content": "said meanwhile"}])
    with listening(tmp_path / "a.db", port=int(url.rpartition(":")[2])):
        page.locator("#connection", has_text="live").wait_for()
        page.locator(".cell[aria-label^='T-1']").wait_for()
    context.close()


def test_an_open_page_says_that_its_key_was_revoked(browser: Any, tmp_path: Path) -> None:
    with foveate.open(tmp_path / "a.db") as fov:
        fov.session("s")
        key = fov.keys.create("k", rights=["read"])
        fov.keys.create("other")
    context = browser.new_context()
    page = context.new_page()
    with listening(tmp_path / "a.db", key_cache_seconds=0) as url:
        page.goto(f"{url}/ui/sessions/s")
        page.locator("input[name=key]").fill(key.secret)
        page.locator("button", has_text="Log in").click()
        page.goto(f"{url}/ui/sessions/s")
        page.locator("#connection", has_text="live").wait_for()
        with foveate.open(tmp_path / "a.db") as fov:
            fov.keys.revoke(key.info.id)
            fov.session("s").record([{"role": "user", "content": "a secret"}])
        page.locator("button", has_text="Preview").click()
        page.wait_for_url("**/ui/login")
    context.close()
