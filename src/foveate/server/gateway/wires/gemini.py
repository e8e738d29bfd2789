"""Gemini: `models/{model}:generateContent` and `:streamGenerateContent`.

The gateway always streams from upstream with `alt=sse`; a client that streams without it gets one JSON array.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from foveate.errors import BadRequest, BadUpstream
from foveate.server.gateway.wires.fields import (
    Record,
    answers_in,
    check_content,
    count_in,
    decode,
    encode,
    int_in,
    joined,
    limit_in,
    record_in,
    records_in,
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

STATUSES: Final = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
EMPTY: Final[Record] = {"text": ""}
"""The part of an answer without content; the client rejects a candidate without any part."""
METHOD: Final = re.compile(r"(?<![^/:])([^/:]+):(\w+)$")
MAX_ITEMS: Final = 10_000
"""Maximum items of a list in arguments; a higher index is rejected, since the list would be filled up to it."""
_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]]+)|\[(?P<index>\d{1,9})\]|\[(?P<quote>['"])(?P<quoted>(?:\\.|(?!(?P=quote)).)*)(?P=quote)\]"""
)
_INNER_LISTS: Final = {
    "contents": ("parts",),
    "systemInstruction": ("parts",),
    "system_instruction": ("parts",),
    "tools": ("functionDeclarations", "function_declarations"),
}
"""Fields of a request, and the lists in them."""
_VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue", "structValue", "listValue")


def error_body(status: int, message: str, *, kind: str | None) -> Record:
    default = STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")  # noqa: PLR2004
    return {"error": {"code": status, "message": message, "status": kind or default}}


class GeminiWire:
    format = "gemini"

    def read(self, body: object, *, path: str) -> ClientRequest:
        data = _with_lists(request_object(body))
        url = urlsplit(path)
        method = METHOD.search(url.path)
        is_stream = method is not None and method[2] == "streamGenerateContent"
        tools = request_objects(data, "tools")
        system = data.get(_key(data, "systemInstruction", "system_instruction"))
        if system is not None and not isinstance(system, dict):
            raise BadRequest("must be an object", "systemInstruction")
        check_content(None if system is None else system.get("parts"), "systemInstruction.parts")
        spelled = (data.get("generationConfig"), data.get("generation_config"))
        configs = [config for config in spelled if isinstance(config, dict)]
        return ClientRequest(
            body=data,
            model=unquote(method[1]) if method else request_text(data, "model").removeprefix("models/"),
            is_stream=is_stream,
            system=text_of(system.get("parts")) if system else "",
            messages=_contents(data),
            tools=tools,
            tool_names=frozenset(_tool_names(tools)),
            max_output_tokens=limit_in(configs[0], "maxOutputTokens", "max_output_tokens")
            if len(configs) == 1
            else None,
            answers=max((answers_in(config, "candidateCount", "candidate_count") for config in configs), default=1),
            hints=_hints(data),
            is_json_array=is_stream and parse_qs(url.query).get("alt") != ["sse"],
        )

    def upstream_body(
        self, request: ClientRequest, rendered: Record, *, extra_system: str, own_tools: list[Record]
    ) -> Record:
        """Return the upstream body. With cached content the API accepts no instructions or tools, so none are added."""
        body = {**request.body, "contents": rendered["messages"]}
        if body.get("cachedContent") or body.get("cached_content"):
            return body
        if extra_system:
            key = _key(body, "systemInstruction", "system_instruction")
            system = body.get(key) or {}
            body[key] = {**system, "parts": [*(system.get("parts") or []), {"text": extra_system}]}
        if own_tools:
            body["tools"] = _with_own(request.tools, own_tools)
        return body

    def with_usage(self, body: Record) -> Record:
        return body

    def without_calls(self, body: Record) -> Record:
        key = _key(body, "toolConfig", "tool_config")
        config = body.get(key) or {}
        calling = _key(config, "functionCallingConfig", "function_calling_config")
        return {**body, key: {**config, calling: {"mode": "NONE"}}}

    def answer(self, request: ClientRequest, *, own_names: frozenset[str]) -> GeminiAnswer:
        return GeminiAnswer(request, own_names)

    def error(self, status: int, message: str, *, kind: str | None = None, param: str | None = None) -> Record:
        prefix = f"{param}: " if param and not message.startswith(param) else ""
        return error_body(status, prefix + message, kind=kind)

    def ping(self) -> bytes:
        """Return a blank line: Google's client reads comments as data. It is also valid in a JSON array."""
        return b"\n"


