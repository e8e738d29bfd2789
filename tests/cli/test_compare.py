"""`foveate compare`: a table with winners, JSON, and a page that needs nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from foveate.demo import load_conversation
from support.browser import CHROMIUM, chromium
from support.command_line import HELLO, Shell, shell_with
from support.transcripts import FIXTURES

VOID = {"meta", "br", "hr", "img", "input", "link"}
QUICK = ("--budgets", "2k", "--strategies", "gradient,standard")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    shell = Shell(tmp_path_factory.mktemp("compare") / "chat.db")
    shell("demo", "--turns", "14", "--no-replay", "--json")
    return shell


@dataclass(frozen=True)
class Compared:
    page: Path
    said: str


@pytest.fixture(scope="module")
def compared(demo: Shell) -> Compared:
    """All strategies at two budgets, as a page and a table."""
    path = demo.db.with_name("report.html")
    said = demo("compare", "demo", "--budgets", "3k,6k", "--html", str(path))
    assert str(path) in said.replace("\n", "")
    return Compared(path, said)


@pytest.fixture(scope="module")
def page(compared: Compared) -> Path:
    return compared.page


@pytest.fixture(scope="module")
def answer(demo: Shell) -> Any:
    """Two strategies at one budget, in JSON."""
    return demo.json("compare", "demo", *QUICK, "--needle", "no such thing")


class Outline(HTMLParser):
    """Checks that elements close in order, and takes down their attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: dict[str, set[str]] = {}
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    found.close()
    assert found.open == []
    return found


def test_the_table_has_every_strategy_and_marks_the_best_of_each_row(compared: Compared) -> None:
    said = compared.said
    assert "At 3,000 tokens  (* best of its row)" in said
    assert re.search(r"^(Recommended|No strategy is clearly better) at 3,000 tokens: ", said, re.MULTILINE)
    head = next(line for line in said.splitlines() if line.strip().startswith("checkpoint "))
    assert head.split() == ["checkpoint", "gradient", "hybrid", "oneshot", "standard", "topics"]
    assert re.search(r"The same for all: .*over budget 0", said)
    assert "gradient: Newest turns raw" in said
    assert "cached: Share of the prompts' tokens in a prefix cache." in said.replace("\n", " ")
    assert re.search(r"cached.*\*\d+%", said)
    assert re.search(r"needles \(of 5\)", said)
    assert re.search(r"standard: \d+ of 14 turns word for word, \d+ out of sight; ", said)
    assert "all 33 calls" in said.replace("\n", " ")


def test_the_answer_in_json_has_every_run_with_its_figures(answer: Any) -> None:
    assert (answer["subject"], answer["turns"], answer["sampling"]["every"]) == ("demo", 14, 1)
    gradient, standard = answer["runs"]
    assert (gradient["strategy"], standard["strategy"]) == ("gradient", "standard")
    assert gradient["budget_tokens"] == 2_000
    assert gradient["overruns"] == 0
    assert gradient["words"].endswith(".")
    assert {needle["text"] for needle in gradient["needles"] if needle["turn"] is None} == {"no such thing"}


def test_what_was_never_said_is_told_to_be(demo: Shell) -> None:
    said = demo("compare", "demo", *QUICK, "--turns", "2", "--needle", "no such thing")
    assert "Not in the conversation, so no strategy can find it: 'no such thing'" in said


