"""Every strategy over conversations that really took place, call by call: what each one may never do, it does not do.

    python bench/six_strategies.py                         # every call of all of them: about twenty minutes
    python bench/six_strategies.py --every 25 --strategies checkpoint,topics

Needs ../shared/data: the pi session, a month with Aider, twenty tau-bench runs. Each prompt is looked at as a provider
would get it. No prompt exceeds its budget, separates a call from its result, or shows something as said that was not;
no strategy loses words of the user, or touches messages, that its design says it keeps; every turn can be read back.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import foveate
from foveate import strategy as strategies
from foveate.context.context import Context
from foveate.context.render import FORMATS
from foveate.context.tags import TagBlock, parse_blocks
from foveate.errors import InvariantBroken
from foveate.formats import TranscriptMessage, load_transcript
from foveate.history.blocks import user_text
from foveate.replay.replay import CallSample, ReplayCall, replay
from foveate.replay.script import Script, prepare
from foveate.settings import Settings, load_settings
from foveate.text import message_text, turn_text
from foveate.turn import Message, Turn
from support.turns import split_turns

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "shared" / "data" / "transcripts"
AIDER_TURNS = 400
"""About a month."""
TAU_RUNS = 20
BUDGETS_TOKENS = (4_000, 16_000, 64_000)
TAU_BUDGETS_TOKENS = (3_000, 9_000)
PROTECTED = 5


@dataclass(slots=True)
class Watch:
    """Looks at each prompt of a replay, and notes what should not be."""

    strategy: str
    turns: Sequence[Turn]
    faults: list[str] = field(default_factory=list)
    prompts: int = 0

    def see(self, call: ReplayCall, context: Context) -> None:
        self.prompts += 1
        where = f"{self.strategy} at {context.budget_tokens:,}, T-{call.turn}"
        self.faults += [f"{where}: {fault}" for fault in self._faults(call, context)]

    def _faults(self, call: ReplayCall, context: Context) -> Iterator[str]:
        if call.is_overrun:
            yield f"{call.tokens:,} tokens exceed the budget"
        for name in FORMATS:
            try:
                context.messages(name)
            except InvariantBroken as error:
                yield f"as {name}: {error}"
        if "fallback" in context.planned.notes:
            yield f"the gradient had to stand in for {self.strategy}"
        blocks = parse_blocks(context.history)
        yield from self._unlike_the_log(blocks, call.turn)
        if self.strategy == "checkpoint":
            yield from self._lost_words(blocks, context, call.turn)
        if self.strategy == "hybrid":
            yield from self._touched(blocks, context, call)

    def _unlike_the_log(self, blocks: Sequence[TagBlock], now: int) -> Iterator[str]:
        """What stands there as said, but was not said so."""
        for block in blocks:
            if block.level not in ("R", "U") or block.first_step or block.last >= now:
                continue
            for entry in block.entries:
                messages = self.turns[entry.number - 1].messages
                said = turn_text(messages) if block.level == "R" else user_text(messages)
                if entry.text != said and "(cut:" not in entry.text:
                    yield f"T-{entry.number} is not shown as it was said"

    def _lost_words(self, blocks: Sequence[TagBlock], context: Context, now: int) -> Iterator[str]:
        """The user's words that a checkpoint has to keep: all, but where it says that it rolled over."""
        notes = context.planned.notes
        rolled = int(str(notes.get("tiny_through", "T-0")).removeprefix("T-"))
        shown: dict[int, str] = {}
        for block in blocks:
            if block.level in ("R", "U") and block.first_step <= 1:
                shown |= {block.first if block.first_step else entry.number: entry.text for entry in block.entries}
        for turn in range(rolled + 1, now + 1):
            is_lowered = turn == now and "newest" in notes
            prompt = "".join(message_text(one) for one in self.turns[turn - 1].messages if one.opens_turn)
            if prompt not in shown.get(turn, "") and not is_lowered:
                yield f"the user's words of T-{turn} are lost"

    def _touched(self, blocks: Sequence[TagBlock], context: Context, call: ReplayCall) -> Iterator[str]:
        """The newest messages, which hybrid leaves as they are unless it says that they had to be cut."""
        if {"cut", "before_newest"} & context.planned.notes.keys():
            return
        before = self.turns[max(0, call.turn - 1 - PROTECTED) : call.turn - 1]
        said = [one for turn in before for one in turn.messages]
        said += self.turns[call.turn - 1].messages[: call.position]
        spoken = [one for one in said if one.role in ("user", "assistant") and one.kind == "message"]
        shown = "".join(entry.text for block in blocks for entry in block.entries)
        for one in spoken[-PROTECTED:]:
            if message_text(one) not in shown:
                yield f"a protected message is not as it was: {one.text[:60]!r}"


