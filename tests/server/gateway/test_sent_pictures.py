"""The picture of a request as it was sent, and what the list of requests says of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foveate.session.client_requests import context_for
from foveate.session.picture import Picture, picture_of
from foveate.session.sent import bytes_changed
from foveate.session.values import Context
from support.gateway import FORMATS, HEADERS, body_of, serving
from support.servers import ServerClient, call
from support.upstream import Upstream, say

QUESTION = "question {0}: which berth has a depth of {0} metres, and who serves it? " * 12


def talk(client: ServerClient, turns: int, path: str = "/v1/messages", **options: Any) -> str:
    """Send a conversation of this many turns; return its session."""
    history: list[dict[str, Any]] = []
    for number in range(turns):
        history.append({"role": "user", "content": QUESTION.format(number)})
        answer = client.post(path, json=body_of(history, **options), headers=HEADERS)
        assert answer.status_code == 200, answer.text
        history.append({"role": "assistant", "content": "ok"})
    call(client, client.server.state.gateway.settle)
    return answer.headers["x-foveate-session"]


def comparable(picture: Picture) -> Picture:
    """A picture without dates and texts, which only a context has."""
    ticks = tuple(replace(tick, at=None) for tick in picture.ticks)
    return replace(picture, ticks=ticks, parts=tuple(replace(part, text="") for part in picture.parts))


async def opened(client: ServerClient, session: str, number: int) -> Any:
    return await (await client.fov.session(session)).request(number)


@pytest.mark.parametrize("format_name", list(FORMATS))
def test_a_request_that_was_sent_has_the_picture_of_its_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str
) -> None:
    made: list[Context] = []
    build = context_for

    async def noted(*arguments: Any, **options: Any) -> Context:
        made.append(await build(*arguments, **options))
        return made[-1]

    monkeypatch.setattr("foveate.server.gateway.prepare.context_for", noted)
    monkeypatch.setenv("FOVEATE_SESSION__BUDGET_TOKENS", "3000")
    path, body = FORMATS[format_name]
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"))) as client:
        for number in range(24):
            text = QUESTION.format(number)
            asked = (
                {"contents": [{"role": "user", "parts": [{"text": text}]}]}
                if "contents" in body
                else ({"input": text} if "input" in body else {"messages": [{"role": "user", "content": text}]})
            )
            named = {**HEADERS, "x-foveate-session": "talk"}
            client.post(path, json={**body, **asked}, headers=named).raise_for_status()
            client.post("/api/v1/sessions/talk/settle").raise_for_status()
        call(client, client.server.state.gateway.settle)
        listed = client.get("/api/v1/sessions/talk/requests").json()["items"]
        found = call(client, opened, client, "talk", listed[-1]["number"])
    context = made[-1]
    picture = picture_of(context.segments, context.budget_tokens)
    assert any(segment.levels for segment in context.segments), "a block of several levels"
    assert comparable(found.picture) == comparable(picture)
    assert found.picture.ticks[0].at is not None


def test_a_growing_conversation_keeps_all_of_the_request_before(tmp_path: Path) -> None:
    with serving(tmp_path / "a.db", Upstream(lambda _: say("ok"), input_tokens=4_000)) as client:
        session = talk(client, 8, system="Be brief.")
        listed = client.get(f"/api/v1/sessions/{session}/requests").json()["items"]
        marked = client.get(f"/api/v1/sessions/{session}/requests/8").json()
    assert listed[0]["kept_tokens"] is None
    assert [one["rewritten_tokens"] for one in listed[1:]] == [0] * 7
    assert all(one["kept_tokens"] > one["appended_tokens"] > 0 for one in listed[2:])
    assert listed[-1]["predicted_tokens"] == pytest.approx(listed[-1]["kept_tokens"], abs=1)
    assert {part["change"] for part in marked["parts"]} == {"kept", "appended"}
    turns = [turn for column in marked["picture"]["columns"] for turn in column["turns"]]
    assert [(turn["number"], turn["level"]) for turn in turns] == [(number, "R") for number in range(1, 9)]
    assert sum(part["tokens"] for part in marked["picture"]["parts"]) == marked["tokens"]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_streamed_and_plain_requests_of_one_conversation_keep_what_they_share(tmp_path: Path, path: str) -> None:
    history: list[dict[str, Any]] = []
    upstream = Upstream(lambda _: say("ok"), input_tokens=4_000)
    with serving(tmp_path / "a.db", upstream) as client:
        for number in range(6):
            history.append({"role": "user", "content": QUESTION.format(number)})
            body = body_of(history)
            mixed = {"temperature": number / 10, "stream": True, **body} if number % 2 else {**body, "stream": False}
            answer = client.post(path, json=mixed, headers=HEADERS)
            assert answer.status_code == 200, answer.text
            history.append({"role": "assistant", "content": "ok"})
        call(client, client.server.state.gateway.settle)
        session = answer.headers["x-foveate-session"]
        listed = client.get(f"/api/v1/sessions/{session}/requests").json()["items"]
        spent = client.get("/api/v1/spending?by=day").json()["items"]
    assert [one["rewritten_tokens"] for one in listed[1:]] == [0] * 5
    assert all(one["kept_tokens"] > one["appended_tokens"] > 0 for one in listed[2:])
    assert sum(row["predicted_tokens"] for row in spent) > 3 * 2_000


@pytest.mark.parametrize(
    ("before", "after", "rewritten"),
    [
        (b'{"m":[{"c":"one"}]}', b'{"m":[{"c":"one"},{"c":"two"}]}', 0),
        (b'{"m":[{"c":[{"type":"text","text":"one"}]}]}', b'{"m":[{"c":"one"},{"c":"two"}]}', 0),
        (b'{"m":[{"c":"one"}]}', b'{"m":[{"c":[{"type":"text","text":"one"}]},{"c":"two"}]}', 0),
        (b'{"m":["one","two"],"stream":true}', b'{"m":["one","two","three"],"stream":true}', 0),
        (b'{"m":["one","two"]}', b'{"m":["one","six"]}', 3),
        (b"", b"{}", 0),
        (b"{}", b"", 0),
    ],
)
def test_only_what_replaces_bytes_of_the_request_before_is_rewritten(
    before: bytes, after: bytes, rewritten: int
) -> None:
    found = bytes_changed(before, after)
    assert found.rewritten == rewritten
    assert 0 <= found.kept <= found.total == len(after)
