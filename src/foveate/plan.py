"""Input and output of a strategy: sizes of turns in, a plan of blocks out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Literal, Protocol

from foveate.plugins import renamed
from foveate.turn import Json, Kind, Role

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Cause = Literal["first", "budget", "made", "full", "interval", "cold"]
"""Why a plan is made again: there is none yet; budget or settings changed; missing renditions are made; the allotment
is full; an interval is over; the provider's cache expired."""


DOCUMENTS = ("goals", "epic", "tasks")
"""Documents of a session that a strategy may show, each in a tag of its name."""


ShownLevel = Literal["R", "S", "C", "T", "E", "U", "M", "A"]
"""A level in a plan. E is an era, which summarises a range of turns. U is the user's words of a turn, verbatim, without
the rest. M is a turn message by message, some of them short. A is an artefact, which represents a range of turns."""


@dataclass(frozen=True, slots=True)
class TurnSizes:
    """A turn, or one step of a turn in progress, and the tokens of its text at each level."""

    turn: int
    step: int
    """0 for a whole turn; 1, 2, … for the steps of a running turn, of which the first is its prompt."""
    raw: int
    smoothed: int | None
    """Tokens of S; None if a level is not made yet."""
    compressed: int | None
    tiny: int | None
    is_kept: bool = False
    """The prompt of a running turn: raw whatever its age, cut if it is too large for the budget."""
    words: bytes = b""
    """The words of the text, packed by `foveate.history.worth`; empty if they are not known."""
    brief: int | None = None
    """Tokens of its brief form, which is shown as C; None if it has none."""
    is_work: bool = False
    """Its messages have code or paths."""
    is_later: bool = False
    """It began on another day than the turn before it, or hours after it: a date is shown before it."""
    is_pruned: bool = False
    """Its content was removed by a prune command."""


@dataclass(frozen=True, slots=True)
class WordWeights:
    """Weights of the words of turns, relative to a word of the user."""

    answers: float = 1.0
    """Of a word that the user did not say."""
    repeated: float = 1.0
    """Of a word that a newer turn has too."""


@dataclass(frozen=True, slots=True)
class SizeTable:
    """Whole turns as arrays, newest first."""

    turns: NDArray[np.int64]
    """Their numbers, without gaps."""
    sizes: NDArray[np.int64]
    """A row per turn with its tokens at R, S, C, T and in brief; -1 if one of these is missing."""
    worths: NDArray[np.float64]
    """The worth of each of these: of its words, rare ones counting more."""
    is_later: NDArray[np.bool_]
    """Whether a date is shown before each (`TurnSizes.is_later`)."""

    def newest(self, count: int) -> SizeTable:
        """Return the newest turns of the table."""
        return SizeTable(self.turns[:count], self.sizes[:count], self.worths[:count], self.is_later[:count])


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
    """The message carries the results of tool calls."""

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
        """Tokens of its U text, without the user's words in a message with results of tool calls."""
        return sum(message.tokens for message in self.messages if message.is_prompt)

    @property
    def steps(self) -> tuple[tuple[MessageSize, ...], ...]:
        """Its steps, divided like items: step 1 is the part before the first answer."""
        starts = step_starts([(message.role, message.kind) for message in self.messages])
        return tuple(self.messages[start:end] for start, end in pairwise([*starts, len(self.messages)]))


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
    """An artefact as made. `sizes` has the tokens of each short message by its position, if there are any."""

    name: str
    kind: str
    first: int
    last: int
    tokens: int = 0
    """Tokens of its text as the content of a block."""
    text: str = ""
    sizes: Mapping[int, int] = field(default_factory=dict)
    data: Mapping[str, Json] = field(default_factory=dict)


State = Mapping[str, Json]
"""The state that a strategy passes from one plan to the next; empty at first."""
AgentStatus = Literal["none", "ready", "running"]
"""Whether a model may decide what is shortened: never, from the trigger on, or it is deciding now."""


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """An event caused by a plan; events are published in order, once the plan's state is stored."""

    kind: str
    data: Mapping[str, Json] = field(default_factory=dict)
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Overheads:
    """Maximum tokens of structure."""

    line: int
    """`Turn 12:` before each turn of a range."""
    tag: int
    """The opening and closing tag of one turn."""
    range: int
    """The opening and closing tag of a range or an era."""
    cut_note: int
    """The note that a text was cut, with its size."""
    date: int = 0
    """A date before a turn; `range` includes the one at its beginning."""

    @property
    def dated(self) -> Overheads:
        """The same if one turn has a date too, as at the levels S, C and T; the others have it on a new day only."""
        return replace(self, tag=self.tag + self.date)


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
    """The level of each turn in a block with different levels; `c` for its brief form, `-` for a turn without a line.
    """
    sizes: tuple[int, ...] = ()
    """With `levels`: the maximum tokens of each turn's line."""
    era_tokens: int = 0
    """With `levels`: the maximum tokens of an era of the turns without a line, in its own tag before the lines; 0 if
    there is none."""

    def spans(self) -> Iterator[Block]:
        """Yield the parts of the block with one level each, without turns that have no line. The first includes the
        tags."""
        if not self.levels:
            yield self
            return
        start, tags = 0, self.tokens - sum(self.sizes)
        for letter, group in groupby(self.levels.replace(BRIEF_LINE, "C")):
            end = start + len(list(group))
            if letter != NO_LINE:
                level: ShownLevel = letter  # type: ignore[assignment]
                first, last, tokens = self.first + start, self.first + end - 1, tags + sum(self.sizes[start:end])
                yield Block(first, last, level, tokens, is_range=self.is_range, era_tokens=self.era_tokens)
                tags = 0
            start = end


