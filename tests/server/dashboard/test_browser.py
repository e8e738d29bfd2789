"""The dashboard in a real browser: every page, live updates, seal and undo, chat, compare, import, preview.

Needs Chromium, which `make browser` installs; without it these tests are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foveate.sync as foveate
from support.browser import CHROMIUM, chromium
from support.gateway import HEADERS, body_of, serving
from support.servers import call, listening
from support.upstream import Upstream, say

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe_sync = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; 'make browser' installs it")
SCRIPT = '''
[[reply]]
contains = "write it down"
results = 0
calls_tool = "write_file"
arguments = { path = "note.txt", content = "port <b>8443</b>" }
[[reply]]
contains = "write it down"
says = "Done with the file."
[[reply]]
contains = "as markdown"
says = """
# Ports

**8443**, see [docs](https://example.com) <script>document.title = "forged"</script>

```python
port = 8443
```

- one
- two
"""
[[reply]]
contains = "in vain"
stalls = 0
[[reply]]
contains = "half of it"
stalls = 2
[[reply]]
says = "The port is 8443."
'''
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
    "/ui/settings?changed=yes",
    "/ui/prompts",
    "/ui/prompts/modes%2Fcore",
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
        fov.session("long", title="The report of unpaid invoices for the shop in Rotterdam, and its importer")
        fov.settle()
    model = f"scripted:{folder / 'script.toml'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOVEATE_MODELS__CHAT", model)
        patch.setenv("FOVEATE_AGENTS__ROOTS", str(folder))
        with listening(folder / "a.db") as url:
            yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


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


def open_part(page: Any, name: str) -> None:
    page.locator("summary", has_text=name).first.click()


def open_turn(page: Any, place: int) -> None:
    page.locator(".turns .column").nth(place).click()
    page.locator(".reason a", has_text=f"Open T-{place + 1}").click()
    page.locator("#turn-name", has_text=f"T-{place + 1} ").wait_for()


def test_a_click_on_the_timeline_explains_its_turn_and_opens_it(watched: Watched) -> None:
    page = watched.open("/ui/sessions/work")
    open_turn(page, 0)
    assert page.locator(".level").count() >= 3
    open_part(page, "Preview another budget")
    page.locator("input[name=budget]:visible").fill("3k")
    page.locator("button", has_text="Preview").click()
    page.locator("text=at 3,000 tokens: planned from scratch; nothing is saved").wait_for()


def test_the_arrow_keys_step_through_the_turns_of_the_timeline(watched: Watched) -> None:
    page = watched.open("/ui/sessions/work")
    page.locator(".why input[name=turn]").fill("2")
    page.keyboard.press("Enter")
    page.locator(".reason h3", has_text="T-2").wait_for()
    page.keyboard.press("ArrowUp")
    page.locator(".reason h3", has_text="T-3").wait_for()
    assert page.locator(".turns .column.chosen").get_attribute("data-turn") == "3"


def test_a_click_on_the_timeline_and_the_left_and_right_keys_step_through_its_turns(watched: Watched) -> None:
    page = watched.open("/ui/sessions/work")
    page.locator(".turns .column").nth(2).click()
    page.locator(".reason h3", has_text="T-3").wait_for()
    page.keyboard.press("ArrowLeft")
    page.locator(".reason h3", has_text="T-2").wait_for()
    page.keyboard.press("ArrowRight")
    page.locator(".reason h3", has_text="T-3").wait_for()


def test_a_turn_that_is_opened_far_below_is_in_view_and_has_the_focus(watched: Watched) -> None:
    page = watched.open("/ui/sessions/work")
    open_part(page, "Turns")
    page.locator("li a[hx-target='#turn']", has_text="T-2").last.click()
    page.locator("#turn-name", has_text="T-2 ").wait_for()
    page.locator("#turn-name:focus").wait_for()
    box = page.locator("#turn-name").bounding_box()
    assert 0 <= box["y"] < 800


def test_a_picture_fits_a_phone_and_has_no_serious_fault_in_the_dark(browser: Any, base: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page = context.new_page()
    page.goto(f"{base}/ui/sessions/work")
    open_turn(page, 0)
    wide = "element => element.getBoundingClientRect().right > 390"
    assert (
        page.evaluate(f"[...document.querySelectorAll('#picture *, #turn *')].filter({wide}).map(e => e.outerHTML)")
        == []
    )
    found = axe_sync.Axe().run(page).response["violations"]
    context.close()
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []


def test_a_topic_is_sealed_and_undone(watched: Watched) -> None:
    page = watched.open("/ui/sessions/work")
    open_part(page, "Topics")
    page.locator("button", has_text="Seal the topic").click()
    page.locator("button", has_text="Undo").click()
    page.locator("text=The seal was undone.").wait_for()


def test_a_chat_answers_and_the_page_updates_itself(watched: Watched) -> None:
    page = watched.open("/ui/sessions/work")
    page.locator("#connection", has_text="live").wait_for()
    page.locator("#prompt").fill("Which port?")
    page.locator("button", has_text="Send").click()
    page.locator(".m-assistant", has_text="8443").wait_for()
    open_part(page, "Live events")
    page.locator("#live li", has_text="turn-recorded").first.wait_for()
    page.locator(".turns .column[data-turn='7']").wait_for()


def send(watched: Watched, session: str, prompt: str) -> Any:
    watched.page.request.post(f"{watched.base}/api/v1/sessions", data={"id": session})
    page = watched.open(f"/ui/sessions/{session}")
    page.locator("#prompt").fill(prompt)
    page.locator("#prompt").press("Enter")
    return page


def test_an_answer_is_markdown_while_it_arrives_and_after_a_reload(watched: Watched) -> None:
    page = send(watched, "marked", "Answer as markdown")
    for _ in ("arriving", "reloaded"):
        answer = page.locator(".m-assistant")
        answer.locator("h3", has_text="Ports").wait_for()
        answer.locator("pre code", has_text="port = 8443").wait_for()
        answer.locator("li", has_text="two").wait_for()
        assert answer.locator("a").get_attribute("rel") == "noopener noreferrer nofollow"
        assert "<script>" in answer.inner_text()
        assert page.locator(".m-user .who").inner_text() == "You"
        assert "Assistant" in answer.locator(".who").inner_text()
        assert "forged" not in page.title()
        page.locator(".turn-line").wait_for()
        page.reload()


def test_enter_sends_but_not_with_shift_and_not_while_a_word_is_composed(watched: Watched) -> None:
    watched.page.request.post(f"{watched.base}/api/v1/sessions", data={"id": "typed"})
    page = watched.open("/ui/sessions/typed")
    box = page.locator("#prompt")
    box.press_sequentially("one")
    box.press("Shift+Enter")
    box.press_sequentially("two")
    for composed in ("isComposing: true", "keyCode: 229"):
        page.evaluate(
            "document.querySelector('#prompt').dispatchEvent(new KeyboardEvent('keydown', "
            f"{{key: 'Enter', bubbles: true, cancelable: true, {composed}}}))"
        )
    assert page.locator(".m-user").count() == 0
    box.press("Enter")
    page.locator(".turn-line").wait_for()
    assert page.locator(".m-user .said").inner_text() == "one\ntwo"
    assert box.input_value() == ""


def test_stop_cancels_a_silent_model_and_the_prompt_can_be_sent_again(watched: Watched) -> None:
    page = send(watched, "silent", "Wait in vain")
    page.locator(".waiting", has_text="tokens sent").wait_for()
    page.locator("#prompt").press("Escape")
    page.locator(".problem", has_text="Stopped.").wait_for()
    assert page.locator(".waiting").count() == 0
    page.locator("button", has_text="Try again").click()
    page.locator(".waiting", has_text="tokens sent").wait_for()
    page.locator("button", has_text="Stop").click()
    page.locator("button", has_text="Try again").wait_for()
    assert page.request.get(f"{watched.base}/api/v1/sessions/silent").json()["turns"] == 1


def test_stop_keeps_what_arrived_of_the_answer(watched: Watched) -> None:
    page = send(watched, "halved", "Tell me half of it")
    page.locator(".growing").wait_for()
    page.locator("button", has_text="Stop").click()
    page.locator(".problem", has_text="What arrived of the answer is recorded").wait_for()
    assert page.locator(".growing").count() == 0
    for _ in range(100):  # the server learns of the end a moment after the page shows it
        page.reload()
        if page.locator("#chat", has_text="(interrupted)").count():
            break
        page.wait_for_timeout(100)
    assert page.locator("#chat", has_text="(interrupted)").count() == 1


def test_a_model_is_chosen_for_each_session_without_a_restart(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FOVEATE_MODELS__CHAT", raising=False)
    config = tmp_path / "config.toml"
    config.write_text("")
    monkeypatch.setenv("FOVEATE_CONFIG", str(config))
    for name in ("first", "second"):
        (tmp_path / f"{name}.toml").write_text(f'[[reply]]\nsays = "I am the {name}."\n')
    with listening(tmp_path / "a.db") as url:
        page = browser.new_context().new_page()
        for session in ("s", "t"):
            page.request.post(f"{url}/api/v1/sessions", data={"id": session})
        page.goto(f"{url}/ui/sessions/s")
        assert page.locator(".models dt").count() == 3
        assert "foveate models set chat ollama:qwen3:8b" in page.locator(".models").inner_text()
        page.locator("input[name=other]").fill(f"scripted:{tmp_path / 'second.toml'}")
        page.locator("#prompt").fill("Who?")
        page.locator("#prompt").press("Enter")
        page.locator(".m-assistant", has_text="I am the second.").wait_for()
        config.write_text(f'[models]\nchat = "scripted:{tmp_path / "first.toml"}"\n')
        page.goto(f"{url}/ui/sessions/t")
        page.locator("#prompt").fill("Who?")
        page.locator("#prompt").press("Enter")
        page.locator(".m-assistant", has_text="I am the first.").wait_for()
        page.goto(f"{url}/ui/sessions/s")
        assert page.locator("select[name=model]").input_value().endswith("second.toml")
        assert page.locator("option", has_text="first.toml").count() == 1
        assert page.locator(".models").count() == 0
        page.context.close()


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


def test_a_chat_with_an_approval_works_by_keyboard_alone(watched: Watched, folder: Path) -> None:
    (folder / "note.txt").unlink(missing_ok=True)
    page = ask_for_a_file(watched, "keys")
    assert page.evaluate("document.activeElement.matches('[data-approval]')")
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.value") == "once":
            break
    page.keyboard.press("Enter")
    page.locator(".turn-line", has_text="scripted").wait_for()
    assert (folder / "note.txt").read_text() == "port <b>8443</b>"
    assert page.evaluate("document.activeElement.id") == "prompt"


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
    open_turn(page, 1)
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
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    page.locator(".plot canvas").nth(3).wait_for()
    assert sideways(page) == []
    assert axe_faults(page) == []


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


def axe_faults(page: Any) -> list[tuple[str, str]]:
    found = axe_sync.Axe().run(page).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found]


@pytest.mark.parametrize(
    "paths", [("/", "/ui/sessions/work", "/ui/settings?q=budget"), pytest.param(PAGES, marks=pytest.mark.thorough)]
)
def test_axe_finds_no_fault(watched: Watched, paths: tuple[str, ...]) -> None:
    for path in paths:
        page = watched.open(path)
        if path == "/ui/sessions/work":
            open_turn(page, 0)
        assert axe_faults(page) == [], path


def test_axe_finds_no_fault_in_an_answer_and_an_approval_on_a_dark_phone(watched: Watched) -> None:
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    send(watched, "dark-answer", "Answer as markdown").locator(".turn-line").wait_for()
    assert axe_faults(page) == []
    ask_for_a_file(watched, "dark-approval")
    assert axe_faults(page) == []


def test_settings_are_filtered_while_typing(watched: Watched) -> None:
    page = watched.open("/ui/settings")
    assert page.locator(".setting:visible").count() == 0
    assert page.evaluate("document.documentElement.scrollHeight") < 2_500
    page.locator("#find").press_sequentially("reader connection")
    page.locator(".setting", has_text="readers").first.wait_for()
    page.wait_for_function("document.querySelectorAll('.setting').length === 1")
    page.locator("#find").fill("")
    page.locator("input[name=changed]").check()
    page.locator(".setting.changed", has_text="FOVEATE_AGENTS__ROOTS").wait_for()


def test_settings_are_filtered_without_scripts(browser: Any, base: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{base}/ui/settings")
    page.locator("summary", has_text="Storage of the raw log").click()
    page.locator(".setting:visible", has_text="readers").first.wait_for()
    page.locator("#find").fill("reader connection")
    page.locator("button", has_text="Find").click()
    page.locator("text=1 of ").wait_for()
    assert page.locator(".setting:visible").count() == 1
    context.close()


def sideways(page: Any) -> list[str]:
    """What a phone shows only after scrolling sideways, besides code."""
    found: list[str] = page.evaluate(
        "[document.documentElement, ...document.querySelectorAll('.scroll, body *')].filter(each =>"
        " each.matches('html, .scroll') ? each.scrollWidth > each.clientWidth :"
        " each.closest('#content') && getComputedStyle(each).clipPath === 'none'"
        " && !each.closest('pre, .strip') && each.getBoundingClientRect().right > 391"
        ").map(each => each.outerHTML.slice(0, 200))"
    )
    return found


def test_no_page_scrolls_sideways_on_a_phone(watched: Watched) -> None:
    send(watched, "paid", "Which port?").locator(".turn-line").wait_for()
    watched.page.set_viewport_size({"width": 390, "height": 844})
    for path in PAGES:
        assert sideways(watched.open(path)) == [], path


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
        page.locator(".turns .column[data-turn='1']").wait_for()
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
        open_part(page, "Preview another budget")
        page.locator("button", has_text="Preview").click()
        page.wait_for_url("**/ui/login")
    context.close()


def test_a_sent_request_is_opened_by_keyboard_with_its_picture_on_a_phone(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOVEATE_SESSION__BUDGET_TOKENS", "3000")
    with serving(tmp_path / "sent.db", Upstream(lambda _: say("ok"), input_tokens=2_500)) as client:
        history: list[dict[str, Any]] = []
        for number in range(12):
            history.append({"role": "user", "content": f"question {number} " + "of the <b>harbour</b> " * 90})
            client.post("/v1/messages", json=body_of(history), headers={**HEADERS, "x-foveate-session": "sent"})
            history.append({"role": "assistant", "content": "ok"})
        call(client, client.server.state.gateway.settle)
    context = browser.new_context(viewport={"width": 390, "height": 800})
    with listening(tmp_path / "sent.db") as url:
        watched = Watched(context.new_page(), url)
        for path in ("/ui/sessions/sent/requests", "/ui/sessions/sent/requests/12"):
            page = watched.open(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
            found = axe_sync.Axe().run(page).response["violations"]
            assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == [], path
        assert page.locator(".picture svg.budget").count() == 1
        assert page.locator(".timeline .column").count() > 0
        assert page.locator("details.sent:not(.kept)").count() > 0
        page.locator("details.sent summary").first.focus()
        page.keyboard.press("Enter")
        assert page.locator("details.sent").first.get_attribute("open") is not None
        page.locator("a[rel=prev]").focus()
        page.keyboard.press("Enter")
        page.locator("h1", has_text="Request 11").wait_for()
        page.locator("a[rel=next]").click()
        page.locator("h1", has_text="Request 12").wait_for()
    context.close()
    assert watched.faults == []
