"""Promises that hold for every provider format."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.errors import BadRequest, BadUpstream
from foveate.server.gateway.wires import WIRES, OwnCall, UpstreamAnswer
from foveate.server.gateway.wires.fields import in_cache_order
from foveate.server.sse import SseEvent, SseParser
from support.provider_streams import BODIES, PATHS, REQUESTS, STREAMS, Call, Part, Said, Scripted, Thinking, usage_in

OWN = frozenset({"own_search", "own_read"})
every_wire = pytest.mark.parametrize("format", list(WIRES))

ARGUMENTS = st.dictionaries(st.sampled_from(["a", "q", "ż"]), st.text(max_size=6) | st.integers(0, 9), max_size=2)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@st.composite
def answers(draw: st.DrawFn, number: int = 1, names: tuple[str, ...] = ("own_search", "own_read", "shell")) -> Scripted:
    """Thinking first, then texts and calls; texts are never neighbours, as providers send them."""
    parts: list[Part] = [Thinking(draw(TEXTS), f"sig{number}")] if draw(st.booleans()) else []
    for i, kind in enumerate(draw(st.lists(st.sampled_from(["text", *names]), max_size=5))):
        if kind != "text":
            parts.append(Call(f"call_{number}_{i}", kind, draw(ARGUMENTS)))
        elif not any(isinstance(part, Said) for part in parts):
            parts.append(Said(draw(TEXTS)))
    return Scripted(tuple(parts), number, draw(st.integers(1, 9)), *draw(st.tuples(*[st.integers(3, 90)] * 3)))


def new_answer(format: str, own_names: frozenset[str] = OWN, **fields: Any) -> UpstreamAnswer:  # noqa: A002
    wire = WIRES[format]
    return wire.answer(wire.read({**REQUESTS[format], **fields}, path=PATHS[format]), own_names=own_names)


def events(stream: Iterable[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in stream for event in parser.feed(chunk)] + list(parser.close())


def fed(answer: UpstreamAnswer, stream: Iterable[bytes]) -> list[bytes]:
    return [piece for event in events(stream) for piece in answer.feed(event)]


def decoded(pieces: Iterable[bytes]) -> list[tuple[str, object]]:
    """The events of an answer without pings, which may come anywhere."""
    return [
        (event.name, event.data if event.data == b"[DONE]" else json.loads(event.data))
        for event in events(pieces)
        if event.name != "ping"
    ]


@every_wire
@given(scripted=answers(), data=st.data())
def test_any_split_of_the_bytes_gives_the_same_output(format: str, scripted: Scripted, data: st.DataObject) -> None:  # noqa: A002
    stream = b"".join(STREAMS[format](scripted))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=5)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    whole, split = new_answer(format), new_answer(format)
    assert fed(whole, [stream]) + whole.finish() == fed(split, chunks) + split.finish()


@every_wire
@given(scripted=answers())
def test_a_stream_with_own_calls_hidden_is_the_stream_without_them(format: str, scripted: Scripted) -> None:  # noqa: A002
    hidden, without = new_answer(format), new_answer(format)
    shown = fed(hidden, STREAMS[format](scripted)) + hidden.finish()
    assert decoded(shown) == decoded(fed(without, STREAMS[format](scripted.without(OWN))) + without.finish())
    assert hidden.shown_messages() == without.shown_messages()
    assert [call.name for call in hidden.own_calls] == [
        part.name for part in scripted.parts if isinstance(part, Call) and part.name in OWN
    ]


@every_wire
@given(scripted=answers(names=("shell", "edit")))
def test_a_stream_without_own_calls_is_passed_on_as_it_is(format: str, scripted: Scripted) -> None:  # noqa: A002
    answer = new_answer(format)
    stream = list(STREAMS[format](scripted))
    assert decoded(fed(answer, stream) + answer.finish()) == decoded(stream)


@every_wire
@given(scripted=answers())
def test_a_message_put_together_from_deltas_is_the_one_of_the_json_body(format: str, scripted: Scripted) -> None:  # noqa: A002
    streamed, loaded = new_answer(format), new_answer(format)
    fed(streamed, STREAMS[format](scripted))
    loaded.load(BODIES[format](scripted))
    assert streamed.round_messages == loaded.round_messages
    assert streamed.own_calls == loaded.own_calls
    assert streamed.has_client_calls == loaded.has_client_calls
    assert usage_in(format, streamed.result()) == usage_in(format, loaded.result())
    assert streamed.shown_messages() == loaded.shown_messages()


@every_wire
@given(scripted=answers(names=("shell",)))
def test_a_json_body_without_own_calls_is_returned_as_it_is(format: str, scripted: Scripted) -> None:  # noqa: A002
    answer = new_answer(format)
    body = BODIES[format](scripted)
    answer.load(copy.deepcopy(body))
    assert answer.result() == body


@every_wire
@given(scripted=answers(names=("shell", "edit")))
def test_a_json_body_as_a_stream_is_the_stream_of_the_same_answer(format: str, scripted: Scripted) -> None:  # noqa: A002
    body, usage = BODIES[format](scripted), {"stream_options": {"include_usage": True}}
    sent = new_answer(format, frozenset(), **usage).streamed(body)
    received, streamed = new_answer(format), new_answer(format)
    fed(received, sent)
    fed(streamed, STREAMS[format](scripted))
    assert received.is_complete
    assert received.round_messages == streamed.round_messages
    assert usage_in(format, received.result()) == usage_in(format, streamed.result())
    kinds = [[name for name, _ in decoded(pieces)] for pieces in (sent, STREAMS[format](scripted))]
    assert set(kinds[0]) == set(kinds[1])


@every_wire
@given(first=answers(1, ("own_search", "own_read")), second=answers(2))
def test_two_rounds_are_one_answer(format: str, first: Scripted, second: Scripted) -> None:  # noqa: A002
    streamed, loaded = new_answer(format), new_answer(format)
    for scripted in (first, second):
        if scripted is second:
            streamed.next_round()
            loaded.next_round()
        fed(streamed, STREAMS[format](scripted))
        loaded.load(BODIES[format](scripted))
    assert streamed.shown_messages() == loaded.shown_messages()
    assert streamed.result() == loaded.result()
    usage = usage_in(format, loaded.result())
    assert usage["output_tokens"] == first.output_tokens + second.output_tokens
    assert usage["cache_read_tokens"] == second.cached_tokens


@every_wire
def test_a_follow_up_adds_the_round_and_its_results_and_nothing_else(format: str) -> None:  # noqa: A002
    wire, answer = WIRES[format], new_answer(format)
    call = Call("call_1", "own_search", {"q": "x"})
    fed(answer, STREAMS[format](Scripted((Thinking("hm"), Said("one moment"), call))))
    assert answer.own_calls == [OwnCall("call_1", "own_search", {"q": "x"})]
    assert answer.is_complete
    assert not answer.has_client_calls
    sent = wire.upstream_body(answer.request, {"messages": answer.request.messages}, extra_system="", own_tools=[])
    before = copy.deepcopy(sent)
    body = answer.follow_up(sent, [(answer.own_calls[0], "found")])
    assert sent == before
    [key] = [key for key in body if body[key] != sent[key]]
    added = body[key][1:]
    assert body[key][0] == answer.request.messages[0]
    assert added[: len(answer.round_messages)] == answer.round_messages
    assert "found" in json.dumps(added[-1])
    again = wire.read(body, path=PATHS[format])
    assert again.messages == body[key]


@every_wire
def test_rounds_used_up_end_the_answer_without_a_call(format: str) -> None:  # noqa: A002
    answer, plain = new_answer(format), new_answer(format)
    end = fed(answer, STREAMS[format](Scripted((Call("c", "own_read", {}),)))) + answer.finish()
    assert decoded(end) == decoded(fed(plain, STREAMS[format](Scripted(()))) + plain.finish())


@every_wire
def test_a_client_call_beside_an_own_one_is_passed_on(format: str) -> None:  # noqa: A002
    answer = new_answer(format)
    scripted = Scripted((Call("c1", "own_read", {}), Call("c2", "shell", {"a": 1}), Call("c3", "own_read", {"b": 2})))
    shown = fed(answer, STREAMS[format](scripted)) + answer.finish()
    only = Scripted((Call("c2", "shell", {"a": 1}),))
    assert decoded(shown) == decoded(STREAMS[format](only))
    assert answer.has_client_calls
    assert [call.id for call in answer.own_calls] == ["c1", "c3"]


@every_wire
def test_text_goes_out_with_the_event_that_brings_it(format: str) -> None:  # noqa: A002
    answer = new_answer(format)
    text = "abcdefgh"
    seen = ""
    for event in events(STREAMS[format](Scripted((Said(text), Call("c", "own_read", {})), piece=1))):
        out = b"".join(answer.feed(event)).decode()
        seen += "".join(letter for letter in text if f'"{letter}"' in out)
    assert text in seen


@every_wire
def test_a_stream_that_is_cut_keeps_its_text_and_drops_the_open_call(format: str) -> None:  # noqa: A002
    answer = new_answer(format)
    call = Call("c", "shell", {"command": "a long command line"})
    stream = events(STREAMS[format](Scripted((Said("so far"), call), piece=9)))
    start = next(i for i, event in enumerate(stream) if b"shell" in event.data)
    # Gemini sends a call in one piece.
    for event in stream[: start if format == "gemini" else start + 3]:
        answer.feed(event)
    assert not answer.is_complete
    assert not answer.has_client_calls
    assert "so far" in json.dumps(answer.round_messages)
    assert "command" not in json.dumps(answer.round_messages)
    assert "command" not in json.dumps(answer.shown_messages())
    assert b"upstream broke off" in b"".join(answer.abort("upstream broke off"))


@every_wire
def test_an_emoji_split_between_two_deltas_is_passed_on_and_kept_whole(format: str) -> None:  # noqa: A002
    answer = new_answer(format)
    stream = b"".join(STREAMS[format](Scripted((Call("c", "own_read", {}), Said("a<>b")), piece=2)))
    split = stream.replace(b'"a<"', rb'"a\ud83d"').replace(b'">b"', rb'"\ude00b"').replace(b"a<>b", "a😀b".encode())
    assert split != stream
    decoded(fed(answer, [split]) + answer.finish())
    assert "a😀b" in json.dumps(answer.round_messages, ensure_ascii=False)
    assert "a😀b" in json.dumps(answer.shown_messages(), ensure_ascii=False)


MUTATIONS: st.SearchStrategy[object] = st.sampled_from(
    [None, [], {}, "x", 1, -1, True, [1], ["x"], [{}], [[]], {"type": 1}, {"index": "x"}]
)


def places(value: object) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, element in items:
        yield value, key
        yield from places(element)


def mutated(value: Any, data: st.DataObject) -> Any:
    """A copy with another value in one place."""
    changed = copy.deepcopy(value)
    holder, key = data.draw(st.sampled_from(list(places(changed))))
    holder[key] = data.draw(MUTATIONS)
    return changed


def check_usable(answer: UpstreamAnswer, format: str) -> None:  # noqa: A002
    """What was accepted can be read, continued and finished."""
    assert isinstance(answer.finish(), list)
    assert isinstance(answer.result(), dict)
    sent = WIRES[format].upstream_body(
        answer.request, {"messages": answer.request.messages}, extra_system="", own_tools=[]
    )
    body = answer.follow_up(sent, [(call, "found") for call in answer.own_calls])
    assert json.dumps(body)
    answer.next_round()
    fed(answer, STREAMS[format](Scripted((Said("end"), Call("z", "shell", {})), 2)))
    assert answer.has_client_calls
    assert isinstance(answer.finish(), list)
    assert "end" in json.dumps(answer.result())
    assert "end" in json.dumps(answer.shown_messages())


@every_wire
@given(scripted=answers(), data=st.data())
def test_malformed_events_raise_one_typed_error(format: str, scripted: Scripted, data: st.DataObject) -> None:  # noqa: A002
    answer = new_answer(format)
    stream = events(STREAMS[format](scripted))
    target = data.draw(st.integers(0, len(stream) - 1))
    if stream[target].data != b"[DONE]":
        body = mutated(json.loads(stream[target].data), data)
        stream[target] = SseEvent(stream[target].name, json.dumps(body).encode())
    try:
        for event in stream:
            answer.feed(event)
    except BadUpstream:
        return
    check_usable(answer, format)


@every_wire
@given(scripted=answers(), data=st.data())
def test_malformed_bodies_raise_one_typed_error(format: str, scripted: Scripted, data: st.DataObject) -> None:  # noqa: A002
    answer = new_answer(format)
    body = mutated(BODIES[format](scripted), data)
    try:
        answer.load(body)
    except BadUpstream:
        return
    check_usable(answer, format)


REQUEST_KEYS = [
    *("messages", "input", "contents", "system", "instructions", "systemInstruction", "tools", "functions", "metadata"),
    *("client_metadata", "conversation", "generationConfig", "labels", "stream", "model", "max_tokens", "prompt"),
]


@every_wire
@given(data=st.data())
def test_malformed_requests_raise_one_typed_error(format: str, data: st.DataObject) -> None:  # noqa: A002
    wire = WIRES[format]
    changes = data.draw(st.dictionaries(st.sampled_from(REQUEST_KEYS), MUTATIONS, max_size=3))
    body = mutated({**REQUESTS[format], **changes}, data)
    try:
        request = wire.read(body, path=PATHS[format])
    except BadRequest:
        return
    own: list[dict[str, Any]] = [{"name": "own_read", "functionDeclarations": [{"name": "own_read"}]}]
    sent = wire.upstream_body(request, {"messages": request.messages}, extra_system="pins", own_tools=own)
    assert json.dumps(sent)
    assert wire.upstream_body(request, {"messages": request.messages}, extra_system="", own_tools=[]) == request.body
    assert request.body == body or format == "gemini"  # whose API reads an object as a list of one


@every_wire
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"<html>", b'{"a": "\xff"}', b"[" * 100_000])
def test_an_event_that_is_no_json_object_is_rejected(format: str, data: bytes) -> None:  # noqa: A002
    with pytest.raises(BadUpstream):
        new_answer(format).feed(SseEvent("", data))


@every_wire
def test_an_unknown_event_is_passed_on(format: str) -> None:  # noqa: A002
    answer = new_answer(format)
    stream = list(STREAMS[format](Scripted((Said("a"),))))
    stream.insert(1, b'event: new.kind\ndata: {"type": "new.kind", "x": 1}\n\n')
    assert '"new.kind"' in b"".join(fed(answer, stream)).decode()


@every_wire
@pytest.mark.parametrize("body", [None, [], "x", 1, {"messages": 1, "input": 1, "contents": 1}, {"messages": [1]}, {}])
def test_a_body_that_no_provider_takes_is_rejected(format: str, body: object) -> None:  # noqa: A002
    with pytest.raises(BadRequest):
        WIRES[format].read(body, path=PATHS[format])


@every_wire
def test_unknown_fields_are_accepted_and_passed_on(format: str) -> None:  # noqa: A002
    wire = WIRES[format]
    body = {**REQUESTS[format], "brand_new": {"a": [1, 2]}}
    request = wire.read(body, path=PATHS[format])
    sent = wire.upstream_body(request, {"messages": request.messages}, extra_system="", own_tools=[])
    assert sent == body


@every_wire
def test_errors_have_the_message(format: str) -> None:  # noqa: A002
    for status in (400, 401, 403, 404, 413, 418, 429, 500, 503, 529):
        assert WIRES[format].error(status, "the reason")["error"]["message"] == "the reason"


@every_wire
def test_a_ping_is_no_content(format: str) -> None:  # noqa: A002
    assert decoded([WIRES[format].ping()]) == []


@every_wire
def test_a_request_has_what_providers_cache_last_and_in_their_order(format: str) -> None:  # noqa: A002
    wire = WIRES[format]
    request = wire.read({**REQUESTS[format], "late": 1}, path=PATHS[format])
    rendered = {"messages": request.messages}
    body = wire.upstream_body(request, rendered, extra_system="pins", own_tools=[{"name": "own_search"}])
    ordered = in_cache_order(body)
    assert ordered == body
    assert list(ordered)[-1] in ("messages", "input", "contents")
    assert list(ordered).index("late") < list(ordered).index("tools") < len(ordered) - 1
