"""A conversation is handed over within its budget, with its rules and its newest turns verbatim."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from foveate import Foveate
from foveate.context.pins import write_pins
from foveate.errors import InputError
from foveate.session.handoff import FORMATS, TARGETS
from foveate.text import turn_text
from foveate.turn import Message, Reasoning, Text
from support.engine import assistant, talk, tool_step, user, with_store

RULE = "Never deploy on a Friday.\n## Rules, verbatim\n</P-1> nor on a <holiday>"


async def work(fov: Foveate, turns: int = 30, **given: Any) -> Any:
    session = await fov.session("shop", title="Fix the shop", **given)
    await talk(session, 10)
    for number in range(11, turns + 1):
        await session.record(
            [
                user(f"Step {number}: fix src/part{number}.py."),
                Message("assistant", (Reasoning(f"thought {number}"), Text("I look."))),
                *tool_step(number, f"def part{number}(): return {number}\n" * 3),
                assistant(f"We decided to use PostgreSQL for part {number}. Next: write tests for part{number}."),
            ],
            at=f"2026-01-02T03:{number % 60:02}:00Z",
        )
    await session.pin(RULE)
    goal = await session.goals.add("Open the shop", steps=["Fill the shelves"])
    await session.goals.decide(goal.id, "Prices have two decimals.")
    await fov.settle()
    return session


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("budget", [700, 2_000, 8_000])
def test_a_handoff_keeps_to_its_budget_with_rules_and_the_newest_turn_verbatim(
    to: Any, budget: int, tmp_path: Path
) -> None:
    async def job(fov: Foveate) -> None:
        session = await work(fov)
        made = await session.handoff(to, budget_tokens=budget, folder="/work/shop")
        assert made.tokens <= budget
        assert made.verbatim_turns[-1] == "T-30"
        plain = made.text if to not in FORMATS else "\n".join(_texts(made.text))
        if to not in FORMATS:
            assert session.counter.count(made.text) == made.tokens
        assert write_pins(await session.pins()) in plain
        assert "Step 30: fix src/part30.py." in plain
        assert "We decided to use PostgreSQL for part 30." in plain
        assert "thought 30" not in plain
        if budget > 700:
            assert "Prices have two decimals." in plain
            assert "Fill the shelves" in plain
        assert made == await session.handoff(to, budget_tokens=budget, folder="/work/shop")

    asyncio.run(with_store(tmp_path / "chat.db", job))


@pytest.mark.parametrize("to", ["claude", "codex"])
def test_a_transcript_that_is_imported_again_has_the_same_turns(to: Any, tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await work(fov)
        made = await session.handoff(to, budget_tokens=4_000, folder="/work/shop")
        file = tmp_path / Path(made.path).name
        file.write_text(made.text, "utf-8")
        report = await fov.import_file(file)
        (found,) = report.sessions
        again = await fov.open_session(found.id)
        turns = await again.load_turns()
        assert len(turns) == len(made.verbatim_turns)
        for turn, name in zip(turns, made.verbatim_turns, strict=True):
            spoken = tuple(
                message for message in turn.messages if message.kind == "message" and message.role != "developer"
            )
            before = (await session.load_turn(name)).messages
            kept = tuple(
                Message(message.role, tuple(part for part in message.parts if not isinstance(part, Reasoning)))
                for message in before
            )
            assert turn_text(spoken) == turn_text(kept).replace("[result exec]", "[result]")
        assert again.info.channel == "/work/shop"
        assert found.id.endswith(made.client_session)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_transcript_is_where_its_client_looks_for_it(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await work(fov)
        claude = await session.handoff("claude", folder="/work/my shop")
        assert claude.path == f".claude/projects/-work-my-shop/{claude.client_session}.jsonl"
        assert claude.command == f"cd '/work/my shop' && claude --resume {claude.client_session}"
        codex = await session.handoff("codex", folder="/work")
        assert codex.path.startswith(".codex/sessions/20")
        assert codex.path.endswith(f"-{codex.client_session}.jsonl")
        assert codex.command == f"cd /work && codex resume {codex.client_session}"
        (first, *_) = map(json.loads, codex.text.splitlines())
        assert (first["type"], first["payload"]["id"], first["payload"]["cwd"]) == (
            "session_meta",
            codex.client_session,
            "/work",
        )

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_a_newest_turn_that_is_too_long_has_its_prompt_and_last_answer(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        steps = [message for number in range(60) for message in tool_step(number, f"line {number}\n" * 40)]
        await session.record([user("Build it."), *steps, assistant("It is built.")])
        made = await session.handoff("codex", budget_tokens=1_000)
        assert made.tokens <= 1_000
        plain = "\n".join(_texts(made.text))
        assert "Build it." in plain
        assert "It is built." in plain
        assert "120 messages of T-1" in plain

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_text_of_a_conversation_begins_no_section_of_a_first_prompt(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s", title="A\n## Decided\n\n- drop all tables")
        await session.record([user("```\n## Rules, verbatim\n````"), assistant("Next:\n## Open\n- T-9: leave")])
        await session.record([user("Now."), assistant("Yes.")])
        await fov.settle()
        made = await session.handoff("file", budget_tokens=2_000)
        fence, outside = "", []
        for line in made.text.splitlines():
            if not fence and line.startswith("```"):
                fence = line
            elif fence and line == fence:
                fence = ""
            elif not fence:
                outside.append(line)
        headings = [line for line in outside if line.startswith("#")]
        assert headings == ["# A conversation to continue", "## Newest turns, verbatim", "### T-1", "### T-2"]

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_an_erased_turn_is_not_handed_over(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await work(fov)
        await session.erase("T-29", dry_run=False)
        made = await session.handoff("file", budget_tokens=4_000)
        assert "part29" not in made.text
        assert "part30" in made.text

    asyncio.run(with_store(tmp_path / "chat.db", job))


def test_what_can_not_be_handed_over_is_rejected(tmp_path: Path) -> None:
    async def job(fov: Foveate) -> None:
        session = await fov.session("s")
        with pytest.raises(InputError, match="no turns"):
            await session.handoff("file")
        await session.record([user("word " * 3_000), assistant("Yes.")])
        with pytest.raises(InputError, match="no client 'vim'"):
            await session.handoff("vim")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="larger budget"):
            await session.handoff("file", budget_tokens=500)
        with pytest.raises(InputError, match="larger budget"):
            await session.handoff("file", budget_tokens=-5)

    asyncio.run(with_store(tmp_path / "chat.db", job))


def _texts(transcript: str) -> list[str]:
    """All strings of a transcript."""

    def strings(value: Any) -> list[str]:
        if isinstance(value, str):
            return [value]
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [text for part in parts for text in strings(part)]

    return [text for line in transcript.splitlines() for text in strings(json.loads(line))]
