"""The interface of a provider format: read requests, write upstream bodies, rewrite answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from foveate.errors import BadUpstream
from foveate.server.gateway.wires.fields import Record, add_usage, client_usage, count_in
from foveate.server.sse import SseEvent
from foveate.session.client_calls import UsageKeys
from foveate.turn import Usage


@dataclass(frozen=True)
class ClientRequest:
    """A client's request, with the parts that the gateway uses taken out of `body`."""

    body: Record
    """As the client sent it; never changed."""
    model: str
    """Empty if the request names none."""
    is_stream: bool
    system: str
    """Text of the system prompt, for counting."""
    messages: list[Record]
    """The messages in the provider's format, without the leading system part."""
    tools: list[Record]
    """The client's tools as sent."""
    tool_names: frozenset[str]
    """Names of the client's functions, to avoid giving one name to two tools."""
    max_output_tokens: int | None = None
    """The limit of an answer; the largest if a provider may read one of several. None without a valid one."""
    answers: int = 1
    """How many answers are requested."""
    is_background: bool = False
    """Whether the answer is to be made after the reply, to be fetched later (Responses)."""
    hints: dict[str, str] = field(default_factory=dict)
    """Ids in the body that can identify the session, e.g. `session_id`, `prompt_cache_key`."""
    is_json_array: bool = False
    """Whether the client expects one JSON array instead of events (Gemini without `alt=sse`)."""


@dataclass(frozen=True)
class OwnCall:
    """A call of one of the gateway's own tools."""

    id: str
    name: str
    arguments: object
    """Parsed JSON, or the text if it is not JSON."""


