"""The picture of a request as it was sent, and what the list of requests says of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foveate.server.gateway import prepare
from foveate.session.picture import Picture, picture_of
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
    build = prepare.context_for

    async def noted(*arguments: Any, **options: Any) -> Context:
        made.append(await build(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(prepare, "context_for", noted)
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
            if number % 6 == 5:
                client.post("/api/v1/sessions/talk/settle").raise_for_status()
        call(client, client.server.state.gateway.settle)
        listed = client.get("/api/v1/sessions/talk/requests").json()["items"]
        found = call(client, opened, client, "talk", listed[-1]["number"])
    context = made[-1]
    picture = picture_of(context.segments, context.budget_tokens)
    assert any(segment.levels for segment in context.segments), "the test needs a block of several levels"
    assert comparable(found.picture) == comparable(picture)
    assert found.picture.ticks[0].at is not None
