"""Decides which messages may be shortened, and names the artefacts of their short forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from foveate.plan import Artefact, ArtefactSpec, MessageSize, TurnInfo
from foveate.strategy.hybrid.state import NOWHERE, Place
from foveate.turn import Json

if TYPE_CHECKING:
    from foveate.strategy.hybrid import Hybrid

Speaker = Literal["user", "assistant", "tool", "injection", "system", "display"]

CHUNK_STEPS = 16
"""Steps of a turn in progress whose short forms are made together, so that older ones are not made again."""
OPEN_SHARE = 0.10
"""An open turn that is not shown by its steps stays in full, unless it takes more than this share of the window."""
WORTH_TOKENS = 24
"""A shorter message is not worth shortening."""
_GUESSES: Mapping[Speaker, int] = {"user": 34, "assistant": 90, "tool": 45, "injection": 40}
"""Approximate tokens of a short message before any is made."""
LEAST_SCALE, MOST_SCALE = 0.2, 2.0
"""Range of the factor by which the sizes of real artefacts may change these estimates."""


def speaker_of(message: MessageSize) -> Speaker:
    """Return whose message it is; one that carries results of tool calls is the tools', whatever its role."""
    if message.kind != "message":
        return message.kind
    if message.is_result or message.role == "tool":
        return "tool"
    return "system" if message.role in ("system", "developer") else "user" if message.role == "user" else "assistant"


@dataclass(frozen=True, slots=True)
class Protection:
    """Messages that are not shortened now."""

    talk: tuple[Place, ...]
    """The newest user and assistant messages, oldest first."""
    prompt: frozenset[Place]
    """The newest prompt, whatever its age."""
    unread: frozenset[Place]
    """Tool results that no model has read yet."""
    injected: frozenset[Place]
    """The newest injections."""

    @property
    def firm(self) -> tuple[Place, ...]:
        """Messages that are only ever cut, if they don't fit; oldest first."""
        return tuple(sorted({*self.talk, *self.prompt, *self.unread}))

    @property
    def all(self) -> frozenset[Place]:
        return frozenset((*self.firm, *self.injected))


def protect(infos: Sequence[TurnInfo], *, messages: int, injections: int) -> Protection:
    """Protect the last `messages` of user and assistant, and what else the next answer needs in full."""
    talk: list[Place] = []
    unread: list[Place] = []
    injected: list[Place] = []
    is_answered = False
    for info in reversed(infos):
        for message in reversed(info.messages):
            place = (info.turn, message.position)
            speaker = speaker_of(message)
            if speaker in ("user", "assistant"):
                is_answered = True
                if len(talk) < messages:
                    talk.append(place)
            elif speaker == "tool" and not is_answered:
                unread.append(place)
            elif speaker == "injection" and len(injected) < injections:
                injected.append(place)
        if len(talk) >= messages and is_answered and len(injected) >= injections:
            break
    newest = infos[-1] if infos else None
    prompt = [(newest.turn, message.position) for message in newest.messages if message.is_prompt] if newest else []
    return Protection(tuple(reversed(talk)), frozenset(prompt), frozenset(unread), frozenset(injected))


@dataclass(frozen=True, slots=True)
class ShortSource:
    """The artefact with the short forms of a turn's messages: of all, or of those from `first` to `last`."""

    turn: int
    first: int
    last: int
    is_whole: bool
    hidden: tuple[int, int] | None = None
    """Positions, from and to, that one note replaces."""
    cuts: tuple[tuple[int, int], ...] = ()
    """Positions of messages that are cut, with their tokens."""

    def wanted(self, settings: Hybrid) -> ArtefactSpec:
        name = f"short-{self.turn}" if self.is_whole else f"short-{self.turn}-p{self.first}-{self.last}"
        data: dict[str, Json] = {"tokens": _limits(settings)}
        if not self.is_whole:
            data["positions"] = [self.first, self.last]
        if self.hidden:
            name += f"-h{self.hidden[0]}-{self.hidden[1]}"
            data["hidden"] = list(self.hidden)
        for position, tokens in self.cuts:
            name += f"-c{position}x{tokens}"
        if self.cuts:
            data["cuts"] = {str(position): tokens for position, tokens in self.cuts}
        first = max(1, self.turn - settings.tracked_turns)
        return ArtefactSpec(f"{name}{_variant(settings)}", "short", first, self.turn, data=data)


def _limits(settings: Hybrid) -> dict[str, Json]:
    return {
        "user": settings.user_tokens,
        "assistant": settings.assistant_tokens,
        "injection": settings.injection_tokens,
        "read": settings.read_tokens,
        "write": settings.write_tokens,
        "edit": settings.edit_tokens,
        "other": settings.other_tokens,
    }


