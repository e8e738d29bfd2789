"""Server-sent events: any split of the bytes gives the same events, and a limit holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.errors import BadUpstream
from foveate.server.sse import SseEvent, SseParser, write_event


def parsed(*chunks: bytes, limit_bytes: int = 1_000_000) -> list[SseEvent]:
    parser = SseParser(limit_bytes=limit_bytes)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + list(parser.close())


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: 1\n\n", [("", b"1")]),
        (b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n", [("a", b"1"), ("b", b"2")]),
        (b"event: a\r\ndata: 1\r\n\r\n", [("a", b"1")]),
        (b"event: a\rdata: 1\r\rdata: 2\r\r", [("a", b"1"), ("", b"2")]),
        (b"data:1\n\n", [("", b"1")]),
        (b"data:  1\n\n", [("", b" 1")]),
        (b"data: 1\ndata: 2\n\n", [("", b"1\n2")]),
        (b": keep-alive\n\ndata: 1\n\n", [("", b"1")]),
        (b": a comment\nid: 7\nretry: 5\ndata: 1\n\n", [("", b"1")]),
        (b"\n\n\n\ndata: 1\n\n\n\n\ndata: 2\n\n", [("", b"1"), ("", b"2")]),
        (b"data: 1\n\ndata: 2", [("", b"1"), ("", b"2")]),
        (b"data: 1\n\ndata: 2\n", [("", b"1"), ("", b"2")]),
        (b"event: a\n\n", []),
        (b"data\n\n", [("", b"")]),
        (b"\xef\xbb\xbfdata: 1\n\n", [("", b"1")]),
        ("data: żółć 🜁\n\n".encode(), [("", "żółć 🜁".encode())]),
        (b"", []),
        (b"\xef", []),
    ],
)
def test_events_are_read(stream: bytes, events: list[tuple[str, bytes]]) -> None:
    assert parsed(stream) == [SseEvent(*event) for event in events]
    assert parsed(*(stream[i : i + 1] for i in range(len(stream)))) == parsed(stream)


LINES = st.sampled_from([b"data: a", b"data: \xc5\xbc", b"event: x", b": c", b"", b"", b"data:b", b"id: 1", b"junk"])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=20), st.data())
def test_any_split_of_the_bytes_gives_the_same_events(lines: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    stream = b"".join(line + end for line, end in lines)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=6)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parsed(*chunks) == parsed(stream)


@given(st.from_regex(r"[a-z.]{0,8}", fullmatch=True), st.text().map(lambda text: text.replace("\r", "\n").encode()))
def test_what_is_written_is_read_back(name: str, data: bytes) -> None:
    assert parsed(write_event(data, name=name)) == [SseEvent(name, data)]


@given(st.integers(1, 60), st.integers(1, 7))
def test_the_limit_of_an_event_does_not_depend_on_the_split(size: int, step: int) -> None:
    stream = b"data: first\n\n" + b"data: " + b"x" * size + b"\n\n"
    parser = SseParser(limit_bytes=30)
    events: list[SseEvent] = []
    has_failed = False
    try:
        for i in range(0, len(stream), step):
            events.extend(parser.feed(stream[i : i + step]))
    except BadUpstream:
        has_failed = True
    assert has_failed is (size + len(b"data: ") > 30)
    assert events[0] == SseEvent("", b"first")


def test_events_before_one_above_the_limit_are_returned() -> None:
    parser = SseParser(limit_bytes=30)
    stream = parser.feed(b"data: first\n\ndata: " + b"x" * 100)
    assert next(stream) == SseEvent("", b"first")
    with pytest.raises(BadUpstream, match="30 bytes"):
        next(stream)


def test_a_stream_that_does_not_end_is_stopped() -> None:
    parser = SseParser(stream_limit_bytes=100)
    for _ in range(10):
        assert list(parser.feed(b"data: 12\n\n")) == [SseEvent("", b"12")]
    with pytest.raises(BadUpstream, match="larger than the limit"):
        parser.feed(b"data: 12\n\n")


def test_an_id_is_written_and_a_name_with_a_line_break_is_rejected() -> None:
    assert write_event(b"1", name="a", event_id="7") == b"id: 7\nevent: a\ndata: 1\n\n"
    with pytest.raises(ValueError, match="single lines"):
        write_event(b"1", name="a\ndata: forged")