def _key(data: Record, camel: str, snake: str) -> str:
    """Return the spelling of a key that the client uses; the API accepts both."""
    return snake if snake in data else camel


def _with_lists(body: Record) -> Record:
    """Return a body whose contents, tools and their parts are lists: the API accepts one object instead of a list."""
    read = _listed(body, ("contents", "tools"))
    for key, inner in _INNER_LISTS.items():
        if isinstance(value := read.get(key), list):
            read[key] = [_listed(record, inner) if isinstance(record, dict) else record for record in value]
        elif isinstance(value, dict):
            read[key] = _listed(value, inner)
    return read


def _listed(record: Record, keys: Collection[str]) -> Record:
    """Return an object in which a non-empty object under one of these keys is a list of it."""
    return {
        key: [value] if key in keys and value and isinstance(value, dict) else value for key, value in record.items()
    }


def _contents(body: Record) -> list[Record]:
    contents = request_objects(body, "contents", is_required=True)
    for i, content in enumerate(contents):
        parts = content.get("parts")
        if isinstance(parts, str):
            raise BadRequest("must be a list", f"contents[{i}].parts")
        check_content(parts, f"contents[{i}].parts")
    return contents


def _declarations_key(tool: Record) -> str:
    return _key(tool, "functionDeclarations", "function_declarations")


def _tool_names(tools: list[Record]) -> list[str]:
    names: list[str] = []
    for tool in tools:
        key = _declarations_key(tool)
        names += [d["name"] for d in request_objects(tool, key) if isinstance(d.get("name"), str)]
    return names


def _with_own(tools: list[Record], own_tools: list[Record]) -> list[Record]:
    """Add own functions to the client's entry. Models with built-in search accept no functions."""
    if not tools:
        return own_tools
    last = next((i for i in reversed(range(len(tools))) if _declarations_key(tools[i]) in tools[i]), None)
    if last is None:
        return tools
    key = _declarations_key(tools[last])
    own = [declaration for tool in own_tools for declaration in tool.get("functionDeclarations", ())]
    joined = {**tools[last], key: [*(tools[last][key] or []), *own]}
    return [*tools[:last], joined, *tools[last + 1 :]]


def _hints(body: Record) -> dict[str, str]:
    keys = ("cachedContent", "session_id", "sessionId")
    return {**texts_in(body.get("labels"), "labels."), **texts_in({key: body.get(key) for key in keys})}


class _Parts:
    """Parts in order. Pieces of one text are joined; a part with a signature stays unchanged."""

    def __init__(self) -> None:
        self._parts: list[Record] = []
        self._pieces: list[str] = []
        """The text of the last part, if it may still grow."""

    def add(self, part: Record, *, is_stream: bool) -> None:
        if part == EMPTY:
            return
        is_plain = is_stream and isinstance(part.get("text"), str) and part.keys() <= {"text", "thought"}
        if is_plain and self._pieces and self._parts[-1].get("thought") == part.get("thought"):
            self._pieces.append(part["text"])
            return
        self._parts, self._pieces = [*self.whole(), part], [part["text"]] if is_plain else []

    def whole(self) -> list[Record]:
        if not self._pieces:
            return list(self._parts)
        return [*self._parts[:-1], {**self._parts[-1], "text": joined(self._pieces)}]


