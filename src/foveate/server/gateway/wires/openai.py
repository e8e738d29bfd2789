"""OpenAI Chat Completions: `POST /v1/chat/completions`, also supported by many other providers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from foveate.server.gateway.wires.fields import (
    Record,
    answers_in,
    decode,
    encode,
    int_in,
    joined,
    limit_in,
    parse_arguments,
    record_in,
    records_in,
    request_flag,
    request_messages,
    request_object,
    request_objects,
    request_text,
    separator,
    text_in,
    text_of,
    texts_in,
    usage_in,
)
from foveate.server.gateway.wires.wire import ClientRequest, OwnCall, UpstreamAnswer
from foveate.server.sse import SseEvent, write_event
from foveate.session.client_calls import UsageKeys

SYSTEM_ROLES: Final = frozenset({"system", "developer"})
KINDS: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
GROWING: Final = frozenset(
    {
        "arguments",
        "content",
        "data",
        "input",
        "reasoning",
        "reasoning_content",
        "refusal",
        "summary",
        "text",
        "transcript",
    }
)
"""Text fields of a delta that are appended; other fields replace the previous value."""
DONE: Final = b"[DONE]"


def error_body(status: int, message: str, *, kind: str | None, param: str | None) -> Record:
    """Return the error body of OpenAI's APIs."""
    default = KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")  # noqa: PLR2004
    return {"error": {"message": message, "type": kind or default, "param": param, "code": None}}


class OpenAIShared:
    """Base of the wires of OpenAI's two APIs."""

    def error(self, status: int, message: str, *, kind: str | None = None, param: str | None = None) -> Record:
        return error_body(status, message, kind=kind, param=param)

    def with_usage(self, body: Record) -> Record:
        return body

    def without_calls(self, body: Record) -> Record:
        return {**body, "tool_choice": "none"}

    def ping(self) -> bytes:
        return b": ping\n\n"


def is_system(message: Record) -> bool:
    return message.get("role") in SYSTEM_ROLES


def leading(messages: list[Record]) -> int:
    """Return the number of system and developer messages at the beginning."""
    return next((i for i, message in enumerate(messages) if not is_system(message)), len(messages))


class OpenAIWire(OpenAIShared):
    format = "openai"

    def read(self, body: object, *, path: str) -> ClientRequest:  # noqa: ARG002
        data = request_object(body)
        messages = request_messages(data)
        tools = request_objects(data, "tools")
        start = leading(messages)
        return ClientRequest(
            body=data,
            model=request_text(data, "model"),
            is_stream=request_flag(data, "stream"),
            system="\n".join(text_of(message.get("content")) for message in messages[:start]),
            messages=messages[start:],
            tools=tools,
            tool_names=frozenset(_tool_names(tools)),
            max_output_tokens=limit_in(data, "max_completion_tokens", "max_tokens"),
            answers=answers_in(data, "n", "best_of"),
            hints=_hints(data),
        )

    def upstream_body(
        self, request: ClientRequest, rendered: Record, *, extra_system: str, own_tools: list[Record]
    ) -> Record:
        sent: list[Record] = request.body["messages"]
        extra = [{"role": _system_role(sent), "content": extra_system}] if extra_system else []
        body = {**request.body, "messages": [*sent[: leading(sent)], *extra, *rendered["messages"]]}
        if own_tools and "functions" not in body:  # the old form of tools can't be mixed with the new one
            body["tools"] = [*request.tools, *own_tools]
        return body

    def with_usage(self, body: Record) -> Record:
        options = body.get("stream_options") or {}
        if not body.get("stream") or not isinstance(options, dict) or options.get("include_usage") is True:
            return body
        return {"stream_options": None, **body} | {"stream_options": {**options, "include_usage": True}}

    def answer(self, request: ClientRequest, *, own_names: frozenset[str]) -> OpenAIAnswer:
        return OpenAIAnswer(request, own_names)


def _system_role(sent: list[Record]) -> str:
    """Return the role that the client uses for instructions: a model may accept only one of the two."""
    return "developer" if sent and sent[0].get("role") == "developer" else "system"


