"""Whether knowledge helps in new sessions: 60 tasks whose right answer needs a rule or fact of an old session.

    python bench/knowledge_tasks.py --shown dev                   # whether the contexts state it, without readers
    python bench/knowledge_tasks.py --reader FOLDER               # write the contexts of all halves for readers
    python bench/knowledge_tasks.py --judge-sheet FOLDER answers-*.jsonl
    python bench/knowledge_tasks.py --score FOLDER verdicts-*.jsonl --write

The histories of `bench/knowledge.py` are recorded, learned from without a model, and each task is asked in a new
session of the same scope, with the default settings and a budget of 8,000 tokens. Conditions:

- `with knowledge`: after the run that learns.
- `without knowledge`: a copy of the same store from before that run, so nothing was learned; everything else is equal.
  Sessions of a user's scope recall passages of its past sessions in both conditions, as they do by default; sessions
  of a project don't in either.
- `past sessions` (with `--conditions`): without knowledge, but sessions of a project are opened with its scope, so that
  they recall passages of its past sessions, too. What knowledge adds to that is the harder comparison.
- `written knowledge` (with `--conditions`): nothing is learned, but a person wrote every expected lesson down. What
  this lacks is not the fault of learning, but of the choice of what is shown.

`FOLDER/README.md` tells readers what to do, `FOLDER/judge/README.md` tells judges; `private/manifest.json` is the key.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import shutil
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import foveate
from answers_folder import (
    ID_CHARS,
    SETTINGS,
    TASK_CONDITIONS,
    Item,
    fill_folder,
    make_folder,
    write_batches,
)
from answers_score import (
    Judged,
    Verdict,
    add_later_steps,
    check_files,
    load_saved,
    load_verdicts,
    render,
    save,
    write_sheets,
)
from foveate import Foveate
from foveate.knowledge.run import learn
from foveate.settings import Settings, load_settings
from knowledge import place_in, play
from knowledge_data import FILES, HALVES, HERE, Expected, Half, History, Messages, load_histories, read_turns
from knowledge_judge import UNJUDGED_KINDS, is_stated
from measured_block import write_block

DATA = "knowledge"
BUDGET_TOKENS = 8_000
WITH, WITHOUT, PAST, WRITTEN = TASK_CONDITIONS
DEFAULT_CONDITIONS = (WITH, WITHOUT)
TITLE_CHARS = 100
PAUSE = timedelta(days=5)
"""Between the last session of a history and the new one."""


@dataclass(frozen=True, slots=True)
class Task:
    """A prompt in a new session, and what its right answer is."""

    id: str
    half: Half
    history: History
    prompt: str
    gold: str
    uses: tuple[Expected, ...]
    opening: tuple[Messages, ...] = ()

    @property
    def key(self) -> dict[str, Any]:
        """What a judge sees."""
        return {
            "question": self.prompt,
            "gold": self.gold,
            "category": f"{self.half} {self.history.scope.partition(':')[0]}",
            "evidence": [each.said for each in self.uses],
        }


def main() -> None:
    options = parse_options()
    if options.shown:
        items = asyncio.run(make_items([options.shown], options.conditions))
        print("\n".join(render_shown(items, [options.shown])))
    elif options.reader:
        write_tasks(options.reader, options.half or HALVES, options.conditions)
        print(f"written: {options.reader}; readers begin with {options.reader / 'README.md'}")
    elif options.judge_sheet:
        folder, *files = map(Path, options.judge_sheet)
        print(f"{len(write_sheets(folder, files))} sheets in {folder / 'judge'}")
    else:
        folder, *files = map(Path, options.score)
        result = load_verdicts(folder, files)
        print("\n".join(render_scores([result])))
        if options.write:
            save(result, HERE)
            write_block("bench/knowledge_tasks.py", "\n".join(render_scores(load_saved(HERE))))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    step = parser.add_mutually_exclusive_group(required=True)
    step.add_argument("--shown", choices=HALVES, metavar="HALF", help="whether the contexts state what is needed")
    step.add_argument("--reader", type=Path, metavar="FOLDER", help="write items for readers into a new folder")
    add_later_steps(step)
    parser.add_argument("--half", nargs="*", choices=HALVES, help="of --reader; default: all")
    parser.add_argument("--conditions", nargs="*", choices=TASK_CONDITIONS, default=list(DEFAULT_CONDITIONS))
    parser.add_argument("--write", action="store_true", help="save the verdicts in bench/data/knowledge and the table")
    options = parser.parse_args()
    check_files(parser, options)
    return options


def load_tasks(half: Half) -> tuple[Task, ...]:
    """Read the tasks of a half."""
    histories = {one.id: one for one in load_histories(half)}
    data = tomllib.loads((HERE / f"tasks_{FILES[half]}.toml").read_text("utf-8"))
    return tuple(_task(half, histories[entry["history"]], entry) for entry in data["task"])


def _task(half: Half, history: History, entry: Mapping[str, Any]) -> Task:
    expected = {each.id: each for each in (*history.facts, *history.updates)}
    return Task(
        entry["id"],
        half,
        history,
        entry["prompt"],
        entry["gold"],
        tuple(expected[each] for each in entry["uses"]),
        tuple(read_turns(entry["opening"])) if "opening" in entry else (),
    )


def write_tasks(folder: Path, halves: Sequence[Half], conditions: Sequence[str]) -> None:
    """Write an item for each task and condition."""
    make_folder(folder)
    items = asyncio.run(make_items(halves, conditions))
    gold = {task.id: task.key for half in halves for task in load_tasks(half)}
    write_batches(folder, make_rounds(items))
    ordered = sorted(items, key=lambda item: item.id)
    fill_folder(folder, ordered, gold, data=DATA, budget_tokens=BUDGET_TOKENS, kind="_tasks")


def make_rounds(items: Sequence[Item]) -> Iterator[list[list[str]]]:
    """Group the items of a condition into batches with at most one task of each history.

    A context of one condition may not tell the reader what another one withholds, so no batch has two conditions.
    """
    for condition in dict.fromkeys(item.condition for item in items):
        own: dict[str, list[str]] = defaultdict(list)
        for item in items:
            if item.condition == condition:
                own[item.conversation].append(item.id)
        yield [[each for each in batch if each] for batch in itertools.zip_longest(*own.values())]


async def make_items(halves: Sequence[Half], conditions: Sequence[str]) -> list[Item]:
    """Play the histories, learn, and ask every task in every condition."""
    return [item for half in halves for condition in conditions async for item in _asked(half, condition)]


async def _asked(half: Half, condition: str) -> AsyncIterator[Item]:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "histories.db"
        async with foveate.open(store, settings=settings_of(condition)) as fov:
            histories = load_histories(half)
            await play(fov, histories)
            if condition == WITH:
                for history in histories:
                    await learn(fov, history.scope)
            elif condition == WRITTEN:
                await write_lessons(fov, histories)
            elif any(item.kind not in UNJUDGED_KINDS for item in await fov.knowledge.list()):
                sys.exit(f"the condition {condition!r} has knowledge although nothing was learned")
        for task in load_tasks(half):
            yield await ask(task, condition, store)


async def write_lessons(fov: Foveate, histories: Sequence[History]) -> None:
    """Add all expected lessons, as a person would."""
    for history in histories:
        for each in (*history.facts, *history.updates):
            await fov.knowledge.add(each.lesson[:TITLE_CHARS], each.lesson, scope=history.scope, kind="lesson")


def settings_of(condition: str) -> Settings:
    """The defaults; without knowledge none would be shown, even if something else learned it."""
    recall = {**SETTINGS["recall"], **({"knowledge_items": 0} if condition in (WITHOUT, PAST) else {})}
    return load_settings(environment={}, overrides={"recall": recall})


async def ask(task: Task, condition: str, store: Path) -> Item:
    """Make the request for a task in a new session of its scope, in a copy of the store."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copyfile(store, Path(folder) / store.name)
        async with foveate.open(copy, settings=settings_of(condition)) as fov:
            scope = task.history.scope
            place = place_in(scope) | ({"scope": scope} if condition == PAST else {})
            session = await fov.session(f"{task.history.id}-new", budget_tokens=BUDGET_TOKENS, **place)
            for messages in task.opening:
                await session.record(messages, at=task.history.sessions[-1].at + PAUSE)
                await fov.settle()
            context = await session.context(task.prompt, tools=False)
    assert context.tokens <= BUDGET_TOKENS
    key = hashlib.sha256(f"{BUDGET_TOKENS} {task.id} {condition}".encode()).hexdigest()[:ID_CHARS]
    request = context.request("openai")
    return Item(key, task.history.id, task.id, condition, request["messages"], request.get("tools", ()), context.tokens)