def _variant(settings: Hybrid) -> str:
    """Return a name part for texts made with non-default limits; empty for the defaults."""
    numbers = [settings.tracked_turns, *_limits(settings).values()]
    usual = [type(settings)().tracked_turns, *_limits(type(settings)()).values()]
    return "" if numbers == usual else f"-{'.'.join(map(str, numbers))}"


@dataclass(frozen=True, slots=True)
class TurnSection:
    """A turn, or a step of the turn in progress: the content of one block, or of part of one."""

    turn: int
    step: int
    """The step; 0 for a whole turn."""
    messages: tuple[MessageSize, ...]
    source: ShortSource | None
    """The artefact of its short messages; None if none of them can be short."""

    @property
    def tokens(self) -> int:
        return sum(message.tokens for message in self.messages)

    def places(self) -> Iterator[tuple[Place, MessageSize]]:
        for message in self.messages:
            yield (self.turn, message.position), message

    def own_source(self) -> ShortSource:
        """Return a source of its own, for a section with a message to be cut."""
        first, last = self.messages[0].position, self.messages[-1].position
        return ShortSource(self.turn, first, last, is_whole=not self.step)


def sections_of(infos: Sequence[TurnInfo], *, in_steps: bool, reach: Place, window_tokens: int) -> list[TurnSection]:
    """Return the possible blocks of turns, oldest first; `in_steps` if the newest is in progress and large."""
    sections: list[TurnSection] = []
    for info in infos:
        if not info.is_open:
            sections.append(
                TurnSection(info.turn, 0, info.messages, ShortSource(info.turn, 0, len(info.messages) - 1, True))
            )
        elif in_steps:
            sections += _steps(info, reach)
        else:
            last = reach[1] if reach[0] == info.turn and info.tokens > OPEN_SHARE * window_tokens else -1
            source = ShortSource(info.turn, 0, last, is_whole=False) if last >= 0 else None
            sections.append(TurnSection(info.turn, 0, info.messages, source))
    return sections


def reach_of(info: TurnInfo) -> Place:
    """Return the last message of an open turn that may be short: all except its newest step."""
    steps = info.steps
    return (info.turn, steps[-1][0].position - 1) if info.is_open and len(steps) > 1 else NOWHERE


def _steps(info: TurnInfo, reach: Place) -> Iterator[TurnSection]:
    steps = info.steps
    yield TurnSection(info.turn, 1, steps[0], None)
    for start in range(1, len(steps), CHUNK_STEPS):
        chunk = steps[start : start + CHUNK_STEPS]
        first = chunk[0][0].position
        last = min(chunk[-1][-1].position, reach[1] if reach[0] == info.turn else -1)
        source = ShortSource(info.turn, first, last, is_whole=False) if last >= first else None
        for number, messages in enumerate(chunk, start + 1):
            is_reached = source is not None and messages[-1].position <= last
            yield TurnSection(info.turn, number, messages, source if is_reached else None)


class ShortSizes:
    """Tokens of short messages: real ones if made, else estimates."""

    def __init__(self, settings: Hybrid, made: Mapping[str, Artefact], sections: Sequence[TurnSection]) -> None:
        self._settings = settings
        self._made = made
        self._found: dict[ShortSource, Artefact | None] = {}
        real, guessed = 0, 0
        for section in sections:
            found = self.found(section.source)
            for message in section.messages if found else ():
                size = found.sizes.get(message.position) if found else None
                if size is not None and message.tokens > WORTH_TOKENS and size < message.tokens:
                    real += size
                    guessed += self._guess(message)
        self._scale = min(MOST_SCALE, max(LEAST_SCALE, real / guessed)) if guessed else 1.0

    def found(self, source: ShortSource | None) -> Artefact | None:
        if source is None:
            return None
        if source not in self._found:
            self._found[source] = self._made.get(source.wanted(self._settings).name)
        return self._found[source]

    def short(self, section: TurnSection, message: MessageSize) -> int | None:
        """Return the tokens of the message if it is short; None if that saves nothing."""
        if section.source is None or message.tokens <= WORTH_TOKENS or speaker_of(message) in ("system", "display"):
            return None
        found = self.found(section.source)
        size = int(self._guess(message) * self._scale) if found is None else found.sizes.get(message.position)
        return size if size is not None and size < message.tokens else None

    def _guess(self, message: MessageSize) -> int:
        return min(_GUESSES.get(speaker_of(message), message.tokens), message.tokens)
