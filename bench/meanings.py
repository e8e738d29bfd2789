"""Queries whose turn says it in other words: `python bench/meanings.py` prints recall@5 and false answers for nonsense.

Each sentence of `data/meanings.toml` is planted in a conversation about other things. Pairs marked `held_out` confirm a
change; the others choose it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import foveate.sync as foveate
from conversation import make_conversation
from foveate.settings import load_settings

DATA = Path(__file__).parent / "data" / "meanings.toml"
TURNS, RESULTS = 300, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--misses", action="store_true", help="print the pairs that are not found")
    options = parser.parse_args()
    data = tomllib.loads(DATA.read_text("utf-8"))
    pairs: Sequence[dict[str, Any]] = data["pair"]
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(overrides={"compress": {"enabled": False}})
        with foveate.open(Path(folder) / "chat.db", settings=settings) as fov:
            chat = fov.session("chat")
            places = _record(chat, pairs, options.turns)
            fov.settle()
            _report(chat, pairs, places, data["nonsense"], shows_misses=options.misses)


def _record(chat: Any, pairs: Sequence[dict[str, Any]], turns: int) -> dict[str, str]:
    """Record the conversation with the sentences evenly spread; return the turn of each sentence."""
    places: dict[str, str] = {}
    waiting = [pair["says"] for pair in pairs]
    step = max(1, turns // len(pairs))
    for number, turn in enumerate(make_conversation(turns, 42).turns):
        if number % step == 0 and waiting:
            said = waiting.pop(0)
            (made,) = chat.record_all([_said("user", said), _said("assistant", "I see, thanks for telling me.")])
            places[said] = made.id
        chat.record(turn)
    return places


def _said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def _report(
    chat: Any,
    pairs: Sequence[dict[str, Any]],
    places: dict[str, str],
    nonsense: dict[str, list[str]],
    *,
    shows_misses: bool,
) -> None:
    print(f"{'pairs':24} {'count':>5} {f'recall@{RESULTS}':>9} {'no answer':>9}")
    for name, chosen in (
        ("development", [pair for pair in pairs if not pair["held_out"]]),
        ("held out", [pair for pair in pairs if pair["held_out"]]),
        ("English", [pair for pair in pairs if pair["language"] == "en"]),
        ("German, French, Spanish", [pair for pair in pairs if pair["language"] != "en"]),
    ):
        found = {pair["says"]: chat.search(pair["query"], RESULTS) for pair in chosen}
        hits = [pair for pair in chosen if places[pair["says"]] in [hit.turn_id for hit in found[pair["says"]]]]
        silent = sum(not found[pair["says"]] for pair in chosen)
        print(f"{name:24} {len(chosen):5} {len(hits) / len(chosen):9.2f} {silent:9}")
        if shows_misses:
            for pair in chosen:
                if pair not in hits:
                    print(f"    {pair['query']}: {pair['says']}")
    for name, queries in nonsense.items():
        answered = {query: hits for query in queries if (hits := chat.search(query, RESULTS))}
        total = sum(map(len, answered.values()))
        print(f"{'nonsense, ' + name:24} {len(queries):5} {len(answered)} answered, with {total} turns")


if __name__ == "__main__":
    main()
