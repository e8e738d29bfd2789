"""OpenAI Responses: `POST /v1/responses`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from foveate.errors import BadRequest, BadUpstream
from foveate.server.gateway.wires.fields import (
    Record,
    check_content,
    decode,
    encode,
    int_in,
    joined,
    limit_in,
    parse_arguments,
    record_in,
    records_in,
    request_flag,
    request_object,
    request_objects,
    request_text,
    text_in,
    text_of,
    texts_in,
    usage_in,
)
from foveate.server.gateway.wires.openai import OpenAIShared, leading
from foveate.server.gateway.wires.wire import ClientRequest, OwnCall, UpstreamAnswer
from foveate.server.sse import SseEvent, write_event
from foveate.session.client_calls import UsageKeys
from foveate.session.client_requests import unique_ids

STATE_KEYS: Final = ("previous_response_id", "conversation")
"""Fields that add the provider's stored history to the input."""
BEGINNINGS: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
ENDS: Final = frozenset({"response.completed", "response.incomplete"})
TEXT_DELTAS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})
HOSTED_CALLS: Final = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
"""Calls that the provider answers itself."""
_TEXT_EVENTS: Final = {
    "output_text": {"text": "response.output_text"},
    "refusal": {"refusal": "response.refusal"},
    "reasoning_text": {"text": "response.reasoning_text"},
    "summary_text": {"text": "response.reasoning_summary_text"},
    "function_call": {"arguments": "response.function_call_arguments"},
    "custom_tool_call": {"input": "response.custom_tool_call_input"},
}
"""The fields of an item or a part that are streamed as text, by its type, with their events."""
_PART_EVENTS: Final = {
    "content": ("response.content_part", "content_index"),
    "summary": ("response.reasoning_summary_part", "summary_index"),
}


class OpenAIResponsesWire(OpenAIShared):
    format = "openai-responses"

    def read(self, body: object, *, path: str) -> ClientRequest:  # noqa: ARG002
        data = request_object(body)
        items = _input_items(data)
        tools = request_objects(data, "tools")
        start = leading(items)
        texts = [request_text(data, "instructions"), *(text_of(item.get("content")) for item in items[:start])]
        return ClientRequest(
            body=data,
            model=request_text(data, "model"),
            is_stream=request_flag(data, "stream"),
            system="\n".join(text for text in texts if text),
            messages=items[start:],
            tools=tools,
            tool_names=frozenset(name for tool in tools if isinstance(name := tool.get("name"), str)),
            max_output_tokens=limit_in(data, "max_output_tokens"),
            is_background=request_flag(data, "background"),
            hints=_hints(data),
        )

    def upstream_body(
        self, request: ClientRequest, rendered: Record, *, extra_system: str, own_tools: list[Record]
    ) -> Record:
        body = dict(request.body)
        messages: list[Record] = rendered["messages"]
        is_same = messages is request.messages or messages == request.messages
        extra: list[Record] = []
        if extra_system and (instructions := request_text(body, "instructions")):
            body["instructions"] = f"{instructions}\n\n{extra_system}"
        elif extra_system:
            content = [{"type": "input_text", "text": extra_system}]
            extra = [{"type": "message", "role": "developer", "content": content}]
        items = _input_items(body)
        sent = [*items[: leading(items)], *extra, *messages]
        unique = unique_ids(sent)
        if extra or not is_same or unique != sent:
            body["input"] = unique
        # What the provider stores under another request is not counted here; the messages have the whole history.
        for key in STATE_KEYS:
            body.pop(key, None)
        if own_tools:
            body["tools"] = [*request.tools, *own_tools]
        return body

    def answer(self, request: ClientRequest, *, own_names: frozenset[str]) -> OpenAIResponsesAnswer:
        return OpenAIResponsesAnswer(request, own_names)


def _input_items(body: Record) -> list[Record]:
    value = body.get("input")
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if value is None and any(body.get(key) for key in (*STATE_KEYS, "prompt")):
        return []
    items = request_objects(body, "input", is_required=True)
    for i, item in enumerate(items):
        if not isinstance(item.get("type", item.get("role")), str):
            raise BadRequest("must have a type or a role", f"input[{i}]")
        if "role" in item:
            check_content(item.get("content"), f"input[{i}].content")
    return items


