"""The steps of a run that call a model, each with a stored result and its cost.

    plan = await plan_model(fov, gathered, known, topics)         None without a model
    for step in plan.steps():
        results[step.name] = await step.run(results)              stored by the run; a stored one is not repeated
    found = replace_items(found, read_steps(results).items)

A step does not raise a `ModelError`: `Proposed.problem` is the reason why turns were not read.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate

import msgspec

from foveate.client import Foveate
from foveate.compress.model.request import OTHER_TOKENIZERS
from foveate.errors import ModelError, ModelFailed, ModelHeldBack, ModelUnavailable
from foveate.knowledge.gather import Chunk, Gathered, chunks
from foveate.knowledge.model import (
    KNOWN_TOKENS,
    SCHEMA,
    SHAPE_TOKENS,
    LearnAssignment,
    Origin,
    Proposed,
    TopicsOfTurns,
    assign,
    judge,
    prompt_version,
    topics_of,
)
from foveate.knowledge.settings import KnowledgeSettings
from foveate.knowledge.topic_labels import TOKENS_PER_LABEL, judge_labels, keep_labels, topic_requests
from foveate.models import Answer, Ask
from foveate.models.accounts import CallReport
from foveate.models.batches import PRICE_SHARE, BatchTicket
from foveate.models.caller import Caller
from foveate.models.names import window_of
from foveate.models.prices import tariff_for
from foveate.models.prompts import load_overrides, overridden, prompt_text
from foveate.models.settings import ModelsSettings
from foveate.recall.scopes import Scope
from foveate.store.knowledge import CHUNK_STEP, KnowledgeRow, KnowledgeSource, NewKnowledge, TurnTopicRow
from foveate.store.rows import NANO
from foveate.text import compact_json
from foveate.tokens import count_tokens

STEP_PREFIX = "model-"
TOPICS_STEP = f"{STEP_PREFIX}topics"
BATCH_STEP = "batch"
FIRST_POLL_SECONDS, MAX_POLL_SECONDS, POLL_GROWTH = 15.0, 300.0, 1.5
"""Intervals between polls of a batch."""
MAX_BATCH_SECONDS = 2 * 86_400.0
TOPIC_TOKENS = 250
"""Approximate size of a request per topic to name."""
OUTPUT_SHARE = 0.25
"""Share of a small window that is reserved for the answer."""
LEAST_CHUNK_TOKENS = 256
TYPICAL_OUTPUT_SHARE = 0.25
"""Typical share of the maximum answer size, for estimates."""

Results = Mapping[str, bytes]
"""Results of steps by name."""


@dataclass(frozen=True, slots=True)
class ModelStep:
    """A step of a run. Its result is a `Proposed` for `read_steps`."""

    name: str
    kept_as: str
    """The name of its result: for a chunk a hash of its input, so that other chunks may change."""
    run: Callable[[Results], Awaitable[bytes]]
    """Runs the step with the results stored so far."""
    input_tokens: int
    most_nano_usd: int
    """Maximum cost of the step if its first answer is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEstimate:
    """Estimated usage of a model."""

    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    """Maximum size of all answers."""
    usd: float
    """Estimated for answers of typical size."""
    most_usd: float
    is_price_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """A submitted batch; or, with the fields of a `Proposed`, why it was not submitted."""

    nonces: tuple[str, ...] = ()
    turns: tuple[int, ...] = ()
    """The number of turns of each chunk."""
    ticket: BatchTicket | None = None
    problem: str = ""
    is_capped: bool = False


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """Sizes of a request."""

    chunk_tokens: int
    output_tokens: int


def learn_models(settings: KnowledgeSettings, models: ModelsSettings) -> tuple[str, ...]:
    """Return the model to call, then its fallbacks; empty if none is configured."""
    first = settings.model or models.default
    return tuple(dict.fromkeys((first, *models.fallbacks))) if first else ()


async def learn_version(fov: Foveate) -> str:
    """Return the version of the model and its prompts, on which a run depends besides its input; empty without a
    model."""
    models = learn_models(fov.settings.knowledge, fov.settings.models)
    if not models:
        return ""
    with overridden(await load_overrides(fov.store)):
        return f"{prompt_version()}:{models[0]}"


