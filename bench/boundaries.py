"""Where topics begin, as the detector sees it: both error rates on 80 annotated cases, and on real conversations.

    python bench/boundaries.py                          # the 80 cases
    python bench/boundaries.py --data ../shared/data    # and the conversations that the distance was chosen on

`boundaries.jsonl` was written before the detector and is not changed. On the conversations, a prompt that goes on is
the next one of the same session, and another subject is a prompt from another conversation put in its place; session
borders are told apart. The rule for subjects was fitted to these conversations; that a first rule was too eager was
seen on the 80 cases. docs/topics.md has both.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from foveate.plan import Artefact, Ledger, MessageSize, TurnInfo
from foveate.strategy import Strategy
from foveate.strategy.build import Material, SourceTurn
from foveate.strategy.topics import Topics
from foveate.strategy.topics.boundaries import boundary_wanted
from foveate.strategy.topics.build import gists, make_boundary
from foveate.strategy.topics.state import TopicsState
from foveate.strategy.topics.subjects import WINDOW_TURNS, Gist, margin, subject_distance
from foveate.testing.histories import ListedSnapshot, drive
from foveate.turn import Message, Text

CASES = Path(__file__).parent / "boundaries.jsonl"
MINUTE_US = 60_000_000
DISTANCES = (0.15, 0.20, 0.25, 0.30, 0.35)
SEED = 3


def decide(case: dict[str, Any], settings: Topics) -> str:
    """What ends the topic before a case's next message, by the strategy itself; nothing if it goes on."""
    turns: list[list[Message]] = []
    for said in [*case["earlier"], {"role": "user", "text": case["next"]}]:
        message = Message(said["role"], (Text(said["text"]),))
        if said["role"] == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    last = len(turns)
    sources = [SourceTurn(number, tuple(messages), (), "") for number, messages in enumerate(turns, 1)]
    made: dict[str, Artefact] = {}
    for turn in range(2, last + 1):
        wanted = boundary_wanted(settings, turn)
        material = Material(wanted, sources[turn - 2 : turn], len, lambda text, _: text)
        made[wanted.name] = make_boundary(material)
    infos = []
    for number, messages in enumerate(turns, 1):
        # One minute from turn to turn; the gap before the last is the case's own.
        at = number * MINUTE_US if number < last else (number - 1 + case["gap_minutes"]) * MINUTE_US
        sizes = tuple(MessageSize(place, one.role, "message", 20) for place, one in enumerate(messages))
        infos.append(TurnInfo(number, sizes, int(at), int(at)))
    # The earlier turns are of one topic, whatever the detector says of them.
    snapshot = ListedSnapshot(infos, Ledger(budget_tokens=20_000), TopicsState(seen=last - 1).as_json(), made)
    plan, _ = drive(cast("Strategy", settings), snapshot, 20_000)
    return str(plan.events[0].data["why"]) if plan.events else ""


def report_cases(settings: Topics) -> None:
    cases = [json.loads(line) for line in CASES.read_text("utf-8").splitlines()]
    right: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    wrong: list[str] = []
    for case in cases:
        why = decide(case, settings)
        key = (case["expected"], case["kind"])
        total[key] += 1
        if bool(why) == (case["expected"] == "boundary"):
            right[key] += 1
        else:
            wrong.append(
                f"  {case['id']} {case['language']} {case['kind']}: {why or 'not seen'}: {case['next'][:70]!r}"
            )
    for expected, name in (("boundary", "missed"), ("same", "false")):
        all_, kept = (sum(n for (what, _), n in counts.items() if what == expected) for counts in (total, right))
        print(f"{expected}: {all_ - kept} of {all_} {name} ({(all_ - kept) / all_:.1%})")
        for (what, kind), count in total.items():
            if what == expected:
                print(f"  {kind:16} {count - right[what, kind]} of {count} {name}")
    print("wrong:", *wrong, sep="\n")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A prompt and its answer in a real conversation."""

    session: int
    asked: Gist
    said: Gist


def conversations(path: Path) -> Iterator[list[Exchange]]:
    """The exchanges of each conversation in a file of questions and answers."""
    for chat in json.loads(path.read_text("utf-8")):
        pairs: list[list[Any]] = []
        asker = None
        for turn in chat["turns"]:
            begins = not pairs or turn["session"] != pairs[-1][0]
            asker = turn["who"] if begins else asker
            if begins or turn["who"] == asker:
                pairs.append([turn["session"], turn["text"][:2000], ""])
            else:
                pairs[-1][2] = f"{pairs[-1][2]}\n{turn['text']}"[-2000:]
        asked = gists([pair[1] for pair in pairs])
        said = gists([f"{pair[1]}\n{pair[2]}" for pair in pairs])
        yield [Exchange(pair[0], one, two) for pair, one, two in zip(pairs, asked, said, strict=True)]


def scores(chats: Sequence[Sequence[Exchange]], turns: int) -> dict[str, list[float]]:
    """How far prompts are beyond what the turns before them ask for, by what they are."""
    chance = random.Random(SEED)
    found: dict[str, list[float]] = {"goes on": [], "session border": [], "another conversation": []}
    for own, chat in enumerate(chats):
        others = [place for place in range(len(chats)) if place != own]
        for place in range(1, len(chat)):
            near = [one.said for one in chat[max(0, place - turns) : place] if one.session == chat[place - 1].session]
            extra = margin(near)
            kind = "goes on" if chat[place].session == chat[place - 1].session else "session border"
            found[kind].append(subject_distance(chat[place].asked, near) - extra)
            foreign = chance.choice(chats[chance.choice(others)])
            found["another conversation"].append(subject_distance(foreign.asked, near) - extra)
    return found


def report_conversations(folder: Path) -> None:
    for name in ("beam-100k-dev", "locomo-dev"):
        chats = list(conversations(folder / "qa" / f"{name}.json"))
        for turns in (1, 2, 4, WINDOW_TURNS):
            found = scores(chats, turns)
            print(f"{name}, {turns} turns before:")
            for kind, values in found.items():
                shares = "  ".join(f"{at:.2f}: {sum(v > at for v in values) / len(values):6.1%}" for at in DISTANCES)
                print(f"  {kind:22} {len(values):5}  taken for a boundary at {shares}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder with qa/*.json")
    parser.add_argument("--distance", type=float, default=0.25, help="as the setting")
    given = parser.parse_args()
    report_cases(Topics(subject_distance=given.distance))
    if given.data:
        report_conversations(given.data)


if __name__ == "__main__":
    main()