@dataclass
class _Candidate:
    """One candidate of a round; almost always there is only the first."""

    own_names: frozenset[str]
    text_before: str = ""
    """The last text of earlier rounds; the first text of this round is separated from it."""
    received: _Parts = field(default_factory=_Parts)
    shown: _Parts = field(default_factory=_Parts)
    own: list[Record] = field(default_factory=list)
    has_client_calls: bool = False
    partial: PartialCall | None = None
    """A call whose arguments are not complete."""

    def add(self, part: Record, *, is_stream: bool) -> Record | None:
        """Add a part; return what the client gets of it, or None if it is hidden."""
        call = record_in(part, "functionCall") if part.get("functionCall") is not None else None
        if call is not None and (self.partial or call.get("willContinue") or call.get("partialArgs")):
            return self._add_piece(part)
        is_own = False
        if call is not None:
            name = text_in(call, "name")
            text_in(call, "id")
            is_own = name in self.own_names
            self.has_client_calls |= not is_own
        text_in(part, "text")
        self.received.add(part, is_stream=is_stream)
        if is_own:
            self.own.append(part)
            return None
        shown = self._separated(part)
        self.shown.add(shown, is_stream=is_stream)
        return shown

    def _add_piece(self, part: Record) -> Record | None:
        """Add a piece of a call; the client gets it unchanged, the log gets the whole call."""
        partial = self.partial or PartialCall()
        is_last = partial.add(part)
        self.partial = None if is_last else partial
        if is_last:
            self.add(partial.whole(), is_stream=True)
        return None if partial.name in self.own_names else part

    def _separated(self, part: Record) -> Record:
        text = part.get("text")
        if not self.text_before or not text or part.get("thought"):
            return part
        between = separator(self.text_before, text)
        self.text_before = ""
        return {**part, "text": between + text} if between else part

    @property
    def is_own_only(self) -> bool:
        return bool(self.own) and not self.has_client_calls


