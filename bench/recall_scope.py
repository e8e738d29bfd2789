"""Recall across sessions: LoCoMo-dev with one session for each sitting, all in one scope; see `recall.py --scope`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import foveate.sync as foveate
from foveate.settings import Settings
from retention import OWN_BUDGET, record

WAYS = {"in a new session": "new", "in the session of the last sitting": "last"}
Score = Callable[[str, str, int, list[dict[str, Any]], Path], tuple[float, float]]


def scope_all(conversations: Sequence[dict[str, Any]], settings: Settings, budgets: Sequence[int], score: Score) -> str:
    """A row for each way to ask: FACT, and ALL in brackets, at each budget."""
    lines = [f"| asked | {' | '.join(f'{budget:,}' for budget in budgets)} |", f"|{' --- |' * (len(budgets) + 1)}"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scopes.db"
        with foveate.open(path) as fov:
            for conversation in conversations:
                record_sittings(fov, conversation)
            fov.settle()
        with foveate.open(path, settings=settings) as fov:
            for label, way in WAYS.items():
                cells = []
                for budget in budgets:
                    rows = [row for each in conversations for row in make_rows(fov, each, way, budget)]
                    fact, every = score("locomo-dev", way, budget, rows, Path(folder))
                    cells.append(f"{fact:.3f} ({every:.3f})")
                lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def record_sittings(fov: Any, conversation: dict[str, Any]) -> None:
    """A session for each sitting, in the scope `user:ID`; and one without turns."""
    name = conversation["id"]
    for number, turns in groupby(conversation["turns"], lambda turn: turn["session"]):
        session = fov.session(f"{name}-{number}", budget_tokens=OWN_BUDGET, scope=f"user:{name}")
        record(session, {"turns": list(turns)}, "locomo-dev")
    fov.session(f"{name}-new", budget_tokens=OWN_BUDGET, scope=f"user:{name}")


def make_rows(fov: Any, conversation: dict[str, Any], way: str, budget: int) -> Iterator[dict[str, Any]]:
    last = conversation["turns"][-1]["session"] if way == "last" else "new"
    session = fov.open_session(f"{conversation['id']}-{last}")
    for question in conversation["questions"]:
        context = session.context(question["question"], budget_tokens=budget)
        assert context.tokens <= budget
        yield {"question_id": question["id"], "context": context.text, "tokens": context.tokens}