@dataclass(frozen=True, slots=True)
class Band:
    """The tokens that a plan spends on one level."""

    level: ShownLevel
    first: int
    last: int
    turns: int
    target_share: float
    """Share of the history's tokens for the level; 0 if the strategy does not plan by shares."""
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
    events: tuple[PlanEvent, ...] = ()
    notes: Mapping[str, Json] = field(default_factory=dict)
    """Information for people, e.g. {"tier": 3, "reliability": 0.385}."""
    cause: Cause | None = None
    """Why a kept plan was made again."""
    reach: tuple[int, int] | None = None
    """The end of a kept plan: the last turn, and the last step of it if it is in progress, else 0. Later turns are
    appended raw. None: the rows show everything, and are planned again for the next context."""
    kept_blocks: int = 0
    """Number of leading rows that are those of `Snapshot.kept`, with the same texts."""
    target_tokens: int | None = None
    """Maximum tokens of the texts of its rows, if that is less than the room. Larger ones are planned again, with less
    room."""
    framed_limit_tokens: int | None = None
    """Maximum tokens of the texts with the framing of messages. Larger ones are planned again, with less room."""
    raw_tokens: int = 0
    """Raw tokens of the whole turns of a kept plan."""
    is_kept: bool = False
    """The plan is the current one, unchanged."""


@dataclass(frozen=True, slots=True)
class LevelChange:
    """Turns whose level differs from that in the plan before."""

    first: int
    last: int
    before: ShownLevel
    after: ShownLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlan:
    """A plan that is kept between contexts, with its written blocks."""

    rows: tuple[Block, ...]
    tokens: tuple[int, ...]
    """Tokens of each block's text."""
    texts: tuple[str | None, ...]
    """Text of each block; None if it is raw, and the log has it."""
    framed_tokens: int
    """Tokens of all blocks, with the framing of messages."""
    last_turn: int
    """The last turn of the plan."""
    last_step: int
    """The last step of that turn in the plan; 0 if the turn was complete."""
    cause: Cause
    bands: tuple[Band, ...]
    made_at: float
    used_at: float
    """Time of the last context that showed it, in seconds like `made_at`."""
    trigger_turn: int = 0
    """The newest turn when it was made."""
    churn: float = 0.0
    """The share of its tokens that were not shown at the same level before, 0 to 1."""
    raw_tokens: int = 0
    changes: tuple[LevelChange, ...] = ()

    @property
    def whole_turns(self) -> int:
        """The last turn that it shows completely."""
        return self.last_turn - bool(self.last_step)


