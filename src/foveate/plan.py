"""What a strategy sees and returns: sizes of turns in, a plan of blocks out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal, Protocol

from foveate.plugins import renamed
from foveate.turn import Json, Kind, Role

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Cause = Literal["first", "budget", "made", "full", "interval", "cold"]
"""There is no plan yet; budget or settings changed; renditions are made that it had to do without; the allotment is
full; it is time; the provider's cache expired."""


DOCUMENTS = ("goals", "epic", "tasks")
"""What a session may be given besides its turns, and a strategy may show, each in a tag of its name."""


ShownLevel = Literal["R", "S", "C", "T", "E", "U", "M", "A"]
"""A level in a plan. E is an era, which sums up a range of turns. U is the user's words of a turn, verbatim, without
the rest. M is a turn message by message, some of them short. A is an artefact, which speaks for a range of turns."""


@dataclass(frozen=True, slots=True)
class TurnSizes:
    """A turn, or one step of a turn in progress, and what its text costs at each level."""

    turn: int
    step: int
    """0 for a whole turn; 1, 2, … for the steps of a running turn, of which the first is its prompt."""
    raw: int
    smoothed: int | None
    """None where a level is not made yet."""
    compressed: int | None
    tiny: int | None
    is_kept: bool = False
    """The prompt of a running turn: raw whatever its age, cut if it is too large for the budget."""
    words: bytes = b""
    """The words that it says, as `foveate.history.worth` packs them; empty where they are not known."""
    brief: int | None = None
    """Its brief form, which is shown as C; None where it has none."""


@dataclass(frozen=True, slots=True)
class SizeTable:
    """Whole turns as arrays, newest first."""

    turns: NDArray[np.int64]
    """Their numbers, without gaps."""
    sizes: NDArray[np.int64]
    """A row per turn with its tokens at R, S, C, T and in brief; -1 where one of these is missing."""
    worths: NDArray[np.float64]
    """What each of these tells: its words, rare ones counting more."""


@dataclass(frozen=True, slots=True)
class Era:
    """A summary of the turns `first` to `last`, which can be shown at any size up to `tokens`."""

    level: int
    index: int
    first: int
    last: int
    tokens: int


@dataclass(frozen=True, slots=True)
class MessageSize:
    """A message without its content."""

    position: int
    """Its place in the turn, from 0."""
    role: Role
    kind: Kind
    tokens: int
    is_result: bool = False
    """It carries the results of tool calls."""

    @property
    def is_prompt(self) -> bool:
        """The user's own words."""
        return self.role == "user" and self.kind == "message" and not self.is_result


@dataclass(frozen=True, slots=True)
class TurnInfo:
    """A turn, message by message, without its content."""

    turn: int
    messages: tuple[MessageSize, ...]
    started_us: int
    ended_us: int
    is_open: bool = False

    @property
    def tokens(self) -> int:
        return sum(message.tokens for message in self.messages)

    @property
    def user_tokens(self) -> int:
        """What its U text takes; what the user said in one message with results of tool calls is not counted."""
        return sum(message.tokens for message in self.messages if message.is_prompt)

    @property
    def steps(self) -> tuple[tuple[MessageSize, ...], ...]:
        """Its steps as items have them: step 1 is the part before the first answer."""
        starts = step_starts([(message.role, message.kind) for message in self.messages])
        return tuple(
            self.messages[start:end] for start, end in zip(starts, [*starts[1:], len(self.messages)], strict=True)
        )


