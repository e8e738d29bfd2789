"""The dashboard's layout in a real browser: the header, empty pages, folded parts, and what a phone shows.

Needs Chromium, which `make browser` installs; without it these tests are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import foveate.sync as foveate
from support.browser import CHROMIUM, chromium
from support.servers import listening

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe_sync = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; 'make browser' installs it")
PHONE = {"width": 390, "height": 844}
LARGEST_HEADER = 0.12
RULES = (
    "Never deploy on a Friday.",
    "Always write commit messages in English.",
    "Never squash the release branch.",
    "Timestamps are always UTC with a trailing Z.",
    "Always answer in two sentences.",
    "Never use tabs in Python files.",
    "Invoices must be kept for eleven years.",
    "Always run the linter before a push.",
    "Never call customers after nine in the evening.",
)
FILLED_PAGES = (
    "/",
    "/ui/sessions/work",
    "/ui/sessions/work/turns/T-2",
    "/ui/sessions/work/requests",
    "/ui/search?q=tabs",
    "/ui/compare",
    "/ui/costs",
    "/ui/knowledge",
    "/ui/knowledge?section=decide",
    "/ui/prompts",
    "/ui/prompts/modes%2Fcore",
    "/ui/import",
    "/ui/settings?q=budget",
)
EMPTY_PAGES = (
    "/",
    "/ui/compare",
    "/ui/costs",
    "/ui/knowledge",
    "/ui/agents",
    "/ui/prompts",
    "/ui/cabinet",
    "/ui/import",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server of an empty store."""
    with listening(tmp_path_factory.mktemp("empty") / "a.db") as url:
        yield url


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server of a store with a session of a project, in which nine rules are stated."""
    path = tmp_path_factory.mktemp("filled") / "a.db"
    with foveate.open(path) as fov:
        work = fov.session("work", channel="shop", title="The shop")
        for rule in RULES:
            work.record([{"role": "user", "content": rule}, {"role": "assistant", "content": "Understood."}])
        fov.settle()
    with listening(path) as url:
        yield url


@pytest.fixture
def phone(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport=PHONE)
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


def axe_faults(page: Any) -> list[tuple[str, str]]:
    found = axe_sync.Axe().run(page).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found]


def test_the_header_of_a_phone_is_small_and_its_menu_opens_and_closes_by_keyboard(phone: Any, empty: str) -> None:
    phone.goto(f"{empty}/ui/agents")
    assert phone.locator("header.top").bounding_box()["height"] <= LARGEST_HEADER * PHONE["height"]
    assert phone.locator("nav[aria-label=Pages] a:visible").count() == 0
    phone.locator("button.menu").focus()
    phone.keyboard.press("Enter")
    assert phone.locator("nav[aria-label=Pages] a:visible").count() == 9
    assert axe_faults(phone) == []
    phone.keyboard.press("Escape")
    assert phone.locator("nav[aria-label=Pages] a:visible").count() == 0
    phone.keyboard.press("Enter")
    phone.keyboard.press("Tab")
    phone.keyboard.press("Enter")
    phone.locator("h1", has_text="Sessions").wait_for()


def test_the_search_says_that_it_is_for_all_sessions_and_its_words_fit_a_phone(phone: Any, empty: str) -> None:
    phone.goto(f"{empty}/")
    search = phone.locator("#search")
    assert search.get_attribute("placeholder") == "Search all sessions"
    whole = search.screenshot()
    search.evaluate("field => field.placeholder = field.placeholder.slice(0, -1)")
    assert search.screenshot() != whole, "the last letter is cut off"


def test_a_session_takes_a_few_lines_of_a_phone(phone: Any, filled: str) -> None:
    phone.goto(f"{filled}/")
    assert phone.locator("#rows tr").first.bounding_box()["height"] < LARGEST_HEADER * PHONE["height"]
    assert phone.locator("#rows td[data-name='Budget in tokens']").first.is_visible()


def test_an_empty_page_has_a_sentence_of_its_own_and_no_table(phone: Any, empty: str) -> None:
    for path in EMPTY_PAGES:
        phone.goto(f"{empty}{path}")
        assert phone.locator("#content td[colspan]").count() == 0, path
        assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        assert axe_faults(phone) == [], path
    for path in ("/ui/agents", "/ui/cabinet", "/ui/compare"):
        phone.goto(f"{empty}{path}")
        sentence = phone.locator("#content > p.empty, #content form > p.empty, #content > div > p.empty")
        assert sentence.count() == 1, path
        assert sentence.evaluate("element => getComputedStyle(element).display") == "block", path


def test_the_first_agent_appears_on_an_empty_page_that_is_open(phone: Any, empty: str) -> None:
    phone.goto(f"{empty}/ui/agents")
    phone.locator("#connection", has_text="live").wait_for()
    phone.request.post(f"{empty}/api/v1/agents", data={"task": "List the ports."})
    phone.locator("table.cards th", has_text="List the ports.").wait_for()


def test_a_button_beside_the_title_opens_the_form_of_a_new_session_or_prompt(phone: Any, filled: str) -> None:
    for path, name, field in (("/", "New session", "name"), ("/ui/prompts", "New prompt", "key")):
        phone.goto(f"{filled}{path}")
        assert phone.locator(f"input[name={field}]:visible").count() == 0
        button = phone.locator("header a.button", has_text=name)
        assert button.bounding_box()["y"] < PHONE["height"] / 4
        button.focus()
        phone.keyboard.press("Enter")
        phone.locator(f"input[name={field}]:focus").wait_for()


FAULTY_HEADINGS = """() => {
    const heads = [...document.querySelectorAll("main :is(h1, h2, h3, h4, h5, h6)")];
    const levels = heads.map(one => Number(one.tagName[1]));
    return levels.filter((level, place) => level > (place ? levels[place - 1] : 0) + 1);
}"""
UNLABELLED = """() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea")]
    .filter(one => !one.labels.length && !one.getAttribute("aria-label")).map(one => one.outerHTML)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_inputs_have_labels_headings_are_in_order_and_everything_has_contrast_with_all_parts_open(
    browser: Any, filled: str, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.request.post(f"{filled}/ui/knowledge", form={"action": "learn"}, headers={"Origin": filled})
    for path in FILLED_PAGES:
        page.goto(f"{filled}{path}")
        page.locator(".timeline .column" if path == "/ui/sessions/work" else "h1").first.wait_for()
        page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        assert axe_faults(page) == [], path
        assert page.evaluate(FAULTY_HEADINGS) == [], path
        assert page.evaluate(UNLABELLED) == [], path
    context.close()


def test_the_focus_is_visible_on_links_buttons_and_inputs(phone: Any, filled: str) -> None:
    phone.goto(f"{filled}/ui/knowledge")
    reached = set()
    for _ in range(5):
        phone.keyboard.press("Tab")
        assert "solid 2px" in phone.evaluate("getComputedStyle(document.activeElement).outline")
        reached.add(phone.evaluate("document.activeElement.tagName"))
    assert reached == {"A", "BUTTON", "INPUT"}


def test_what_was_learned_is_decided_in_place_by_keyboard_on_a_phone(phone: Any, filled: str) -> None:
    phone.goto(f"{filled}/ui/knowledge")
    phone.locator("button", has_text="Learn from new turns").click()
    phone.locator(".tiles", has_text="9 learned since yesterday").wait_for()
    assert phone.locator(".items .actions").count() == 5
    phone.locator(".more a", has_text="Show more (4)").click()
    phone.locator(".items .actions").nth(8).wait_for()
    assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert axe_faults(phone) == []
    phone.locator(".items button", has_text="Approve").nth(1).focus()
    phone.keyboard.press("Enter")
    decided = phone.locator(".decided a:focus").inner_text()
    phone.keyboard.press("Tab")
    assert phone.evaluate("document.activeElement.closest('li') === document.querySelector('.decided + li')")
    assert phone.locator(".items .actions").count() == 8
    phone.reload()
    phone.locator(".tiles", has_text="1 in force").wait_for()
    assert phone.locator("#force ~ details .what").inner_text() == decided


def test_a_session_begins_with_its_picture_and_chat_and_the_rest_opens_by_links(phone: Any, filled: str) -> None:
    phone.goto(f"{filled}/ui/sessions/work")
    phone.locator(".timeline .column").first.wait_for()
    tops = [phone.locator(place).bounding_box()["y"] for place in ("#picture .headline", "#picture .budget", "#chat")]
    assert tops == sorted(tops)
    assert phone.locator(".folds details[open]").count() == 0
    assert phone.locator("ol.turns:visible, form.stack:visible, #live:visible").count() == 0
    phone.locator("a[href='#turns']").click()
    phone.locator("ol.turns li", has_text="T-9").wait_for()
    phone.locator("a[href='#pins']").click()
    phone.locator("label:has-text('Pin') input[name=text]").fill("Never deploy on a Friday.")
    phone.locator("details:has(#pins) button", has_text="Pin").click()
    phone.locator("details:has(#pins)[open] li", has_text="Never deploy on a Friday.").wait_for()
    assert phone.locator(".folds details[open]").count() == 1
    assert axe_faults(phone) == []