@dataclass(frozen=True, slots=True)
class Stage:
    """A conversation ready to be played, and how it is."""

    script: Script
    turns: Sequence[Turn]
    sampling: CallSample
    settings: Settings


async def watched(stage: Stage, strategy: str, budget_tokens: int) -> Watch:
    """What was seen of one strategy at one budget."""
    watch = Watch(strategy, stage.turns)
    await replay(
        stage.script,
        budget_tokens=budget_tokens,
        strategy=strategy,
        settings=stage.settings,
        sampling=stage.sampling,
        observe=watch.see,
    )
    return watch


async def unread(path: Path, stage: Stage, strategy: str, *, budget_tokens: int, every: int = 1) -> list[str]:
    """Of each so manieth turn, those that can't be read back word for word, whatever the strategy shows of them."""
    lost = []
    async with foveate.open(path, settings=stage.settings) as fov:
        session = await fov.session("s", strategy=strategy, budget_tokens=budget_tokens)
        for turn in stage.turns:
            await session.record(turn)
        await session.context()
        for number, turn in list(enumerate(stage.turns, 1))[::every]:
            answer = await session.call_tool("get_turn", {"turn_id": f"T-{number}", "level": "R"})
            found = await session.get_turn(number, "R", format="plain")
            if f"<T-{number}-R>" not in answer or found.content != turn_text(turn.messages):
                lost.append(f"{strategy} at {budget_tokens:,}: T-{number} can't be read back")
    return lost


def histories() -> dict[str, list[Turn]]:
    """The conversations, by name."""
    found = {"pi": next(iter(_read("pi", "pi-large-session.jsonl").values()))}
    found["aider"] = next(iter(_read("aider", "aider-chat-history.md").values()))[:AIDER_TURNS]
    runs = _read("tau-bench", "tau-airline.json")
    found |= {f"tau {number}": runs[name] for number, name in enumerate(sorted(runs)[:TAU_RUNS], 1)}
    return found


def _read(format_name: str, file_name: str) -> dict[str, list[Turn]]:
    messages: dict[str, list[Message]] = {}
    with (TRANSCRIPTS / file_name).open("rb") as file:
        for item in load_transcript(format_name).read(file, file_name):
            if isinstance(item, TranscriptMessage):
                messages.setdefault(item.session, []).append(item.message)
    return {name: [Turn(tuple(group)) for group in split_turns(said) if group] for name, said in messages.items()}


def sweep(name: str, turns: Sequence[Turn], chosen: Sequence[str], every: int | None) -> tuple[int, list[str]]:
    """How many prompts of one conversation were looked at, and what was wrong with them."""
    settings = load_settings(environment={}, overrides={"compress": {"processes": 0}, "recall": {"enabled": False}})
    script = asyncio.run(prepare(turns, settings=settings))
    stage = Stage(script, turns, CallSample(every or 1), settings)
    prompts, faults = 0, []
    for strategy in chosen:
        for budget in TAU_BUDGETS_TOKENS if name.startswith("tau") else BUDGETS_TOKENS:
            watch = asyncio.run(watched(stage, strategy, budget))
            prompts += watch.prompts
            faults += watch.faults
        with tempfile.TemporaryDirectory() as folder:
            faults += asyncio.run(unread(Path(folder) / "chat.db", stage, strategy, budget_tokens=BUDGETS_TOKENS[0]))
    return prompts, [f"{name}: {fault}" for fault in faults]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, help="look at one prompt in so many, and the newest")
    parser.add_argument("--strategies", default=",".join(strategies.names()))
    parser.add_argument("--histories", default="", help="only those whose name begins so")
    options = parser.parse_args()
    began = time.perf_counter()
    prompts, faults = 0, []
    with ProcessPoolExecutor(2) as pool:
        jobs = {
            pool.submit(sweep, name, turns, options.strategies.split(","), options.every): name
            for name, turns in histories().items()
            if name.startswith(options.histories)
        }
        for job in as_completed(jobs):
            seen, wrong = job.result()
            prompts += seen
            faults += wrong
            print(f"{jobs[job]}: {seen:,} prompts, {len(wrong)} faults", file=sys.stderr)
    for fault in faults:
        print(fault)
    print(f"{prompts:,} prompts looked at, {len(faults)} faults, {time.perf_counter() - began:.0f} s")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
