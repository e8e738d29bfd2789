"""Hypothesis strategies for turns and for the records of each provider.

Texts hold what breaks programs: lone surrogates, NUL, emoji, right-to-left marks. Records come in the shape that
their format renders (`standard_records`), or with fields nobody knows put in anywhere (`records`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC
from typing import Any

from hypothesis import strategies as st

from foveate.turn import (
    ROLES,
    Attachment,
    Json,
    Kind,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

Record = dict[str, Any]

_AWKWARD = ["\ud800", "\udfff", "\x00", "👩‍👩‍👧", "\u202e", "é", "\r\n", "</system>", '"', "\\", "{", "null"]
characters = st.characters(exclude_categories=())
texts = st.one_of(
    st.text(characters, max_size=12), st.lists(st.sampled_from([*_AWKWARD, "word ", "a"]), max_size=5).map("".join)
).map(lambda text: str(json.loads(json.dumps(text))))
"""Any text that JSON has a form for; the one it has none for is a pair of surrogates that is not one character."""
words = texts.map(lambda text: f"w{text}.")
"""Texts that no provider refuses as blank."""
ids = st.from_regex(r"[a-zA-Z0-9_-]{1,24}", fullmatch=True)
names = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
base64s = st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode())

numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False, width=32)
leaves = st.none() | st.booleans() | numbers | texts
jsons: st.SearchStrategy[Json] = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, jsons, max_size=3)


def compact(value: Json) -> str:
    """JSON as models write it: no spaces, escapes only where UTF-8 has no form."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


# Canonical values


def optional(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[str | None]:
    return st.none() | strategy


attachments = st.builds(
    Attachment,
    st.sampled_from(["image", "audio", "video", "file"]),
    uri=optional(texts),
    file_id=optional(ids),
    data=optional(base64s),
    media_type=st.sampled_from([None, "image/png", "audio/wav", "text/plain", "application/pdf"]),
    name=optional(texts),
)
opaques = st.builds(Opaque, st.sampled_from(["openai", "openai-responses", "anthropic", "gemini", "other"]), jsons)
reasonings = st.builds(Reasoning, texts, signature=optional(texts), encrypted=optional(texts), id=optional(ids))
tool_calls = st.builds(ToolCall, texts, jsons, id=optional(texts), signature=optional(texts))
tool_results = st.builds(
    ToolResult,
    optional(texts),
    st.lists(st.builds(Text, texts) | attachments | opaques, max_size=3).map(tuple),
    name=optional(texts),
    is_error=st.booleans(),
    exit_code=st.none() | st.integers(-255, 255),
    duration_seconds=st.none() | st.floats(0, 1e6),
)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts), reasonings, attachments, tool_calls, tool_results, opaques
)
usages = st.builds(Usage, *[st.integers(0, 10**9)] * 5)
kinds: st.SearchStrategy[Kind] = st.sampled_from(["message", "injection", "display"])
messages = st.builds(
    Message,
    st.sampled_from(ROLES),
    st.lists(parts, max_size=4).map(tuple),
    kind=kinds,
    at=st.none() | st.datetimes(timezones=st.just(UTC)),
    name=optional(texts),
    model=optional(texts),
    usage=st.none() | usages,
)
"""Any message at all, sensible or not."""


@st.composite
def conversations(draw: st.DrawFn, *, with_ids: bool = True) -> list[Message]:
    """Prompts, answers, calls and results; result `n` says `result of n`, call `n` has the argument `n`.

    Results may come late, in any order, in tool or user messages, after something else was said, or not at all.
    """
    spoken: list[Message] = []
    waiting: list[ToolCall] = []
    count = 0

    def result(call: ToolCall) -> ToolResult:
        number = call.arguments["n"]  # type: ignore[index, call-overload]
        name = draw(st.sampled_from([None, call.name])) if with_ids else call.name
        return ToolResult(call.id, (Text(f"result of {number} {draw(texts)}"),), name=name)

    for _ in range(draw(st.integers(1, 7))):
        match draw(st.sampled_from(["user", "system", "assistant", "results", "results"])):
            case "user" | "system" as role:
                said = st.builds(Text, words) | (attachments if role == "user" else st.nothing())
                spoken.append(Message(role, tuple(draw(st.lists(said, min_size=1, max_size=2)))))
            case "assistant":
                own: list[Part] = draw(st.lists(st.builds(Text, words) | reasonings, max_size=2))
                for _ in range(draw(st.integers(0, 3))):
                    count += 1
                    call_id = f"id{count}" if with_ids else None
                    own.append(ToolCall(f"tool_{count}", {**draw(json_objects), "n": count}, id=call_id))
                own = draw(st.permutations(own))
                own = [part for part in own if not isinstance(part, ToolCall)] if not with_ids and waiting else own
                waiting += [part for part in own if isinstance(part, ToolCall)]
                spoken.append(Message("assistant", tuple(own)))
            case _ if waiting:
                chosen = draw(st.lists(st.sampled_from(waiting), min_size=1, unique_by=lambda call: call.name))
                waiting = [call for call in waiting if call not in chosen]
                if draw(st.booleans()):
                    spoken += [Message("tool", (result(call),)) for call in chosen]
                else:
                    said_too = tuple(draw(st.lists(st.builds(Text, words), max_size=1)))
                    spoken.append(Message("user", (*map(result, chosen), *said_too)))
    return spoken


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    """A prompt and what it led to."""
    prompt = Message("user", (Text(draw(words)),), at=draw(st.none() | st.datetimes(timezones=st.just(UTC))))
    return Turn(
        (prompt, *draw(conversations())), number=draw(st.integers(0, 10**6)), tokens=draw(st.integers(0, 10**6))
    )


