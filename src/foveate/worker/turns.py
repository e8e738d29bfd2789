"""Turns in the model queue: a model is asked for better renditions, and every call is counted before it is made."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from foveate.cache import BoundedCache
from foveate.compress.guard import Shares
from foveate.compress.model import PROMPT_VERSION, Assignment, Group, assign, is_worth_asking, judge
from foveate.context.costs import content_tokens
from foveate.errors import ModelError, ModelFailed, ModelHeldBack, ModelUnavailable, SessionNotFound, contained
from foveate.models import Answer
from foveate.models.accounts import CallReport
from foveate.models.prompts import overridden
from foveate.models.settings import ModelsSettings
from foveate.renditions import TINY_TOKENS, Level, shape_level, without_recalled
from foveate.store import MessageRow, bodies
from foveate.store.codec import restore_message
from foveate.store.rows import LOCAL_MAKER, DueTurn, PostponedTurn, RefinedTurn
from foveate.text import MARK_WORDS, encodable
from foveate.tokens import EncodingName, exact_counter, session_counter
from foveate.turn import Json, Message, turn_id
from foveate.worker.jobs import NONCE_BYTES, Job, QueueContext, Setback

MAX_PROBLEM_CHARS = 300
UNEXPECTED = "it failed unexpectedly; the log of the worker has the details"
OPTIONAL: frozenset[Level] = frozenset({"S"})
"""Levels for which the rules' text counts as complete; a rejected text of a model does not mark the turn."""

_log = logging.getLogger(__name__)
_MARK = re.compile(rf"\[(?:{MARK_WORDS})\b")


@dataclass(slots=True)
class AttemptState:
    """The levels accepted by the guard, in this attempt or an earlier one, and their models."""

    passed: dict[Level, PassedLevel] = field(default_factory=dict)
    maker: str = ""


