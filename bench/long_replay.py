"""A replay of 10,000 turns at a budget: how often a context exceeds it, and what a call costs as the history grows.

    python bench/long_replay.py --turns 10000 --budget 16000

The turns are the demo conversation's prompts and last answers, with several seeds, so that no turn is large.
"""

from __future__ import annotations

import argparse
import asyncio
from itertools import islice

from conversation import MAX_TURNS, make_conversation
from foveate.compress.settings import CompressSettings
from foveate.replay.replay import replay
from foveate.replay.script import prepare
from foveate.settings import Settings
from foveate.turn import Turn


def short_turns(count: int) -> list[Turn]:
    """Each turn's prompt and last answer."""
    turns = (turn for seed in range(1, count // MAX_TURNS + 2) for turn in make_conversation(MAX_TURNS, seed).turns)
    return [Turn((turn.messages[0], turn.messages[-1])) for turn in islice(turns, count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--budget", type=int, default=16_000)
    options = parser.parse_args()
    script = asyncio.run(prepare(short_turns(options.turns), settings=Settings(compress=CompressSettings(processes=2))))
    report = asyncio.run(replay(script, budget_tokens=options.budget, settings=Settings()))
    largest = max(call.tokens for call in report.calls)
    print(f"{report.turns:,} turns, {len(report.calls):,} calls at {options.budget:,} tokens")
    print(f"overruns {report.overruns}, largest context {largest:,}")
    print(f"cached share {report.cached_share:.3f}, price {report.price:.3f}, rebuilds {sum(report.rebuilds.values())}")


if __name__ == "__main__":
    main()