# Records


def _object(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Record]:
    return st.fixed_dictionaries(fields)


def _block(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Record]:
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


def _plain_or_several(text: str, *others: st.SearchStrategy[Record]) -> st.SearchStrategy[Any]:
    """Plain text, or what would not go out as plain text: several blocks, or one that is none."""
    block = _block(text, text=words)
    several = st.lists(st.one_of(block, *others), min_size=2, max_size=3)
    return st.one_of(words, several, *[st.lists(other, min_size=1, max_size=1) for other in others])


_data_uris = st.builds("data:{};base64,{}".format, st.sampled_from(["image/png", "application/pdf"]), base64s)
_urls = st.just("https://example.org/picture.png")
_arguments = json_objects.map(compact)

_openai_user_blocks = (
    _block("image_url", image_url=_object(url=_urls | _data_uris)),
    _block("file", file=_object(file_id=ids)),
    _block("file", file=_object(file_data=_data_uris, filename=words)),
    _block("input_audio", input_audio=_object(data=base64s, format=st.sampled_from(["wav", "mp3"]))),
)


def _unique_ids(key: str) -> Callable[[list[Record]], list[Record]]:
    def number(calls: list[Record]) -> list[Record]:
        return [{**call, key: f"{call[key]}_{index}"} for index, call in enumerate(calls)]

    return number


_openai_calls = st.lists(
    st.one_of(
        _object(id=ids, type=st.just("function"), function=_object(name=names, arguments=_arguments)),
        _object(id=ids, type=st.just("custom"), custom=_object(name=names, input=texts)),
    ),
    min_size=1,
    max_size=3,
).map(_unique_ids("id"))

_openai = st.one_of(
    _object(role=st.sampled_from(["system", "developer"]), content=_plain_or_several("text")),
    _object(role=st.just("user"), content=_plain_or_several("text", *_openai_user_blocks)),
    _object(role=st.just("user"), name=names, content=st.just("") | words),
    _object(role=st.just("assistant"), content=_plain_or_several("text") | st.just("")),
    _object(role=st.just("assistant"), content=st.none() | words, tool_calls=_openai_calls),
    _object(role=st.just("assistant"), content=st.none(), audio=_object(id=ids)),
    _object(role=st.just("tool"), tool_call_id=ids, content=texts | _plain_or_several("text")),
)

_responses_input = (
    _block("input_image", image_url=_urls | _data_uris),
    _block("input_image", file_id=ids),
    _block("input_file", file_id=ids),
    _block("input_file", file_url=_urls),
    _block("input_file", file_data=_data_uris, filename=words),
)
_summaries = st.lists(_block("summary_text", text=words), max_size=1)
_responses = st.one_of(
    _object(
        role=st.sampled_from(["system", "developer", "user"]), content=_plain_or_several("input_text") | st.just("")
    ),
    _object(role=st.just("user"), content=_plain_or_several("input_text", *_responses_input)),
    _object(role=st.just("assistant"), content=words),
    _block("message", role=st.just("assistant"), content=st.lists(_block("output_text", text=words), min_size=2)),
    _block("reasoning", id=ids, summary=_summaries, encrypted_content=words),
    _block("reasoning", id=ids, summary=_summaries),
    _block("reasoning", summary=_summaries, encrypted_content=words),
    _block("function_call", call_id=ids, name=names, arguments=_arguments),
    _block("custom_tool_call", call_id=ids, name=names, input=texts),
    _block("function_call_output", call_id=ids, output=texts | _plain_or_several("input_text", *_responses_input)),
    _block("web_search_call", id=ids, status=st.just("completed"), action=_object(query=texts)),
    _block("mcp_call", id=ids, name=names, server_label=names, arguments=_arguments, output=texts),
)