def _hints(body: Record) -> dict[str, str]:
    keys = ("prompt_cache_key", "previous_response_id", "conversation", "safety_identifier", "user")
    conversation = body.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    return {
        **texts_in(body.get("metadata"), "metadata."),
        **texts_in(body.get("client_metadata"), "client_metadata."),
        **texts_in({key: body.get(key) for key in keys} | {"conversation": conversation}),
    }


@dataclass
class _Item:
    """An output item as it arrives."""

    whole: Record
    index: int | None
    """Its output index for the client; None if it is hidden."""
    new_id: str
    """Its id for the client."""
    texts: dict[int, list[str]] = field(default_factory=dict)
    """Text of a message by the index of its part, used if the stream is cut off."""
    is_done: bool = False

    def kept(self) -> Record | None:
        """Return the complete item, or the text so far of an interrupted message; otherwise None."""
        if self.is_done:
            return self.whole
        texts = [joined(pieces) for _, pieces in sorted(self.texts.items())]
        if self.whole.get("type") != "message" or not any(texts):
            return None
        content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
        return {**self.whole, "content": content, "status": "incomplete"}

    def shown(self) -> Record | None:
        kept = self.kept()
        return kept if kept is None or kept.get("id") in (None, self.new_id) else {**kept, "id": self.new_id}


