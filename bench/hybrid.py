"""What the hybrid strategy promises, measured: time per tool result, the target reached, every message expanded.

Run from the project's root: python bench/hybrid.py [--data ../shared/data/transcripts] [--histories 213]

Each history gets a window that it just fills to the trigger (70 %), so that it has to be brought to 40 %. "Allowed"
are those whose protected part (the last five messages, the newest prompt, results nobody has read, system messages)
takes no more than the target by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import foveate
from foveate.agents.shrink import expand
from foveate.context.costs import counting
from foveate.formats import TranscriptMessage, load_transcript
from foveate.plan import MessageSize, TurnInfo
from foveate.strategy.hybrid import Hybrid
from foveate.strategy.hybrid.build import DEFAULT_TOKENS, Shortener
from foveate.strategy.hybrid.messages import protect, speaker_of
from foveate.strategy.hybrid.tracker import Tracker
from foveate.text import message_text
from foveate.tokens import O200K
from foveate.turn import Message
from support.turns import split_turns

SOURCES = (("tau-bench", "tau-bench", "tau-airline.json"), ("swe-agent", "swe-agent", "swe-agent/*.traj"))
TIMED = (*SOURCES, ("pi", "pi", "pi-large-session.jsonl"))
TAG_TOKENS = 14
"""What the tags of a turn take, about."""
NAME_TOKENS = 40
"""What names all other turns."""
BUDGET_TOKENS = 10_000_000


@dataclass(frozen=True, slots=True)
class Reached:
    """How one history came out."""

    name: str
    raw_tokens: int
    window_tokens: int
    shown_tokens: int
    protected_tokens: int
    expanded: int
    is_exact: bool

    @property
    def is_allowed(self) -> bool:
        return self.protected_tokens <= Hybrid().target * self.window_tokens

    @property
    def is_reached(self) -> bool:
        return self.shown_tokens <= Hybrid().target * self.window_tokens


def histories(data: Path, sources: Sequence[tuple[str, str, str]]) -> Iterator[tuple[str, str, list[Message]]]:
    for source, format_, pattern in sources:
        for path in sorted(data.glob(pattern)):
            sessions: dict[str, list[Message]] = {}
            with path.open("rb") as stream:
                for item in load_transcript(format_).read(stream, path.name):
                    if isinstance(item, TranscriptMessage):
                        sessions.setdefault(f"{path.stem}/{item.session}", []).append(item.message)
            for name, messages in sessions.items():
                yield source, name, messages


def time_results(data: Path) -> dict[str, list[float]]:
    """CPU milliseconds for each message with tool results, by source."""
    count = counting("M", O200K)
    count("The vocabulary is loaded before the clock runs.")
    taken: dict[str, list[float]] = {}
    for source, _, messages in histories(data, TIMED):
        for number, turn in enumerate(split_turns(messages), 1):
            tracker, writer = Tracker(), Shortener(number, count, DEFAULT_TOKENS)
            for position, message in enumerate(turn):
                start = time.thread_time_ns()
                seen = tracker.follow(number, position, message)
                if not message.tool_results:
                    continue
                writer.message(message, seen, tracker)
                taken.setdefault(source, []).append((time.thread_time_ns() - start) / 1e6)
    return taken


def infos_of(messages: Sequence[Message]) -> list[TurnInfo]:
    infos = []
    for number, turn in enumerate(filter(None, split_turns(messages)), 1):
        sizes = [
            MessageSize(place, one.role, one.kind, O200K.base(message_text(one)), is_result=bool(one.tool_results))
            for place, one in enumerate(turn)
        ]
        infos.append(TurnInfo(number, tuple(sizes), 0, 0))
    return infos


async def shown_tokens(session: foveate.Session, window_tokens: int) -> int:
    """What the history takes in a window of this size."""
    await session.use("hybrid", window_tokens=window_tokens)
    context = await session.context("And now?")
    return int(str(context.planned.notes["history_tokens"]))


async def bring_down(fov: foveate.Foveate, name: str, messages: Sequence[Message]) -> Reached:
    infos = infos_of(messages)
    sizes = {(info.turn, one.position): one for info in infos for one in info.messages}
    protection = protect(infos, messages=Hybrid().protected_messages, injections=Hybrid().kept_injections)
    kept = {*protection.all, *(place for place, one in sizes.items() if speaker_of(one) == "system")}
    tags = TAG_TOKENS * len({turn for turn, _ in kept}) + NAME_TOKENS
    protected = sum(sizes[place].tokens for place in kept) + tags
    session = await fov.session(name, budget_tokens=BUDGET_TOKENS)
    await session.record(list(messages))
    raw = await shown_tokens(session, BUDGET_TOKENS)
    window = max(256, int(raw / Hybrid().trigger) - 2)
    shown = await shown_tokens(session, window)
    exact = True
    places = [(turn.number, place) for turn in await session.load_turns(1) for place in range(len(turn.messages))]
    for (turn, position), message in zip(places, messages, strict=True):
        found = await expand(session, turn, position)
        exact = exact and (found.role, found.parts, found.original) == (message.role, message.parts, message.original)
    return Reached(name, raw, window, shown, protected, len(places), exact)


async def bring_all_down(data: Path, most: int) -> dict[str, list[Reached]]:
    found: dict[str, list[Reached]] = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = foveate.load_settings(overrides={"compress": {"enabled": False}})
        async with foveate.open(Path(folder) / "bench.db", settings=settings) as fov:
            for number, (source, name, messages) in enumerate(histories(data, SOURCES)):
                if number >= most:
                    break
                found.setdefault(source, []).append(await bring_down(fov, f"{number}-{name}", messages))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/transcripts"))
    parser.add_argument("--histories", type=int, default=1_000)
    arguments = parser.parse_args()
    print(f"{'tool results':<14}{'count':>8}{'median ms':>12}{'p95 ms':>10}{'max ms':>10}")
    for source, taken in time_results(arguments.data).items():
        ordered = sorted(taken)
        late = ordered[int(len(ordered) * 0.95)]
        print(f"{source:<14}{len(taken):>8}{statistics.median(taken):>12.3f}{late:>10.3f}{ordered[-1]:>10.2f}")
    print(
        f"\n{'histories':<14}{'count':>8}{'allowed':>10}{'reached':>10}{'of allowed':>12}{'expanded':>10}{'exact':>8}"
    )
    for source, found in asyncio.run(bring_all_down(arguments.data, arguments.histories)).items():
        allowed = [one for one in found if one.is_allowed]
        reached = sum(one.is_reached for one in allowed)
        messages = sum(one.expanded for one in found)
        exact = "all" if all(one.is_exact for one in found) else "NOT"
        share = reached / max(1, len(allowed))
        print(f"{source:<14}{len(found):>8}{len(allowed):>10}{reached:>10}{share:>12.1%}{messages:>10}{exact:>8}")
        for one in [one for one in allowed if not one.is_reached][:5]:
            print(f"  {one.name}: {one.shown_tokens} of {one.window_tokens}, protected {one.protected_tokens}")


if __name__ == "__main__":
    main()