_image_sources = st.one_of(
    _block("base64", media_type=st.just("image/png"), data=base64s),
    _block("url", url=_urls),
    _block("file", file_id=ids),
)
_document_sources = st.one_of(
    _block("base64", media_type=st.just("application/pdf"), data=base64s),
    _block("url", url=_urls),
    _block("text", media_type=st.just("text/plain"), data=texts),
)
_anthropic_input = (
    _block("image", source=_image_sources),
    _block("document", source=_document_sources),
    _block("document", source=_document_sources, title=words),
)
_anthropic_results = st.lists(
    st.one_of(
        _block("tool_result", tool_use_id=ids, content=st.just("") | _plain_or_several("text", *_anthropic_input)),
        _block("tool_result", tool_use_id=ids, content=words, is_error=st.just(True)),
    ),
    min_size=1,
    max_size=3,
).map(_unique_ids("tool_use_id"))
_anthropic_calls = st.lists(_block("tool_use", id=ids, name=names, input=json_objects), min_size=1, max_size=3).map(
    _unique_ids("id")
)
_anthropic_thoughts = st.lists(
    _block("thinking", thinking=texts, signature=words) | _block("redacted_thinking", data=words), max_size=2
)
_server_tools = st.lists(
    _block("server_tool_use", id=ids, name=st.just("web_search"), input=json_objects)
    | _block("web_search_tool_result", tool_use_id=ids, content=st.lists(json_objects, max_size=2)),
    max_size=2,
)


def _joined(*lists: st.SearchStrategy[list[Record]]) -> st.SearchStrategy[list[Record]]:
    return st.tuples(*lists).map(lambda drawn: [block for blocks in drawn for block in blocks])


_anthropic_texts = st.lists(_block("text", text=words), max_size=2)
_anthropic = st.one_of(
    _object(role=st.just("user"), content=_plain_or_several("text", *_anthropic_input)),
    _object(role=st.just("user"), content=_joined(_anthropic_results, _anthropic_texts)),
    _object(role=st.just("assistant"), content=words),
    _object(
        role=st.just("assistant"),
        content=_joined(_anthropic_thoughts, _server_tools, _anthropic_texts, _anthropic_calls),
    ),
)


def _gemini_call(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[Record]:
    return _object(functionCall=_object(name=names, args=json_objects), **more) | _object(
        functionCall=_object(id=ids, name=names, args=json_objects), **more
    )


_gemini_responses = st.one_of(
    _object(output=words),
    _object(error=words),
    json_objects.filter(lambda value: not (len(value) == 1 and set(value) <= {"output", "error"})),
)
_gemini_media = (
    _object(inlineData=_object(mimeType=st.just("image/png"), data=base64s)),
    _object(fileData=_object(mimeType=st.just("video/mp4"), fileUri=_urls)),
)
_gemini_answers = _object(
    functionResponse=_object(name=names, response=_gemini_responses)
    | _object(id=ids, name=names, response=_gemini_responses)
    | _object(name=names, response=_gemini_responses, parts=st.lists(_gemini_media[0], min_size=1, max_size=2))
)
_gemini = st.one_of(
    _object(
        role=st.just("user"), parts=st.lists(st.one_of(_object(text=words), *_gemini_media), min_size=1, max_size=3)
    ),
    _object(role=st.just("user"), parts=st.lists(_gemini_answers, min_size=1, max_size=3)),
    _object(
        role=st.just("model"),
        parts=st.lists(
            st.one_of(
                _object(text=words),
                _object(text=texts, thoughtSignature=words),
                _object(text=words, thought=st.just(True)),
                _object(text=words, thought=st.just(True), thoughtSignature=words),
                _object(executableCode=_object(language=st.just("PYTHON"), code=texts)),
                _object(codeExecutionResult=_object(outcome=st.just("OUTCOME_OK"), output=texts)),
                _gemini_call(),
                _gemini_call(thoughtSignature=words),
            ),
            min_size=1,
            max_size=4,
        ),
    ),
)

standard_records: dict[str, st.SearchStrategy[Record]] = {
    "openai": _openai,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
"""Well-formed records in the normal form of each provider's format."""


@st.composite
def _with_unknown_fields(draw: st.DrawFn, record: Any) -> Any:
    if isinstance(record, list):
        return [draw(_with_unknown_fields(element)) for element in record]
    if not isinstance(record, dict):
        return record
    known = {key: draw(_with_unknown_fields(value)) for key, value in record.items()}
    return {**known, "x_new": draw(jsons)} if draw(st.booleans()) else known


def records(name: str) -> st.SearchStrategy[Record]:
    """A provider's records as a later version of its API might send them."""
    return standard_records[name].flatmap(_with_unknown_fields)