class OpenAIResponsesAnswer(UpstreamAnswer):
    contents = frozenset({"output"})
    inputs = frozenset({"input_tokens", "input_tokens_details"})
    usage_keys = UsageKeys(
        "input_tokens",
        "output_tokens",
        "input_tokens_details.cached_tokens",
        "input_tokens_details.cache_write_tokens",
        "output_tokens_details.reasoning_tokens",
    )
    counted_inputs = ("input_tokens",)
    total_field = "total_tokens"
    summed_fields = ("input_tokens", "output_tokens")

    def __init__(self, request: ClientRequest, own_names: frozenset[str]) -> None:
        super().__init__(request, own_names)
        self._response: Record = {}
        """The newest response object of this round."""
        self._end = "response.completed"
        self._items: dict[int, _Item] = {}
        self._next_index = 0
        self._next_number: int | None = None
        self._used_ids: set[str] = set()
        """Ids of the items of earlier rounds."""
        self._shown: list[Record] = []
        """Items of earlier rounds without own calls."""

    @property
    def own_calls(self) -> list[OwnCall]:
        return [
            OwnCall(
                text_in(item.whole, "call_id"),
                text_in(item.whole, "name"),
                parse_arguments(text_in(item.whole, "arguments")),
            )
            for item in self._items.values()
            if item.index is None and item.is_done
        ]

    @property
    def has_client_calls(self) -> bool:
        return any(item.index is not None and item.is_done and _is_call(item.whole) for item in self._items.values())

    def _has_hosted_calls(self) -> bool:
        return any(item.whole.get("type") in HOSTED_CALLS for item in self._items.values())

    @property
    def round_messages(self) -> list[Record]:
        return [kept for item in self._items.values() if (kept := item.kept()) is not None]

    def feed(self, event: SseEvent) -> list[bytes]:
        if event.data.strip() == b"[DONE]":
            return []
        data = decode(event.data)
        kind = text_in(data, "type") or event.name
        if kind in ENDS:
            self._take_end(kind, data)
            return []
        if kind in BEGINNINGS or kind == "response.failed":
            return self._pass_response(kind, event, data)
        self.has_failed |= kind == "error"
        if "output_index" not in data:
            return self._pass(kind, event, data, {})
        item = self._take_item(kind, data)
        if item.index is None:
            return []
        changes: Record = {} if data["output_index"] == item.index else {"output_index": item.index}
        # Some providers change an item's id between its events; clients compare them.
        if item.new_id and data.get("item_id", item.new_id) != item.new_id:
            changes["item_id"] = item.new_id
        if item.new_id and "item" in data and record_in(data, "item").get("id") != item.new_id:
            changes["item"] = {**record_in(data, "item"), "id": item.new_id}
        return self._pass(kind, event, data, changes)

    def _pass_response(self, kind: str, event: SseEvent, data: Record) -> list[bytes]:
        """Pass on an event with the whole response; start events only in the first round."""
        self._response = record_in(data, "response")
        self._usage = usage_in(self._response, "usage")
        self._take_model(self._response.get("model"))
        if not self._first:
            self._first = self._response
        if kind == "response.failed":
            self.has_failed = True
        elif self.rounds > 1:
            return []
        public = self._public(self._response)
        if kind == "response.failed":
            public["output"] = self.shown_messages()
        return self._pass(kind, event, data, {} if public == self._response else {"response": public})

    def _pass(self, kind: str, event: SseEvent, data: Record, changes: Record) -> list[bytes]:
        number = int_in(data, "sequence_number")
        if number is not None:
            if self._next_number is None:
                self._next_number = number
            if number != self._next_number:
                changes = {**changes, "sequence_number": self._next_number}
            self._next_number += 1
        return [write_event(encode({**data, **changes}) if changes else event.data, name=kind)]

    def _take_item(self, kind: str, data: Record) -> _Item:
        index = int_in(data, "output_index")
        if index is None:
            raise BadUpstream(f"{kind} has no output_index")
        item = self._items.get(index)
        if kind in {"response.output_item.added", "response.output_item.done"}:
            whole = _checked(record_in(data, "item"))
            if item is None:
                item = self._add(index, whole)
            elif kind == "response.output_item.added":
                raise BadUpstream(f"a second output item with the index {index}")
            else:
                item.whole = whole
            item.is_done = kind == "response.output_item.done"
        elif item is None:
            raise BadUpstream(f"{kind} for the output item {index}, which was not added")
        elif kind in TEXT_DELTAS:
            part = int_in(data, "content_index") or 0
            item.texts.setdefault(part, []).append(text_in(data, "delta"))
        return item

    def _add(self, index: int, whole: Record) -> _Item:
        is_own = whole.get("type") == "function_call" and not whole.get("namespace")
        is_own = is_own and whole.get("name") in self.own_names
        item_id = text_in(whole, "id")
        new_id = f"{item_id}_r{self.rounds}" if item_id in self._used_ids else item_id
        item = self._items[index] = _Item(whole, None if is_own else self._next_index, new_id)
        self._next_index += not is_own
        return item

    def _take_end(self, kind: str, data: Record) -> None:
        self._complete(kind, record_in(data, "response"))
        # The held event gets the last sequence number.
        number = int_in(data, "sequence_number")
        if self._next_number is None:
            self._next_number = number

    def _complete(self, kind: str, response: Record) -> None:
        self._usage = usage_in(response, "usage")
        self._take_model(response.get("model"))
        output = records_in(response, "output")
        for whole in output:
            _checked(whole)
        if not self._items:
            for index, whole in enumerate(output):
                self._add(index, whole)
        ids = {whole["id"]: whole for whole in output if whole.get("id")}
        for index, item in self._items.items():
            if not item.is_done:
                last = output[index] if len(output) == len(self._items) and index < len(output) else None
                item.whole = ids.get(item.whole.get("id")) or last or item.whole
                item.is_done = True
        self._response, self._end, self.is_complete = response, kind, True
        if not self._first:
            self._first = response

    def load(self, body: Record) -> None:
        self._check(body)
        self._complete("response.incomplete" if body.get("status") == "incomplete" else "response.completed", body)

    def _events(self, body: Record) -> Iterator[SseEvent]:
        begun = {**body, "status": "in_progress", "output": [], "usage": None}
        ends = {"incomplete": "response.incomplete", "failed": "response.failed"}
        events = [
            *({"type": kind, "response": begun} for kind in ("response.created", "response.in_progress")),
            *(event for index, item in enumerate(records_in(body, "output")) for event in _item_events(index, item)),
            {"type": ends.get(text_in(body, "status"), "response.completed"), "response": body},
        ]
        for number, event in enumerate(events):
            yield SseEvent(event["type"], encode({**event, "sequence_number": number}))

    def follow_up(self, body: Record, results: list[tuple[OwnCall, str]]) -> Record:
        answers = [{"type": "function_call_output", "call_id": call.id, "output": text} for call, text in results]
        return {**body, "input": unique_ids([*_input_items(body), *self.round_messages, *answers])}

    def next_round(self) -> None:
        self._shown = self.shown_messages()
        self._used_ids |= {item_id for item in self._items.values() if (item_id := item.new_id)}
        super().next_round()
        self._items, self._response = {}, {}

    def finish(self) -> list[bytes]:
        event: Record = {"type": self._end}
        if self._next_number is not None:
            event["sequence_number"] = self._next_number
        return [write_event(encode({**event, "response": self.result()}), name=self._end)]

    def result(self) -> Record:
        body = {**self._public(self._response), "output": self.shown_messages()}
        usage = self._client_usage()
        return {**body, "usage": usage} if usage else body

    def _public(self, response: Record) -> Record:
        """Return a response object for the client's own request, without own tools and instructions."""
        public = dict(response)
        for key in ("id", "created_at"):
            if key in self._first:
                public[key] = self._first[key]
        tools = public.get("tools")
        if self.own_names and isinstance(tools, list):
            public["tools"] = [tool for tool in tools if not self._is_own_tool(tool)]
        sent, instructions = self.request.body.get("instructions") or "", public.get("instructions")
        if isinstance(instructions, str) and isinstance(sent, str) and instructions.startswith(f"{sent}\n\n"):
            public["instructions"] = sent
        if "previous_response_id" in public:
            public["previous_response_id"] = self.request.body.get("previous_response_id")
        return public

    def _is_own_tool(self, tool: object) -> bool:
        return isinstance(tool, dict) and tool.get("type") == "function" and tool.get("name") in self.own_names

    def shown_messages(self) -> list[Record]:
        items = (item.shown() for item in self._items.values() if item.index is not None)
        return self._shown + [item for item in items if item is not None]

    def abort(self, message: str, *, kind: str | None = None) -> list[bytes]:
        if self.has_failed:
            return []
        number: Record = {} if self._next_number is None else {"sequence_number": self._next_number}
        if not self._first:
            event = {"type": "error", "code": kind or "server_error", "message": message, "param": None}
            return [write_event(encode({**event, **number}), name="error")]
        error = {"code": kind or "server_error", "message": message}
        output = self.shown_messages()
        response = {**self._public(self._response or self._first), "status": "failed", "error": error, "output": output}
        failed: Record = {"type": "response.failed", **number, "response": response}
        return [write_event(encode(failed), name="response.failed")]


