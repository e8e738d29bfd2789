"""How much of the evidence a context keeps without any retrieval, on public long conversations.

    python bench/retention.py                    # writes contexts, scores them, prints a table
    python bench/retention.py --retrieved 10     # the evidence of every tenth question was retrieved before

Needs ../shared/data and ../shared/eval, and nltk for the score. Each utterance is a turn of its own; contexts are
one-off (a budget other than the session's own), and the question is left out of the scored text.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import foveate.sync as foveate
from foveate import Message, Settings, Text, Turn
from foveate.tokens import count_tokens
from foveate.turn import Role

SHARED = Path(__file__).resolve().parents[2] / "shared"
SETS = ("locomo-dev", "beam-100k-dev")
BUDGETS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
STRATEGIES = ("newest turns alone", "bands", "gradient")
OWN_BUDGET = 1_000_000
WEIGHTS = (1.0, 1.5, 2.0, 4.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", metavar="CONVERSATION", help="print that conversation's context at 4,000 tokens")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--budgets", nargs="*", type=int, default=list(BUDGETS))
    parser.add_argument("--retrieved", type=int, metavar="N", help="every Nth question's evidence was retrieved")
    arguments = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit("the questions in ../shared/data/qa are not here")
    if not arguments.show:
        print(f"| set | context | {' | '.join(f'{budget:,}' for budget in arguments.budgets)} |")
        print("| --- " * (2 + len(arguments.budgets)) + "|")
    for name in arguments.sets:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "qa.db"
            conversations = json.loads((SHARED / "data" / "qa" / f"{name}.json").read_text())
            with foveate.open(path) as fov:
                for conversation in conversations:
                    record(fov.session(conversation["id"], budget_tokens=OWN_BUDGET), conversation, name)
                fov.settle()
                if arguments.show:
                    print(fov.open_session(arguments.show).context(prompt="", budget_tokens=4_000).text)
                    return
            if arguments.retrieved:
                print_retrieved(name, path, conversations, arguments.budgets, arguments.retrieved)
                continue
            for strategy in STRATEGIES:
                facts = [facts_kept(name, path, strategy, conversations, budget) for budget in arguments.budgets]
                print(f"| {name} | {strategy} | {' | '.join(facts)} |", flush=True)


def facts_kept(name: str, path: Path, strategy: str, conversations: list[dict[str, Any]], budget: int) -> str:
    """FACT of one way to spend a budget."""
    settings = Settings().with_strategy("gradient", bands="documented" if strategy == "bands" else "optimised")
    with foveate.open(path, settings=settings) as fov:
        rows = [
            row
            for each in conversations
            for row in (newest_rows(each, budget) if strategy == STRATEGIES[0] else gradient_rows(fov, each, budget))
        ]
    return score(name, rows, path.parent)


def print_retrieved(name: str, path: Path, conversations: list[dict[str, Any]], budgets: list[int], every: int) -> None:
    """FACT of the questions whose evidence was retrieved before, and of the others, by what a retrieved turn weighs."""
    retrieved = {question["id"] for each in conversations for question in each["questions"][::every]}
    with foveate.open(path) as fov:
        for each in conversations:
            session = fov.open_session(each["id"])
            places = {turn["id"]: number for number, turn in enumerate(each["turns"], 1)}
            wanted = {place for question in each["questions"][::every] for place in question["evidence"]}
            for number in sorted(places[place] for place in wanted if place in places):
                session.call_tool("get_turn", {"turn_id": f"T-{number}"})
                session.dismiss(f"T-{number}-R")
    for weight in WEIGHTS:
        shown = []
        for budget in budgets:
            with foveate.open(path, settings=Settings().with_strategy("gradient", retrieved_weight=weight)) as fov:
                rows = [row for each in conversations for row in gradient_rows(fov, each, budget)]
            parts = [[row for row in rows if (row["question_id"] in retrieved) is is_one] for is_one in (True, False)]
            shown.append(" / ".join(score(name, part, path.parent) for part in parts))
        print(f"| {name} | weight {weight}: retrieved / others | {' | '.join(shown)} |", flush=True)


def record(session: Any, conversation: dict[str, Any], name: str) -> None:
    """Each utterance as a turn, with its speaker's name where there is one, and its date."""
    for turn in conversation["turns"]:
        said = turn["text"] if name.startswith("beam") else f"{turn['who']}: {turn['text']}"
        role: Role = turn["who"] if name.startswith("beam") else "user"
        session.record(Turn((Message(role, (Text(said),)),)), at=moment(turn["date"]))


def moment(date: str) -> datetime | None:
    for form in ("%I:%M %p on %d %B, %Y", "%B-%d-%Y"):
        try:
            return datetime.strptime(date, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def gradient_rows(fov: Any, conversation: dict[str, Any], budget: int) -> Iterator[dict[str, Any]]:
    context = fov.open_session(conversation["id"]).context(prompt="", budget_tokens=budget)
    assert context.tokens <= budget
    for question in conversation["questions"]:
        yield {"question_id": question["id"], "context": context.text, "tokens": context.tokens}


def newest_rows(conversation: dict[str, Any], budget: int) -> Iterator[dict[str, Any]]:
    lines: list[str] = []
    tokens = 0
    for turn in reversed(conversation["turns"]):
        line = f"{turn['who']}: {turn['text']}\n"
        tokens += count_tokens(line)
        if tokens > budget:
            break
        lines.append(line)
    text = "".join(reversed(lines))
    for question in conversation["questions"]:
        yield {"question_id": question["id"], "context": text, "tokens": count_tokens(text)}


def score(name: str, rows: list[dict[str, Any]], folder: Path) -> str:
    contexts = folder / "contexts.jsonl"
    contexts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = SHARED / "data" / "qa" / f"{name}.json"
    command = [sys.executable, str(SHARED / "eval" / "score.py"), "--data", str(data), str(contexts)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return str(re.findall(r"FACT (\S+)", output)[0])


if __name__ == "__main__":
    main()
