"""Blocks, parts and contexts for tests: a small sample that reads like a conversation, and Hypothesis strategies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from foveate.context.assemble import BlockText, ContextParts
from foveate.context.board import NOTE_HEADINGS, Board, add_note, render, retrieve
from foveate.context.board import Note as BoardNote
from foveate.context.costs import block_tokens
from foveate.context.pins import PinText
from foveate.context.tags import MARKED, SUMS, TagBlock, TagEntry, escape_tags, tag_section, write_block
from foveate.formats import parse_messages
from foveate.plan import Block, ShownLevel
from foveate.strategy.gradient import Gradient
from foveate.text import turn_text
from foveate.tokens import CL100K, O200K, Counter
from foveate.turn import Json, Message, Text
from support.strategies import conversations, texts, words

forgeries = st.lists(
    st.sampled_from(
        [
            *("<", "</", "< /", "<\\", "\\", "/", "T-", "t-", "P-", "7", "-R", ">", "\n", " ", "\u2028", "\u200b"),
            *("<T-7-R>\n", "</T-7-R>\n", "<T-1-through-9-C>\n", "</board>\n", "<memory>", "<P-1>", "</P-1>\n"),
            *("</goals>\n", "<tasks>", "</epic>"),
            *("[4 May 2023]", "\n[9 june 2024]\n", "[18:30] ", "\\[4 May", "[ 12 May to 3 June 2023]\n"),
            *("Turn 7:", "\nTurn 8: ", "\nStep 3:\n", "step 12 :", "\n\\Turn 8:", "[user] ", "\r\n", "\x85"),
        ]
    )
    | texts,
    max_size=12,
).map(lambda found: str(json.loads(json.dumps("".join(found)))))
"""Content that would like to be structure."""

DATES = st.sampled_from(
    ["", "", "4 May 2023", "28 September", "07:05", "4 May 2023 to 28 September 2024", "1 May to 2 June 2023"]
)
counters = st.sampled_from([O200K, CL100K])
levels: st.SearchStrategy[ShownLevel] = st.sampled_from(["R", "S", "C", "T", "E", "U", "M", "A"])


def marked(text: str, level: ShownLevel) -> str:
    """The text as its level has it: with its last newline at R and S."""
    return text if level not in MARKED or not text or text.endswith("\n") else f"{text}\n"


@st.composite
def blocks(draw: st.DrawFn, first: int | None = None) -> TagBlock:
    start = first or draw(st.integers(1, 10**7))
    level = draw(levels)
    numbers = sorted(draw(st.sets(st.integers(0, 20), min_size=1, max_size=4)))
    contents = [marked(draw(forgeries), level) for _ in numbers]
    dates = [draw(DATES) for _ in numbers]
    shape = draw(st.sampled_from(["single", "range", "step", "steps"])) if level not in SUMS else "era"
    match shape:
        case "single":
            return TagBlock(start, start, level, (TagEntry(start, contents[0], date=dates[0]),))
        case "era":
            return TagBlock(start, start + numbers[-1], level, (TagEntry(start, contents[0], date=dates[0]),))
        case "step":
            return TagBlock(start, start, level, (TagEntry(3, contents[0], date=dates[0]),), 3, 3)
    low = start if shape == "range" else draw(st.integers(1, 10**4))
    entries = tuple(
        TagEntry(low + number, text, date=date) for number, text, date in zip(numbers, contents, dates, strict=True)
    )
    if shape == "range":
        return TagBlock(low, low + 20, level, entries, is_range=True)
    return TagBlock(start, start, level, entries, low, low + 20, is_range=True)


@st.composite
def histories(draw: st.DrawFn) -> list[TagBlock]:
    """Blocks in order, none overlapping another."""
    found: list[TagBlock] = []
    at = 1
    for _ in range(draw(st.integers(0, 5))):
        found.append(draw(blocks(first=at)))
        at = found[-1].last + 1
    return found


def history_block(
    block: TagBlock, messages: Sequence[Message] | None = None, *, counter: Counter = O200K, is_stable: bool = True
) -> BlockText:
    tokens = block_tokens(block, counter)
    row = Block(
        block.first,
        block.last,
        block.level,
        tokens,
        first_step=block.first_step,
        last_step=block.last_step,
        is_range=block.is_range,
    )
    native = None if messages is None else tuple(messages)
    return BlockText(row, write_block(block), tokens, native, is_stable)


def native_block(number: int, messages: Sequence[Message], counter: Counter = O200K) -> BlockText:
    """A turn that may go out as messages."""
    text = turn_text(tuple(messages))
    return history_block(TagBlock(number, number, "R", (TagEntry(number, text),)), messages, counter=counter)


@st.composite
def native_turns(draw: st.DrawFn, number: int, counter: Counter = O200K) -> BlockText:
    prompt = Message("user", (Text(draw(words)),))
    return native_block(number, (prompt, *draw(conversations())), counter)


pins = st.lists(forgeries.filter(str.strip), max_size=3).map(
    lambda found: [PinText(f"P-{number}", text) for number, text in enumerate(found, 1)]
)


@st.composite
def parts(draw: st.DrawFn) -> ContextParts:
    """Anything to assemble, with more than enough budget."""
    counter = draw(counters)
    older = [history_block(block, counter=counter) for block in draw(histories())]
    last = older[-1].row.last if older else 0
    newer = [draw(native_turns(last + index, counter)) for index in range(1, draw(st.integers(1, 4)))]
    board = draw(boards())
    return ContextParts(
        budget_tokens=1_000_000,
        counter=counter,
        calibration=draw(st.sampled_from([1.0, 1.13])),
        system=draw(texts),
        explanation=draw(st.sampled_from(["", Gradient().explanation])),
        pins=draw(pins),
        history=[*older, *newer],
        at_work=draw(st.integers(0, len(newer))),
        memory=tag_section("memory", escape_tags(f"Turn 1: {draw(words)}\n")) if draw(st.booleans()) else "",
        board=render(board, now_turn=3, budget_tokens=draw(st.integers(0, 400)), count=counter.base),
        prompt=draw(texts | st.lists(st.builds(lambda text: Message("user", (Text(text),)), words), max_size=2)),
        tools_tokens=draw(st.integers(0, 400)),
        order=draw(st.sampled_from(["cache-first", "documented"])),
    )


@st.composite
def boards(draw: st.DrawFn) -> Board:
    board = Board()
    for _ in range(draw(st.integers(0, 3))):
        board = retrieve(
            board,
            [draw(blocks())],
            now_turn=draw(st.integers(1, 4)),
            page_tokens=draw(st.integers(0, 300)),
            page=draw(st.integers(1, 3)),
            count=O200K.base,
        )
    for kind in draw(st.lists(st.sampled_from(list(NOTE_HEADINGS)), max_size=3)):
        board = add_note(board, BoardNote(kind, draw(forgeries), draw(forgeries)))
    return board


# A sample

RECORDS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"role": "user", "content": "Why does the build fail?"},
        {
            "role": "assistant",
            "content": "I'll run it.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "exec", "arguments": '{"cmd":"make"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "ld: cannot find -lz\n<T-2-R> not a tag"},
        {"role": "assistant", "content": "zlib is missing: install zlib1g-dev."},
    ],
    "anthropic": [
        {"role": "user", "content": "Install it, then."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Needs root.", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "exec", "input": {"cmd": "apt install zlib1g-dev"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": "done",
                    "cache_control": {"type": "ephemeral"},
                }
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Installed; the build passes."}]},
    ],
}


def native_sample() -> list[BlockText]:
    return [
        native_block(14, parse_messages(RECORDS["openai"], "openai")),
        native_block(15, parse_messages(RECORDS["anthropic"], "anthropic")),
    ]


def sample_parts() -> ContextParts:
    """A small conversation with something of everything."""
    older = [
        TagBlock(1, 9, "E", (TagEntry(1, "Set up the harbour project: Rust 1.80, tide tables from NOAA."),)),
        TagBlock(10, 11, "T", (TagEntry(10, "Chose SQLite."), TagEntry(11, "Added the tide cache.")), is_range=True),
        TagBlock(
            12, 12, "C", (TagEntry(12, "Asked for nightly builds.\nTurn 3: is quoted. [assistant] Set for 02:00."),)
        ),
        TagBlock(13, 13, "S", (TagEntry(13, "[user] Is CI green?\n[assistant] Yes, all 41 jobs.\n"),)),
    ]
    board = retrieve(
        Board(),
        [TagBlock(4, 4, "R", (TagEntry(4, "[user] Which tables?\n[assistant] NOAA's.\n"),))],
        now_turn=14,
        page_tokens=200,
        count=O200K.base,
    )
    board = add_note(board, BoardNote("bands", "bands", "E 1-9, T 10-11, C 12, S 13, R 14-15"))
    board = add_note(board, BoardNote("fetch", "F-3", "https://tides.example/api"))
    return ContextParts(
        explanation=Gradient().explanation,
        budget_tokens=2_000,
        counter=O200K,
        system="You help with the harbour project.",
        pins=[PinText("P-1", "Never deploy on a Friday."), PinText("P-4", "Quote </P-4> as is.\n")],
        history=[*map(history_block, older), *native_sample()],
        board=render(board, now_turn=16, budget_tokens=200, count=O200K.base),
        prompt="Now tag a release.",
        tools_tokens=312,
    )


def flattened(rendered: Sequence[Json]) -> list[Any]:
    """Messages as (role, block) pairs without cache hints, to compare what providers see as the same."""
    flat: list[Any] = []
    for record in rendered:
        assert isinstance(record, dict)
        content = record.get("content", record.get("parts"))
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        rest = {key: value for key, value in record.items() if key not in ("content", "parts")}
        found = [_plain(block) for block in content or [None]]
        flat += [(rest, block) for block in found]
    return flat


def _plain(block: Json) -> Json:
    if isinstance(block, dict):
        kind = {"input_text": "text"}.get(str(block.get("type")), block.get("type"))
        return {key: kind if key == "type" else value for key, value in block.items() if key != "cache_control"}
    return block
