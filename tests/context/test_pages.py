"""Pages of turns: within their size, dated, cut where a reader would turn the page, in linear work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.context.board import Board, render, retrieve
from foveate.context.pages import MAX_PARTS, days_line, paginate, parts_line
from foveate.context.tags import MARKED, TagBlock, TagEntry, write_block
from foveate.tokens import O200K, Counter
from support.contexts import blocks, counters, marked


def turn_block(number: int, text: str = "[user] hi\n") -> TagBlock:
    return TagBlock(number, number, "R", (TagEntry(number, text),))


def texts_of(text: str, page_tokens: int) -> list[str]:
    pages = paginate([turn_block(1, text)], page_tokens, O200K.base)
    return [block.entries[0].text for page in pages for block in page]


@given(st.lists(blocks(), min_size=1, max_size=3), st.integers(100, 400), counters)
def test_pages_fit_and_together_hold_everything(found: list[TagBlock], page_tokens: int, counter: Counter) -> None:
    pages = paginate(found, page_tokens, counter.base)
    for page in pages:
        assert counter.base("".join(map(write_block, page))) <= page_tokens
    texts = [entry.text for page in pages for block in page for entry in block.entries]
    originals = [entry.text for block in found for entry in block.entries]
    added = len([block for block in found if block.level in MARKED]) * len(texts)
    joined, original = "".join(texts), "".join(originals)
    assert len(original) <= len(joined) <= len(original) + added
    assert joined.replace("\n", "") == original.replace("\n", "")


def test_a_range_of_many_turns_is_paged_between_its_lines() -> None:
    entries = tuple(TagEntry(number, "Did something worth a line.") for number in range(1, 2_001))
    pages = paginate([TagBlock(1, 2_000, "T", entries, is_range=True)], 1_000, O200K.base)
    assert [entry for page in pages for block in page for entry in block.entries] == list(entries)
    assert all(O200K.base(write_block(page[0])) > 900 for page in pages[:-1])


def test_marked_text_keeps_its_newline_on_every_page() -> None:
    pages = paginate([turn_block(1, marked("[user] " + "x" * 5_000, "R"))], 100, O200K.base)
    assert len(pages) > 1
    assert all(block.entries[0].text.endswith("\n") for page in pages for block in page)


def test_paging_counts_each_part_of_a_long_text_a_few_times_only() -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return len(text) // 4

    work = []
    for size in (50_000, 100_000):
        counted = 0
        pages = paginate([turn_block(1, "[user] " + "words and more words\n" * (size // 21))], 500, count)
        assert len(pages) > size // 2_500
        work.append(counted)
    assert work[1] < 2.2 * work[0]


@pytest.mark.parametrize("run", ["\\", "\u0301", "\u200d", "\U0001f1e9", "x"])
def test_paging_a_long_run_of_one_character_is_linear(run: str) -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return len(text)

    work = []
    for size in (8_000, 16_000):
        counted = 0
        pages = paginate([turn_block(1, f"[user] {run * size}\n")], 464, count)
        assert len(pages) < size // 300
        work.append(counted)
    assert work[1] < 2.2 * work[0]


CODE = "```python\n" + "".join(f"value_{number} = compute({number})\n" for number in range(12)) + "```\n"
ITEM = "- " + "An item that is explained at some length, over more than one line,\n  " * 3 + "and ends here.\n"


@pytest.mark.parametrize("lead", range(12))
def test_a_page_never_ends_inside_a_code_block_that_fits_a_page(lead: int) -> None:
    prose = "A sentence of the answer that takes one line.\n"
    pages = texts_of("[assistant] " + prose * lead + (CODE + prose * 5) * 6, 264)
    assert len(pages) > 3
    assert all(page.count("```") % 2 == 0 for page in pages)


@pytest.mark.parametrize("lead", range(12))
def test_a_page_never_ends_inside_a_list_item(lead: int) -> None:
    pages = texts_of("[assistant] Steps.\n" + "One more line of prose.\n" * lead + ITEM * 20, 264)
    assert len(pages) > 3
    assert all(page.endswith("and ends here.\n") for page in pages)


def test_code_larger_than_a_page_is_cut_between_its_lines_and_the_rest_follows() -> None:
    text = "[assistant] Here.\n```\n" + "one line of a very long listing\n" * 200 + "```\nDone.\n"
    pages = texts_of(text, 264)
    assert "".join(pages) == text
    assert all(page.endswith("\n") for page in pages)
    assert all(O200K.base(page) > 150 for page in pages[:-1])


def test_each_page_has_the_dates_of_its_turns_within_its_size() -> None:
    entries = tuple(TagEntry(number, "Did something worth a line.") for number in range(1, 61))
    days = {number: f"{(number - 1) // 2 + 1} May 2023" for number in range(1, 61)}
    pages = paginate([TagBlock(1, 60, "T", entries, is_range=True)], 400, O200K.base, days)
    assert len(pages) > 1
    assert days_line(pages[0], days).startswith("T-1 to T-2 · 1 May 2023; T-3 to T-4 · 2 May 2023; ")
    for page in pages:
        assert O200K.base(days_line(page, days) + "".join(map(write_block, page))) <= 400


def test_an_era_has_the_dates_of_its_first_and_last_turn() -> None:
    era = TagBlock(1, 32, "E", (TagEntry(1, "Built the pier."),))
    (page,) = paginate([era], 400, O200K.base, {1: "1 May 2023 to 9 May 2023"})
    assert days_line(page, {1: "1 May 2023 to 9 May 2023"}) == "T-1 to T-32 · 1 May 2023 to 9 May 2023\n"


def test_the_board_shows_the_dates_of_what_was_retrieved() -> None:
    days = {5: "4 May 2023"}
    board = retrieve(Board(), [turn_block(5)], now_turn=6, page_tokens=800, count=O200K.base, days=days)
    shown = render(board, now_turn=6, budget_tokens=400, count=O200K.base)
    assert "Retrieved (5 more turns):\nT-5 · 4 May 2023\n<T-5-R>" in shown


def test_the_outline_of_a_long_turn_names_its_parts_and_their_pages() -> None:
    filler = "A line of the answer.\n" * 30
    code = "```\n# no heading\n```\n"
    text = f"[user] Explain it.\n[assistant] So.\n# Setup\n{filler}{code}## Use\n{filler}[result bash] done\n"
    pages = paginate([turn_block(1, text)], 264, O200K.base)
    assert parts_line(pages) == (
        "Parts: user: Explain it. (page 1); assistant: So. (page 1); Setup (page 1); Use (page 2); "
        "result bash: done (page 3)\n"
    )
    many = paginate([turn_block(1, "[user] All.\n" + "## Part\nA line.\n" * 40)], 264, O200K.base)
    assert parts_line(many).endswith(f"; {41 - MAX_PARTS} more\n")