class GeminiAnswer(UpstreamAnswer):
    contents = frozenset({"candidates", "promptFeedback"})
    usage_keys = UsageKeys(
        "promptTokenCount",
        "candidatesTokenCount",
        "cachedContentTokenCount",
        reasoning="thoughtsTokenCount",
        is_reasoning_apart=True,
    )
    counted_inputs = ("promptTokenCount",)
    inputs = frozenset(
        {
            "promptTokenCount",
            "cachedContentTokenCount",
            "toolUsePromptTokenCount",
            "promptTokensDetails",
            "cacheTokensDetails",
            "toolUsePromptTokensDetails",
        }
    )
    total_field = "totalTokenCount"
    summed_fields = ("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")

    def __init__(self, request: ClientRequest, own_names: frozenset[str]) -> None:
        super().__init__(request, own_names)
        if request.is_json_array:
            self.media_type = "application/json"
        self._last: Record = {}
        self._is_loaded = False
        self._candidates: dict[int, _Candidate] = {}
        self._ends: list[Record] = []
        """The chunks of this round with a finish reason."""
        self._shown: dict[int, list[Record]] = {}
        """Parts of each candidate as shown in earlier rounds."""
        self._count = 0
        """Chunks written, for the commas of a JSON array."""

    @property
    def own_calls(self) -> list[OwnCall]:
        candidate = self._candidates.get(0)
        return list(map(self._call, candidate.own)) if candidate else []

    def _call(self, part: Record) -> OwnCall:
        call = record_in(part, "functionCall")
        return OwnCall(text_in(call, "id"), text_in(call, "name"), call.get("args") or {})

    @property
    def has_client_calls(self) -> bool:
        return any(candidate.has_client_calls for candidate in self._candidates.values())

    @property
    def written(self) -> list[Record]:
        return [part for candidate in self._candidates.values() for part in candidate.received.whole()]

    @property
    def round_messages(self) -> list[Record]:
        candidate = self._candidates.get(0)
        return _content(candidate.received.whole()) if candidate else []

    def feed(self, event: SseEvent) -> list[bytes]:
        data = decode(event.data)
        if "error" in data:
            self.has_failed = True
            return [self._write(event.data)]
        if not self._first:
            self._first = data
        self._last = data
        self._take_model(data.get("modelVersion"))
        self._usage = usage_in(data, "usageMetadata") or self._usage
        self.is_complete |= record_in(data, "promptFeedback").get("blockReason") is not None
        candidates = records_in(data, "candidates")
        shown = [self._take(candidate) for candidate in candidates]
        if any(candidate.get("finishReason") is not None for candidate in candidates):
            self.is_complete = True
            return self._hold({**data, "candidates": shown})
        if candidates and all(_is_empty(now) and now != was for now, was in zip(shown, candidates, strict=True)):
            return []
        if shown == candidates and self.rounds == 1:
            return [self._write(event.data)]
        return [self._write(encode(self._identified({**data, "candidates": shown} if candidates else data)))]

    def _take(self, candidate: Record, *, is_stream: bool = True) -> Record:
        """Read a candidate; return it with the parts that the client gets."""
        index = int_in(candidate, "index") or 0
        state = self._candidates.get(index)
        if state is None:
            state = self._candidates[index] = _Candidate(self.own_names, _last_text(self._shown.get(index, [])))
        content = record_in(candidate, "content")
        text_in(candidate, "finishReason")
        sent = records_in(content, "parts")
        parts = [shown for part in sent if (shown := state.add(part, is_stream=is_stream)) is not None]
        return candidate if parts == sent else {**candidate, "content": {**content, "parts": parts}}

    def _hold(self, data: Record) -> list[bytes]:
        """Hold the last chunk back, unless another round follows: then send its content now."""
        shown = data["candidates"]
        is_own_only = any(candidate.is_own_only for candidate in self._candidates.values())
        if not is_own_only or all(_is_empty(candidate) for candidate in shown):
            self._ends.append(data)
            return []
        ends = [{**candidate, "content": _no_content(candidate)} for candidate in shown]
        self._ends.append({**data, "candidates": ends})
        now = [{key: value for key, value in candidate.items() if key != "finishReason"} for candidate in shown]
        chunk = {key: value for key, value in data.items() if key != "usageMetadata"}
        return [self._write(encode(self._identified({**chunk, "candidates": now})))]

    def _identified(self, data: Record) -> Record:
        """Return a later round's chunk with the ids of the first round's answer."""
        if self.rounds == 1:
            return data
        same: Record = {key: self._first[key] for key in ("responseId",) if key in self._first}
        usage = {"usageMetadata": self._client_usage()} if data.get("usageMetadata") else {}
        return {**data, **same, **usage}

    def _write(self, data: bytes) -> bytes:
        if not self.request.is_json_array:
            return write_event(data)
        self._count += 1
        return (b"[" if self._count == 1 else b",\n") + data

    def load(self, body: Record) -> None:
        self._check(body)
        if not self._first:
            self._first = body
        self._last, self._is_loaded, self.is_complete = body, True, True
        self._take_model(body.get("modelVersion"))
        self._usage = usage_in(body, "usageMetadata")
        for candidate in records_in(body, "candidates"):
            self._take(candidate, is_stream=False)

    def _events(self, body: Record) -> Iterator[SseEvent]:
        yield SseEvent("", encode(body))

    def follow_up(self, body: Record, results: list[tuple[OwnCall, str]]) -> Record:
        answers = []
        for call, text in results:
            named = {"id": call.id, "name": call.name} if call.id else {"name": call.name}
            answers.append({"functionResponse": {**named, "response": {"output": text}}})
        return {**body, "contents": [*body["contents"], *self.round_messages, {"role": "user", "parts": answers}]}

    def next_round(self) -> None:
        self._shown = self._all_shown()
        super().next_round()
        self._candidates, self._ends, self._is_loaded = {}, [], False

    def finish(self) -> list[bytes]:
        ends: list[bytes] = []
        has_own = any(candidate.own for candidate in self._candidates.values())
        for data in self._ends:
            candidates = [
                {**candidate, "content": _no_content(candidate)} if has_own and _is_empty(candidate) else candidate
                for candidate in data["candidates"]
            ]
            ends.append(self._write(encode(self._identified({**data, "candidates": candidates}))))
        return ends + self._closed()

    def _closed(self) -> list[bytes]:
        if not self.request.is_json_array:
            return []
        return [b"]" if self._count else b"[]"]

    def result(self) -> Record:
        if self.rounds == 1 and self._is_loaded and not any(one.own for one in self._candidates.values()):
            return self._last
        sent = {int_in(candidate, "index") or 0: candidate for candidate in records_in(self._last, "candidates")}
        candidates = []
        for index, parts in sorted(self._all_shown().items()):
            candidate = sent.get(index, {"index": index})
            content = {"role": "model", **record_in(candidate, "content"), "parts": parts or [EMPTY]}
            candidates.append({**candidate, "content": content})
        body = {**self._identified(self._last), "candidates": candidates}
        usage = self._client_usage()
        return {**body, "usageMetadata": usage} if usage else body

    def shown_messages(self) -> list[Record]:
        return _content(self._all_shown().get(0, []))

    def _all_shown(self) -> dict[int, list[Record]]:
        shown = dict(self._shown)
        for index, candidate in self._candidates.items():
            shown[index] = shown.get(index, []) + candidate.shown.whole()
        return shown

    def abort(self, message: str, *, kind: str | None = None) -> list[bytes]:
        if self.has_failed:
            return self._closed()
        return [self._write(encode(error_body(502, message, kind=kind or "UNAVAILABLE"))), *self._closed()]

    def _total_usage(self) -> Record:
        total = super()._total_usage()
        return {key: _by_modality(value) if key.endswith("Details") else value for key, value in total.items()}


