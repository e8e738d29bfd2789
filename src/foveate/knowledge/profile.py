"""The profile of a scope without a model: preferences, conventions, the stack, and repeated requests. One item each,
with a line for every statement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from foveate.compress.marks import one_line
from foveate.knowledge.gather import Gathered
from foveate.knowledge.items import item_id, word_profile
from foveate.knowledge.statements import StatementKind
from foveate.recall.scopes import Scope
from foveate.store.knowledge import KnowledgeSource, NewKnowledge
from foveate.strategy.checkpoint.extract import TECHNOLOGIES

MAX_LINES = 40
"""Maximum number of lines of an item: the newest statements and the most frequent names."""
MAX_SOURCES = 100
MIN_STACK_TURNS = 2
"""Minimum number of turns in which the person names a technology of the stack."""
MIN_PATTERN_TURNS = 3
MAX_PATTERN_WORDS, MIN_PATTERN_WORDS = 12, 3
MIN_PATTERN_WEIGHT = 0.4
"""Minimum weight of the heaviest word of a request that counts as a pattern."""
MIN_APART = 2
"""Minimum distance in turns between two requests; a nearer one is a resend."""

_TECHNOLOGY = re.compile(
    rf"\b(?:{TECHNOLOGIES}|python|javascript|java|php|ruby|c\+\+|c#|scala|swift|elixir|numpy|pandas|scipy"
    rf"|pytorch|tensorflow"
    r"|pytest|unittest|ruff|black|mypy|flake8|poetry|pip|uv|npm|yarn|pnpm|vite|webpack|eslint|prettier|jest"
    r"|playwright|selenium"
    r"|git|github|gitlab|jenkins|ansible|nginx|aws|gcp|azure|linux|debian|ubuntu|macos|windows|bootstrap"
    r"|tailwind|jekyll|celery"
    r"|excel|latex|figma)(?![\w#+])",
    re.IGNORECASE,
)

StatedAt = tuple[StatementKind, str, Sequence[int]]
"""A statement with the positions of its turns."""


def find_profile(gathered: Gathered, typed: Sequence[str], stated: Sequence[StatedAt]) -> list[NewKnowledge]:
    """Return the non-empty items of a profile. `typed` is the person's own text of each turn."""
    sections = {
        "Preferences": [(text, places) for kind, text, places in stated if kind == "preference"],
        "Conventions": [(text, places) for kind, text, places in stated if kind == "convention"],
        "Stack": _stack(gathered, typed),
        "Patterns": _patterns(typed),
    }
    return [_item(gathered, name, lines) for name, lines in sections.items() if lines]


def technologies_in(text: str) -> tuple[str, ...]:
    """List the technologies that a text names, in lower case."""
    return tuple(sorted({match.casefold() for match in _TECHNOLOGY.findall(text)}))


def _stack(gathered: Gathered, typed: Sequence[str]) -> list[tuple[str, Sequence[int]]]:
    places: dict[str, list[int]] = {}
    prompts: dict[str, set[str]] = {}
    for place, turn in enumerate(gathered.turns):
        for name in technologies_in(typed[place]):
            places.setdefault(name, []).append(place)
            prompts.setdefault(name, set()).add(turn.user)
    often = [name for name in places if len(prompts[name]) >= MIN_STACK_TURNS]
    often.sort(key=lambda name: (-len(places[name]), name))
    return [(f"{name} ({len(places[name])} turns)", places[name]) for name in often[:MAX_LINES]]


def _patterns(typed: Sequence[str]) -> list[tuple[str, Sequence[int]]]:
    """Find short requests that were repeated at different times."""
    places: dict[str, list[int]] = {}
    texts: dict[str, str] = {}
    for place, prompt in enumerate(typed):
        text = one_line(prompt)
        is_request = MIN_PATTERN_WORDS <= len(text.split()) <= MAX_PATTERN_WORDS and not text.startswith(("/", "!"))
        if is_request and any(weight >= MIN_PATTERN_WEIGHT for weight in word_profile(text).weights.values()):
            key = " ".join(re.findall(r"[\w/.-]+", text.casefold()))
            places.setdefault(key, []).append(place)
            texts.setdefault(key, text)
    found = [(key, apart) for key, all_ in places.items() if len(apart := list(_apart(all_))) >= MIN_PATTERN_TURNS]
    found.sort(key=lambda each: (-len(each[1]), each[0]))
    return [(f"{texts[key]} ({len(apart)} times)", apart) for key, apart in found[:MAX_LINES]]


def _apart(places: Sequence[int]) -> Iterator[int]:
    last = -MIN_APART
    for place in places:
        if place - last >= MIN_APART:
            yield place
        last = place


def _item(gathered: Gathered, name: str, lines: Sequence[tuple[str, Sequence[int]]]) -> NewKnowledge:
    newest = (
        sorted(lines, key=lambda line: -max(line[1]))[:MAX_LINES] if name in ("Preferences", "Conventions") else lines
    )
    turns = [gathered.turns[place] for _, places in newest for place in places]
    sources: dict[KnowledgeSource, None] = {}
    for _, places in newest:
        sources |= dict.fromkeys(
            gathered.turns[place].source for place in places[-max(1, MAX_SOURCES // len(newest)) :]
        )
    text = "\n".join(f"- {text}" for text, _ in newest)
    return NewKnowledge(
        id=_profile_id(gathered.scope, name),
        scope=str(gathered.scope),
        kind="profile",
        state="proposed",
        title=name,
        text=text,
        technologies=technologies_in(text),
        weight=0.6,
        confidence=0.6,
        sources=tuple(sorted(sources)),
        maker="local",
        first_seen_us=min(turn.at_us for turn in turns),
        last_seen_us=max(turn.at_us for turn in turns),
    )


def _profile_id(scope: Scope, name: str) -> str:
    return item_id(scope, "profile", name)
