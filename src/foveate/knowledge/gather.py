"""The input of a run: the turns of a scope, redacted, without recalled or injected text.

Turns are read in batches, and a bounded part of each is held, so that a long history fits in memory.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from foveate.additions import typed_by_person
from foveate.client import Foveate
from foveate.errors import ModelError
from foveate.recall.embed import index_maker, load_embedder
from foveate.recall.scopes import Scope
from foveate.renditions import is_history_tool, without_recalled
from foveate.secrets import redact, stated
from foveate.session.tenant import public_id
from foveate.store import MessageRow, SessionRow, Store, bodies
from foveate.store.codec import restore_message
from foveate.store.knowledge import PERSON, KnowledgeRow, KnowledgeSource
from foveate.store.rows import RenditionRow
from foveate.text import compact_json, part_text
from foveate.tokens import count_tokens
from foveate.turn import Message, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from foveate.recall.table import Floats

BATCH_TURNS = 200
CHUNK_TURNS = 1 << 40
"""Renditions are counted per session as a whole."""
HELD_CHARS = 240_000_000
"""Maximum number of characters held for all turns."""
MAX_TEXT_CHARS = 8_000
MIN_TEXT_CHARS = 400
"""Characters held per text of a turn: at most MAX_TEXT_CHARS; fewer in a very long history, but at least
MIN_TEXT_CHARS."""
HEAD_SHARE = 0.75
TEXTS_PER_TURN = 4
"""Texts of a turn that may be long: the prompt, the answer, the compressed text, and tool output."""
MAX_TOOLS = 24
"""Maximum number of tool calls held per turn; failed ones take precedence."""
ARGUMENTS_CHARS = 200
OUTCOME_CHARS = 600
OUTCOME_LINES = 6
"""Lines held at each end of a tool's result."""
DISPLAY = "display"
"""The name of output that a program displayed without a call."""
ELLIPSIS = "…"
_ERROR_NAME = re.compile(r"\b[A-Z]\w*(?:Error|Exception): |^\S+:\d+:\d+: [A-Z]+\d+ ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """A tool call and its result."""

    name: str
    arguments: str
    """On one line, shortened."""
    is_error: bool
    text: str
    """The first and last lines of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedTurn:
    """A turn to learn from. Secrets are masked in all its texts."""

    source: KnowledgeSource
    at_us: int
    user: str
    """The person's own text; empty if a program or another model wrote the prompt."""
    assistant: str
    tools: tuple[ToolOutcome, ...]
    compressed: str
    tiny: str
    smoothed: str
    """Set for the newest turns of a session, otherwise empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The turns of a scope in chronological order. A turn shared by forks is included once, in its own session."""

    tenant: str
    scope: Scope
    turns: tuple[LearnedTurn, ...]
    watermark: str
    """A hash of the sessions, turns and renditions, and of the items that people wrote or reviewed."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The input of one request to a model."""

    turns: tuple[LearnedTurn, ...]
    texts: tuple[str, ...]
    """The text of each turn at its level."""
    tokens: int


@dataclass(frozen=True, slots=True)
class SessionSpan:
    """The turns of one session in a scope."""

    row: SessionRow
    first: int
    last: int
    is_agent: bool
    """True if a model wrote its prompts, not a person."""


async def gather(fov: Foveate, scope: Scope) -> Gathered:
    """Read the current turns of a scope."""
    spans = await scope_spans(fov, scope)
    return await gather_spans(fov, scope, spans, await _watermark(fov, scope, spans))


def spans_after(
    spans: Sequence[SessionSpan], heard: Mapping[str, int], most_turns: int | None = None
) -> list[SessionSpan]:
    """Return the turns of sessions after the last ones that were read, at most this many."""
    found: list[SessionSpan] = []
    left = most_turns
    for span in spans:
        first = max(span.first, heard.get(span.row.id, 0) + 1)
        last = span.last if left is None else min(span.last, first + left - 1)
        if first <= last:
            found.append(replace(span, first=first, last=last))
            left = None if left is None else left - (last - first + 1)
    return found


async def gather_spans(fov: Foveate, scope: Scope, spans: Sequence[SessionSpan], mark: str) -> Gathered:
    """Read the turns of these sessions."""
    count = sum(span.last - span.first + 1 for span in spans)
    held_chars = HELD_CHARS // max(1, count * TEXTS_PER_TURN)
    reader = _Reader(fov, max(MIN_TEXT_CHARS, min(MAX_TEXT_CHARS, held_chars)))
    turns = [turn for span in spans for turn in await reader.read(span)]
    turns.sort(key=lambda turn: (turn.at_us, turn.source))
    return Gathered(tenant=fov.tenant_name, scope=scope, turns=tuple(turns), watermark=mark)


async def watermark(fov: Foveate, scope: Scope) -> str:
    """Compute the watermark of `gather` without reading the turns."""
    return await _watermark(fov, scope, await scope_spans(fov, scope))


async def scope_spans(fov: Foveate, scope: Scope) -> list[SessionSpan]:
    """List the sessions of a scope with their own turns, the oldest session first.

    The scope of a single session includes its ancestors' turns up to the fork.
    """
    rows = await fov.store.list_sessions(tenant=fov.tenant_name)
    by_number = {row.number: row for row in rows}
    own = [row for row in rows if scope.contains(row, session_id=public_id(fov.tenant_name, row.id))]
    found = [(row, row.fork_turn + 1, row.last_turn) for row in own]
    if scope.kind == "session":
        for row in own:
            child = row
            last = child.fork_turn
            while child.parent is not None and last and child.parent in by_number:
                child = by_number[child.parent]
                found.append((child, child.fork_turn + 1, min(last, child.last_turn)))
                last = min(last, child.fork_turn)
    found.sort(key=lambda each: (each[0].created_us, each[0].number))
    return [
        SessionSpan(row, first, last, await fov.store.agents.of_session(row.id) is not None)
        for row, first, last in found
        if first <= last
    ]


async def erasures(fov: Foveate, scope: Scope) -> frozenset[tuple[str, int | None]]:
    """Return the sessions of a scope, each with the time of its last prune."""
    return frozenset(
        [(span.row.id, await fov.store.derived.pruned(span.row.id)) for span in await scope_spans(fov, scope)]
    )


async def scopes_of(fov: Foveate) -> list[Scope]:
    """List the default scopes: each project, all sessions without a label together, and those of sessions."""
    rows = await fov.store.list_sessions(tenant=fov.tenant_name)
    return sorted({scope for row in rows if row.last_turn for scope in scopes_of_session(row)})


def scopes_of_session(row: SessionRow) -> set[Scope]:
    """Return the scopes that learn from a session by default."""
    own = {Scope("project", row.channel or "")}
    return own | {Scope.parse(row.scope)} if row.scope else own


async def vectors_of(fov: Foveate, gathered: Gathered) -> Floats:
    """Return a row per turn: the normalised mean of its passages' stored vectors; zeros if there are none."""
    import numpy as np  # noqa: PLC0415 - loads when something is learned

    from foveate.recall.table import unpack  # noqa: PLC0415

    embedder = load_embedder(fov.settings.recall, fov.caller)
    try:
        await embedder.learn()
    except ModelError:  # the endpoint, which determines the size of vectors, is not available now
        return np.zeros((len(gathered.turns), 1), np.float32)
    width, maker = embedder.dimensions, index_maker(embedder.name)
    found = np.zeros((len(gathered.turns), width), np.float32)
    places = {turn.source: place for place, turn in enumerate(gathered.turns)}
    for session_id, turns in _by_session(places):
        for start in range(0, len(turns), BATCH_TURNS):
            rows = await fov.store.passages.rows(session_id, (), turns[start : start + BATCH_TURNS])
            newest = {row.turn: row for row in sorted(rows, key=attrgetter("messages")) if row.maker == maker}
            for turn, row in newest.items():
                stored = unpack(row.vectors, width)
                if len(stored):
                    mean = (stored["row"] * stored["scale"][:, None]).mean(axis=0)
                    length = float(np.linalg.norm(mean))
                    found[places[KnowledgeSource(session_id, turn)]] = mean / length if length else 0.0
    return found


def chunks(gathered: Gathered, tokens: int, *, max_tokens: int | None = None) -> Iterator[Chunk]:
    """Yield chunks of at most `tokens` for a model, the oldest first: S of the newest turns, C of the others.

    If all chunks would exceed `max_tokens`, the oldest turns are read at T, and so is a turn too large for a chunk.
    """
    read = [(turn, turn.smoothed or turn.compressed or turn.tiny) for turn in gathered.turns]
    sizes = [count_tokens(text) for _, text in read]
    excess = 0 if max_tokens is None else sum(sizes) - max_tokens
    texts: list[str] = []
    counts: list[int] = []
    for (turn, text), size in zip(read, sizes, strict=True):
        is_short = excess > 0 or size > tokens
        texts.append(turn.tiny if is_short else text)
        counts.append(count_tokens(turn.tiny) if is_short else size)
        excess -= size - counts[-1]
    start = used = 0
    for place, count in enumerate(counts):
        if place > start and used + count > tokens:
            yield Chunk(gathered.turns[start:place], tuple(texts[start:place]), used)
            start, used = place, 0
        used += count
    if counts:
        yield Chunk(gathered.turns[start:], tuple(texts[start:]), used)


class _Reader:
    """Reads turns of sessions."""

    def __init__(self, fov: Foveate, max_chars: int) -> None:
        self._store: Store = fov.store
        self._recent = fov.settings.knowledge.recent_turns
        self._max_chars = max_chars

    async def read(self, span: SessionSpan) -> list[LearnedTurn]:
        """Read the unpruned turns of a session."""
        found: list[LearnedTurn] = []
        for first in range(span.first, span.last + 1, BATCH_TURNS):
            last = min(span.last, first + BATCH_TURNS - 1)
            rows = await self._store.read(span.row.id, first, last)
            made = {row.turn: row for row in await self._store.derived.renditions(span.row.id, first, last)}
            for turn, group in groupby(rows, key=attrgetter("turn")):
                if learned := self._turn(span, list(group), made.get(turn)):
                    found.append(learned)
        return found

    def _turn(self, span: SessionSpan, rows: Sequence[MessageRow], made: RenditionRow | None) -> LearnedTurn | None:
        # Messages added since the session was listed are left for the next run.
        is_newest = rows[0].turn == span.row.last_turn
        seen = [row for row in rows if not is_newest or row.position <= span.row.last_position]
        read = [restore_message(row) for row in seen if row.body is not None and row.problem is None]
        messages = without_recalled(read)
        if not messages:
            return None
        is_recent = rows[0].turn > span.row.last_turn - self._recent
        # A rendition or a tool's output may have a password without the words that say what it is.
        secrets = stated("\n".join(message.text for message in messages))

        def clean(text: str) -> str:
            return ends(redact(text.strip(), secrets), self._max_chars)

        return LearnedTurn(
            source=KnowledgeSource(span.row.id, rows[0].turn),
            at_us=rows[0].at_us,
            user="" if span.is_agent else clean(typed_text(messages)),
            assistant=clean(_answer_text(messages)),
            tools=tuple(_outcomes(messages, secrets)),
            compressed=clean(str(bodies.expand(made.compressed))) if made else "",
            tiny=redact(made.tiny, secrets) if made else "",
            smoothed=clean(str(bodies.expand(made.smoothed))) if made and is_recent else "",
        )


def typed_text(messages: Iterable[Message]) -> str:
    """Return the person's own text: the user's messages without injected text."""
    parts = (
        typed_by_person(part.text)
        for message in messages
        if message.role == "user" and message.kind == "message"
        for part in message.parts
        if isinstance(part, Text)
    )
    return "\n".join(filter(None, parts))


def ends(text: str, max_chars: int) -> str:
    """Return the text; of a longer one only the beginning and the end."""
    if len(text) <= max_chars:
        return text
    head = int(max_chars * HEAD_SHARE)
    return f"{text[:head]}\n{ELLIPSIS}\n{text[len(text) - (max_chars - head) :]}"


def _answer_text(messages: Iterable[Message]) -> str:
    return "\n".join(message.text for message in messages if message.role == "assistant" and message.kind == "message")


def _outcomes(messages: Sequence[Message], secrets: Sequence[str]) -> Iterator[ToolOutcome]:
    """Yield the tool calls of a turn with their results, in order, without those that read the history."""
    results = {result.call_id: result for message in messages for result in message.tool_results}
    calls = [call for message in messages for call in message.tool_calls if not is_history_tool(call.name)]
    found = [_outcome(call, results.get(call.id) if call.id is not None else None, secrets) for call in calls]
    found += _displayed(messages, secrets)
    if len(found) > MAX_TOOLS:
        order = sorted(range(len(found)), key=lambda place: (not found[place].is_error, place))
        found = [found[place] for place in sorted(order[:MAX_TOOLS])]
    yield from found


def _outcome(call: ToolCall, result: ToolResult | None, secrets: Sequence[str]) -> ToolOutcome:
    arguments = call.arguments if isinstance(call.arguments, str) else compact_json(call.arguments)
    output = "" if result is None else "\n".join(part_text(part) for part in result.content)
    return ToolOutcome(
        name=call.name,
        arguments=ends(" ".join(redact(arguments, secrets).split()), ARGUMENTS_CHARS).replace("\n", " "),
        is_error=result is not None and (result.is_error or bool(result.exit_code)),
        text=_outer_lines(redact(output, secrets)),
    )


def _displayed(messages: Iterable[Message], secrets: Sequence[str]) -> Iterator[ToolOutcome]:
    """Yield the errors that a program displayed outside the conversation, e.g. Aider."""
    for message in messages:
        if message.kind == "display" and _ERROR_NAME.search(message.text):
            yield ToolOutcome(
                name=DISPLAY, arguments="", is_error=False, text=_outer_lines(redact(message.text, secrets))
            )


def _outer_lines(text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if len(lines) > 2 * OUTCOME_LINES:
        lines = [*lines[:OUTCOME_LINES], ELLIPSIS, *lines[-OUTCOME_LINES:]]
    return ends("\n".join(lines), OUTCOME_CHARS)


async def _watermark(fov: Foveate, scope: Scope, spans: Sequence[SessionSpan]) -> str:
    read = []
    for span in spans:
        counts = await fov.store.derived.counts(span.row.id, span.first, span.last, chunk_turns=CHUNK_TURNS)
        pruned = await fov.store.derived.pruned(span.row.id)
        position = span.row.last_position if span.last == span.row.last_turn else 0
        read.append((span.row.id, span.first, span.last, position, sum(counts.values()), pruned, span.is_agent))
    items = await fov.store.knowledge.list_items(fov.tenant_name, scopes=[str(scope)])
    decided = [(item.id, item.version) for item in items if is_decided(item)]
    return hashlib.sha256(msgspec.json.encode((sorted(read), sorted(decided)))).hexdigest()


def is_decided(item: KnowledgeRow) -> bool:
    """Return whether a person wrote or reviewed an item; no run changes it."""
    return item.maker == PERSON or item.state == "pinned"


def _by_session(places: Iterable[KnowledgeSource]) -> Iterator[tuple[str, list[int]]]:
    for session_id, group in groupby(sorted(places), key=attrgetter("session_id")):
        yield session_id, [source.turn for source in group]