@dataclass(frozen=True, slots=True)
class ArtefactSpec:
    """A request for an artefact made from turns: a checkpoint, a topic's summary, short forms of messages.

    An artefact is made once per name, so the name must contain everything its text depends on.
    """

    name: str
    kind: str
    first: int
    last: int
    tokens: int = 0
    """Limit of its text; 0 if it is not shown as one text."""
    data: Mapping[str, Json] = field(default_factory=dict)
    """Additional input of its maker."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """What was made. `sizes` has the tokens of each short message by its position, where there are such."""

    name: str
    kind: str
    first: int
    last: int
    tokens: int = 0
    """Of its text, as content of a block."""
    text: str = ""
    sizes: Mapping[int, int] = field(default_factory=dict)
    data: Mapping[str, Json] = field(default_factory=dict)


AgentStatus = Literal["none", "ready", "running"]
"""Whether a model may decide what is shortened: not now, from the trigger on, or it is deciding."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The parts around the history, in the same tokens as the history."""

    nominal_tokens: int
    """The whole budget."""
    fixed_tokens: int = 0
    """System prompt, explanation, pins, documents, tools and framing."""
    prompt_tokens: int = 0
    is_one_off: bool = False
    """Nothing is kept of a plan made for it."""
    model: str | None = None
    asked_tokens: int = 0
    """The whole budget as it was asked for, in the model's own tokens; 0: as `nominal_tokens`."""
    own_tokens: int = 0
    """What Foveate itself adds to the fixed part: the explanation and the framing of messages."""
    agent: AgentStatus = "none"
    """The status of the strategy's agent."""
    retrieved: Sequence[int] = ()
    """Single turns that the model retrieved, the latest last."""

    @property
    def given_tokens(self) -> int:
        """The fixed part as the caller gave it: system prompt, pins, documents and tools."""
        return max(0, self.fixed_tokens - self.own_tokens)


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """An event that a plan makes happen; told in order, once the plan's state is kept."""

    kind: str
    data: Mapping[str, Json] = field(default_factory=dict)
    turn: int | None = None


class History(Protocol):
    """A strategy's view of a conversation, read lazily, so that the cost depends on the budget and not on the
    length."""

    @property
    def last_turn(self) -> int:
        """The newest turn's number."""
        ...

    def newest(self) -> Iterator[TurnSizes]:
        """The items, newest first. A turn in progress comes as steps."""
        ...

    def table(self, limit: int, answer_weight: float) -> SizeTable:
        """The newest whole turns, at most `limit`; words that the user did not say count `answer_weight`."""
        ...

    @property
    def shown(self) -> Mapping[int, ShownLevel]:
        """The levels that turns are shown at now, where a plan is to change few of them; else empty."""
        ...

    @property
    def retrieved(self) -> Sequence[int]:
        """Turns that the model retrieved."""
        ...

    @property
    def fanout(self) -> int:
        """Number of turns in an era of level 1, and of eras in an era of the next level."""
        ...

    def era(self, level: int, index: int) -> Era | None:
        """The era of turns `index * fanout**level + 1` to `(index + 1) * fanout**level`; None if not made yet."""
        ...


class Story(History, Protocol):
    """The view of a strategy that keeps a state or requests artefacts."""

    @property
    def frame(self) -> Frame:
        """The budget and what surrounds the history."""
        ...

    @property
    def state(self) -> Mapping[str, Json]:
        """The state that the last plan saved; empty at first."""
        ...

    @property
    def made(self) -> Mapping[str, Artefact]:
        """Artefacts made so far, by name."""
        ...

    @property
    def first_read(self) -> int:
        """The oldest turn that `infos` returns. For older ones return a plan with `reads_from`."""
        ...

    def infos(self, first: int, last: int) -> Sequence[TurnInfo]:
        """The turns from `first` to `last`, oldest first; turns before `first_read` are left out."""
        ...


@dataclass(frozen=True, slots=True)
class Overheads:
    """What structure costs at most, in tokens."""

    line: int
    """`Turn 12:` before each turn of a range."""
    tag: int
    """The opening and closing tag of one turn."""
    range: int
    """The opening and closing tag of a range or an era."""
    cut_note: int
    """What says that a text was cut, and how large it was."""


