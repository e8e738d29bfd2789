"""What the session's goals are about, so that a checkpoint keeps what serves them and squeezes the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from foveate.compress.facts import find_facts
from foveate.turn import Json

GOAL_BOOST, OFF_TOPIC = 1.8, 0.5
"""What serves a goal counts more, and the rest less, where there are goals."""
STRONG = "i/nuq"
"""Kinds of facts of which one in common is enough: identifiers, paths, names, addresses, quotes."""
WORDS_IN_COMMON = 2
FINISHED = frozenset({"done", "dropped"})


@dataclass(slots=True)
class GoalWords:
    """The facts that active goals consist of."""

    strong: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)

    def weigh(self, facts: Collection[str]) -> float:
        """How much more something with these facts counts; 1 where there are no goals."""
        if not self.strong and not self.words:
            return 1.0
        forms = {key[2:] for key in facts}
        serves = not self.strong.isdisjoint(forms) or len(forms & self.words) >= WORDS_IN_COMMON
        return GOAL_BOOST if serves else OFF_TOPIC


def read_goals(goals: Sequence[Mapping[str, Json]]) -> GoalWords:
    """What the goals that are not done yet say."""
    words = GoalWords()
    for goal in goals:
        if goal.get("status") in FINISHED:
            continue
        for text in _texts(goal):
            for key in find_facts(text):
                (words.strong if key[0] in STRONG else words.words).add(key[2:])
                if key[0] == "/":
                    words.strong.add(key[2:].rpartition("/")[2])
    return words


def _texts(goal: Mapping[str, Json]) -> Iterator[str]:
    yield str(goal.get("title", ""))
    for key in ("steps", "decisions", "artifacts"):
        listed = goal.get(key)
        for one in listed if isinstance(listed, list | tuple) else ():
            yield _named(one)


def _named(one: Json) -> str:
    """A step by its title, an artifact by its path, a decision as it is."""
    return str(one.get("title") or one.get("path") or "") if isinstance(one, Mapping) else str(one)


def goal_lines(goals: Sequence[Mapping[str, Json]]) -> list[str]:
    """What a summariser is shown of the goals that are not done yet, a line each."""
    lines: list[str] = []
    for goal in goals:
        if goal.get("status") not in FINISHED:
            listed = {key: goal.get(key) for key in ("steps", "decisions", "artifacts")}
            parts = [
                f"{key}: {', '.join(map(_named, found))}"
                for key, found in listed.items()
                if isinstance(found, list | tuple) and found
            ]
            lines.append("; ".join([f"goal: {goal.get('title', '')}", *parts]))
    return [" ".join(line.split()) for line in lines]