def test_the_session_is_only_read(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    before = shell("export", "s")
    assert shell.json("compare", "s", *QUICK)["turns"] == 3
    assert shell.json("compare", "s", *QUICK, "--turns", "2", "--every", "2")["turns"] == 2
    assert shell("export", "s") == before
    assert shell.json("sessions")[0]["turns"] == 3


def test_a_transcript_is_compared_without_being_kept(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "none.db")
    answer = shell.json("compare", str(FIXTURES / "pi" / "tidebook.jsonl"), *QUICK)
    assert (answer["subject"], answer["note"]) == ("tidebook.jsonl", "")
    assert answer["turns"] > 1
    assert not shell.db.exists()


def test_of_several_sessions_in_a_file_the_longest_is_compared(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "none.db")
    said = shell("compare", str(FIXTURES / "tau_bench" / "harbour.json"), *QUICK)
    assert re.search(r"is the longest of \d+ sessions in it", said.replace("\n", " "))


def test_mistakes_are_told_in_a_sentence(demo: Shell, tmp_path: Path) -> None:
    assert "available: checkpoint, gradient, hybrid" in demo.error("compare", "demo", "--strategies", "gradient,gone")
    assert "names none" in demo.error("compare", "demo", "--strategies", ", ")
    assert "several are separated by commas, e.g. 16k,64k" in demo.error(
        "compare", "demo", "--budgets", "16k,lots", code=2
    )
    assert "is not a number of tokens" in demo.error("compare", "demo", "--budgets", "0", code=2)
    assert "no session 'nobody'" in demo.error("compare", "nobody")
    assert "there is no such file, and no session" in demo.error("compare", "gone.jsonl")
    assert "is a folder" in demo.error("compare", str(tmp_path))
    assert "gradient at 40 tokens: the budget is 40 tokens" in demo.error(
        "compare", "demo", "--strategies", "gradient", "--budgets", "40"
    ).replace("\n", " ")
    (tmp_path / "empty.jsonl").write_text("")
    assert "Error: " in demo.error("compare", str(tmp_path / "empty.jsonl"))
    gone = str(tmp_path / "no" / "where.html")
    assert "can't be written" in demo.error("compare", "demo", *QUICK, "--turns", "2", "--html", gone)


def test_a_session_without_turns_has_nothing_to_compare(tmp_path: Path) -> None:
    shell = shell_with(tmp_path, turns=0)
    assert "s has no turns to compare" in shell.error("compare", "s")


def test_the_page_is_whole_and_refers_to_nothing_outside(page: Path) -> None:
    text = page.read_text("utf-8")
    found = outline(text)
    assert not {"link", "img", "iframe", "object", "embed"} & set(found.tags)
    assert not {"src", "href", "xlink:href", "srcset", "action"} & set(found.attributes)
    assert not re.search(r"https?:|//\w+\.|url\(|@import|fetch\(|XMLHttp|WebSocket", text)
    assert "default-src 'none'" in text
    assert "<!-- " not in text
    assert (text.count('class="plot"'), text.count('class="strip"')) == (2 * (2 + 6), 2 * 6)
    assert found.attributes["scope"] == {"row", "col"}


def test_the_page_has_the_tables_figures(demo: Shell, page: Path) -> None:
    found = outline(page.read_text("utf-8"))
    text = " ".join(found.text)
    for name in ("checkpoint", "gradient", "hybrid", "oneshot", "standard", "topics"):
        assert name in found.attributes["data-strategy"]
    assert "Facts kept, by turns since their last mention" in text
    assert "needles (of 5)" in text
    assert "At 6,000 tokens" in text


def test_what_a_session_is_called_can_not_break_the_page(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>&\"'"
    shell = shell_with(tmp_path, messages=[*HELLO, {"role": "user", "content": name}])
    shell("sessions", "rename", "s", name)
    path = tmp_path / "report.html"
    shell("compare", "s", *QUICK, "--html", str(path))
    found = outline(path.read_text("utf-8"))
    assert found.tags.count("script") == 1
    assert name in " ".join(found.text)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_the_page_works_in_a_browser(page: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    faults: list[str] = []
    with chromium() as browser:
        shown = browser.new_page()
        shown.on("console", lambda message: faults.append(message.text))
        shown.on("pageerror", lambda error: faults.append(str(error)))
        shown.goto(page.as_uri())
        shown.wait_for_function(
            f"document.querySelectorAll('canvas').length >= {2 + 6}"
        )  # of the section that is shown
        sections = shown.eval_on_selector_all("section", "all => all.map(each => [each.dataset.budget, each.hidden])")
        assert sections == [["3000", False], ["6000", True]]
        assert shown.locator("[data-tip]").count()
        assert shown.locator("canvas").count() == 2 + 6
    assert faults == []


def test_the_demos_facts_are_looked_for(answer: Any) -> None:
    planted = {fact.needle for fact in load_conversation(14).facts}
    assert {needle["text"] for needle in answer["runs"][0]["needles"]} == {*planted, "no such thing"}