async def plan_model(
    fov: Foveate,
    gathered: Gathered,
    known: Sequence[KnowledgeRow],
    topics: Sequence[NewKnowledge] = (),
    turn_topics: Sequence[tuple[str, TurnTopicRow]] = (),
) -> ModelPlan | None:
    """Plan the requests for the turns of a scope; None if no model is configured, or there is nothing to read."""
    settings = fov.settings.knowledge
    models = learn_models(settings, fov.settings.models)
    if not models or not gathered.turns:
        return None
    overrides = await load_overrides(fov.store)
    with overridden(overrides):
        fixed = (prompt_text("knowledge/learn"), prompt_text("knowledge/request"), compact_json(SCHEMA))
        overhead = sum(map(count_tokens, fixed))
        room = await asyncio.to_thread(room_of, models[0], settings, fov.settings.models, overhead)
        parts = await asyncio.to_thread(_chunks, gathered, room, settings)
        tariff = await asyncio.to_thread(tariff_for, models[0], fov.settings.models)
    is_batch = settings.batch and await fov.caller.batches.is_available(models[0])
    if is_batch:
        tariff = replace(tariff, share=PRICE_SHARE)
    by_turn: dict[KnowledgeSource, list[tuple[str, float]]] = {}
    for session_id, row in turn_topics:
        by_turn.setdefault(KnowledgeSource(session_id, row.turn), []).append((row.topic, row.weight))
    return ModelPlan(
        caller=fov.caller,
        models=models,
        overrides=overrides,
        settings=settings,
        room=room,
        chunks=parts,
        overhead_tokens=overhead,
        gathered=gathered,
        known=tuple(known),
        topics=tuple(topics),
        scope=gathered.scope,
        topics_of_turns=by_turn,
        most_nano_usd=tariff.most_nano_usd,
        is_price_known=not tariff.is_estimate,
        is_batch=is_batch,
    )


