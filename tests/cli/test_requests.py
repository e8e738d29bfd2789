"""`foveate requests`, `stats --cost --by` and budgets of keys: what went through the gateway, and what it cost."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from foveate.session.client_calls import CallNote
from foveate.session.sent import SentBodies
from foveate.store import open_store
from foveate.store.rows import NANO, RUNNING, CallRow
from foveate.store.settings import StoreSettings
from support.command_line import Shell, shell_with
from support.stores.calls import call


def _fill(shell: Shell, calls: list[CallRow], texts: list[str]) -> list[bytes]:
    """Store calls, and requests with these messages, each after those before it; return the bodies."""
    bodies = SentBodies(is_stored=True)
    notes = []
    for number in range(len(texts)):
        request_id, address = f"req_{number}", "https://k@h/v1"
        note = CallNote(request_id=request_id, format="openai", model="m", address=address, path="/v1/chat")
        note.session, note.tokens, note.status = "s", 100, 200
        said = [{"role": "user", "content": text} for text in texts[: number + 1]]
        note.body = json.dumps({"messages": said}).encode()
        notes.append(note)

    async def fill() -> None:
        store = await open_store(str(shell.db), StoreSettings())
        await store.calls.add_clients_calls([(None, row) for row in calls])
        rows = [("s", row) for note in notes if (row := bodies.take(note).row)]
        assert await store.sent.add(rows, kept=50, most_bytes=10**6) == frozenset()
        await store.close()

    asyncio.run(fill())
    return [note.body for note in notes]


def test_a_request_is_listed_explained_and_printed_exactly(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    assert "No request of this session is kept" in shell("requests", "s")
    bodies = _fill(shell, [], ["first " * 40, "second " * 40])
    assert [one["number"] for one in shell.json("requests", "s")] == [1, 2]
    assert shell("requests", "s", "2", "--body") == bodies[1].decode()
    shown = shell("requests", "s", "2")
    assert "POST /v1/chat to h: 200" in shown
    assert "kept, 0 rewritten," in shown
    assert "since request 1" in shown
    assert [part["change"] for part in shell.json("requests", "s", "2")["parts"]] == ["kept", "appended"]
    assert shell("requests", "req_1", "--body") == bodies[1].decode()
    assert shell.json("requests", "req_0")["number"] == 1
    assert "no request 'req_9' is kept" in shell.error("requests", "req_9")
    assert "no request 3 of the session 's' is kept" in shell.error("requests", "s", "3")
    assert "--body needs the number or the id" in shell.error("requests", "s", "--body", code=2)


def test_spending_is_listed_by_key_and_shows_what_whole_conversations_would_have_cost(tmp_path: Path) -> None:
    shell = shell_with(tmp_path)
    key = shell.json("keys", "create", "laptop")["info"]["id"]
    paid = replace(call(), purpose="gateway", key_id=key, nano_usd=2_000_000_000, whole_nano_usd=5_000_000_000)
    _fill(shell, [paid, replace(paid, key_id="")], [])
    shown = shell("stats", "--cost", "--by", "key")
    assert f"{key}  laptop" in shown
    assert "$4.0000 in total; whole conversations would have cost $10.0000." in shown
    (first, _) = shell.json("stats", "--cost", "--by", "key")["spending"]
    assert (first["usd"], first["saved_usd"]) == (2.0, 3.0)
    assert [row["name"] for row in shell.json("stats", "s", "--cost", "--by", "session")["spending"]] == ["s"]
    assert shell.json("stats", "--cost", "--by", "day", "--days", "1")["spending"] == []
    assert "--by and --days need --cost" in shell.error("stats", "--by", "day", code=2)
    bill = shell.json("stats", "--cost")
    assert (bill["total_usd"], bill["today_usd"]) == (4.0, 0)


def test_the_list_of_keys_shows_what_is_spent_and_booked_of_their_budgets(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", width=200)
    shell("keys", "create", "free")
    assert "booked" not in shell("keys", "list"), "no key has a budget"
    key = shell.json("keys", "create", "intern", "--budget-usd", "20")["info"]["id"]
    paid = replace(call(None), purpose="gateway", key_id=key, at_us=time.time_ns() // 1_000, nano_usd=2 * NANO)
    _fill(shell, [paid, replace(paid, outcome=RUNNING, nano_usd=3 * NANO)], [])
    free, intern = shell.json("keys", "list")
    assert free["use"] is None
    assert (intern["use"]["spent_usd"], intern["use"]["booked_usd"]) == (2.0, 3.0)
    assert intern["use"]["resets_at"].endswith("-01T00:00:00+00:00")
    shown = " ".join(shell("keys", "list").split())
    assert "$20 a month $2.00 $3.00" in shown
    assert "$9 a month; $2.0000 spent, $3.0000 booked" in shell("keys", "budget", key, "--budget-usd", "9")
    assert shell.json("keys", "budget", key, "--budget-usd", "9")["booked_usd"] == 3


def test_the_list_of_keys_fits_80_columns_and_names_the_tenant_and_the_budget(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", width=80)
    shell("keys", "create", "the laptop at the harbour office")
    shell("keys", "create", "team", "--tenant", "acme", "--model", "gpt-5*", "--route", "chat", "--route", "models")
    shell("keys", "create", "intern", "--budget-usd", "20", "--soft", "15", "--per", "month")
    lines = shell("keys", "list").splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["key", "name", "tenant", "rights", "budget", "spent"]
    assert "acme" in lines[3]
    assert "$20 a month  $0.00" in lines[4]
    assert {"models", "routes", "budget", "created_at"} <= shell.json("keys", "list")[1].keys()


def test_a_keys_budget_is_set_shown_and_removed(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    made = shell.json("keys", "create", "intern", "--budget-usd", "20", "--soft", "15", "--per", "day")["info"]
    assert made["budget"] == {"usd": 20.0, "soft_usd": 15.0, "period": "day"}
    assert made["rights"] == ["gateway"]
    assert "$20 a day $15" in " ".join(shell("keys", "list").split())
    assert "$20 a day, warns at $15; $0.0000 spent" in shell("keys", "budget", made["id"])
    assert "$5 a day; $0.0000 spent" in shell("keys", "budget", made["id"], "--budget-usd", "5"), "the period stays"
    assert "$5 a day; $0.0000 spent" in shell("keys", "budget", made["id"]), "looking changes nothing"
    assert "--per needs an amount" in shell.error("keys", "budget", made["id"], "--per", "month", code=2)
    assert "--per needs an amount" in shell.error("keys", "create", "x", "--per", "day", code=2)
    assert "--remove takes no amounts" in shell.error("keys", "budget", made["id"], "--remove", "--soft", "1", code=2)
    assert "no budget" in shell("keys", "budget", made["id"], "--remove")
    assert shell.json("keys", "budget", made["id"])["budget"]["usd"] is None
    for wrong in (("--budget-usd", "-1"), ("--budget-usd", "nan"), ("--budget-usd", "1", "--soft", "2")):
        assert "Error" in shell.error("keys", "create", "x", *wrong)
    assert len(shell.json("keys", "list")) == 1
    assert "no active key 'K-0'" in shell.error("keys", "budget", "K-0")


def test_a_budget_says_which_upstreams_are_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(tmp_path / "chat.db", width=200)
    budget = ("--budget-usd", "5")
    assert "free" not in shell("keys", "create", "x", *budget)
    monkeypatch.setenv("FOVEATE_SERVER__UPSTREAM", "http://127.0.0.1:8000")
    assert "Upstream server.upstream: on this machine, so its models are free" in shell("keys", "create", "x", *budget)
    assert "free" not in shell("keys", "create", "x"), "nothing is limited"
    monkeypatch.setenv("FOVEATE_SERVER__UPSTREAM", "https://api.openai.com")
    assert "free" not in shell("keys", "create", "x", *budget)