def _item_events(index: int, item: Record) -> Iterator[Record]:
    """Yield the events in which an output item is streamed, each of its texts in one delta."""
    at: Record = {"output_index": index, "item_id": item.get("id")}
    status = {"status": "in_progress"} if "status" in item else {}
    lists = [key for key in _PART_EVENTS if isinstance(item.get(key), list)]
    texts = {key: event for key, event in _TEXT_EVENTS.get(text_in(item, "type"), {}).items() if item.get(key)}
    emptied = {**dict.fromkeys(texts, ""), **{key: [] for key in lists}}
    yield {"type": "response.output_item.added", "output_index": index, "item": {**item, **emptied, **status}}
    for key in lists:
        name, number = _PART_EVENTS[key]
        for place, part in enumerate(records_in(item, key)):
            yield from _part_events({**at, number: place}, part, name)
    for key, event in texts.items():
        yield {"type": f"{event}.delta", **at, "delta": text_in(item, key)}
        yield {"type": f"{event}.done", **at, key: item[key], "name": item.get("name")}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _part_events(at: Record, part: Record, name: str) -> Iterator[Record]:
    texts = {key: event for key, event in _TEXT_EVENTS.get(text_in(part, "type"), {}).items() if part.get(key)}
    notes = [] if "annotations" not in part else records_in(part, "annotations")
    emptied = {**dict.fromkeys(texts, ""), **({"annotations": []} if notes else {})}
    yield {"type": f"{name}.added", **at, "part": {**part, **emptied}}
    for key, event in texts.items():
        probabilities = {"logprobs": part.get("logprobs") or []} if part["type"] == "output_text" else {}
        yield {"type": f"{event}.delta", **at, "delta": text_in(part, key), **probabilities}
        for place, note in enumerate(notes):
            yield {"type": f"{event}.annotation.added", **at, "annotation_index": place, "annotation": note}
        yield {"type": f"{event}.done", **at, key: part[key], **probabilities}
    yield {"type": f"{name}.done", **at, "part": part}


def _checked(item: Record) -> Record:
    """Check the types of the fields that the gateway reads, and return the item."""
    for key in ("type", "id", "call_id", "name"):
        text_in(item, key)
    if item.get("type") == "function_call":
        text_in(item, "arguments")
    return item


def _is_call(item: Record) -> bool:
    """Report whether the client has to answer this item."""
    kind = text_in(item, "type")
    if kind == "tool_search_call":
        return item.get("execution") == "client"
    return kind == "mcp_approval_request" or (kind.endswith("_call") and kind not in HOSTED_CALLS)