def _last_text(parts: list[Record]) -> str:
    texts = [part["text"] for part in parts if part.get("text") and not part.get("thought")]
    return texts[-1] if texts else ""


def _content(parts: list[Record]) -> list[Record]:
    return [{"role": "model", "parts": parts}] if parts else []


def _is_empty(candidate: Record) -> bool:
    return all(part == EMPTY for part in record_in(candidate, "content").get("parts") or ())


def _no_content(candidate: Record) -> Record:
    return {"role": "model", **record_in(candidate, "content"), "parts": [EMPTY]}


def _by_modality(details: object) -> object:
    """Add up token counts of several rounds, one entry per modality."""
    if not isinstance(details, list):
        return details
    totals: dict[str, Record] = {}
    for detail in details:
        if isinstance(detail, dict):
            key = str(detail.get("modality"))
            count = count_in(totals.get(key, {}), "tokenCount") + count_in(detail, "tokenCount")
            totals[key] = {**detail, "tokenCount": count}
    return list(totals.values())


class PartialCall:
    """A function call as it arrives."""

    def __init__(self) -> None:
        self._part: Record = {}
        self._call: Record = {}
        self._arguments: Record = {}
        self._growing: str | None = None
        """The path of a text that the next piece extends."""

    @property
    def name(self) -> str:
        return text_in(self._call, "name")

    def add(self, part: Record) -> bool:
        """Add a piece; return True if it is the last."""
        call = record_in(part, "functionCall")
        self._part |= part
        self._call |= {key: value for key, value in call.items() if key not in {"args", "partialArgs"}}
        self._arguments |= record_in(call, "args")
        for piece in records_in(call, "partialArgs"):
            self._set(piece)
        return not call.get("willContinue")

    def whole(self) -> Record:
        """Return the whole part."""
        call = {key: value for key, value in self._call.items() if key != "willContinue"}
        return {**self._part, "functionCall": {**call, "args": self._arguments}}

    def _set(self, piece: Record) -> None:
        path = text_in(piece, "jsonPath")
        key = next((key for key in _VALUES if key in piece), None)
        value: object = None if key in (None, "nullValue") else piece[key]
        if key is None and piece.get("willContinue"):
            value = ""
        holder, last = self._holder(path)
        if self._growing == path and isinstance(value, str) and isinstance(holder[last], str):
            value = holder[last] + value
        if key is not None or self._growing != path:
            holder[last] = value
        self._growing = path if piece.get("willContinue") else None

    def _holder(self, path: str) -> tuple[Any, str | int]:
        """Return the object or list that a path ends in, and its last step; missing parents are created."""
        steps = _steps(path)
        holder: Any = self._arguments
        for step, following in pairwise(steps):
            _make_room(holder, step, path)
            if holder[step] is None:
                holder[step] = [] if isinstance(following, int) else {}
            holder = holder[step]
        _make_room(holder, steps[-1], path)
        return holder, steps[-1]


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    position = 1
    while match := _STEP.match(path, position):
        if match["index"] is not None:
            steps.append(int(match["index"]))
        else:
            steps.append(match["name"] or re.sub(r"\\(.)", r"\1", match["quoted"]))
        position = match.end()
    if not path.startswith("$") or position < len(path) or not steps:
        raise BadUpstream(f"a piece of a function call has the path {path[:100]!r}")
    return steps


def _make_room(holder: object, step: str | int, path: str) -> None:
    if isinstance(holder, dict) and isinstance(step, str):
        holder.setdefault(step, None)
    elif isinstance(holder, list) and isinstance(step, int) and step < MAX_ITEMS:
        holder += [None] * (step + 1 - len(holder))
    else:
        raise BadUpstream(f"a piece of a function call has the path {path[:100]!r}, which does not fit the ones before")
