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


State = Mapping[str, Json]
"""What a strategy keeps from one plan to the next; empty at first."""
AgentStatus = Literal["none", "ready", "running"]
"""Whether a model may decide what is shortened: not now, from the trigger on, or it is deciding."""


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """An event that a plan makes happen; told in order, once the plan's state is kept."""

    kind: str
    data: Mapping[str, Json] = field(default_factory=dict)
    turn: int | None = None


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
    events: tuple[PlanEvent, ...] = ()
    notes: Mapping[str, Json] = field(default_factory=dict)
    """Information for people, e.g. {"tier": 3, "reliability": 0.385}."""
    cause: Cause | None = None
    """Why a plan that is kept was made again."""
    reach: tuple[int, int] | None = None
    """Of a plan that is kept: the last turn, and the last step of it if it is in progress, else 0. What comes after is
    appended raw. None: the rows show everything, and are planned again for the next context."""
    kept_blocks: int = 0
    """Leading rows that are those of `Snapshot.kept`, with the same texts."""
    target_tokens: int | None = None
    """What the texts of its rows may take, where that is less than the room,"""
    framed_limit_tokens: int | None = None
    """and what they may take with the framing of messages. Larger ones are planned again, with less room."""
    raw_tokens: int = 0
    """Of a plan that is kept: what its whole turns take raw."""
    is_kept: bool = False
    """It is the plan in use, and nothing of it changes."""


@dataclass(frozen=True, slots=True)
class LevelChange:
    """Turns that a plan shows at another level than the one before it."""

    first: int
    last: int
    before: ShownLevel
    after: ShownLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlan:
    """A plan that is kept between contexts, as its blocks were written."""

    rows: tuple[Block, ...]
    tokens: tuple[int, ...]
    """Of each block's text."""
    texts: tuple[str | None, ...]
    """Of each block; None where it is raw, and the log has it."""
    framed_tokens: int
    """All of them, with the framing of messages."""
    last_turn: int
    """It reaches up to this turn,"""
    last_step: int
    """and up to this step of it; 0 where the turn was over."""
    cause: Cause
    bands: tuple[Band, ...]
    made_at: float
    used_at: float
    """The last time that a context showed it, in seconds like `made_at`."""
    trigger_turn: int = 0
    """The newest turn when it was made."""
    churn: float = 0.0
    """The share of its tokens that were not shown so before, 0 to 1."""
    raw_tokens: int = 0
    changes: tuple[LevelChange, ...] = ()

    @property
    def whole_turns(self) -> int:
        """The last turn that it shows to its end."""
        return self.last_turn - bool(self.last_step)


@dataclass(frozen=True, slots=True)
class AppendedTurns:
    """What came after a kept plan, as it is appended to it."""

    framed_tokens: int
    calls: int
    """Answers of the model, each of one call."""


class NotRead(Exception):
    """A snapshot has not read yet what a plan asks for; it is read, and the strategy is asked again."""

    def __init__(self, kind: Literal["turns", "sizes", "appended", "raw", "tokens"], turn: int, step: int = 0) -> None:
        super().__init__(kind, turn, step)
        self.kind = kind
        self.turn = turn
        self.step = step


class Sizes(Protocol):
    """What turns cost at each level."""

    @property
    def last_turn(self) -> int:
        """The newest turn's number."""

    @property
    def retrieved(self) -> Sequence[int]:
        """Turns that the model retrieved, the latest last."""

    @property
    def overheads(self) -> Overheads:
        """What tags and labels take."""

    @property
    def fanout(self) -> int:
        """Number of turns in an era of level 1, and of eras in an era of the next level."""

    def newest(self) -> Iterator[TurnSizes]:
        """The items, newest first. A turn in progress comes as steps if it is large."""

    def table(self, limit: int, answer_weight: float) -> SizeTable:
        """The newest whole turns, at most `limit`; words not said by the user are weighted by `answer_weight`."""

    def era(self, level: int, index: int) -> Era | None:
        """The era of turns `index * fanout**level + 1` to `(index + 1) * fanout**level`; None if not made yet."""


