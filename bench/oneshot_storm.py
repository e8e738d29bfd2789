"""Kills a run with SIGKILL at random moments, begins it again each time, and compares it with a run left alone.

Run from the project's root: python bench/oneshot_storm.py [--iterations 200] [--kills 20] [--seed 1]

In the end both logs have the same texts, turn by turn, and both task lists are the same to the byte. The scripted model
answers by what it is shown (the number of the iteration, and how many tasks are open), so an iteration that was lost,
doubled or asked with the wrong tasks would show.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from foveate.agents.run import Caps, IterationStart, RunEnd, run
from foveate.client import Foveate
from foveate.models import Ask
from foveate.settings import load_settings
from foveate.store import open_store
from foveate.testing.scripted import Behaviour, CallsTool, Delays, Says, ScriptedModel

SESSION = "run-storm"
MODEL = "scripted:storm"
BUDGET_TOKENS = 8_000
"""Little enough that the log outgrows its share several times."""
EPIC = "Count the sheep on every hill, and write down how many there are.\n"
TASKS = "# Hills\n" + "".join(f"- [ ] Count the sheep on hill {number}\n" for number in range(1, 31))
THINKING_SECONDS = 0.01
"""So long does the model take, so that kills fall into its calls, too."""
MAX_DELAY_SECONDS = 1.2
CHILD_LIMIT_SECONDS = 600
_ITERATION = re.compile(r"Iteration (\d+):")


class Lost(AssertionError):
    """What must never happen."""


@dataclass(frozen=True, slots=True)
class Log:
    """What a run leaves behind."""

    turns: tuple[str, ...]
    """Raw."""
    tasks: str
    iterations: int
    reason: str


@dataclass(slots=True)
class Stormed:
    """What a storm did."""

    kills: int = 0
    iterations: int = 0
    asked_again: int = 0
    """Iterations that a kill left without their answer."""
    seconds: float = 0.0


def script(last: int) -> ScriptedModel:
    """A model that works for so many iterations; the same answer to the same iteration, whoever asks."""

    def reply(ask: Ask) -> Behaviour:
        return Delays(THINKING_SECONDS, _reply(ask, last))

    return ScriptedModel(reply, name=MODEL)


def _reply(ask: Ask, last: int) -> Behaviour:
    shown = "\n".join(message.text for message in ask.messages if message.role == "user")
    # How far the log is summed up depends on what the worker has made by then; the tasks depend on nothing else.
    tasks = shown.rpartition("<tasks>\n")[2].partition("</tasks>")[0]
    number = int(_ITERATION.findall(tasks)[-1])
    open_tasks = tasks.count("[ ]")
    call = f"call-{number}"
    is_answered = any(result.call_id == call for message in ask.messages for result in message.tool_results)
    said = f"Hill {number}: {number * 37 % 101} sheep, {number * 11 % 13} of them black. {open_tasks} tasks are open."
    if number >= last:
        return CallsTool("finish", {"summary": f"{open_tasks} tasks are left."}, id=call, text=said)
    if number % 9 == 0 and not is_answered:
        return CallsTool("get_turn", {"turn_id": f"T-{number // 2}", "level": "R"}, id=call)
    if number % 6 == 0:
        done = min(30, number // 6)
        return CallsTool("update_tasks", {"done": [done], "added": [f"Count hill {done} again"]}, id=call, text=said)
    if number % 25 == 0:
        return Says(f"{said}\n\nTASKS:\n- [ ] Write the report of {number}\n- [x] Sharpen the pencil\n")
    return Says(said)


async def work(path: Path, last: int, *, tells: bool = False) -> Log:
    """Begin the run, or go on with it, and see it to its end; `tells` says on standard output how far it is."""
    settings = load_settings(environment={}, overrides={"compress": {"processes": 0}})
    model = script(last)
    fov = Foveate(await open_store(str(path), settings.store), settings, load=lambda _name, _settings: model)
    try:
        session = await fov.session(SESSION, strategy="oneshot", budget_tokens=BUDGET_TOKENS)
        caps = Caps(max_iterations=last + 1)
        events = run(session, fov.caller, [MODEL], costs=fov.costs, epic=EPIC, tasks=TASKS, caps=caps)
        ended: RunEnd | None = None
        async with aclosing(events):
            async for event in events:
                if isinstance(event, IterationStart) and tells:
                    os.write(sys.stdout.fileno(), f"{event.iteration} {int(event.is_again)}\n".encode())
                if isinstance(event, RunEnd):
                    ended = event
        assert ended is not None, "a run ends with the event that says so"
        turns = await session.get_turns(1, (await session.refresh()).turns, "R", format="plain")
        tasks = await session.documents.get("tasks")
        return Log(tuple(turn.content for turn in turns), tasks, ended.iterations, ended.reason)
    finally:
        await fov.close()


def storm(
    iterations: int, kills: int, directory: Path, seed: int = 1, *, longest_seconds: float = MAX_DELAY_SECONDS
) -> Stormed:
    """Kill a run so often, let it end, and raise `Lost` if it differs from one that was left alone."""
    began = time.monotonic()
    chance = random.Random(seed)
    done = Stormed()
    path = directory / "storm.db"
    for _ in range(kills):
        _work_and_kill(path, iterations, chance.uniform(0, longest_seconds), done)
        done.kills += 1
    stormed = asyncio.run(work(path, iterations))
    alone = asyncio.run(work(directory / "alone.db", iterations))
    _compare(alone, stormed)
    done.iterations = stormed.iterations
    done.seconds = time.monotonic() - began
    return done


def _work_and_kill(path: Path, iterations: int, delay: float, done: Stormed) -> None:
    command = [sys.executable, __file__, "--child", str(path), "--iterations", str(iterations)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdout
        try:
            first = child.stdout.readline()
            if not first:
                raise Lost(f"the run ended by itself with status {child.wait()}; use fewer kills or more iterations")
            done.asked_again += int(first.split()[1])
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=delay)
                raise Lost("the run came to its end before it was killed; use fewer kills or more iterations")
        finally:
            child.kill()


def _compare(alone: Log, stormed: Log) -> None:
    for number, (one, two) in enumerate(zip(alone.turns, stormed.turns, strict=False), start=1):
        if one != two:
            raise Lost(f"T-{number} is\n{two}\nand should be\n{one}")
    if alone != stormed:
        raise Lost(f"{len(stormed.turns)} turns and tasks\n{stormed.tasks}\nwere {len(alone.turns)} and\n{alone.tasks}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        asyncio.run(asyncio.wait_for(work(options.child, options.iterations, tells=True), CHILD_LIMIT_SECONDS))
        return
    with tempfile.TemporaryDirectory() as temporary:
        done = storm(options.iterations, options.kills, Path(temporary), options.seed)
    print(
        f"{done.kills} kills in {done.seconds:.0f} s; {done.asked_again} of them left an iteration to be asked again."
    )
    print(f"{done.iterations} iterations: the same log and the same tasks as without a kill.")


if __name__ == "__main__":
    main()
