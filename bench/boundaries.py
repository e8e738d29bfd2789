"""Where topics begin, as the detector sees it: both error rates on 80 annotated cases, and on real conversations.

    python bench/boundaries.py                          # the 80 cases
    python bench/boundaries.py --data ../shared/data    # and real conversations

`boundaries.jsonl` was written before the detector and is not changed. `subjects.jsonl` marks prompts of real
conversations that begin another subject or continue the same one, by reading: file, conversation and place only. Its
half `dev` chose the rule and its distance, `test` was set apart. docs/lab/topics.md has the figures.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from foveate.plan import Artefact, Ledger, MessageSize, TurnInfo
from foveate.strategy import Strategy
from foveate.strategy.build import Material, SourceTurn
from foveate.strategy.topics import Topics
from foveate.strategy.topics.boundaries import boundary_wanted
from foveate.strategy.topics.build import READ_CHARS, gists, make_boundary
from foveate.strategy.topics.state import TopicsState
from foveate.strategy.topics.subjects import BACKGROUND_TURNS, WINDOW_TURNS, Gist, subject_distance
from foveate.testing.histories import ListedSnapshot, drive
from foveate.turn import Message, Text

CASES = Path(__file__).parent / "boundaries.jsonl"
SUBJECTS = Path(__file__).parent / "subjects.jsonl"
MINUTE_US = 60_000_000


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

    at: int
    """Its place in the conversation's list of messages."""
    session: str
    asked: Gist
    said: Gist


def exchanges(turns: Sequence[tuple[str, str, str]]) -> list[Exchange]:
    """The exchanges of a conversation, given as session, speaker and text of its messages."""
    pairs: list[tuple[int, str, list[str]]] = []
    asker = None
    for place, (session, who, text) in enumerate(turns):
        begins = not pairs or session != pairs[-1][1]
        asker = who if begins else asker
        if begins or who == asker:
            pairs.append((place, session, [text[:READ_CHARS], ""]))
        else:
            pairs[-1][2][1] = f"{pairs[-1][2][1]}\n{text}"[-READ_CHARS:]
    asked = gists([texts[0] for _, _, texts in pairs])
    said = gists(["\n".join(texts) for _, _, texts in pairs])
    stored = [[Gist.from_json(one.as_json()) for one in found] for found in (asked, said)]
    return [Exchange(at, session, *both) for (at, session, _), *both in zip(pairs, *stored, strict=True)]


def questions(path: Path) -> dict[str, list[Exchange]]:
    """The conversations of a file of questions and answers, by id."""
    return {
        chat["id"]: exchanges([(str(turn["session"]), turn["who"], turn["text"]) for turn in chat["turns"]])
        for chat in json.loads(path.read_text("utf-8"))
    }


def service(path: Path) -> Iterator[list[Exchange]]:
    """Talks with a service desk: each is about one matter."""
    for run in json.loads(path.read_text("utf-8"))[:80]:
        said = [(one["role"], one.get("content") or "") for one in run["traj"] if one["role"] in ("user", "assistant")]
        yield exchanges([("", who, text) for who, text in said])


def coding(path: Path) -> Iterator[list[Exchange]]:
    """Sittings of work on code, prompt by prompt."""
    for sitting in path.read_text("utf-8")[:1_200_000].split("# aider chat started at")[1:]:
        turns: list[tuple[str, str, str]] = []
        for block in re.split(r"(?m)^(?=#### )", sitting)[1:]:
            lines = block.splitlines()
            turns.append(("", "user", "\n".join(line[5:] for line in lines if line.startswith("#### "))))
            turns.append(("", "assistant", "\n".join(line for line in lines if not line.startswith(("#### ", ">")))))
        yield exchanges(turns)


def borders(chat: Sequence[Exchange], distance: float) -> set[int]:
    """The places where the strategy sees another subject, by subject alone, each with regard to those before it."""
    found: set[int] = set()
    start = 0
    for turn in range(1, len(chat)):
        first = max(start, turn - WINDOW_TURNS)
        before = [one.said for one in chat[first:turn]]
        background = [one.said for one in chat[max(0, first - BACKGROUND_TURNS) : first]]
        if subject_distance(chat[turn].asked, before, background) > distance:
            found.add(chat[turn].at)
            start = turn
    return found


def report_conversations(folder: Path, distance: float) -> None:
    marks = [json.loads(line) for line in SUBJECTS.read_text("utf-8").splitlines()]
    chats = {name: questions(folder / "qa" / f"{name}.json") for name in ("beam-100k-dev", "locomo-dev")}
    seen = {(name, key): borders(chat, distance) for name, own in chats.items() for key, chat in own.items()}
    for half in ("dev", "test"):
        for file in (*chats, ""):
            own = [mark for mark in marks if mark["half"] == half and mark["file"].startswith(file)]
            right = Counter(mark["expected"] for mark in own if mark["at"] in seen[mark["file"], mark["chat"]])
            real, taken = sum(mark["expected"] == "boundary" for mark in own), sum(right.values())
            shares = f"precision {right['boundary'] / max(1, taken):.2f}, recall {right['boundary'] / max(1, real):.2f}"
            print(f"{half} {file or 'both':14} {shares}: {right['boundary']} of {real}, {right['same']} false")
    for name, found in chats.items():
        prompts = [
            (one.at in seen[name, key], one.session == before.session)
            for key, chat in found.items()
            for before, one in pairwise(chat)
        ]
        for is_same, what in ((True, "inside a session"), (False, "at its beginning")):
            own = [is_cut for is_cut, same in prompts if same == is_same]
            print(f"{name}: {sum(own)} of {len(own)} prompts {what} begin a topic ({sum(own) / len(own):.1%})")
    transcripts = folder / "transcripts"
    others = {
        "tau-airline": service(transcripts / "tau-airline.json"),
        "aider": coding(transcripts / "aider-chat-history.md"),
    }
    for name, talks in others.items():
        counts = [(len(borders(talk, distance)), len(talk) - 1) for talk in talks if len(talk) > 1]
        cut, total = (sum(one[place] for one in counts) for place in (0, 1))
        print(f"{name}: {cut} of {total} prompts begin a topic ({cut / total:.1%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder with qa/*.json")
    parser.add_argument("--distance", type=float, default=0.25, help="as the setting")
    given = parser.parse_args()
    report_cases(Topics(subject_distance=given.distance))
    if given.data:
        report_conversations(given.data, given.distance)


if __name__ == "__main__":
    main()