def _tool_names(tools: list[Record]) -> Iterable[str]:
    for tool in tools:
        for definition in (tool.get("function"), tool.get("custom")):
            if isinstance(definition, dict) and isinstance(name := definition.get("name"), str):
                yield name


def _hints(body: Record) -> dict[str, str]:
    keys = ("prompt_cache_key", "safety_identifier", "user", "session_id")
    return {**texts_in(body.get("metadata"), "metadata."), **texts_in({key: body.get(key) for key in keys})}


class _Pieces:
    """A growing text, joined once when it is read."""

    def __init__(self, text: str) -> None:
        self.texts = [text]


def _merge(whole: Record, delta: Record) -> None:
    """Merge a delta into the received part of a message or a call."""
    for key, value in delta.items():
        before = whole.get(key)
        if isinstance(value, str) and key in GROWING:
            if isinstance(before, _Pieces):
                before.texts.append(value)
            elif isinstance(before, list) and before:
                _grow_block(before, value)
            else:
                whole[key] = _Pieces(value)
        elif isinstance(value, dict):
            if not isinstance(before, dict):
                whole[key] = before = {}
            _merge(before, value)
        elif isinstance(value, list):
            blocks = [{"type": "text", "text": before}] if isinstance(before, _Pieces) and value else []
            whole[key] = _merge_list(before if isinstance(before, list) else blocks, value)
        elif value is not None or key not in whole:
            whole[key] = value


def _grow_block(blocks: list[Any], text: str) -> None:
    """Append text to content that is a list: some providers send thinking blocks first, then plain text."""
    last = blocks[-1]
    if isinstance(last, dict) and last.get("type") == "text" and isinstance(last.get("text"), _Pieces):
        last["text"].texts.append(text)
    else:
        blocks.append({"type": "text", "text": _Pieces(text)})


def _merge_list(whole: list[Any], delta: list[Any]) -> list[Any]:
    """Merge lists: elements with the same `index` are pieces of one, others are appended."""
    for element in delta:
        if not isinstance(element, dict):
            whole.append(element)
            continue
        index = element.get("index")
        same = next((e for e in whole if isinstance(e, dict) and e.get("index") == index), None)
        if index is None or same is None:
            same = {}
            whole.append(same)
        _merge(same, element)
    return whole


def _joined(value: Any) -> Any:
    """Return a copy with the growing texts joined."""
    if isinstance(value, _Pieces):
        return joined(value.texts)
    if isinstance(value, dict):
        return {key: _joined(element) for key, element in value.items()}
    return [_joined(element) for element in value] if isinstance(value, list) else value


@dataclass
class _Call:
    upstream_index: int | None
    is_own: bool | None = None
    """None until the call's name has arrived."""
    index: int = 0
    """Its index for the client."""
    whole: Record = field(default_factory=dict)
    waiting: list[Record] = field(default_factory=list)
    """Deltas that arrived before the name."""

    @property
    def id(self) -> str:
        return text_in(self.whole, "id")

    def name(self) -> str:
        return text_in(record_in(self.whole, "function"), "name") or text_in(record_in(self.whole, "custom"), "name")

    def message(self) -> Record:
        whole: Record = _joined(self.whole)
        whole.pop("index", None)
        return {"id": self.id, "type": "function", **whole}

    def own_call(self) -> OwnCall:
        arguments = record_in(self.message(), "function").get("arguments") or ""
        return OwnCall(self.id, self.name(), parse_arguments(arguments) if isinstance(arguments, str) else arguments)


