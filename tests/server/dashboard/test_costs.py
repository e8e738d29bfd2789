"""Costs and requests as pages: what was not predicted says so, and each figure has its unit."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from foveate import Foveate
from foveate.session.client_calls import CallNote
from foveate.session.sent import SentBodies
from foveate.store.rows import DAY_US, NANO
from foveate.store.sql import now_us
from support.servers import call, client_of
from support.stores.calls import call as new_call

DAY = timedelta(days=1)


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


async def _spend_on_two_days(fov: Foveate) -> None:
    """Spend two dollars now, less than a cent at once, and some a day later."""
    await fov.session("s")
    for at_us, nano_usd in ((now_us(), 2 * NANO), (now_us(), NANO // 200), (now_us() + DAY_US, 3 * NANO)):
        await fov.store.calls.add(replace(new_call(at_us=at_us, nano_usd=nano_usd), model=f"m{nano_usd}"))


def test_the_amounts_of_a_column_have_the_same_number_of_decimals(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        call(client, _spend_on_two_days, client.fov)
        text = client.get("/ui/costs").text
    models = text[text.index('id="models"') :].partition("</table>")[0]
    assert re.findall(r">\$([0-9.]+)</td>", models) == ["3.0000", "2.0000", "0.0050"]


def test_the_day_that_is_not_over_is_marked_as_unfinished(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        call(client, _spend_on_two_days, client.fov)
        text = client.get("/ui/costs").text
    marked = re.findall(r'<th scope="row">([0-9-]{10}) <span class="dim">so far</span></th>', text)
    assert len(marked) == 1
    assert marked[0] in (each.isoformat() for each in (datetime.now(UTC).date(), datetime.now(UTC).date() - DAY))
    assert "<figcaption>Cost and cached share by day; today so far</figcaption>" in text


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
