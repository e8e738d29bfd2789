"""Which fidelity of which turn goes in: a strategy spends a budget and makes a plan.

Strategies are pure: they see what each turn costs at each level, never its content, and never touch storage.
Each is one module here (or one that a third party names under the entry point group `foveate.strategies`);
its name is its configured name and its fields are its settings.

    class Toy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
        keeps_story: ClassVar[bool] = True
        documents: ClassVar[tuple[str, ...]] = ("goals",)
        kept_turns: int = 3

        def plan(self, story: Story, budget_tokens: int, overheads: Overheads) -> Plan: ...

What a class may say of itself, besides `plan`:

- `builds = True`: what it wants of a long history takes a while; the gradient shows it until that is made.
- `keeps_story = True`: it is given a `Story`, may want things made and keep a state. Without it, a `History`.
- `documents`: which of the session's documents it shows in the fixed part (`DOCUMENTS`), `changing_documents`: which
  behind the history; `document_limits`: the most tokens of each, by name.
- `history_share`: what the history may take of its room, where that is not all of it. `recalls = False`: turns that
  the prompt brings up are not shown again behind the history, which has their room.
- `reliability(model, state) -> Reliability`: how far a session can be trusted as it is shown, by the state it keeps.
- `make(material) -> Made`: makes what it wants, of kinds that `foveate.strategy.build.MAKERS` does not list.

`foveate.testing.strategies` is the family's conformance suite.
"""

from __future__ import annotations

from types import ModuleType

from foveate.errors import UnknownStrategy
from foveate.plan import Strategy
from foveate.plugins import Registry, renamed

_MOVED = "Band DOCUMENTS Era Frame History MessageSize Overheads Plan Story TurnInfo step_starts"
_OLD_NAMES = {
    **{name: f"foveate.plan:{name}" for name in _MOVED.split()},
    "Item": "foveate.plan:TurnSizes",
    "Made": "foveate.plan:Artefact",
    "Row": "foveate.plan:Block",
    "Shown": "foveate.plan:ShownLevel",
    "Told": "foveate.plan:PlanEvent",
    "Wanted": "foveate.plan:ArtefactSpec",
}


def _strategy_in(module: ModuleType, name: str) -> type[Strategy]:
    """The class that a module here is named after: `oneshot.Oneshot`."""
    found: type[Strategy] = getattr(module, name.title().replace("_", ""))
    return found


REGISTRY: Registry[type[Strategy]] = Registry(
    "foveate.strategies", (__name__,), skipped=("build", "layout", "wording"), member_of=_strategy_in
)


def names() -> tuple[str, ...]:
    """All strategy names, built-in and registered."""
    return REGISTRY.names


def load(name: str) -> type[Strategy]:
    """The strategy of this name, to be made with its settings: `load("gradient")(recent=0.4)`."""
    strategy = REGISTRY.get(name)
    if strategy is None:
        raise UnknownStrategy(name, names())
    return strategy


def __getattr__(name: str) -> object:
    return renamed(__name__, name, _OLD_NAMES)