def render_shown(items: Sequence[Item], halves: Sequence[Half]) -> Iterator[str]:
    """A table of how many contexts state everything that their task needs, each fact on one line before the prompt."""
    tasks = {task.id: task for half in halves for task in load_tasks(half)}
    yield "| condition | tasks | needed statements shown | of projects | of users | tokens |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for condition in dict.fromkeys(item.condition for item in items):
        own = [item for item in items if item.condition == condition]
        parts = [own, *([item for item in own if _kind(tasks[item.question]) == kind] for kind in ("project", "user"))]
        cells = [f"{sum(is_shown(tasks[item.question], item) for item in part)} of {len(part)}" for part in parts]
        tokens = sum(item.tokens for item in own) / len(own)
        yield f"| {condition} | {len(own)} | {' | '.join(cells)} | {tokens:,.0f} |"


def _kind(task: Task) -> str:
    return task.history.scope.partition(":")[0]


def is_shown(task: Task, item: Item) -> bool:
    """Return whether each fact that a task needs is on a line of the context before the prompt."""
    lines = item.text.removesuffix(f"{task.prompt}\n").splitlines()
    return all(any(is_stated(each, line) for line in lines) for each in task.uses)


def render_scores(results: Sequence[Judged]) -> Iterator[str]:
    """The tables of `answers.py`, and the difference in tasks right, in points."""
    for result in results:
        by_condition: dict[str, dict[str, Verdict]] = defaultdict(dict)
        for one in result.verdicts:
            by_condition[one.condition][one.question] = one
        for other in (WITHOUT, PAST):
            both = by_condition[WITH].keys() & by_condition[other].keys()
            for name in ("", *sorted({by_condition[WITH][each].category for each in both})):
                own = [each for each in both if not name or by_condition[WITH][each].category == name]
                if own:
                    rights = [sum(by_condition[each][key].verdict == "right" for key in own) for each in (WITH, other)]
                    points = 100 * (rights[0] - rights[1]) / len(own)
                    yield (
                        f"{name or 'all'}: {rights[0]} of {len(own)} tasks right {WITH}, {rights[1]} {other}:"
                        f" {points:+.0f} points"
                    )
        yield ""
    yield from render(results)


if __name__ == "__main__":
    main()