BRIEF_LINE = "c"
"""In `Block.levels`: the turn's brief form, which counts as C."""
NO_LINE = "-"
"""In `Block.levels`: the turn is in the block's range and can be retrieved, but has no line."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a context: a turn, a range of turns at one level, some steps, or an era."""

    first: int
    last: int
    level: ShownLevel
    tokens: int
    """Maximum tokens, including tags."""
    first_step: int = 0
    last_step: int = 0
    """Set if the block shows steps of one turn (`first` equals `last` then)."""
    is_cut: bool = False
    """The text of one turn or step is cut to fit `tokens`, with a note."""
    is_range: bool = False
    """Its turns are lines of one block instead of separate tags."""
    era_level: int = 0
    artefact: str = ""
    """Name of the artefact with its text (A) or its short messages (M)."""
    short: tuple[int, ...] = ()
    """Of an M block: positions in the turn of the shortened messages."""
    levels: str = ""
    """Of a block with turns at different levels: each turn's level; `c` for its brief form, `-` for one without a line.
    """
    sizes: tuple[int, ...] = ()
    """With `levels`: the maximum tokens of each turn's line."""

    def spans(self) -> Iterator[Block]:
        """The parts of the block with one level each; turns without a line are left out. The first has the tags."""
        if not self.levels:
            yield self
            return
        start, tags = 0, self.tokens - sum(self.sizes)
        for letter, group in groupby(self.levels.replace(BRIEF_LINE, "C")):
            end = start + len(list(group))
            if letter != NO_LINE:
                level: ShownLevel = letter  # type: ignore[assignment]
                first, last, tokens = self.first + start, self.first + end - 1, tags + sum(self.sizes[start:end])
                yield replace(self, first=first, last=last, level=level, tokens=tokens, levels="", sizes=())
                tags = 0
            start = end


@dataclass(frozen=True, slots=True)
class Band:
    """What a plan spends on one level."""

    level: ShownLevel
    first: int
    last: int
    turns: int
    target_share: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The blocks of a context's history, oldest first, and their maximum tokens."""

    rows: tuple[Block, ...]
    bands: tuple[Band, ...]
    tokens: int
    budget_tokens: int
    wants: tuple[ArtefactSpec, ...] = ()
    """Artefacts that the plan shows. Missing ones are made, and the strategy plans again."""
    state: Mapping[str, Json] | None = None
    """State to save for the next plan; None: unchanged."""
    events: tuple[PlanEvent, ...] = ()
    notes: Mapping[str, Json] = field(default_factory=dict)
    """Information for people, e.g. {"tier": 3, "reliability": 0.385}."""
    reads_from: int | None = None
    """The oldest turn whose `infos` it needs. If that is before `Story.first_read`, the turns are read and the strategy
    plans again; the rest of this plan is ignored."""

    def missing_from(self, story: Story) -> int | None:
        """The oldest turn that it needs and that is not read yet; None if nothing is missing."""
        first = story.first_read if self.reads_from is None else max(1, self.reads_from)
        return first if first < story.first_read else None


def request_turns(story: Story, first: int, budget_tokens: int) -> Plan | None:
    """A plan that requests the turns from `first` on; None if they are read already.

    A strategy calls it before `story.infos`: `if older := request_turns(story, first, budget_tokens): return older`.
    """
    plan = Plan((), (), 0, budget_tokens, reads_from=first)
    return None if plan.missing_from(story) is None else plan


def step_starts(speakers: Sequence[tuple[Role, Kind]]) -> list[int]:
    """Where the steps of a turn begin: at each answer, but for one that goes on where another ended."""
    starts: list[int] = []
    is_answered = False
    for place, (role, kind) in enumerate(speakers):
        answers = role == "assistant" and kind == "message"
        goes_on = is_answered and speakers[place - 1][0] == "assistant"
        if not place or (answers and not goes_on):
            starts.append(place)
        is_answered = is_answered or answers
    return starts


def __getattr__(name: str) -> object:
    return renamed(__name__, name, {"Strategy": "foveate.strategy:Strategy"})
