"""The later steps of `bench/answers.py`: sheets for judges that hide the condition, and figures from their verdicts."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from answers_folder import CONDITIONS, MANIFEST, TASK_CONDITIONS, TEMPLATES, file_hash, refuse_repository
from live_score import Interval, interval

SCORES = {"right": 1.0, "partly": 0.5, "wrong": 0.0}
ORDERING = "event_ordering"
"""Category whose verdicts have `order`."""
NOT_FOUND = "not in the context"
SHEET_ITEMS = 50
ORDER = (*CONDITIONS, *TASK_CONDITIONS)
ANSWERS = Path("private") / "answers.json"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judged answer, without any text of the data."""

    question: str
    category: str
    condition: str
    verdict: str
    not_found: bool
    """Whether the reader said that the answer is not in the context."""
    tool_calls: int
    context_tokens: int
    sha256: str
    """Of the item's file."""
    order: float | None = None
    """Share of the items in the right order, where the question asks for an order."""


@dataclass(frozen=True, slots=True)
class Judged:
    """All verdicts of a set at a budget."""

    data: str
    budget_tokens: int
    foveate: str
    """Version that wrote the items."""
    reader: str
    """SHA-256 of the instructions for readers."""
    judge: str
    """SHA-256 of the instructions for judges."""
    items: int
    """Judged or not."""
    verdicts: tuple[Verdict, ...]


def add_later_steps(step: argparse._MutuallyExclusiveGroup) -> None:
    """Add the options of the steps after the readers'."""
    step.add_argument("--judge-sheet", nargs="+", metavar=("FOLDER", "ANSWERS"), help="write sheets for judges")
    step.add_argument("--score", nargs="+", metavar=("FOLDER", "VERDICTS"), help="print the figures")


