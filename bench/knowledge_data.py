"""The histories of `bench/knowledge.py`: invented sessions with facts, updates, decoys and planted rules."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).parent / "data" / "knowledge"
Half = Literal["dev", "apart", "third"]
HALVES: tuple[Half, ...] = ("dev", "apart", "third")
FILES = {"dev": "dev", "apart": "set_apart", "third": "third"}
KINDS = ("coding", "chat", "support")
LANGUAGES = ("en", "de", "fr", "es")
FACT_TYPES = (
    "rule", "prohibition", "condition", "preference", "fact", "person", "date", "place", "stack", "decision",
    "correction",
)  # fmt: skip
DECOY_TYPES = (
    "story", "quotation", "hypothetical", "others", "pasted", "tool", "advice", "question", "joke", "temporary", "once",
)  # fmt: skip
PLANTED_TYPES = ("page", "tool", "transcript")
TURN_MINUTES = 4
_LINE = re.compile(r"(U|A|C|R|S): ?(.*)", re.DOTALL)

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Expected:
    """A fact, or an update if it has `before`, with what a right lesson matches."""

    id: str
    type: str
    said: str
    needs: tuple[str, ...]
    forbids: tuple[str, ...] = ()
    lesson: str = ""
    """How it could be worded."""
    before: str = ""
    stale: tuple[str, ...] = ()
    session: int = 0
    """Number of the session that it was said in, from 0,"""
    turn: int = 0
    """and of the turn, from 1."""
    is_sloppy: bool = False


@dataclass(frozen=True, slots=True)
class Trap:
    """A decoy or a planted rule, with what a wrong lesson matches."""

    id: str
    type: str
    text: str
    trap: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Secret:
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Sitting:
    """A session of a history."""

    at: datetime
    turns: tuple[Messages, ...]
    is_sloppy: bool = False
    is_imported: bool = False
    """Whether it is a transcript that is imported from a file."""

    def prompts(self) -> Iterator[str]:
        for messages in self.turns:
            yield next(message["content"] for message in messages if message["role"] == "user")


@dataclass(frozen=True, slots=True)
class History:
    """The sessions of one person in one scope."""

    id: str
    half: Half
    kind: str
    language: str
    scope: str
    sessions: tuple[Sitting, ...]
    facts: tuple[Expected, ...] = ()
    updates: tuple[Expected, ...] = ()
    decoys: tuple[Trap, ...] = ()
    planted: tuple[Trap, ...] = ()
    secrets: tuple[Secret, ...] = ()
    harmless: tuple[tuple[str, ...], ...] = ()

    def session_id(self, number: int) -> str:
        return f"{self.id}-{number + 1}"

    @property
    def text(self) -> str:
        """Everything that was said, called and returned."""
        return plain(json.dumps([one.turns for one in self.sessions], ensure_ascii=False).replace('\\"', '"'))


def load_histories(half: Half) -> tuple[History, ...]:
    """Read the histories of a half."""
    data = tomllib.loads((HERE / f"histories_{FILES[half]}.toml").read_text("utf-8"))
    return tuple(_history(half, entry) for entry in data["history"])


def _history(half: Half, entry: Mapping[str, Any]) -> History:
    sessions = tuple(
        Sitting(
            one["at"].replace(tzinfo=UTC),
            tuple(read_turns(one["text"])),
            one.get("sloppy", False),
            one.get("imported", False),
        )
        for one in entry["session"]
    )
    return History(
        entry["id"],
        half,
        entry["kind"],
        entry["language"],
        entry["scope"],
        sessions,
        facts=tuple(_expected(each, sessions) for each in entry.get("fact", ())),
        updates=tuple(_expected(each, sessions) for each in entry.get("update", ())),
        decoys=tuple(_trap(each) for each in entry.get("decoy", ())),
        planted=tuple(_trap(each) for each in entry.get("planted", ())),
        secrets=tuple(Secret(each["id"], _joined(each["text"])) for each in entry.get("secret", ())),
        harmless=tuple(map(tuple, entry.get("harmless", ()))),
    )


def read_turns(text: str) -> Iterator[Messages]:
    """Read the turns of a session as messages in OpenAI's format; each prompt starts one. The first may have a system
    message before its prompt."""
    turns: list[Messages] = []
    head: Messages = []
    for mark, said in _entries(_joined(text).strip("\n")):
        if mark == "S":
            head = [{"role": "system", "content": said}]
            continue
        if mark == "U":
            turns.append([*head, {"role": "user", "content": said}])
            head = []
            continue
        messages = turns[-1]
        if mark == "A":
            messages.append({"role": "assistant", "content": said})
        elif mark == "C":
            name, _, arguments = said.partition(" ")
            call = {"name": name, "arguments": arguments}
            made = {"id": f"call_{len(turns)}_{len(messages)}", "type": "function", "function": call}
            messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        else:
            messages.append({"role": "tool", "tool_call_id": messages[-1]["tool_calls"][0]["id"], "content": said})
    yield from turns


def _entries(text: str) -> Iterator[tuple[str, str]]:
    mark, said = "", ""
    for line in text.split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            said += f"\n{line}"
            continue
        if mark:
            yield mark, said.strip("\n")
        mark, said = match[1], match[2]
    yield mark, said.strip("\n")


def turn_times(sitting: Sitting) -> Iterator[tuple[Messages, datetime]]:
    """Pair each turn with its time."""
    for number, messages in enumerate(sitting.turns):
        yield messages, sitting.at + timedelta(minutes=TURN_MINUTES * number)


def plain(text: str) -> str:
    """Make two texts comparable: case, whitespace and the form of apostrophes."""
    return " ".join(text.replace("\u2019", "'").replace("\\n", " ").lower().split())


def _joined(text: str) -> str:
    return text.replace("{}", "")


def _expected(entry: Mapping[str, Any], sessions: Sequence[Sitting]) -> Expected:
    session, turn = find_place(entry["said"], sessions)
    return Expected(
        entry["id"],
        entry["type"],
        entry["said"],
        tuple(entry["needs"]),
        tuple(entry.get("forbids", ())),
        entry.get("lesson", entry["said"]),
        entry.get("before", ""),
        tuple(entry.get("stale", ())),
        session,
        turn,
        is_sloppy=sessions[session].is_sloppy,
    )


def place_of(history: History, said: str) -> tuple[int, int]:
    """The session, from 0, and the turn, from 1, that a sentence was said in."""
    return find_place(said, history.sessions)


def find_place(said: str, sessions: Sequence[Sitting]) -> tuple[int, int]:
    """The session and turn that a sentence was said in."""
    for session, sitting in enumerate(sessions):
        for turn, prompt in enumerate(sitting.prompts(), 1):
            if plain(said) in plain(prompt):
                return session, turn
    raise ValueError(f"nobody said: {said}")


def _trap(entry: Mapping[str, Any]) -> Trap:
    return Trap(entry["id"], entry["type"], entry["text"], tuple(entry["trap"]))
