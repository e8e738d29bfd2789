"""Strategies: each spends a budget and returns a plan, with a level for each turn.

Strategies are pure: they see what each turn costs at each level, never its content, and never touch storage.
Each is a folder or a file here, or a class that a third party names under the entry point group `foveate.strategies`.
Its name is its configured name, its fields are its settings, and everything else that it may declare is an attribute
of `Strategy` with a default:

    class Toy(Struct, Strategy, frozen=True, kw_only=True, forbid_unknown_fields=True):
        documents: ClassVar[tuple[Section, ...]] = ("goals",)

        kept_turns: int = 3

        def plan(self, snapshot: Snapshot, state: State, ledger: Ledger) -> tuple[Plan, State]: ...

`foveate.testing.strategies` is the family's conformance suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from foveate.context.tags import Section
from foveate.errors import UnknownStrategy
from foveate.models.prompts import prompt_text
from foveate.plan import Artefact, Ledger, Plan, Snapshot, State
from foveate.plugins import Registry, renamed
from foveate.strategy.build import ArtefactKind, Material

if TYPE_CHECKING:
    from foveate.strategy.checkpoint.reliability import Reliability
    from foveate.turn import Json

_MOVED = "Band DOCUMENTS Era MessageSize Overheads Plan TurnInfo step_starts"
_OLD_NAMES = {
    **{name: f"foveate.plan:{name}" for name in _MOVED.split()},
    "Item": "foveate.plan:TurnSizes",
    "Made": "foveate.plan:Artefact",
    "Row": "foveate.plan:Block",
    "Shown": "foveate.plan:ShownLevel",
    "Told": "foveate.plan:PlanEvent",
    "Wanted": "foveate.plan:ArtefactSpec",
}


class Strategy:
    """The base of every strategy: its declarations, with defaults."""

    __slots__ = ()

    keeps_plan: ClassVar[bool] = False
    """Keep the plan between contexts: blocks are repeated byte for byte and new turns are appended raw, until `plan`
    returns another plan. Otherwise every context is planned, from the state that the last plan returned."""
    builds: ClassVar[bool] = False
    """Show the gradient until the artefacts of a long history are made, because that takes a while."""
    documents: ClassVar[tuple[Section, ...]] = ("goals",)
    """Documents of the session that are shown in the fixed part."""
    changing_documents: ClassVar[tuple[Section, ...]] = ()
    """Documents of the session that are shown after the history."""
    recalls: ClassVar[bool] = True
    """Show turns that match the prompt again, after the history. Otherwise the history gets their room."""
    holds_back: ClassVar[bool] = True
    """Reserve the shares of the board and of recall: a history whose plan is kept releases them at a rebuild, any other
    leaves them free. Otherwise they get only what the history leaves."""
    recalls_first: ClassVar[bool] = False
    """In a preview, give recall its room first, because the history fits any room. Otherwise recall gets what is
    left."""
    artefacts: ClassVar[Mapping[str, ArtefactKind]] = {}
    """Kinds of artefacts that it requests, each with how it is made and how a model may word it."""
    agent: ClassVar[str] = ""
    """The place, `package.module:name`, of an agent that may run in the background when a plan has the note
    `agent: due`; see `foveate.session.agent`. Empty: none."""
    events: ClassVar[tuple[str, ...]] = ()
    """The kinds of events of its plans (`Plan.events`) that are not in `foveate.events.EVENT_KINDS`."""

    @property
    def gives_back(self) -> bool:
        """Whether the history may use what board and recall leave, and releases it at a rebuild."""
        return self.holds_back and self.keeps_plan

    @property
    def document_limits(self) -> Mapping[str, int]:
        """Maximum tokens of each document, by name."""
        return {}

    @property
    def history_share(self) -> float:
        """Maximum share of the room for the history."""
        return 1.0

    @property
    def explanation(self) -> str:
        """The explanation of tags and levels for the model; ends in a newline."""
        return prompt_text("explain/gradient")

    def plan(self, snapshot: Snapshot, state: State, ledger: Ledger) -> tuple[Plan, State]:
        """Return a plan that fits `ledger.room_tokens`, and the state for the next one. Pure.

        Blocks are oldest first; turns without a block can be retrieved by their id. If the texts turn out larger than
        planned, or artefacts were missing, it is called again with less room, or with the artefacts.
        """
        raise NotImplementedError

    def make(self, material: Material) -> Artefact:
        """Make an artefact that a plan requested; local, quick and pure. By default by the maker of its kind in
        `artefacts`."""
        return self.artefacts[material.wanted.kind].load_maker()(material)

    def reliability(self, model: str | None, state: Mapping[str, Json]) -> Reliability | None:  # noqa: ARG002
        """Return the reliability score of a session, from its saved state; None: no score."""
        return None


def _strategy_in(module: ModuleType, name: str) -> type[Strategy]:
    """Return the class that a module of this package is named after: `oneshot.Oneshot`."""
    found: type[Strategy] = getattr(module, name.title().replace("_", ""))
    return found


REGISTRY: Registry[type[Strategy]] = Registry(
    "foveate.strategies", (__name__,), skipped=("build", "clause_summary", "layout"), member_of=_strategy_in
)


StrategyName: TypeAlias = Literal["checkpoint", "gradient", "hybrid", "oneshot", "standard", "topics"] | str
"""A built-in strategy, or the name that a plug-in registered."""


def names() -> tuple[str, ...]:
    """Return all strategy names, built-in and registered."""
    return REGISTRY.names


@cache
def load(name: str) -> type[Strategy]:
    """Return the strategy class of this name: `load("gradient")(recent=0.4)` makes one with its settings."""
    found: type[object] | None = REGISTRY.get(name)
    if found is None:
        raise UnknownStrategy(name, names())
    # A class that has only a `plan` gets the defaults of everything else.
    return found if issubclass(found, Strategy) else type(found.__name__, (found, Strategy), {})


def extra_event_kinds() -> frozenset[str]:
    """Return the kinds of events that registered strategies declare."""
    return frozenset(kind for name in REGISTRY.registered for kind in load(name).events)


def __getattr__(name: str) -> object:
    return renamed(__name__, name, _OLD_NAMES)
