"""What is learned from invented histories, compared with what was said: facts, updates, decoys and planted rules.

    python bench/knowledge.py                      # all halves; of those set apart only the figures
    python bench/knowledge.py --half dev --missed  # what was missed and what is wrong, to work on
    python bench/knowledge.py --scale 10000        # seconds of a first and of an incremental run

The histories are in data/knowledge, described in histories_dev.toml; knowledge_judge.py says what counts as right. Each
history is recorded in a scope of its own, and each scope is learned from without a model. `bench/knowledge_tasks.py`
measures whether it helps in new sessions, `bench/knowledge_topics.py` topics and errors.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import foveate
from foveate import Foveate
from foveate.knowledge.run import learn
from foveate.recall.scopes import Scope
from knowledge_data import HALVES, Half, History, Messages, Sitting, load_histories, turn_times
from knowledge_judge import FAULTS, Judgement, Report, Row, judge

SCALE_SCOPE = "project:scale"
NEW_TURNS = 10
"""Turns that the incremental run of `--scale` reads."""
BATCH_TURNS = 1_000


def main() -> None:
    options = parse_options()
    if options.scale:
        print(json.dumps(asyncio.run(measure(options.scale))))
        return
    reports: dict[str, Report] = {}
    for half in [options.half] if options.half else HALVES:
        reports[half] = Report(asyncio.run(judge_half(half)))
    if options.json:
        print(json.dumps({half: as_json(report, half) for half, report in reports.items()}, indent=1))
        return
    for half, report in reports.items():
        print("\n".join(render(report, half)))
        if options.missed and (half == "dev" or options.show_apart):
            print("\n".join(render_misses(report)))
        print()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=HALVES, help="default: all")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--missed", action="store_true", help="list what was missed and what is wrong, of dev alone")
    parser.add_argument(
        "--show-apart", action="store_true", help="list it of the halves set apart, too: they are spent then"
    )
    parser.add_argument("--scale", type=int, metavar="TURNS", help="measure time only")
    return parser.parse_args()


async def judge_half(half: Half) -> list[Judgement]:
    """Record the histories of a half in a new store, learn, and judge what was learned."""
    histories = load_histories(half)
    with tempfile.TemporaryDirectory() as folder:
        async with foveate.open(Path(folder) / "histories.db") as fov:
            await play(fov, histories)
            for history in histories:
                await learn(fov, history.scope)
            return [judge(one, await fov.knowledge.list(scope=one.scope)) for one in histories]


async def play(fov: Foveate, histories: Iterable[History]) -> None:
    """Record the sessions of all histories, each in its scope, oldest first."""
    ordered = sorted(
        ((sitting, history, number) for history in histories for number, sitting in enumerate(history.sessions)),
        key=lambda each: each[0].at,
    )
    for sitting, history, number in ordered:
        session = await fov.session(history.session_id(number), **place_in(history.scope))
        if sitting.is_imported:
            await import_sitting(fov, session.id, sitting)
            continue
        for messages, at in turn_times(sitting):
            await session.record(messages, at=at)
    await fov.settle()


async def import_sitting(fov: Foveate, session_id: str, sitting: Sitting) -> None:
    """Import a session from a file in the format of Codex, whose lines have times."""
    lines: list[dict[str, Any]] = [{"type": "session_meta", "payload": {"id": session_id}}]
    for messages, at in turn_times(sitting):
        time_text = at.isoformat()
        lines[0].setdefault("timestamp", time_text)
        payloads = (payload for message in messages for payload in _codex_payloads(message))
        lines += [{"timestamp": time_text, "type": "response_item", "payload": payload} for payload in payloads]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollout.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        report = await fov.import_file(path, format="codex", session_id=session_id)
    assert [(one.id, one.turns) for one in report.sessions] == [(session_id, len(sitting.turns))]
    assert not report.problems


def _codex_payloads(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
        return
    if message["content"]:
        kind = "output_text" if message["role"] == "assistant" else "input_text"
        yield {"type": "message", "role": message["role"], "content": [{"type": kind, "text": message["content"]}]}
    for call in message.get("tool_calls", ()):
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


def place_in(scope: str) -> dict[str, Any]:
    """The options that put a session into a scope, as a user of it would."""
    parsed = Scope.parse(scope)
    return {"channel": parsed.name} if parsed.kind == "project" else {"scope": scope}


async def measure(size: int) -> dict[str, object]:
    """Time of a first run over the turns of all histories, repeated, and of one after a few more."""
    with tempfile.TemporaryDirectory() as folder:
        async with foveate.open(Path(folder) / "scale.db") as fov:
            turns = repeated()
            await append(fov, itertools.islice(turns, size))
            report: dict[str, object] = {"turns": size}
            for name in ("first", "nothing new", "incremental"):
                if name == "incremental":
                    await append(fov, itertools.islice(turns, NEW_TURNS))
                wall, cpu = time.perf_counter(), busy_seconds()
                await learn(fov, SCALE_SCOPE)
                report[f"{name}_seconds"] = round(time.perf_counter() - wall, 1)
                report[f"{name}_cpu_seconds"] = round(busy_seconds() - cpu, 1)
            report["items"] = len(await fov.knowledge.list(scope=SCALE_SCOPE))
            return report


def repeated() -> Iterator[Messages]:
    """Turns of all histories without end; a number in each prompt makes them differ."""
    histories = (one for half in HALVES for one in load_histories(half))
    every = [messages for one in histories for sitting in one.sessions for messages in sitting.turns]
    for number in itertools.count():
        first, *rest = every[number % len(every)]
        yield [{**first, "content": f"{first['content']}\n\nNumber {number}."}, *rest]


async def append(fov: Foveate, turns: Iterator[Messages]) -> None:
    """Add turns to sessions of a thousand, without waiting for their renditions."""
    while batch := list(itertools.islice(turns, BATCH_TURNS)):
        known = len(await fov.sessions())
        session = await fov.session(f"scale-{known}", **place_in(SCALE_SCOPE))
        await session.record([message for messages in batch for message in messages])


def busy_seconds() -> float:
    """Processor time of this process and its workers."""
    ended = os.times()
    return ended.user + ended.system + ended.children_user + ended.children_system + _running(os.getpid())


def _running(pid: int) -> float:
    """Processor time of the children that still run, and theirs; 0 where there is no /proc."""
    total = 0.0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                values = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                total += sum(map(int, values[11:13])) / os.sysconf("SC_CLK_TCK") + _running(int(child))
    return total


def as_json(report: Report, half: str) -> dict[str, object]:
    judged = report.judged
    return {
        "figures": {
            name: [_row_json(row) for row in rows] for name, rows in {"all": [report.total], **groups(report)}.items()
        },
        "faults": report.faults,
        **{name: {"learned": learned, "of": count} for name, (learned, count) in report.traps.items()},
        "harmless": sum(one.harmless for one in judged),
        "repeated": sum(one.repeated for one in judged),
        "sourced": sum(one.sourced for one in judged),
        "missed": [key for one in judged for key, is_right in one.recalled.items() if not is_right],
        "updates wrong": [key for one in judged for key, is_right in one.updated.items() if not is_right],
        "errors": [
            {"history": one.history.id, **error._asdict(), "text": error.text if half == "dev" else ""}
            for one in judged
            for error in one.errors
        ],
    }


def _row_json(row: Row) -> dict[str, object]:
    shares = {"recall": row.recall, "precision": row.precision, "updates_right": row.updates_right}
    return {**row._asdict(), **shares}


def groups(report: Report) -> dict[str, list[Row]]:
    return {
        "language": report.by_history(lambda one: one.language),
        "kind": report.by_history(lambda one: one.kind),
        "typing": report.by_fact(lambda each: "sloppy" if each.is_sloppy else "careful"),
        "type": report.by_fact(lambda each: each.type),
    }


def render(report: Report, half: str) -> Iterator[str]:
    """Tables of a half."""
    yield f"**{half}**"
    yield ""
    yield "| | facts | recall | learned | precision | updates | right |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name, rows in {"": [report.total], **groups(report)}.items():
        for row in rows:
            cells = [f"{name} {row.name}".strip(), str(row.facts), share(row.recall)]
            cells += [str(row.right + row.wrong), share(row.precision)] if row.right + row.wrong else ["", ""]
            yield f"| {' | '.join([*cells, str(row.updates), share(row.updates_right)])} |"
    yield ""
    traps = (f"{name} {learned} of {count}" for name, (learned, count) in report.traps.items())
    faults = (f"{report.faults[fault]} {fault}" for fault in FAULTS)
    yield f"{'; '.join(traps)}. Errors: {', '.join(faults)}."
    judged = report.judged
    yield (
        f"Harmless {sum(one.harmless for one in judged)}; stated more than once"
        f" {sum(one.repeated for one in judged)}; right ones that name the turn"
        f" {sum(one.sourced for one in judged)} of {report.total.right}."
    )


def render_misses(report: Report) -> Iterator[str]:
    """What was missed and what is wrong, by history."""
    for one in report.judged:
        yield f"\n{one.history.id} ({one.history.language}, {one.history.kind})"
        expected = {each.id: each for each in (*one.history.facts, *one.history.updates)}
        for key, is_right in {**one.recalled, **one.updated}.items():
            if not is_right:
                name = "update wrong" if expected[key].before else "missed"
                yield f"  {name} {key}: {expected[key].said}"
        for error in one.errors:
            yield f"  {error.fault} {error.of}: {error.text.replace(chr(10), ' / ')[:200]}"
        for key in one.secrets:
            yield f"  secret learned: {key}"


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".removeprefix("0")


if __name__ == "__main__":
    main()