def check_files(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit if a later step has a folder alone."""
    for files in (options.judge_sheet, options.score):
        if files and len(files) < 2:
            parser.error("name the folder, then at least one file of answers or verdicts")


def write_sheets(folder: Path, files: Sequence[Path]) -> list[Path]:
    """Write sheets for judges with the answers of these files; of two answers to an item, the later one counts."""
    refuse_repository(folder)
    manifest = _manifest(folder)
    answers: dict[str, dict[str, Any]] = {}
    for place, line in read_lines(files, manifest["items"]):
        if not isinstance(line.get("answer"), str) or not isinstance(line.get("tool_calls", 0), int):
            sys.exit(f"{place}: an answer is a text, and tool_calls a number")
        answers[line["item"]] = {
            "answer": line["answer"].strip(),
            "tool_calls": max(line.get("tool_calls", 0), _logged_calls(folder, line["item"])),
        }
    (folder / ANSWERS).write_text(json.dumps(answers, indent=1))
    judge = folder / "judge"
    shutil.rmtree(judge, ignore_errors=True)
    judge.mkdir()
    shutil.copyfile(TEMPLATES / manifest.get("judge", "judge.md"), judge / "README.md")
    # Another order than that of the items, so that a batch of readers is not judged together.
    shuffled = sorted(answers, key=lambda item: hashlib.sha256(f"judge {item}".encode()).digest())
    sheets: list[Path] = []
    for start in range(0, len(shuffled), SHEET_ITEMS):
        lines = [sheet_line(manifest, item, answers[item]["answer"]) for item in shuffled[start : start + SHEET_ITEMS]]
        sheets.append(judge / f"sheet-{len(sheets) + 1:02}.jsonl")
        sheets[-1].write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return sheets


def sheet_line(manifest: Mapping[str, Any], item: str, answer: str) -> dict[str, Any]:
    """Return what a judge sees of an item: nothing of its condition, tools or length."""
    question = manifest["questions"][manifest["items"][item]["question"]]
    return {"item": item, **question, "answer": answer}


def load_verdicts(folder: Path, files: Sequence[Path]) -> Judged:
    """Read verdicts of judges; of two verdicts on an item, the later one counts."""
    refuse_repository(folder)
    manifest = _manifest(folder)
    if not (folder / ANSWERS).exists():
        sys.exit(f"{folder} has no answers: run --judge-sheet first")
    answers = json.loads((folder / ANSWERS).read_text())
    verdicts: dict[str, Verdict] = {}
    for place, line in read_lines(files, answers):
        item = manifest["items"][line["item"]]
        answer = answers[line["item"]]
        category = manifest["questions"][item["question"]]["category"]
        order = line.get("order")
        if line.get("verdict") not in SCORES:
            sys.exit(f"{place}: a verdict is one of {', '.join(SCORES)}, not {line.get('verdict')!r}")
        if category == ORDERING and not (isinstance(order, int | float) and 0 <= order <= 1):
            sys.exit(f"{place}: the question is about an order, so `order` has to be a number from 0 to 1")
        verdicts[line["item"]] = Verdict(
            item["question"],
            category,
            item["condition"],
            line["verdict"],
            not_found=NOT_FOUND in answer["answer"].casefold(),
            tool_calls=answer["tool_calls"],
            context_tokens=item["tokens"],
            sha256=item["sha256"],
            order=order if category == ORDERING else None,
        )
    return Judged(
        manifest["data"],
        manifest["budget_tokens"],
        manifest["foveate"],
        manifest["reader"],
        file_hash(folder / "judge" / "README.md"),
        items=len(manifest["items"]),
        verdicts=tuple(sorted(verdicts.values(), key=lambda one: (one.question, ORDER.index(one.condition)))),
    )


def read_lines(files: Sequence[Path], known: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each line of JSON and its place; exit at one that is damaged or has an unknown item."""
    for file in files:
        for number, text in enumerate(file.read_text().splitlines(), 1):
            if not text.strip():
                continue
            place = f"{file}, line {number}"
            try:
                line = json.loads(text)
            except json.JSONDecodeError as error:
                sys.exit(f"{place}: {error}")
            if not isinstance(line, dict) or line.get("item") not in known:
                sys.exit(f"{place}: no such item: {text[:80]}")
            yield place, line


def save(judged: Judged, folder: Path = TEMPLATES) -> Path:
    """Save ids, verdicts and hashes, one line each after a line about the run."""
    path = folder / f"{judged.data}-{judged.budget_tokens}.jsonl"
    head, verdicts = asdict(judged), [asdict(one) for one in judged.verdicts]
    del head["verdicts"]
    path.write_text("".join(json.dumps(line) + "\n" for line in (head, *verdicts)))
    return path


def load_saved(folder: Path = TEMPLATES) -> list[Judged]:
    """Read everything that `save` wrote."""
    saved = []
    for path in folder.glob("*.jsonl"):
        head, *verdicts = map(json.loads, path.read_text().splitlines())
        saved.append(Judged(**head, verdicts=tuple(Verdict(**line) for line in verdicts)))
    return sorted(saved, key=lambda one: (one.data, one.budget_tokens))


def render(results: Sequence[Judged]) -> Iterator[str]:
    """Write a table of all conditions, and one with the scores of each category for every result."""
    yield from _head("set", "budget", "condition", "n", "right", "partly", "wrong", "score", "said not there",
                     "tool calls", "order", "tokens")  # fmt: skip
    for result in results:
        for condition, own in _by_condition(result.verdicts).items():
            counts = [sum(one.verdict == verdict for one in own) for verdict in SCORES]
            yield _line(
                result.data,
                f"{result.budget_tokens:,}",
                condition,
                str(len(own)),
                *map(str, counts),
                _shown(score(own)),
                str(sum(one.not_found for one in own)),
                f"{sum(one.tool_calls for one in own) / len(own):.1f}" if condition.endswith("+tools") else "",
                _shown(interval([[one.order] for one in own if one.order is not None])),
                f"{sum(one.context_tokens for one in own) / len(own):,.0f}",
            )
    for result in results:
        categories = sorted({one.category for one in result.verdicts})
        yield ""
        yield from _head(f"{result.data}, {result.budget_tokens:,}", *categories)
        for condition, own in _by_condition(result.verdicts).items():
            cells = []
            for category in categories:
                part = [one for one in own if one.category == category]
                mean = score(part)
                cells.append(f"{mean.mean:.2f} of {len(part)}" if mean else "")
            yield _line(condition, *cells)
        if len(result.verdicts) < result.items:
            yield ""
            yield f"{result.items - len(result.verdicts)} of {result.items} items have no verdict."


def score(verdicts: Sequence[Verdict]) -> Interval | None:
    """Compute the mean score and its interval: right 1, partly 0.5, wrong 0."""
    return interval([[SCORES[one.verdict]] for one in verdicts])


def _by_condition(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    found: dict[str, list[Verdict]] = defaultdict(list)
    for one in verdicts:
        found[one.condition].append(one)
    return {condition: found[condition] for condition in ORDER if condition in found}


def _shown(mean: Interval | None) -> str:
    return f"{mean.mean:.3f} ({mean.low:.2f} to {mean.high:.2f})" if mean else ""


def _head(*names: str) -> Iterator[str]:
    yield _line(*names)
    yield f"|{' --- |' * len(names)}"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _logged_calls(folder: Path, item: str) -> int:
    log = folder / "calls" / f"{item}.jsonl"
    return len(log.read_text().splitlines()) if log.exists() else 0


def _manifest(folder: Path) -> dict[str, Any]:
    if not (folder / MANIFEST).exists():
        sys.exit(f"{folder} was not written by --reader: it has no {MANIFEST}")
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return manifest
