"""The fictional company behind the demo: its people, tickets and calendar, and decks of content to draw from."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from random import Random
from typing import TypeAlias, TypeVar, cast

from conversation.scene import Scene

Item = TypeVar("Item")
Record: TypeAlias = dict[str, str]
"""One story, or the words of one: field to text."""

START = datetime(2026, 3, 2, 8, 40, tzinfo=UTC)
PEOPLE = (
    "Ingrid", "Pavel", "Noor", "Tomás", "Hanneke", "Yusuf", "Freya", "Dario", "Lotte", "Mikkel", "Aoife", "Stefan",
    "Priya", "Joost", "Katarina", "Elias",
)  # fmt: skip

_SLOT = re.compile(r"\$(?:\{([a-z_]+)\}|([a-z_]+))")
_EITHER = re.compile(r"<([^<>|\n]*(?:\|[^<>|\n]*)+)>")
_FIRST_HOUR, _LAST_HOUR = 8, 17
_SATURDAY = 5


@cache
def content(name: str) -> Mapping[str, object]:
    """A file of `content/`, parsed."""
    source = resources.files(__package__).joinpath("content", f"{name}.toml")
    return tomllib.loads(source.read_text(encoding="utf-8"))


def records(name: str, table: str) -> Sequence[Record]:
    return cast("Sequence[Record]", content(name)[table])


class World:
    """All chance in one place: whoever draws from it in the same order gets the same conversation."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now = START
        self._decks: dict[str, list[object]] = {}
        self._ticket = 1180
        self._release = 11
        self._turns_left_today = self.rng.randrange(9, 16)
        self._turns_in_a_hurry = 0

    def draw(self, deck: str, items: Sequence[Item]) -> Item:
        """An item of the deck; none comes twice before all came once."""
        left = self._decks.get(deck)
        if not left:
            left = list(items)
            self.rng.shuffle(left)
            self._decks[deck] = left
        return cast("Item", left.pop())

    def between(self, low: int, high: int) -> int:
        return self.rng.randrange(low, high + 1)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def seconds(self, low: float, high: float) -> float:
        return round(low + (high - low) * self.rng.random(), 2)

    def hex(self, length: int) -> str:
        return "".join(self.rng.choice("0123456789abcdef") for _ in range(length))

    def next_release(self) -> str:
        self._release += 1
        return f"{self.now.year}.{self._release}"

    def story(self, record: Mapping[str, str], **more: str) -> Record:
        """The names and numbers of one run through a story, and the record's texts with them filled in."""
        self._ticket += self.between(1, 9)
        story = {
            "ticket": f"QS-{self._ticket}",
            "person": self.draw("people", PEOPLE),
            "hash": self.hex(7),
            "revision": self.hex(12),
            **more,
        }
        story["branch"] = f"fix/{story['ticket'].lower()}"
        for entry in record.get("numbers", "").split():
            name, _, span = entry.partition("=")
            low, _, high = span.partition("-")
            story[name] = str(self.between(int(low), int(high)))
        story.update({name: self.fill(text, story) for name, text in record.items() if name != "numbers"})
        return story

    def phrase(self, deck: str) -> str:
        """A way to say it, still with its slots."""
        file = content("phrases_code") if deck in content("phrases_code") else content("phrases_more")
        return self.draw(f"phrase {deck}", cast("Sequence[str]", file[deck]))

    def fill(self, text: str, story: Mapping[str, str]) -> str:
        """The text with one side of each `<a|b>` and the story's words in its `$slots`."""
        text = _EITHER.sub(lambda found: self.rng.choice(found[1].split("|")), text)
        return _SLOT.sub(lambda found: story[found[1] or found[2]], text)

    def scene(self, story: Record, prompt: str) -> Scene:
        """A turn of this story; the story may still grow while the scene is written."""

        def fill(text: str) -> str:
            filled = self.fill(text, story)
            return filled[:1].upper() + filled[1:] if text.startswith("$") else filled

        return Scene(fill, fill(prompt))

    def hurry(self, turns: int) -> None:
        """Something is on fire: the next turns follow quickly and nobody goes home."""
        self._turns_in_a_hurry = turns

    def pass_time(self) -> None:
        """On to the next turn: minutes later, or the next morning of a working day."""
        if self._turns_in_a_hurry > 0:
            self._turns_in_a_hurry -= 1
            self.now += timedelta(minutes=self.between(2, 9), seconds=self.between(0, 59))
            return
        self._turns_left_today -= 1
        self.now += timedelta(minutes=self.between(2, 34), seconds=self.between(0, 59))
        if self._turns_left_today > 0 and self.now.hour <= _LAST_HOUR:
            return
        self._turns_left_today = self.between(8, 17)
        self.now = self.now.replace(hour=_FIRST_HOUR, minute=0, second=0) + timedelta(days=1)
        while self.now.weekday() >= _SATURDAY:
            self.now += timedelta(days=1)
        self.now += timedelta(minutes=self.between(5, 75), seconds=self.between(0, 59))
