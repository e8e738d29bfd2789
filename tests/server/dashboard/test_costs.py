"""Costs and requests as pages: what was not predicted says so, and each figure has its unit."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from foveate import Foveate
from foveate.session.client_calls import CallNote
from foveate.session.sent import SentBodies
from foveate.store.sql import now_us
from support.servers import call, client_of
from support.stores.calls import call as new_call


async def _spend(fov: Foveate) -> None:
    await fov.session("s")
    own = new_call(at_us=now_us())
    await fov.store.calls.add(own)
    await fov.store.calls.add(replace(own, model="anthropic:claude", predicted_tokens=80))


def test_a_share_of_the_prediction_is_shown_only_where_something_was_predicted(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        call(client, _spend, client.fov)
        text = client.get("/ui/costs").text
        models = text[text.index('id="models"') :]
        rows = dict(re.findall(r'<th scope="row">([^<]+)</th>(.*?)</tr>', models, re.DOTALL))
        assert "not predicted" in rows["openai:gpt-5-mini"]
        assert "not predicted" not in rows["anthropic:claude"]
        assert '<td class="right">50%</td>' in rows["anthropic:claude"]
        for head in ("Input tokens", "Output tokens", "Cost"):
            assert f">{head}</th>" in text


async def _send(fov: Foveate) -> None:
    """Keep three requests: without one before it, with nothing predicted, and with a prediction."""
    await fov.session("s")
    bodies = SentBodies(is_stored=True)
    for number, predicted in enumerate((None, 0, 1_200)):
        note = CallNote(request_id=f"req_{number}", format="openai", model="m", address="https://h", path="/v1")
        said = [{"role": "user", "content": f"Question {place}"} for place in range(number + 1)]
        note.session, note.body = "s", json.dumps({"messages": said}).encode()
        row = bodies.take(note).row
        assert row is not None
        await fov.store.sent.add([("s", replace(row, predicted_tokens=predicted))], kept=50, most_bytes=1_000_000)


def test_a_request_without_a_prediction_does_not_say_that_0_tokens_were_predicted(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        call(client, _send, client.fov)
        pages = [client.get(f"/ui/sessions/s/requests/{number}").text for number in (2, 3)]
        assert "no cached tokens were predicted." in pages[0]
        assert "1,200 were predicted." in pages[1]
        assert "0 were predicted" not in pages[0]
