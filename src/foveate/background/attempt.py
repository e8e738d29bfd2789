"""One attempt at one turn: a model is asked, its answers are weighed, and every call is counted before it is made."""

from __future__ import annotations

import asyncio
import re
import secrets
from dataclasses import dataclass, field

from foveate.background.asking import Original, Passed, Weighed, weigh, write_request
from foveate.background.pool import Pool
from foveate.compress import Level
from foveate.compress.model import PROMPT_VERSION, Assignment, Group
from foveate.errors import ModelError, ModelHeldBack
from foveate.models.caller import Answered, Caller
from foveate.settings import ModelsSettings
from foveate.store import Store, bodies
from foveate.store.due import LOCAL_MAKER, DueTurn, Refined
from foveate.text import MARK_WORDS

NONCE_BYTES = 8
OPTIONAL: frozenset[Level] = frozenset({"S"})
"""What rules made of these levels is as good as complete; a model's that does not pass is no reason to mark a turn."""

_MARK = re.compile(rf"\[(?:{MARK_WORDS})\b")


@dataclass(frozen=True, slots=True)
class Means:
    """What every attempt uses."""

    store: Store
    pool: Pool
    caller: Caller
    settings: ModelsSettings
    groups: tuple[Group, ...]


@dataclass(slots=True)
class Attempt:
    """A turn before a model."""

    means: Means
    due: DueTurn
    original: Original
    raw_tokens: int
    made: int = 0
    """Calls made so far, in this attempt."""
    refusals: int = 0
    is_garbled: bool = False
    """The last answer could not even be read."""
    maker: str = ""
    _promised: int = 0
    _noted: int = 0
    _asked: set[Level] = field(default_factory=set)
    _passed: dict[Level, Passed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._noted = self.due.calls + self.due.reserved

    @property
    def calls(self) -> int:
        """Spent on the turn, this attempt's included."""
        return self.due.calls + self.made

    @property
    def was_asked(self) -> bool:
        return bool(self._asked)

    @property
    def has_passed(self) -> bool:
        """Every level that must come from a model does."""
        return self._asked - OPTIONAL <= self._passed.keys() and bool(self._passed)

    async def run(self) -> None:
        """Ask what there is to ask; a `ModelError` says why it could not be."""
        if self.means.settings.mode == "separate":
            await self._run_side_by_side()
            return
        for group in self.means.groups:
            source = await self._source(group) if self.means.settings.mode == "chained" else None
            assignment = await self._assign(group, source)
            if assignment:
                await self._weigh(group, assignment, await self._ask(group, assignment))

    def refined(self) -> Refined:
        smoothed, compressed, tiny = (self._passed.get(level) for level in ("S", "C", "T"))
        return Refined(
            maker=self.maker if self.maker != LOCAL_MAKER else f"model {self.maker}",
            version=PROMPT_VERSION,
            calls=self.calls,
            refusals=self.refusals,
            smoothed=bodies.squeeze(smoothed.text) if smoothed else None,
            smoothed_tokens=smoothed.shown_tokens if smoothed else None,
            compressed=bodies.squeeze(compressed.text) if compressed else None,
            compressed_tokens=compressed.shown_tokens if compressed else None,
            tiny=tiny.text if tiny else None,
            tiny_tokens=tiny.shown_tokens if tiny else None,
        )

    async def _run_side_by_side(self) -> None:
        assigned = [(group, await self._assign(group, None)) for group in self.means.groups]
        pairs = [(group, assignment) for group, assignment in assigned if assignment]
        answers = await asyncio.gather(*(self._ask(*pair) for pair in pairs), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        for (group, assignment), answer in zip(pairs, answers, strict=True):
            assert isinstance(answer, Answered)
            await self._weigh(group, assignment, answer)

    async def _assign(self, group: Group, source: str | None) -> Assignment | None:
        nonce = secrets.token_hex(NONCE_BYTES)
        job = (group, self.original, nonce, self.means.settings, source)
        (assignment,) = await self.means.pool.run(write_request, [job])
        if assignment:
            self._asked.update(assignment.levels)
        return assignment

    async def _ask(self, group: Group, assignment: Assignment) -> Answered:
        allowed = await self._allow(group.models[0])
        spent = 0
        try:
            answered = await self.means.caller.ask(
                assignment.ask,
                group.models,
                session_id=self.due.session_id,
                turn=self.due.turn,
                max_calls=allowed,
            )
            spent = answered.calls
        except ModelError as error:
            spent = error.calls
            raise
        finally:
            # One that is cancelled has spent nothing that is known, and the promise stands in the store.
            self._promised -= allowed
            self.made += spent
        assert spent <= allowed, "a caller makes no more calls than it was allowed"
        self.maker = answered.answer.message.model or group.models[0]
        return answered

    async def _allow(self, model: str) -> int:
        """How many calls may be made next, noted in the store before they are."""
        used = self.calls + self._promised
        left = self.means.settings.max_calls_per_turn - used
        allowed = self._noted - used if self._noted > used else -(-left // 2)
        if allowed <= 0:
            raise ModelHeldBack(model, "the turn has no calls left", reason="calls", retry_after_seconds=0.0)
        self._promised += allowed
        if used + allowed > self._noted:
            self._noted = used + allowed
            await self.means.store.derived.due.reserve(self.due, self._noted)
        return allowed

    async def _weigh(self, group: Group, assignment: Assignment, answered: Answered) -> None:
        """Take what passes; what does not is asked for once more, if the answer allows of it."""
        weighed = await self._weighed(assignment, answered)
        if weighed.again:
            await self._weighed(weighed.again, await self._ask(group, weighed.again))

    async def _weighed(self, assignment: Assignment, answered: Answered) -> Weighed:
        job = (assignment, answered.answer, self.original, self._above())
        (weighed,) = await self.means.pool.run(weigh, [job])
        if not weighed.passed:
            await self.means.caller.refuse(answered)
        self._passed.update(weighed.passed)
        self.refusals += weighed.refusals
        self.is_garbled = weighed.is_garbled
        return weighed

    def _above(self) -> dict[Level, int]:
        """For each level the tokens of the next higher one in use."""
        smoothed, compressed = self._passed.get("S"), self._passed.get("C")
        return {
            "S": self.raw_tokens,
            "C": smoothed.tokens if smoothed else self.due.smoothed_tokens,
            "T": compressed.tokens if compressed else self.due.compressed_tokens,
        }

    async def _source(self, group: Group) -> str | None:
        """The level above the first of a group: what a model made of it just now, or what stands in the store."""
        above: Level | None = {"C": "S", "T": "C"}.get(group.levels[0])  # type: ignore[assignment]
        if above is None:
            return None
        passed = self._passed.get(above)
        if passed:
            return _marked(passed.text)
        kept = await self.means.store.derived.renditions(self.due.session_id, self.due.turn, self.due.turn)
        return _marked(str(bodies.expand(kept[0].smoothed if above == "S" else kept[0].compressed))) if kept else None


def _marked(text: str) -> str:
    """The text with a mark at its beginning: where there is none it is the user's."""
    return text if _MARK.match(text) else f"[user] {text}"