class Snapshot(Sizes, Protocol):
    """A session as a strategy sees it: sizes, never content. It does not change while a plan is made.

    Sizes are read as far as a plan asks for them, so that its cost depends on the budget and not on the length of the
    session: `NotRead` is raised for others, and the plan is asked for again. Don't catch it.
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
        """The turns from `first` to `last`, oldest first, message by message."""

    def raw_tokens(self, first: int, last: int) -> int:
        """What the turns from `first` to `last` take raw."""

    def answered_steps(self, room_tokens: int) -> Sequence[int]:
        """The steps of a turn in progress that have all their results, but for the newest one.

        Empty if the turn takes only a small part of the room.
        """

    def is_signed(self, turn: int) -> bool:
        """Whether a turn has thinking that is signed for its request's prefix."""

    def appended(self, turn: int, step: int) -> AppendedTurns:
        """What came after a turn, and after a step of it."""

    def until(self, turn: int, step: int) -> Snapshot:
        """The same without what came after a turn, and after a step of it (0: it was over)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePrices:
    """What tokens cost with a provider's cache, next to one without."""

    read: float = 0.1
    write: float = 1.25
    ttl_seconds: float | None = None
    """How long a prefix stays cached; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The budget of one context, in the tokens that turns are counted in, charged part by part."""

    budget_tokens: int
    """The whole budget,"""
    asked_tokens: int = 0
    """and as it was asked for, in the model's own tokens; 0: the same."""
    fixed_tokens: int = 0
    """System prompt, explanation, pins, documents, tools and framing."""
    own_tokens: int = 0
    """Of these, what Foveate itself adds: the explanation and the framing of messages."""
    prompt_tokens: int = 0
    board_tokens: int = 0
    """What the board takes,"""
    board_limit_tokens: int = 0
    """and may take."""
    memory_tokens: int = 0
    """What recalled turns take,"""
    recall_limit_tokens: int = 0
    """and may take; 0: the strategy has none."""
    history_tokens: int = 0
    """What the history may take at most."""
    needed_tokens: int = 0
    """What board and recall need of that now,"""
    spare_tokens: int = 0
    """and may need later, at most."""
    is_preview: bool = False
    """Nothing is kept of the context, so it is planned from scratch and filled completely."""
    prices: CachePrices = CachePrices()
    now: float = 0.0
    """In seconds since the epoch."""
    target_tokens: int | None = None
    """What this try may take: the texts of the try before it were larger than planned."""

    @property
    def limit_tokens(self) -> int:
        """What the history may take now."""
        return max(0, self.history_tokens - self.needed_tokens)

    @property
    def base_tokens(self) -> int:
        """What the history has whatever board and recall need; a rebuild aims at no more."""
        return max(0, self.history_tokens - max(self.needed_tokens, self.spare_tokens))

    @property
    def room_tokens(self) -> int:
        """What a plan may take: the limit, or less after a try that turned out too large."""
        return self.limit_tokens if self.target_tokens is None else max(0, self.target_tokens)

    @property
    def given_tokens(self) -> int:
        """The fixed part as the caller gave it: system prompt, pins, documents and tools."""
        return max(0, self.fixed_tokens - self.own_tokens)

    @property
    def free_tokens(self) -> int:
        """What the other parts leave to the history."""
        charged = self.fixed_tokens + self.prompt_tokens + self.board_tokens + self.memory_tokens
        return self.budget_tokens - charged


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


_OLD_NAMES = {"Frame": "Ledger", "History": "Snapshot", "Story": "Snapshot"}


def __getattr__(name: str) -> object:
    moved = {old: f"{__name__}:{new}" for old, new in _OLD_NAMES.items()}
    return renamed(__name__, name, {"Strategy": "foveate.strategy:Strategy", **moved})