class NotRead(Exception):
    """A snapshot has not read yet what a plan needs; it is read, and the strategy plans again."""

    def __init__(
        self,
        kind: Literal["turns", "sizes", "appended", "raw", "tokens"],
        turn: int,
        step: int = 0,
        *,
        until: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(kind, turn, step)
        self.kind = kind
        self.turn = turn
        self.step = step
        self.until = until
        """Of appended turns: the last turn, and its last step or 0."""


class Sizes(Protocol):
    """Tokens of turns at each level."""

    @property
    def last_turn(self) -> int:
        """The newest turn's number."""

    @property
    def retrieved(self) -> Sequence[int]:
        """Turns that the model retrieved, the latest last."""

    @property
    def overheads(self) -> Overheads:
        """Tokens of tags and labels."""

    @property
    def fanout(self) -> int:
        """Number of turns in an era of level 1, and of eras in an era of the next level."""

    def newest(self) -> Iterator[TurnSizes]:
        """Yield the items, newest first. A turn in progress comes as steps if it is large."""

    def table(self, limit: int, by: WordWeights) -> SizeTable:
        """Return the newest whole turns, at most `limit`, with their worths."""

    def era(self, level: int, index: int) -> Era | None:
        """Return the era of turns `index * fanout**level + 1` to `(index + 1) * fanout**level`; None if not made
        yet."""


class Snapshot(Sizes, Protocol):
    """A session as a strategy sees it: sizes, never content. It does not change while a plan is made.

    Sizes are read only as a plan needs them, so that its cost depends on the budget and not on the length of the
    session: `NotRead` is raised for others, and the strategy plans again. Don't catch it.
    """

    @property
    def is_open(self) -> bool:
        """Whether the newest turn can still grow."""

    @property
    def model(self) -> str | None:
        """The session's model."""

    @property
    def kept(self) -> KeptPlan | None:
        """The plan that the last context showed, if the strategy `keeps_plan`."""

    @property
    def made(self) -> Mapping[str, Artefact]:
        """Artefacts made so far, by name."""

    @property
    def agent(self) -> AgentStatus:
        """The status of the strategy's agent."""

    @property
    def settled_turn(self) -> int:
        """Turns up to this one have their renditions."""

    def infos(self, first: int, last: int) -> Sequence[TurnInfo]:
        """Return the turns from `first` to `last`, oldest first, message by message."""

    def raw_tokens(self, first: int, last: int) -> int:
        """Return the raw tokens of the turns from `first` to `last`."""

    def answered_steps(self, room_tokens: int) -> Sequence[int]:
        """Return the steps of a turn in progress that have all their results, except the newest one.

        Empty if the turn takes only a small part of the room.
        """

    def is_signed(self, turn: int) -> bool:
        """Return whether a turn has thinking that is signed for its request's prefix."""

    def tokens_after(self, turn: int, step: int) -> int:
        """Return the tokens of what follows a turn, and a step of it, as it is appended to a plan: framing included."""

    def until(self, turn: int, step: int) -> Snapshot:
        """Return the snapshot without everything after a turn, and after a step of it (0: the turn was complete)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The budget of one context, in the tokens that turns are counted in, charged part by part."""

    budget_tokens: int
    """The whole budget."""
    asked_tokens: int = 0
    """The budget as requested, in the model's own tokens; 0: the same."""
    fixed_tokens: int = 0
    """Tokens of system prompt, explanation, pins, documents, tools and framing."""
    own_tokens: int = 0
    """Tokens of these that Foveate itself adds: the explanation and the framing of messages."""
    prompt_tokens: int = 0
    board_tokens: int = 0
    """Tokens of the board."""
    board_limit_tokens: int = 0
    """Maximum tokens of the board."""
    memory_tokens: int = 0
    """Tokens of recalled turns."""
    recall_limit_tokens: int = 0
    """Maximum tokens of recalled turns; 0: the strategy has none."""
    history_tokens: int = 0
    """Maximum tokens of the history."""
    needed_tokens: int = 0
    """Tokens of that which memory, and the board beside it, need in this turn. A kept plan within the rest is a second
    one: the other stays for the next turn."""
    is_preview: bool = False
    """Nothing of the context is stored, so it is planned from scratch and filled completely."""
    is_display: bool = False
    """The context is for people to look at; the system prompt and the tools of the caller's contexts are not in it."""
    cache_ttl_seconds: float | None = None
    """Time that a prefix stays in the provider's cache; None: unknown."""
    now: float = 0.0
    """Time in seconds since the epoch."""
    target_tokens: int | None = None
    """Maximum tokens of this attempt, because the texts of the one before were larger than planned."""

    @property
    def limit_tokens(self) -> int:
        """Maximum tokens of the history now."""
        return max(0, self.history_tokens - self.needed_tokens)

    @property
    def room_tokens(self) -> int:
        """Maximum tokens of a plan: the limit, or less after an attempt that was too large."""
        return self.limit_tokens if self.target_tokens is None else max(0, self.target_tokens)

    @property
    def given_tokens(self) -> int:
        """Tokens of the fixed part from the caller: system prompt, pins, documents and tools."""
        return max(0, self.fixed_tokens - self.own_tokens)

    @property
    def free_tokens(self) -> int:
        """Tokens that the other parts leave to the history."""
        charged = self.fixed_tokens + self.prompt_tokens + self.board_tokens + self.memory_tokens
        return self.budget_tokens - charged


def step_starts(speakers: Sequence[tuple[Role, Kind]]) -> list[int]:
    """Return where the steps of a turn begin: at each answer, except one that continues another."""
    starts: list[int] = []
    is_answered = False
    for place, (role, kind) in enumerate(speakers):
        answers = role == "assistant" and kind == "message"
        goes_on = is_answered and speakers[place - 1][0] == "assistant"
        if not place or (answers and not goes_on):
            starts.append(place)
        is_answered = is_answered or answers
    return starts


_OLD_NAMES = {"Frame": "Ledger", "History": "Snapshot", "Story": "Snapshot"}


def __getattr__(name: str) -> object:
    moved = {old: f"{__name__}:{new}" for old, new in _OLD_NAMES.items()}
    return renamed(__name__, name, {"Strategy": "foveate.strategy:Strategy", **moved})
