"""A context: its text, exact size, segments, and messages for each provider."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from foveate.context import signatures
from foveate.context.board import Board
from foveate.context.render import Layout, canonical_messages, render_layout, render_request
from foveate.context.tools import ToolSet
from foveate.formats import ProviderFormat
from foveate.plan import Band, Block, Cause, LevelChange, ShownLevel
from foveate.text import part_text
from foveate.turn import Json, Message, Text

SegmentName = Literal[
    "system",
    "explanation",
    "pins",
    "goals",
    "epic",
    "tasks",
    "client-texts",
    "history",
    "memory",
    "board",
    "prompt",
    "tools",
    "framing",
    "attachments",
]


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a context. The tokens of all segments add up to the context's."""

    name: SegmentName
    tokens: int
    is_stable: bool
    """The next context begins with the same text, so the provider may have it cached."""
    first: int | None = None
    last: int | None = None
    """The turns it shows."""
    level: ShownLevel | None = None
    is_native: bool = False
    """Sent as the provider's own messages, with tool calls and results."""
    text: str = field(default="", repr=False)
    """Its text in the context or the prompt; empty for tool definitions, framing and attachments."""
    levels: str = ""
    """The levels of its turns if they differ from `level`: a letter each, `-` for a turn without a line."""


@dataclass(frozen=True, slots=True)
class PlanReport:
    """How the levels of a context were chosen."""

    bands: tuple[Band, ...] = ()
    cause: Cause | None = None
    """Why the plan was rebuilt; None for a preview."""
    is_new: bool = False
    """The plan was made for this context, so little of the previous prompt is still cached."""
    last_turn: int = 0
    """The newest turn of the plan; later ones are appended raw."""
    changes: tuple[LevelChange, ...] = ()
    """Level changes when the plan was made."""
    room_tokens: int = 0
    """Token limit of the history."""
    strategy: str = "gradient"
    notes: Mapping[str, Json] = field(default_factory=dict)
    """Notes of the strategy on its plan, e.g. {"tier": 3}."""
    tokens: int = 0
    """Tokens of the plan's blocks when it was made; 0 without a saved plan."""
    raw_tokens: int = 0
    """Raw tokens of its turns."""
    changed_share: float = 0.0
    """Share of its tokens that were shown at a different level before."""
    made_at: datetime | None = None
    trigger_turn: int = 0
    """The newest turn when it was made."""
    turns_without_words: int = 0
    """Turns without a line of their own of which no era or summary says something."""
    rows: tuple[Block, ...] = field(default=(), repr=False)
    """The blocks of a plan that is made again for each context."""

    @property
    def compression_ratio(self) -> float | None:
        """Raw tokens per token of the plan; None without a saved plan."""
        return self.raw_tokens / self.tokens if self.tokens else None


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that a model is sent, within a budget."""

    text: str
    """Everything before the prompt."""
    tokens: int
    """Tokens of everything: text, prompt, tool definitions, attachments and message framing."""
    budget_tokens: int
    segments: tuple[Segment, ...]
    system: str
    """System prompt, explanation and pins, for providers that take them separately from the messages."""
    history: str = field(repr=False)
    """The tagged turns, as in `text`."""
    layout: Layout = field(repr=False)
    calibration: float = 1.0
    """The session's calibration factor when the tokens were counted."""
    planned: PlanReport = field(default=PlanReport(), repr=False)
    board: Board = field(default=Board(), repr=False)
    """Retrieved turns, and turns prefetched for this prompt."""
    offer: ToolSet | None = field(default=None, repr=False)
    """The tools that were counted."""
    has_history_tools: bool = True
    """False: the history tools were omitted because no turn is in tags yet."""
    keeps_system: bool = field(default=False, repr=False)
    """Anthropic's model accepts system messages between the others; else they are sent as the user's."""
    drops_unbound_thinking: bool = field(default=False, repr=False)
    """The setting `context.drop_unbound_thinking`."""
    needs_thinking: bool = field(default=False, repr=False)
    """The request has `thinking: {"type": "enabled"}`, so the turn in progress keeps its thinking."""

    def request(self, format: ProviderFormat = "openai", *, cache: bool = True) -> dict[str, Any]:  # noqa: A002
        """Return the request as keyword arguments of a provider's own call, with everything that was counted.

            client.chat.completions.create(model=…, **context.request("openai"))
            client.responses.create(model=…, **context.request("openai-responses"))
            client.messages.create(model=…, max_tokens=…, **context.request("anthropic"))
            client.models.generate_content(model=…, **context.request("gemini"))

        Includes `tools` if the context counts them. For `cache` see `messages`.
        """
        tools = self._definitions(format)
        request = render_request(format, self.messages(format, cache=cache), system=self.system, tools=tools)
        drops = self.drops_unbound_thinking and format == signatures.FORMAT
        return {**request, **copy.deepcopy(dict(signatures.DROP_UNBOUND))} if drops else request

    def messages(self, format: ProviderFormat = "openai", *, cache: bool = True) -> list[Any]:  # noqa: A002
        """Return the messages in the format `openai`, `openai-responses`, `anthropic` or `gemini`; the prompt is last.

        OpenAI's begin with a system message. For `anthropic` and `gemini`, `system` (with explanation and pins) is a
        separate argument, as tools are for all: see `request`. `cache` sets Anthropic's cache breakpoints at the end of
        the parts that the next context repeats.
        """
        rendered = render_layout(self.layout, self.system, format, cache=cache, keeps_system=self.keeps_system)
        if format != signatures.FORMAT:
            return rendered
        # Thinking that was signed for another prefix is omitted: the provider would reject the request.
        answers = filter(_is_answer, [*self.native_messages, *self.layout.prompt])
        return signatures.without_unbound(
            self.system, self._definitions(format), rendered, answers, needs_thinking=self.needs_thinking
        )

    def prefix(self, format: ProviderFormat = signatures.FORMAT) -> str:  # noqa: A002
        """Return a hash of the whole request, which is stored with an answer that has signed thinking."""
        return signatures.request_prefix(self.system, self._definitions(format), self.messages(format))

    @property
    def token(self) -> str:
        """A hash of the request, to pass to `Session.record` with the answer; empty while a call lacks its result."""
        return "" if self.layout.open_call else self.prefix()

    def _definitions(self, format: str) -> Sequence[Mapping[str, Json]]:  # noqa: A002
        return self.offer.definitions(format) if self.offer else ()

    @property
    def sent_text(self) -> str:
        """The text of the request as it is sent, each message under a line with its role; the prompt is last."""
        lines = []
        for message in canonical_messages(self.layout, self.system, has_tools=True):
            shown = (part.text if isinstance(part, Text) else part_text(part) for part in message.parts)
            lines += [f"[{message.role}]\n", *(part if part.endswith("\n") else f"{part}\n" for part in shown)]
        return "".join(lines)

    @property
    def native_messages(self) -> list[Message]:
        """The messages of turns that are sent in the provider's own format."""
        return [message for block in self.layout.native for message in block.messages]

    @property
    def stable_tokens(self) -> int:
        """Tokens at the beginning that the next context repeats unless there is a rebuild: they stay cached."""
        stable = itertools.takewhile(lambda segment: segment.is_stable, self.segments)
        return sum(segment.tokens for segment in stable)


def _is_answer(message: Message) -> bool:
    return message.role == "assistant"