@dataclass
class _Choice:
    """One choice of a round; almost always there is only the first."""

    own_names: frozenset[str]
    first_call: int = 0
    """The client's index of this round's first call."""
    text_before: str = ""
    """The end of the earlier rounds' text; the first text of this round is separated from it."""
    message: Record = field(default_factory=dict)
    calls: list[_Call] = field(default_factory=list)
    finish_reason: str | None = None
    has_function_call: bool = False

    def add(self, delta: Record) -> Record:
        """Add a delta; return the part that the client gets, which is `delta` itself if nothing is hidden."""
        calls = delta.get("tool_calls")
        if calls is None:
            _merge(self.message, delta)
            self.has_function_call |= bool(delta.get("function_call"))
            return self._separated(delta)
        rest = {key: value for key, value in delta.items() if key != "tool_calls"}
        _merge(self.message, rest)
        sent = records_in(delta, "tool_calls")
        shown = [piece for call in sent for piece in self._add_call(call)]
        if shown == sent:
            return self._separated(delta)
        return self._separated({**rest, "tool_calls": shown} if shown else rest)

    def _separated(self, delta: Record) -> Record:
        text = delta.get("content")
        if not self.text_before or not isinstance(text, str) or not text:
            return delta
        between = separator(self.text_before, text)
        self.text_before = ""
        return {**delta, "content": between + text} if between else delta

    def _add_call(self, delta: Record) -> list[Record]:
        call = self._call_of(delta)
        for key in ("function", "custom"):
            definition = record_in(delta, key)
            text_in(definition, "name")
            text_in(definition, "arguments")
        _merge(call.whole, delta)
        if call.is_own is None:
            name = call.name()
            if not name:
                call.waiting.append(delta)
                return []
            call.is_own = name in self.own_names and "custom" not in call.whole
            call.index = self.first_call + sum(other.is_own is False for other in self.calls) - (not call.is_own)
        if call.is_own:
            return []
        deltas, call.waiting = [*call.waiting, delta], []
        return [one if one.get("index") == call.index else {**one, "index": call.index} for one in deltas]

    def _call_of(self, delta: Record) -> _Call:
        """Find the call that a delta belongs to. Some providers send no index, or the same one for parallel calls."""
        index = int_in(delta, "index")
        call_id = text_in(delta, "id")
        for call in reversed(self.calls):
            is_other = bool(call_id and call.id and call.id != call_id)
            if call.upstream_index == index and not is_other:
                return call
        self.calls.append(_Call(index))
        return self.calls[-1]

    def whole(self, *, with_own: bool) -> Record:
        message: Record = {"role": "assistant", "content": None, **_joined(self.message)}
        calls = [call.message() for call in self.calls if call.is_own is not None and (with_own or not call.is_own)]
        if calls:
            message["tool_calls"] = calls
        else:
            message.pop("tool_calls", None)
        if (calls or self.calls) and message["content"] == "":
            message["content"] = None
        return message

    def has_client_calls(self) -> bool:
        return self.has_function_call or any(call.is_own is False for call in self.calls)


