"""What compression by a model sends over a real session, next to the session's own tokens, in each mode.

    python bench/model_tokens.py                  # the pi session; needs ../shared/data
    python bench/model_tokens.py --turns 50 --json

A scripted model answers what the local compressor would, so that answers pass. Tokens are those in the accounts. In
the default mode a turn is sent once for C and T; `separate` with a model for S is the design's three jobs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table

from cache import FILES, TRANSCRIPTS, load_turns
from foveate import Foveate
from foveate.models import Ask
from foveate.settings import Settings, load_settings
from foveate.store import open_store
from foveate.testing.scripted import Says, ScriptedModel
from foveate.turn import Message, Text, Turn
from support.faithful import faithful_answer

MODEL = "scripted:faithful"
MODES: dict[str, Mapping[str, object]] = {
    "together": {},
    "together, S too": {"smooth": MODEL},
    "separate, C and T": {"mode": "separate"},
    "separate, S, C and T": {"mode": "separate", "smooth": MODEL},
    "chained, C and T": {"mode": "chained"},
    "chained, S, C and T": {"mode": "chained", "smooth": MODEL},
}
MAX_ROUNDS = 6
HEADS = ("mode", "turns", "by model", "marked", "calls", "raw tokens", "sent", "sent / raw", "answered / raw", "cached")


@dataclass(frozen=True, slots=True)
class Sent:
    """What one mode took."""

    mode: str
    turns: int
    by_model: int
    marked: int
    calls: int
    raw_tokens: int
    sent_tokens: int
    answered_tokens: int
    cached_tokens: int

    @property
    def sent_share(self) -> float:
        return self.sent_tokens / self.raw_tokens


def settings_for(models: Mapping[str, object]) -> Settings:
    limits = {"default": MODEL, "backoff_seconds": 0.0, "daily_usd": None, "breaker_failures": 1_000}
    return load_settings(environment={}, overrides={"models": {**limits, **models}, "compress": {"enabled": False}})


async def play(mode: str, turns: Sequence[Turn], path: Path) -> Sent:
    settings = settings_for(MODES[mode])
    model = ScriptedModel(_answer, name=MODEL)
    fov = Foveate(await open_store(str(path), settings.store), settings, load=lambda *_: model)
    try:
        session = await fov.session("s")
        for turn in turns:
            await session.record(turn)
        await session.record([Message("user", (Text("That is all."),))])  # closes the last turn
        for _ in range(MAX_ROUNDS):
            await fov.settle()
        stats = await session.stats()
        costs = await fov.costs()
    finally:
        await fov.close()
    return Sent(
        mode,
        turns=stats.turns,
        by_model=stats.by_model,
        marked=stats.fallbacks,
        calls=sum(row.calls for row in costs),
        raw_tokens=stats.tokens,
        sent_tokens=sum(row.input_tokens for row in costs),
        answered_tokens=sum(row.output_tokens for row in costs),
        cached_tokens=sum(row.cached_tokens for row in costs),
    )


def _answer(ask: Ask) -> Says:
    return Says(faithful_answer(ask))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, help="only the first N turns")
    parser.add_argument("--modes", nargs="*", default=list(MODES), choices=list(MODES))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not TRANSCRIPTS.is_dir():
        sys.exit("the transcripts in ../shared/data are not here")
    turns = load_turns(FILES["pi"])[: options.turns]
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            asyncio.run(play(mode, turns, Path(folder) / f"{place}.db")) for place, mode in enumerate(options.modes)
        ]
    if options.json:
        print(json.dumps([{**asdict(row), "sent_share": row.sent_share} for row in rows], indent=2))
    else:
        print_table(rows)


def print_table(rows: Sequence[Sent]) -> None:
    table = Table(*HEADS)
    for row in rows:
        table.add_row(
            row.mode,
            f"{row.turns:,}",
            f"{row.by_model:,}",
            f"{row.marked:,}",
            f"{row.calls:,}",
            f"{row.raw_tokens:,}",
            f"{row.sent_tokens:,}",
            f"{row.sent_share:.2f}",
            f"{row.answered_tokens / row.raw_tokens:.2f}",
            f"{row.cached_tokens / max(1, row.sent_tokens):.0%}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
