"""What a tool result costs to compress, and how much of a session smoothing leaves.

Run from the project's root: python bench/tools.py [--data ../shared/data/transcripts] [--samples 5]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from conversation import make_conversation
from foveate.compress.smooth import smooth_messages
from foveate.compress.tools import key_lines, smooth_result, summarise_call
from foveate.formats import TranscriptMessage, load_transcript
from foveate.text import turn_text
from foveate.tokens import count_tokens
from foveate.turn import Message, ToolCall, ToolResult, split_turns

DEMO_TURNS = 300
SOURCES = (
    ("pi", "pi", "pi-large-session.jsonl"),
    ("tau-bench", "tau-bench", "tau-airline.json"),
    ("swe-agent", "swe-agent", "swe-agent/*.traj"),
)
TARGET = ("pi", "tau-bench")
"""Taken together, smoothing is to leave 65 % of these at most."""

Exchange = tuple[ToolCall, ToolResult]
Turn = Sequence[Message]


@dataclass(frozen=True, slots=True)
class Share:
    source: str
    turns: int
    raw_tokens: int
    smoothed_tokens: int
    seconds: float


def load_turns(data: Path) -> Iterator[tuple[str, list[Turn]]]:
    for source, format_, pattern in SOURCES:
        turns: list[Turn] = []
        for path in sorted(data.glob(pattern)):
            sessions: dict[str, list[Message]] = {}
            with path.open("rb") as stream:
                for item in load_transcript(format_).read(stream, path.name):
                    if isinstance(item, TranscriptMessage):
                        sessions.setdefault(item.session, []).append(item.message)
            turns += [turn for messages in sessions.values() for turn in split_turns(messages)]
        if turns:
            yield source, turns
        else:
            print(f"{source}: no {pattern} in {data}, skipped")
    yield "demo", [turn.messages for turn in make_conversation(DEMO_TURNS).turns]


def exchanges(turns: Sequence[Turn]) -> list[Exchange]:
    found: list[Exchange] = []
    for turn in turns:
        calls = {call.id: call for message in turn for call in message.tool_calls}
        results = (result for message in turn for result in message.tool_results)
        found += [(calls[result.call_id], result) for result in results if result.call_id in calls]
    return found


def microseconds(compress: Callable[[ToolCall, ToolResult], object], pairs: Sequence[Exchange]) -> list[float]:
    taken = []
    for call, result in pairs:
        start = time.thread_time_ns()
        compress(call, result)
        taken.append((time.thread_time_ns() - start) / 1_000)
    return sorted(taken)


def measure_share(source: str, turns: Sequence[Turn]) -> Share:
    start = time.thread_time()
    smoothed = [smooth_messages(turn) for turn in turns]
    seconds = time.thread_time() - start
    raw_tokens = sum(count_tokens(turn_text(tuple(turn))) for turn in turns)
    return Share(source, len(turns), raw_tokens, sum(map(count_tokens, smoothed)), seconds)


def print_samples(pairs: Sequence[Exchange], number: int) -> None:
    for call, result in random.Random(7).sample(pairs, min(number, len(pairs))):
        print(f"\n{summarise_call(call, result)}")
        print("\n".join(f"    {line}" for line in smooth_result(call, result).split("\n")[:12]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/transcripts"))
    parser.add_argument("--samples", type=int, default=0, help="print so many results of each source")
    options = parser.parse_args()
    count_tokens("load the vocabulary")
    shares: list[Share] = []
    print(f"{'source':10} {'results':>8} {'function':16} {'median µs':>10} {'p95 µs':>8} {'C tokens p95':>13}")
    for source, turns in load_turns(options.data):
        pairs = exchanges(turns)
        smooth_result(*pairs[0])
        sizes = sorted(count_tokens(summarise_call(*pair)) for pair in pairs)
        for compress in (summarise_call, key_lines, smooth_result):
            taken = microseconds(compress, pairs)
            p95, size = taken[int(len(taken) * 0.95)], sizes[int(len(sizes) * 0.95)]
            spread = f"{statistics.median(taken):10.0f} {p95:8.0f}"
            print(f"{source:10} {len(pairs):8} {compress.__name__:16} {spread} {size:13}")
        shares.append(measure_share(source, turns))
        if options.samples:
            print_samples(pairs, options.samples)
    print(f"\n{'source':10} {'turns':>6} {'raw tokens':>11} {'S tokens':>9} {'S share':>8} {'ms a 2,000 tokens':>18}")
    target = [share for share in shares if share.source in TARGET]
    whole = (
        Share("+".join(TARGET), *(sum(column) for column in zip(*map(_columns, target), strict=True)))
        if target
        else None
    )
    for share in (*shares, *([whole] if whole else [])):
        per_turn = 2_000_000 * share.seconds / share.raw_tokens
        part = share.smoothed_tokens / share.raw_tokens
        counts = f"{share.raw_tokens:11,} {share.smoothed_tokens:9,}"
        print(f"{share.source:10} {share.turns:6} {counts} {part:8.1%} {per_turn:18.1f}")


def _columns(share: Share) -> tuple[int, int, int, float]:
    return share.turns, share.raw_tokens, share.smoothed_tokens, share.seconds


if __name__ == "__main__":
    main()