def room_of(model: str, settings: KnowledgeSettings, models: ModelsSettings, overhead_tokens: int) -> ChunkSizes:
    """Return the maximum size of a request and of its answer. An unknown window counts as large enough."""
    window = window_of(model, models)
    if window is None:
        return ChunkSizes(settings.chunk_tokens, settings.max_output_tokens)
    output = min(settings.max_output_tokens, int(window * OUTPUT_SHARE))
    left = int((window - output) / OTHER_TOKENIZERS) - overhead_tokens - min(KNOWN_TOKENS, window // 20)
    return ChunkSizes(max(LEAST_CHUNK_TOKENS, min(settings.chunk_tokens, left)), output)


def _chunks(gathered: Gathered, room: ChunkSizes, settings: KnowledgeSettings) -> tuple[Chunk, ...]:
    return tuple(chunks(gathered, room.chunk_tokens, max_tokens=settings.max_context_tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """All requests of one run."""

    caller: Caller
    models: tuple[str, ...]
    overrides: Mapping[str, str]
    settings: KnowledgeSettings
    room: ChunkSizes
    chunks: tuple[Chunk, ...]
    overhead_tokens: int
    gathered: Gathered
    known: tuple[KnowledgeRow, ...]
    topics: tuple[NewKnowledge, ...]
    scope: Scope
    topics_of_turns: TopicsOfTurns
    most_nano_usd: Callable[[int, int], int]
    is_price_known: bool
    is_batch: bool = False
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    collected: dict[str, Mapping[str, CallReport | ModelError]] = field(default_factory=dict)
    """Answers of batches by their handles."""

    def steps(self) -> Iterator[ModelStep]:
        """Yield the steps in order; their names are stable while the input is unchanged."""
        if self.topics:
            tokens = TOPIC_TOKENS * len(self.topics)
            most = self.most_nano_usd(tokens, TOKENS_PER_LABEL * len(self.topics))
            yield ModelStep(TOPICS_STEP, TOPICS_STEP, self._name_topics, tokens, most)
        together = self._chunks_of_batch()
        if together:
            most = sum(map(self._most, together))
            yield ModelStep(BATCH_STEP, BATCH_STEP, self._submit, sum(map(self._tokens, together)), most)
        for number, chunk in enumerate(self.chunks, 1):
            tokens = self._tokens(chunk)
            most = 0 if number <= len(together) else self._most(chunk)
            yield ModelStep(f"{STEP_PREFIX}{number}", _kept_name(chunk), partial(self._read, number), tokens, most)

    @property
    def estimate(self) -> ModelEstimate:
        """Estimate tokens and price without any call."""
        tokens = [self._tokens(chunk) for chunk in self.chunks]
        output = self.room.output_tokens
        typical = int(output * TYPICAL_OUTPUT_SHARE)
        return ModelEstimate(
            model=self.models[0],
            calls=len(tokens),
            input_tokens=sum(tokens),
            output_tokens=output * len(tokens),
            usd=sum(self.most_nano_usd(each, typical) for each in tokens) / NANO,
            most_usd=sum(self.most_nano_usd(each, output) for each in tokens) / NANO,
            is_price_known=self.is_price_known,
        )

    def with_topics(self, items: Sequence[NewKnowledge]) -> tuple[NewKnowledge, ...]:
        """Return the items with the current topics of their turns; an answer may be older than the topics."""
        return tuple(
            item if item.kind == "topic" else replace(item, topics=topics_of(item.sources, self.topics_of_turns))
            for item in items
        )

    def _maker(self, answer: Answer) -> str:
        """Return the name of the model that answered, without an address."""
        return (answer.message.model or self.models[0]).partition("@")[0]

    def _chunks_of_batch(self) -> tuple[Chunk, ...]:
        """Return the first chunks that one run's spending limit allows, at least one; none without a batch."""
        if not self.is_batch:
            return ()
        costs = accumulate(map(self._most, self.chunks))
        return self.chunks[: max(1, sum(cost <= self.settings.run_usd * NANO for cost in costs))]

    def _most(self, chunk: Chunk) -> int:
        """Return the maximum cost of reading a chunk, in nano-dollars."""
        return self.most_nano_usd(self._tokens(chunk), self.room.output_tokens)

    def _tokens(self, chunk: Chunk) -> int:
        return chunk.tokens + SHAPE_TOKENS * len(chunk.turns) + self.overhead_tokens

    async def _name_topics(self, _: Results) -> bytes:
        """Name the topics by the model; those named before keep their names."""
        kept = keep_labels(self.topics, self.known)
        done = {topic.id for topic in kept}
        made = Proposed(items=kept)
        turns = {turn.source: turn for turn in self.gathered.turns}
        with overridden(self.overrides):
            nonces = iter(partial(secrets.token_hex, 8), "")
            for request in topic_requests([one for one in self.topics if one.id not in done], turns, nonces=nonces):
                try:
                    answered = await self.caller.ask(request.ask, self.models)
                except ModelError as error:
                    made = made + _failed(error)
                    break
                maker = self._maker(answered.answer)
                verdict = await asyncio.to_thread(judge_labels, request, answered.answer, turns, maker)
                if not verdict.items:
                    await self.caller.mark_unfit(answered)
                took = Proposed(
                    items=verdict.items, refused=verdict.refused, calls=answered.calls, nano_usd=answered.nano_usd
                )
                made = made + took
        return msgspec.json.encode(made)

    async def _submit(self, _: Results) -> bytes:
        """Submit many chunks as one batch. The stored result is enough to collect it in another process."""
        together = self._chunks_of_batch()
        nonces = tuple(secrets.token_hex(8) for _ in together)
        state = BatchState(nonces=nonces, turns=tuple(len(chunk.turns) for chunk in together))
        with overridden(self.overrides):
            asks = {key: one.ask for key, one in self._assignments(nonces).items()}
        try:
            state = replace(state, ticket=await self.caller.batches.submit(asks, self.models[0]))
        except ModelError as error:
            return msgspec.json.encode(_failed(error))
        return msgspec.json.encode(state)

    async def _read(self, number: int, kept: Results) -> bytes:
        """Read a chunk with the model: from its batch if there is one, otherwise with a call."""
        with overridden(self.overrides):
            if BATCH_STEP in kept:
                state = msgspec.json.decode(kept[BATCH_STEP], type=BatchState)
                return msgspec.json.encode(await self._collect(state, number))
            return msgspec.json.encode(await self.propose(self.chunks[number - 1]))

    async def _collect(self, state: BatchState, number: int) -> Proposed:
        """Return the answer to one request of a batch; wait until the batch has ended."""
        if state.ticket is None:
            return Proposed(problem=state.problem or "the batch was not submitted", is_capped=state.is_capped)
        if number > len(state.nonces):
            return Proposed(problem="the batch is limited by knowledge.run_usd; the next run reads the rest")
        if state.turns != tuple(len(chunk.turns) for chunk in self.chunks[: len(state.nonces)]):
            return Proposed(problem="the settings have changed since the batch was submitted")
        assignments = self._assignments(state.nonces)
        if state.ticket.handle not in self.collected:
            asks = {key: one.ask for key, one in assignments.items()}
            try:
                self.collected[state.ticket.handle] = await self._ended(state.ticket, asks)
            except ModelError as error:
                return _failed(error)
        found = self.collected[state.ticket.handle][str(number)]
        if isinstance(found, ModelError):
            return _failed(found)
        made, _ = await self._judged(assignments[str(number)], found)
        return made

    async def _ended(self, ticket: BatchTicket, asks: Mapping[str, Ask]) -> Mapping[str, CallReport | ModelError]:
        """Return the answers of a batch. An unreachable provider is polled again, until the batch is too old."""
        wait_seconds = FIRST_POLL_SECONDS
        while True:
            failed = ModelFailed(ticket.model, "the batch did not end within two days", reason="timeout")
            try:
                found = await self.caller.batches.collect(ticket, asks)
            except ModelFailed as error:
                found, failed = None, error
            if found is not None:
                return found
            if time.time() > ticket.at_us / 1_000_000 + MAX_BATCH_SECONDS:
                raise failed
            await self.sleep(wait_seconds)
            wait_seconds = min(MAX_POLL_SECONDS, wait_seconds * POLL_GROWTH)

    def _assignments(self, nonces: Sequence[str]) -> dict[str, LearnAssignment]:
        """Return the requests for all chunks by their numbers."""
        pairs = zip(self.chunks[: len(nonces)], nonces, strict=True)
        return {str(number): self._assign(chunk, nonce) for number, (chunk, nonce) in enumerate(pairs, 1)}

    def _assign(self, chunk: Chunk, nonce: str) -> LearnAssignment:
        return assign(chunk, self.known, nonce=nonce, settings=self.settings, output_tokens=self.room.output_tokens)

    async def _judged(
        self, assignment: LearnAssignment, answered: CallReport
    ) -> tuple[Proposed, LearnAssignment | None]:
        """Return the accepted items of an answer, and the request to repeat."""
        origin = Origin(self.scope, self._maker(answered.answer), self.topics_of_turns)
        verdict = await asyncio.to_thread(judge, assignment, answered.answer, origin)
        if verdict.is_unfit:
            await self.caller.mark_unfit(answered)
        made = Proposed(
            items=verdict.items,
            refused=verdict.refused,
            nothing=int(verdict.is_empty),
            calls=answered.calls,
            nano_usd=answered.nano_usd,
        )
        return made, verdict.again

    async def propose(self, chunk: Chunk) -> Proposed:
        """Propose items from a chunk; one that exceeds the model's window is read in halves."""
        try:
            return await self._asked(chunk)
        except ModelUnavailable as error:
            if error.reason != "too-long" or len(chunk.turns) < 2:  # noqa: PLR2004 - a single turn can't be split
                return _failed(error)
        except ModelError as error:
            return _failed(error)
        first, second = _halves(chunk)
        return await self.propose(first) + await self.propose(second)

    async def _asked(self, chunk: Chunk) -> Proposed:
        """Call the model, and once more if nothing of the answer is accepted. The second answer counts."""
        assignment = await asyncio.to_thread(self._assign, chunk, secrets.token_hex(8))
        first, again = await self._judged(assignment, await self.caller.ask(assignment.ask, self.models))
        if again is None:
            return first
        try:
            second, _ = await self._judged(again, await self.caller.ask(again.ask, self.models))
        except ModelError as error:
            return first + _failed(error)
        return replace(second, calls=first.calls + second.calls, nano_usd=first.nano_usd + second.nano_usd)


def _kept_name(chunk: Chunk) -> str:
    """Return a name that is the same for the same turns with the same texts."""
    read = [(turn.source, text) for turn, text in zip(chunk.turns, chunk.texts, strict=True)]
    return f"{CHUNK_STEP}{hashlib.sha256(msgspec.json.encode(read)).hexdigest()[:32]}"


def _failed(error: ModelError) -> Proposed:
    is_capped = isinstance(error, ModelHeldBack) and error.reason == "cap"
    return Proposed(problem=str(error), calls=error.calls, is_capped=is_capped)


def _halves(chunk: Chunk) -> tuple[Chunk, Chunk]:
    middle = len(chunk.turns) // 2
    first, second = (
        Chunk(chunk.turns[part], chunk.texts[part], sum(map(count_tokens, chunk.texts[part])))
        for part in (slice(0, middle), slice(middle, None))
    )
    return first, second


def read_steps(results: Results) -> Proposed:
    """Combine the results of all steps."""
    steps = [msgspec.json.decode(data, type=Proposed) for name, data in results.items() if name.startswith(STEP_PREFIX)]
    return sum(steps, Proposed())


def replace_items(found: Sequence[NewKnowledge], proposed: Sequence[NewKnowledge]) -> tuple[NewKnowledge, ...]:
    """Combine the items of rules and of the model, which replace rules' items with the same id."""
    return tuple({item.id: item for item in [*found, *proposed]}.values())