@dataclass(slots=True)
class Attempt:
    """One attempt at one turn."""

    context: QueueContext
    groups: tuple[Group, ...]
    due: DueTurn
    original: SourceTurnRows
    raw_tokens: int
    made: int = 0
    """Calls made in this attempt."""
    refusals: int = 0
    is_garbled: bool = False
    """True if the last answer could not be parsed."""
    parts: AttemptState = field(default_factory=AttemptState)
    failed: list[tuple[Group, ModelError]] = field(default_factory=list)
    """Groups of levels whose call failed, with the errors."""
    is_announced: bool = False
    _promised: int = 0
    _noted: int = 0
    _asked: set[Level] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._noted = self.due.calls + self.due.reserved
        self._asked.update(self.parts.passed)

    @property
    def calls(self) -> int:
        """Calls spent on the turn, including this attempt."""
        return self.due.calls + self.made

    @property
    def was_asked(self) -> bool:
        return bool(self._asked)

    @property
    def has_passed(self) -> bool:
        """True if every level that must come from a model was accepted."""
        return self._asked - OPTIONAL <= self.parts.passed.keys() and bool(self.parts.passed)

    @property
    def usable(self) -> dict[Level, PassedLevel]:
        """The accepted levels, without a level that would be smaller than the rules' text of the one below it."""
        usable = dict(self.parts.passed)
        if "C" in usable and "T" not in usable and usable["C"].tokens < TINY_TOKENS:
            del usable["C"]
        if "S" in usable and "C" not in usable and usable["S"].tokens < self.due.compressed_tokens:
            del usable["S"]
        return usable

    async def run(self) -> None:
        """Request the levels that are not accepted yet; `failed` holds the calls that failed."""
        missing = [group for group in self.groups if not self.parts.passed.keys() >= set(group.levels)]
        mode = self.context.settings.mode
        if mode == "separate":
            await asyncio.gather(*(self._run(group, None) for group in missing))
            return
        for group in missing:
            if any(mode == "chained" or group.models == other.models for other, _ in self.failed):
                return  # the next group needs this result, or would fail the same way
            await self._run(group, await self._source(group) if mode == "chained" else None)

    def refined(self) -> RefinedTurn:
        smoothed, compressed, tiny = (self.usable.get(level) for level in ("S", "C", "T"))
        return RefinedTurn(
            maker=self.parts.maker if self.parts.maker != LOCAL_MAKER else f"model {self.parts.maker}",
            version=PROMPT_VERSION,
            calls=self.calls,
            refusals=self.refusals,
            is_complete=self.has_passed and not self.failed,
            smoothed=bodies.squeeze(smoothed.text) if smoothed else None,
            smoothed_tokens=smoothed.shown_tokens if smoothed else None,
            compressed=bodies.squeeze(compressed.text) if compressed else None,
            compressed_tokens=compressed.shown_tokens if compressed else None,
            tiny=tiny.text if tiny else None,
            tiny_tokens=tiny.shown_tokens if tiny else None,
        )

    async def _run(self, group: Group, source: str | None) -> None:
        assignment = await self._assign(group, source)
        if not assignment:
            return
        try:
            await self._weigh(group, assignment, await self._ask(group, assignment))
        except ModelError as error:
            self.failed.append((group, error))

    async def _assign(self, group: Group, source: str | None) -> Assignment | None:
        nonce = secrets.token_hex(NONCE_BYTES)
        job = (group, self.original, nonce, self.context.settings, source, await self.context.prompts())
        (assignment,) = await self.context.pool.run(write_request, [job])
        if assignment:
            self._asked.update(assignment.levels)
        return assignment

    async def _ask(self, group: Group, assignment: Assignment) -> CallReport:
        allowed = await self._allow(group.models[0])
        if not self.is_announced:
            self.is_announced = True
            data: dict[str, Json] = {"model": group.models[0]}
            self.context.publish("llm-summarizing", self.due.session_id, turn_id(self.due.turn), data)
        spent = 0
        try:
            answered = await self.context.caller.ask(
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
            # The cost of a cancelled call is unknown, so its reservation stays in the store.
            self._promised -= allowed
            self.made += spent
        assert spent <= allowed, "a caller makes no more calls than allowed"
        self.parts.maker = answered.answer.message.model or group.models[0]
        return answered

    async def _allow(self, model: str) -> int:
        """Reserve calls in the store; return how many may be made next."""
        used = self.calls + self._promised
        left = self.context.settings.max_calls_per_turn - used
        allowed = self._noted - used if self._noted > used else -(-left // 2)
        if allowed <= 0:
            raise ModelHeldBack(model, "the turn has no calls left", reason="calls", retry_after_seconds=0.0)
        self._promised += allowed
        if used + allowed > self._noted:
            self._noted = used + allowed
            if not await self.context.store.derived.due.reserve(self.due, self._noted):
                problem = "another worker has claimed the turn"
                raise ModelHeldBack(model, problem, reason="calls", retry_after_seconds=0.0)
        return allowed

    async def _weigh(self, group: Group, assignment: Assignment, answered: CallReport) -> None:
        """Keep the accepted levels; request the rest once more, if the answer was readable."""
        weighed = await self._weighed(assignment, answered)
        if weighed.again:
            await self._weighed(weighed.again, await self._ask(group, weighed.again))

    async def _weighed(self, assignment: Assignment, answered: CallReport) -> AnswerVerdict:
        compress = self.context.compress
        least = Shares(compress.compressed_facts, compress.tiny_facts)
        job = (assignment, answered.answer, self.original, self._above(), least, await self.context.prompts())
        (weighed,) = await self.context.pool.run(weigh, [job])
        if not weighed.passed:
            await self.context.caller.mark_unfit(answered)
        self.parts.passed.update(weighed.passed)
        self.refusals += weighed.refusals
        self.is_garbled = weighed.is_garbled
        return weighed

    def _above(self) -> dict[Level, int]:
        """Return, for each level, the tokens of the next higher one in use."""
        smoothed, compressed = self.parts.passed.get("S"), self.parts.passed.get("C")
        return {
            "S": self.raw_tokens,
            "C": smoothed.tokens if smoothed else self.due.smoothed_tokens,
            "T": compressed.tokens if compressed else self.due.compressed_tokens,
        }

    async def _source(self, group: Group) -> str | None:
        """Return the text of the level above a group's first: the model's new one, or the stored one."""
        above: Level | None = {"C": "S", "T": "C"}.get(group.levels[0])  # type: ignore[assignment]
        if above is None:
            return None
        passed = self.parts.passed.get(above)
        if passed:
            return _marked(passed.text)
        kept = await self.context.store.derived.renditions(self.due.session_id, self.due.turn, self.due.turn)
        return _marked(str(bodies.expand(kept[0].smoothed if above == "S" else kept[0].compressed))) if kept else None


def _marked(text: str) -> str:
    """Return the text with a mark at its beginning; the default is the user's."""
    return text if _MARK.match(text) else f"[user] {text}"


Parts = BoundedCache[int, AttemptState]
"""Accepted levels of turns that wait for the rest, by rendition. After a restart they are requested again."""


class TurnJob(Job):
    """A claimed turn; its lease ends with the outcome."""

    def __init__(self, context: QueueContext, groups: tuple[Group, ...], due: DueTurn, parts: Parts) -> None:
        super().__init__(context, due.session_id, turn_id(due.turn), groups[0].models[0], due.calls)
        self._groups = groups
        self._turn = due
        self._parts = parts
        self._attempt: Attempt | None = None

    async def run(self) -> Setback | None:
        due, store = self._turn, self.context.store
        session = await store.get_session(due.session_id)
        rows = await store.read(due.session_id, due.turn, due.turn)
        if len(rows) != due.messages or any(row.body is None for row in rows):
            await self.give_back()  # pruned in the meantime
            return None
        tiny_tokens = session_counter(session.model, session.encoding).base_within(TINY_TOKENS)
        original = SourceTurnRows(due.turn, rows, session.encoding, tiny_tokens)
        before = self._parts.pop(due.rendition) or AttemptState()
        tokens = sum(row.tokens for row in rows)
        attempt = self._attempt = Attempt(self.context, self._groups, due, original, tokens, parts=before)
        try:
            await attempt.run()
        finally:
            self.calls = attempt.calls
        if not attempt.was_asked:
            await self.give_back()
            return None
        if attempt.failed:
            error = min((error for _, error in attempt.failed), key=_finality)
            # If something was accepted, another model works, and its part is kept.
            return Setback(error.problem, error, isinstance(error, ModelUnavailable) and bool(attempt.parts.passed))
        if attempt.has_passed:
            self.was_answered = True
            await self._keep(attempt)
            return None
        # At temperature 0 a retry returns the same answer, and a long turn is expensive.
        if attempt.is_garbled:
            return Setback("its answer could not be read")
        return Setback("its answers did not pass the guard", is_final=True)

    async def give_back(self, due_us: int | None = None) -> None:
        """Release the turn without any call."""
        await self._due.postpone(self._turn, PostponedTurn(due_us=due_us, calls=self._turn.calls))

    async def hold(self, until_us: int) -> None:
        """Postpone all turns of the session until a time."""
        self._remember()
        await self._due.postpone(self._turn, PostponedTurn(due_us=until_us, calls=self.calls))
        with suppress(SessionNotFound):
            await self._due.hold(self.session_id, until_us)

    async def put_off(self, problem: str, due_us: int | None) -> None:
        """Keep the rules' rendition, marked; store the accepted levels if there is no further attempt."""
        attempt = self._attempt
        if due_us is None and attempt and attempt.usable:
            await self._keep(attempt)
        else:
            self._remember()
            refusals = attempt.refusals if attempt else 0
            parked = problem[:MAX_PROBLEM_CHARS] if due_us is None and (not attempt or attempt.failed) else ""
            noted = PostponedTurn(due_us=due_us, calls=self.calls, refusals=refusals, is_marked=True, parked=parked)
            await self._due.postpone(self._turn, noted)
        data: dict[str, Json] = {
            "model": (attempt.parts.maker if attempt else "") or self.model,
            "problem": problem[:MAX_PROBLEM_CHARS],
            "calls": self.calls,
            "is_given_up": due_us is None,
        }
        self.context.publish("compression-failed", self.session_id, self.about, data)

    async def abandon(self) -> None:
        noted = PostponedTurn(due_us=None, calls=self.calls, is_marked=True, parked=UNEXPECTED)
        await self._due.postpone(self._turn, noted)

    async def _keep(self, attempt: Attempt) -> None:
        made = attempt.refined()
        if await self._due.refine(self._turn, made):
            data: dict[str, Json] = {"maker": made.maker, "calls": attempt.calls}
            self.context.publish("compressed", self.session_id, self.about, data)

    def _remember(self) -> None:
        if self._attempt and self._attempt.parts.passed:
            self._parts[self._turn.rendition] = self._attempt.parts


def _finality(error: ModelError) -> int:
    """Rank an error, lower is better: a call held back needs only time, a failed one may succeed later."""
    if isinstance(error, ModelHeldBack):
        return 2 if error.reason == "calls" else 0
    return 1 if isinstance(error, ModelFailed) else 3


@dataclass(frozen=True, slots=True)
class SourceTurnRows:
    """The rows of a raw turn."""

    turn: int
    rows: Sequence[MessageRow]
    encoding: EncodingName
    tiny_tokens: int = TINY_TOKENS
    """Maximum base tokens of T: those that are `TINY_TOKENS` of the session's model."""

    def messages(self) -> list[Message]:
        return without_recalled([restore_message(row) for row in self.rows])


@dataclass(frozen=True, slots=True)
class PassedLevel:
    """A level accepted by the guard."""

    text: str
    tokens: int
    """Tokens of the text alone, the upper limit of the level below."""
    shown_tokens: int
    """Tokens as counted by `content_tokens`."""


@dataclass(frozen=True, slots=True)
class AnswerVerdict:
    """The accepted levels of an answer, and the rejections."""

    passed: Mapping[Level, PassedLevel]
    refusals: int
    is_garbled: bool
    """True if it was unreadable, so that a retry may help. A readable answer that was rejected would be repeated."""
    again: Assignment | None = None


def write_request(  # noqa: PLR0917 - a job of the pool
    group: Group,
    original: SourceTurnRows,
    nonce: str,
    settings: ModelsSettings,
    source: str | None,
    prompts: Mapping[str, str] | None = None,
) -> Assignment | None:
    """Write the request for one turn; None if it is not worth asking. `prompts` override the built-in ones."""
    messages = original.messages()
    count = exact_counter(original.encoding).base
    if not is_worth_asking(messages, count, group.levels):
        return None
    if source is not None and count(source) > settings.max_source_tokens:
        source = None  # the original can be shortened part by part
    with overridden(prompts):
        assignment = assign(
            group,
            original.turn,
            messages,
            count,
            nonce=nonce,
            settings=settings,
            source=source,
            tiny_tokens=original.tiny_tokens,
        )
    return assignment if assignment.levels else None


def weigh(  # noqa: PLR0917 - a job of the pool
    assignment: Assignment,
    answer: Answer,
    original: SourceTurnRows,
    above: Mapping[Level, int],
    least: Shares,
    prompts: Mapping[str, str] | None = None,
) -> AnswerVerdict:
    """Judge an answer and return its accepted levels. One that can't be judged has none and is not repeated."""
    counter = exact_counter(original.encoding)
    with contained(_log, "an answer of %s could not be judged", answer.message.model) as outcome, overridden(prompts):
        judged = judge(assignment, answer, original.messages(), counter.base, above=above, shares=least)
    if outcome.error:
        return AnswerVerdict({}, len(assignment.levels), is_garbled=True)
    passed: dict[Level, PassedLevel] = {}
    for level, answer_text in judged.texts.items():
        text = shape_level(level, encodable(answer_text))
        passed[level] = PassedLevel(text, counter.base(text), content_tokens(text, level, counter))
    is_garbled = not passed and not any(refusal.text for refusal in judged.refusals)
    return AnswerVerdict(passed, len(judged.refusals), is_garbled, judged.again)