class UpstreamAnswer(ABC):
    """One response to a client, made from one or more upstream rounds.

    A round is fed as events (`feed`) or as one JSON body (`load`). Calls of own tools are hidden from the client, and
    the end of the answer is held back until `finish`. Between two rounds: `follow_up`, then `next_round`. Malformed
    input raises `BadUpstream`.
    """

    media_type = "text/event-stream"
    contents: ClassVar[frozenset[str]]
    """Fields of which a JSON answer has at least one, and an error none."""
    inputs: ClassVar[frozenset[str]]
    """Fields of the usage that measure a request."""
    counted_inputs: ClassVar[tuple[str, ...]]
    """Fields of the usage that add up to the tokens of a request."""
    usage_keys: ClassVar[UsageKeys]
    total_field: ClassVar[str] = ""
    """The field of the usage that is the sum of `summed_fields`."""
    summed_fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, request: ClientRequest, own_names: frozenset[str]) -> None:
        self.request = request
        self.own_names = own_names
        self.rounds = 1
        self.is_complete = False
        """Whether the end of this round was received."""
        self.has_failed = False
        """Whether an error event of the provider was passed on."""
        self._first: Record = {}
        """The first round's chunk or body: later rounds continue it, under its id."""
        self._usage: Record = {}
        """Usage of this round."""
        self._before: Record = {}
        """Usage of earlier rounds."""
        self._unreported: list[Record] = []
        """What earlier rounds wrote whose output was not reported."""
        self.models: set[str] = set()
        """The models that answered, as the provider names them."""
        self.hides_usage = False
        """Whether the client did not ask for the usage that the provider was asked for."""

    @property
    @abstractmethod
    def own_calls(self) -> list[OwnCall]:
        """The complete calls of own tools in this round."""

    @property
    @abstractmethod
    def has_client_calls(self) -> bool:
        """Whether this round calls tools that the client has to answer."""

    @property
    @abstractmethod
    def round_messages(self) -> list[Record]:
        """This round's assistant messages or items as received, including own calls.

        For an interrupted round: the complete parts, and the text so far.
        """

    @property
    def written(self) -> list[Record]:
        """All that was received of this round, every choice of it."""
        return self.round_messages

    @property
    def unreported(self) -> list[Record]:
        """What was written and is not in the reported output; empty if all of it is."""
        is_reported = self.is_complete and self.usage.output_tokens > 0
        return self._unreported if is_reported else self._unreported + self.written

    @property
    def is_reported(self) -> bool:
        """Whether the provider reported the output of every round."""
        return self.is_complete and self.usage.output_tokens > 0 and not self._unreported

    @abstractmethod
    def feed(self, event: SseEvent) -> list[bytes]:
        """Read one upstream event; return the bytes to send to the client now."""

    @abstractmethod
    def load(self, body: Record) -> None:
        """Read a round that arrived as one JSON body."""

    @abstractmethod
    def _events(self, body: Record) -> Iterator[SseEvent]:
        """Yield the events in which the provider would have streamed a JSON body."""

    def streamed(self, body: Record) -> list[bytes]:
        """Return a whole JSON answer, which has no calls of own tools, as a stream; `BadUpstream` if it is none."""
        self._check(body)
        pieces = [piece for event in self._events(body) for piece in self.feed(event)]
        return pieces if self.has_failed else pieces + self.finish()

    @abstractmethod
    def follow_up(self, body: Record, results: list[tuple[OwnCall, str]]) -> Record:
        """Return the next upstream body: `body`, this round's messages, and the results of own calls."""

    def _check(self, body: Record) -> None:
        if not self.contents & body.keys():
            raise BadUpstream(f"the answer has no {min(self.contents)}")

    def next_round(self) -> None:
        """Start a round that continues the same answer."""
        self._unreported = self.unreported
        self._before, self._usage = self._total_usage(), {}
        self.rounds += 1
        self.is_complete = False

    @abstractmethod
    def finish(self) -> list[bytes]:
        """Return the end of the stream, with the last round's stop reason and input, and the output of all rounds."""

    @abstractmethod
    def result(self) -> Record:
        """Return the whole answer as one JSON body."""

    @abstractmethod
    def shown_messages(self) -> list[Record]:
        """Return the assistant messages or items of all rounds that the client has seen."""

    @abstractmethod
    def abort(self, message: str, *, kind: str | None = None) -> list[bytes]:
        """Return the end of a stream that failed upstream; empty if the provider's own error was passed on.

        `kind` is the error's type, by default that of a failed upstream.
        """

    @property
    def reported_tokens(self) -> int:
        """The tokens of this round's request, as the provider reports them; 0 if it does not, or adds others."""
        return 0 if self._has_hosted_calls() else sum(count_in(self._usage, name) for name in self.counted_inputs)

    @property
    def usage(self) -> Usage:
        """The usage of this round, as far as it was reported."""
        return self.usage_keys.read(self._usage) or Usage()

    @property
    def total_usage(self) -> Usage:
        """The usage of all rounds, as far as it was reported."""
        return self.usage_keys.read(self._total_usage()) or Usage()

    def _take_model(self, name: object) -> None:
        """Note which model answers."""
        if isinstance(name, str) and name:
            self.models.add(name)

    def _has_hosted_calls(self) -> bool:
        """Report whether the provider called tools of its own, whose results it counts as input."""
        return False

    def _total_usage(self) -> Record:
        """Return the usage of all rounds."""
        return add_usage(self._before, self._usage)

    def _client_usage(self) -> Record:
        """Return the usage for the client: output of all rounds, input of the last."""
        if not self._before:
            return self._usage
        usage = client_usage(self._total_usage(), self._usage, self.inputs)
        if self.total_field in usage:
            usage[self.total_field] = sum(count_in(usage, name) for name in self.summed_fields)
        return usage


class Wire(Protocol):
    """One provider format."""

    @property
    def format(self) -> str:
        """Its name, e.g. `anthropic`."""

    def read(self, body: object, *, path: str) -> ClientRequest:
        """Read a client's body. `path` is the URL's path, with the query if there is one.

        Raises `BadRequest` for what no provider accepts; unknown fields are accepted.
        """

    def upstream_body(
        self, request: ClientRequest, rendered: Record, *, extra_system: str, own_tools: list[Record]
    ) -> Record:
        """Return the body to send upstream: the client's, with `rendered["messages"]` as messages.

        The client's system part is kept, followed by `extra_system`; `own_tools` follow the client's
        tools. Nothing else changes, and no argument is modified.
        """

    def with_usage(self, body: Record) -> Record:
        """Return the body with a request to report the usage, in formats whose streams have none by default."""

    def without_calls(self, body: Record) -> Record:
        """Return the body with tool calls forbidden. The definitions stay: past calls refer to them."""

    def answer(self, request: ClientRequest, *, own_names: frozenset[str]) -> UpstreamAnswer:
        """Create the reader and rewriter of the answer to `request`."""

    def error(self, status: int, message: str, *, kind: str | None = None, param: str | None = None) -> Record:
        """Return the provider's error body; `kind` is the error's type, by default that of `status`."""

    def ping(self) -> bytes:
        """Return keep-alive bytes that clients of this format ignore, to send between two events."""