class OpenAIAnswer(UpstreamAnswer):
    contents = frozenset({"choices"})
    inputs = frozenset({"prompt_tokens", "prompt_tokens_details"})
    usage_keys = UsageKeys(
        "prompt_tokens",
        "completion_tokens",
        "prompt_tokens_details.cached_tokens",
        "prompt_tokens_details.cache_write_tokens",
        "completion_tokens_details.reasoning_tokens",
    )
    counted_inputs = ("prompt_tokens",)
    total_field = "total_tokens"
    summed_fields = ("prompt_tokens", "completion_tokens")

    def __init__(self, request: ClientRequest, own_names: frozenset[str]) -> None:
        super().__init__(request, own_names)
        self._last: Record = {}
        self._choices: dict[int, _Choice] = {}
        self._ends: list[Record] = []
        """The chunks of this round with a finish reason or usage alone."""
        self._shown: dict[int, Record] = {}
        """The message of each choice as shown in earlier rounds."""

    @property
    def own_calls(self) -> list[OwnCall]:
        choice = self._choices.get(0)
        if choice is None or not self.is_complete:
            return []
        return [call.own_call() for call in choice.calls if call.is_own]

    @property
    def has_client_calls(self) -> bool:
        return self.is_complete and any(choice.has_client_calls() for choice in self._choices.values())

    @property
    def round_messages(self) -> list[Record]:
        choice = self._choices.get(0)
        if choice is None:
            return []
        message = choice.whole(with_own=True)
        if not self.is_complete:
            message.pop("tool_calls", None)
        return _spoken(message)

    @property
    def written(self) -> list[Record]:
        return [choice.whole(with_own=True) for choice in self._choices.values()]

    def feed(self, event: SseEvent) -> list[bytes]:
        if event.data.strip() == DONE:
            self.is_complete = True
            return []
        data = decode(event.data)
        if data.get("error"):
            self.has_failed = True
            return [event.encode()]
        usage = self._take_usage(data)
        choices = records_in(data, "choices")
        if not choices and usage:
            if not self.hides_usage:
                self._ends.append(data)
            return []
        shown = [one for choice in choices if (one := self._take(choice)) is not None]
        ended = [choice for choice in choices if choice.get("finish_reason") is not None]
        if ended:
            self._hold(data, ended)
        if choices and not shown:
            return []
        is_same = len(shown) == len(choices) and all(a is b for a, b in zip(shown, choices, strict=True))
        if is_same and self.rounds == 1:
            return [event.encode()]
        if ended:
            # The usage of the last chunk is sent with its finish reason.
            data = {key: value for key, value in data.items() if key != "usage"}
        return [self._chunk({**data, "choices": shown})]

    def _take_usage(self, data: Record) -> Record:
        """Note a chunk or body and its model; return its usage, which replaces an earlier one."""
        self._first, self._last = self._first or data, data
        self._take_model(data.get("model"))
        usage = usage_in(data, "usage")
        self._usage = usage or self._usage
        return usage

    def _take(self, choice: Record) -> Record | None:
        """Read a choice of a chunk; return the part to send now, or None if it is empty."""
        index = int_in(choice, "index") or 0
        state = self._choices.get(index)
        if state is None:
            state = self._choices[index] = self._begin(index)
        delta = record_in(choice, "delta")
        shown = state.add(delta)
        if self.rounds > 1 and "role" in shown:
            shown = {key: value for key, value in shown.items() if key != "role"}
        reason = choice.get("finish_reason")
        if reason is not None:
            state.finish_reason = text_in(choice, "finish_reason")
            self.is_complete = True
            return {**choice, "delta": shown, "finish_reason": None} if _has_content(shown) else None
        if shown is delta:
            return choice
        return {**choice, "delta": shown} if _has_content(shown) or "role" in shown else None

    def _begin(self, index: int) -> _Choice:
        before = self._shown.get(index, {})
        return _Choice(
            self.own_names,
            first_call=len(before.get("tool_calls", ())),
            text_before=text_of(before.get("content"))[-1:],
        )

    def _hold(self, data: Record, ended: list[Record]) -> None:
        choices: list[Record] = []
        for choice in ended:
            delta = record_in(choice, "delta")
            keep = {} if _has_content(delta) or self.rounds > 1 else delta
            choices.append({**choice, "delta": keep})
        self._ends.append({**data, "choices": choices})

    def _chunk(self, data: Record) -> bytes:
        return write_event(encode(self._identified(data)))

    def _identified(self, data: Record) -> Record:
        """Return a later round's chunk or body with the ids of the first round's answer."""
        if self.rounds == 1:
            return data
        same: Record = {key: self._first[key] for key in ("id", "created") if key in self._first}
        usage = {"usage": self._client_usage()} if data.get("usage") else {}
        return {**data, **same, **usage}

    def load(self, body: Record) -> None:
        self._check(body)
        self._take_usage(body)
        for choice in records_in(body, "choices"):
            index = int_in(choice, "index") or 0
            state = self._choices[index] = self._begin(index)
            message = dict(record_in(choice, "message"))
            calls = [{"index": i, **call} for i, call in enumerate(records_in(message, "tool_calls"))]
            state.add({**message, "tool_calls": calls} if calls else message)
            state.finish_reason = text_in(choice, "finish_reason")
        self.is_complete = True

    def _events(self, body: Record) -> Iterator[SseEvent]:
        rest = {key: value for key, value in body.items() if key not in {"choices", "usage"}}
        base = {**rest, "object": "chat.completion.chunk"}
        choices = records_in(body, "choices")
        for choice in choices:
            message = dict(record_in(choice, "message"))
            if calls := records_in(message, "tool_calls"):
                message["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
            said = {key: value for key, value in choice.items() if key != "message"}
            yield _event({**base, "choices": [{**said, "delta": message, "finish_reason": None}]})
        for choice in choices:
            reason = choice.get("finish_reason") or "stop"
            end: Record = {"index": choice.get("index") or 0, "delta": {}, "finish_reason": reason}
            yield _event({**base, "choices": [end]})
        options = self.request.body.get("stream_options")
        if body.get("usage") and isinstance(options, dict) and options.get("include_usage"):
            yield _event({**base, "choices": [], "usage": body["usage"]})
        yield SseEvent("", DONE)

    def follow_up(self, body: Record, results: list[tuple[OwnCall, str]]) -> Record:
        answers = [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in results]
        return {**body, "messages": [*body["messages"], *self.round_messages, *answers]}

    def next_round(self) -> None:
        self._shown = self._all_shown()
        super().next_round()
        self._choices, self._ends = {}, []

    def finish(self) -> list[bytes]:
        ends: list[bytes] = []
        for data in self._ends:
            choices = [
                {**choice, "finish_reason": self._finish_reason(int_in(choice, "index") or 0)}
                for choice in records_in(data, "choices")
            ]
            ends.append(self._chunk({**data, "choices": choices}))
        return [*ends, write_event(DONE)]

    def _finish_reason(self, index: int) -> str:
        choice = self._choices[index]
        reason = choice.finish_reason or "stop"
        return "stop" if reason == "tool_calls" and not choice.has_client_calls() else reason

    def result(self) -> Record:
        choices: list[Record] = []
        sent = {int_in(choice, "index") or 0: choice for choice in records_in(self._last, "choices")}
        for index, message in sorted(self._all_shown().items()):
            rest = {key: value for key, value in sent.get(index, {}).items() if key not in {"delta", "message"}}
            reason = self._finish_reason(index) if index in self._choices else "stop"
            choices.append({"index": index, **rest, "message": message, "finish_reason": reason})
        body = {**self._identified(self._last), "object": "chat.completion", "choices": choices}
        usage = self._client_usage()
        return {**body, "usage": usage} if usage else body

    def shown_messages(self) -> list[Record]:
        message = self._all_shown().get(0)
        return [] if message is None else _spoken(message)

    def _all_shown(self) -> dict[int, Record]:
        shown = dict(self._shown)
        for index, choice in self._choices.items():
            message = choice.whole(with_own=False)
            if not self.is_complete:
                message.pop("tool_calls", None)
            shown[index] = _continued(shown[index], message) if index in shown else message
        return shown

    def abort(self, message: str, *, kind: str | None = None) -> list[bytes]:
        if self.has_failed:
            return []
        return [write_event(encode(error_body(502, message, kind=kind or "upstream_error", param=None)))]


def _event(chunk: Record) -> SseEvent:
    return SseEvent("", encode(chunk))


def _has_content(delta: Record) -> bool:
    return any(value not in (None, "", []) for key, value in delta.items() if key != "role")


def _spoken(message: Record) -> list[Record]:
    return [message] if _has_content(message) else []


def _blocks(content: object) -> object:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _continued(before: Record, message: Record) -> Record:
    """Join the messages of two rounds, as a client adds up deltas."""
    whole = dict(before)
    for key, new in message.items():
        old, value = whole.get(key), new
        if key == "content" and old and value and type(old) is not type(value):
            old, value = _blocks(old), _blocks(value)
        if isinstance(value, str) and isinstance(old, str) and key in GROWING:
            whole[key] = old + (separator(old, value) if key == "content" else "") + value
        elif isinstance(value, list) and isinstance(old, list):
            whole[key] = old + value
        elif value is not None or old is None:
            whole[key] = value
    return whole
