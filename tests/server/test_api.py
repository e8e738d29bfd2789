"""The HTTP API: what it does, its pages, its errors, and writes that are sent twice."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
import pytest
from starlette.responses import Response

from foveate import Foveate, errors, sync
from foveate.events import Event
from foveate.server.api.endpoint import Replies
from foveate.server.api.events import EventHub
from foveate.server.api.schema import describe
from foveate.server.api.table import ENDPOINTS
from foveate.server.metrics import Metrics
from foveate.server.problems import problem_of
from foveate.store.agents import ClaimRequest
from support.patience import PATIENCE_SECONDS, wait_until
from support.servers import ServerClient, bearer, call, client_of, listening

API = "/api/v1"
CLAIM = ClaimRequest(owner="worker", limit=100, lease_seconds=60.0, max_attempts=3)
HELLO = [{"role": "user", "content": "The port is 8443."}, {"role": "assistant", "content": "Noted."}]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerClient]:
    with client_of(tmp_path_factory.mktemp("api") / "a.db") as made:
        yield made


@pytest.fixture
def chat(client: ServerClient, request: pytest.FixtureRequest) -> str:
    """The path of a new session."""
    name = request.node.name[:100]
    assert client.post(f"{API}/sessions", json={"id": name}).status_code == 201
    return f"{API}/sessions/{name}"


def test_a_session_is_created_changed_forked_and_deleted(client: ServerClient) -> None:
    made = client.post(f"{API}/sessions", json={"id": "life", "title": "One", "budget_tokens": 9_000})
    assert (made.status_code, made.json()["budget_tokens"]) == (201, 9_000)
    again = client.post(f"{API}/sessions", json={"id": "life"})
    assert (again.status_code, again.json()["type"]) == (409, "urn:foveate:session-exists")
    changed = client.patch(f"{API}/sessions/life", json={"title": "Two", "strategy": "standard"}).json()
    assert (changed["title"], changed["strategy"], changed["budget_tokens"]) == ("Two", "standard", 9_000)
    used = client.put(f"{API}/sessions/life/strategy", json={"name": "standard", "settings": {"when_full": "fail"}})
    assert used.json()["strategy_settings"] == {"when_full": "fail"}
    assert client.put(f"{API}/sessions/life/labels", json={"channel": "c"}).json()["channel"] == "c"
    client.post(f"{API}/sessions/life/turns", json={"messages": HELLO})
    fork = client.post(f"{API}/sessions/life/fork", json={"id": "life-2", "at": "T-1"})
    assert (fork.status_code, fork.json()["parent_id"]) == (201, "life")
    assert client.delete(f"{API}/sessions/life").status_code == 409
    assert client.delete(f"{API}/sessions/life-2").status_code == 204
    assert client.delete(f"{API}/sessions/life").status_code == 204
    assert client.get(f"{API}/sessions/life").status_code == 404


def test_an_id_may_have_a_slash_and_other_signs(client: ServerClient) -> None:
    for name, encoded in (("a/b", "a%2Fb"), ("50%2F", "50%252F"), ("ü?#", "%C3%BC%3F%23")):
        assert client.post(f"{API}/sessions", json={"id": name}).status_code == 201
        assert client.get(f"{API}/sessions/{encoded}").json()["id"] == name


def test_a_session_without_an_id_gets_one(client: ServerClient) -> None:
    made = client.post(f"{API}/sessions").json()
    assert client.get(f"{API}/sessions/{made['id']}").status_code == 200


def test_turns_are_recorded_and_read_at_a_level(client: ServerClient, chat: str) -> None:
    recorded = client.post(f"{chat}/turns", json={"messages": HELLO, "at": "2026-11-15T10:00:00Z"})
    assert recorded.status_code == 201
    assert [turn["id"] for turn in recorded.json()["turns"]] == ["T-1"]
    raw = client.get(f"{chat}/turns/T-1").json()
    assert raw["content"] == "[user] The port is 8443.\n[assistant] Noted.\n"
    assert client.get(f"{chat}/turns/T-1?format=tagged").json()["content"].startswith("<T-1-R>")
    assert client.post(f"{chat}/settle").json()["rendered"] == 1
    assert client.get(f"{chat}/turns/T-1?level=T").json()["level"] == "T"
    assert client.get(f"{chat}/turns/T-9").status_code == 404
    assert client.get(f"{chat}/turns/T-1?level=X").status_code == 422
    assert client.get(f"{chat}/stats").json()["turns"] == 1


def test_messages_for_a_turn_that_is_over_are_refused(client: ServerClient, chat: str) -> None:
    client.post(f"{chat}/turns", json={"messages": HELLO})
    client.post(f"{chat}/turns", json={"messages": HELLO})
    late = client.post(f"{chat}/turns", json={"messages": HELLO[1:], "turn": "T-1"})
    assert (late.status_code, late.json()["type"]) == (409, "urn:foveate:turn-begun")


def test_a_context_has_text_segments_plan_and_request(client: ServerClient, chat: str) -> None:
    client.post(f"{chat}/turns", json={"messages": HELLO})
    made = client.post(f"{chat}/context", json={"prompt": "Which port?", "format": "anthropic", "system": "Be brief."})
    context = made.json()
    assert "8443" in context["text"]
    assert context["tokens"] == sum(segment["tokens"] for segment in context["segments"])
    assert context["request"]["messages"][-1]["content"] == "Which port?"
    assert context["plan"]["strategy"] == "gradient"
    assert context["plan"]["turns_without_words"] == 0
    assert client.post(f"{chat}/context", json={"prompt": "Which port?"}).json()["request"] is None
    small = client.post(f"{chat}/context", json={"prompt": "x", "budget_tokens": 1})
    assert (small.status_code, small.json()["type"]) == (422, "urn:foveate:budget-exceeded")


def test_a_session_that_was_deleted_and_created_anew_has_a_context_of_its_own(client: ServerClient) -> None:
    path = f"{API}/sessions/anew"
    for word in ("first", "second"):
        client.post(f"{API}/sessions", json={"id": "anew"}).raise_for_status()
        client.post(f"{path}/turns", json={"messages": [{"role": "user", "content": f"The {word} one."}]})
        texts = [client.post(f"{path}/context", json={"prompt": "?"}).json()["text"] for _ in range(2)]
        assert texts[0] == texts[1]
        assert word in texts[0]
        client.post(f"{path}/turns", json={"messages": HELLO})
        assert "8443" in client.post(f"{path}/context", json={"prompt": "?"}).json()["text"]
        client.delete(path).raise_for_status()


def test_contexts_of_one_session_at_once_are_alike(client: ServerClient, chat: str) -> None:
    client.post(f"{chat}/turns", json={"messages": HELLO * 3})
    with ThreadPoolExecutor(4) as pool:
        texts = set(pool.map(lambda _: client.post(f"{chat}/context", json={"prompt": "?"}).json()["text"], range(8)))
    assert len(texts) == 1


def test_the_file_cabinet_is_read_by_lines_and_whole(client: ServerClient, chat: str) -> None:
    client.post(f"{chat}/turns", json={"messages": HELLO})

    async def file() -> str:
        session = await client.fov.open_session(chat.rpartition("/")[2])
        return (await session.cabinet.file(b"one\ntwo\nthree\n", name="page", media_type="text/html")).key

    key = call(client, file)
    listed = client.get(f"{API}/cabinet").json()["items"]
    assert [entry["name"] for entry in listed if entry["key"] == key] == ["page"]
    assert client.get(f"{API}/cabinet/{key}").json()["turn_id"] == "T-1"
    lines = client.get(f"{API}/cabinet/{key}/lines?first_line=2&lines=1").json()
    assert lines == {"text": "two\n", "first_line": 2, "last_line": 2, "total_lines": 3}
    whole = client.get(f"{API}/cabinet/{key}/content")
    assert (whole.content, whole.headers["content-disposition"]) == (b"one\ntwo\nthree\n", "attachment")
    missing = client.get(f"{API}/cabinet/f-000000000000")
    assert (missing.status_code, missing.json()["type"]) == (404, "urn:foveate:content-not-found")
    assert client.post(f"{API}/cabinet/prune", json={}).json() == {"items": []}


def test_a_key_that_may_not_use_all_tools_does_not_change_what_every_model_is_told(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        admin, write, tenant = (
            bearer(call(client, client.fov.keys.create, **one).secret)
            for one in ({"rights": ["admin"]}, {"rights": ["write"]}, {"rights": ["write"], "tenant": "acme"})
        )
        included = {"text": "{{include:house/rules}}\nBe kind."}
        assert client.put(f"{API}/prompts/house%2Frules", json={"text": "Be brief."}, headers=write).status_code == 200
        assert client.put(f"{API}/prompts/modes%2Fcore", json=included, headers=admin).status_code == 200
        for key in ("run/instructions", "explain/gradient", "compress/rules", "modes/core", "modes/own", "house/rules"):
            path = f"{API}/prompts/{quote(key, safe='')}"
            answer = client.put(path, json={"text": "Delete everything."}, headers=write)
            assert answer.status_code == 403, key
            assert "needs the right 'admin'" in answer.json()["detail"]
        assert client.delete(f"{API}/prompts/modes%2Fcore", headers=write).status_code == 403
        assert client.put(f"{API}/prompts/own", json={"text": "Hello."}, headers=write).status_code == 200
        assert client.put(f"{API}/prompts/modes%2Fown", json={"text": "Hello."}, headers=tenant).status_code == 200
        assert client.put(f"{API}/prompts/run%2Finstructions", json={"text": "a"}, headers=tenant).status_code == 409
        assert "Be brief." in call(client, client.fov.prompts.text, "modes/core")


def test_prompts_and_modes(client: ServerClient, chat: str) -> None:
    made = client.put(f"{API}/prompts/modes%2Flatin", json={"text": "Answer in Latin."}).json()
    assert (made["version"], made["text"]) == (1, "Answer in Latin.\n")
    assert client.get(f"{API}/prompts/modes%2Flatin").json() == made
    assert client.patch(chat, json={"mode": "latin"}).json()["mode"] == "latin"
    assert client.patch(chat, json={"mode": "pirate"}).status_code == 422
    assert client.patch(chat, json={"mode": ""}).json()["mode"] == ""
    client.put(f"{API}/prompts/own", json={"text": "Hello {name}."})
    filled = client.post(f"{API}/prompts/own/render", json={"variables": {"name": "Ada"}}).json()
    assert filled["text"] == "Hello Ada.\n"
    wrong = client.post(f"{API}/prompts/own/render", json={})
    assert (wrong.status_code, "needs {name}" in wrong.json()["detail"]) == (422, True)
    assert client.delete(f"{API}/prompts/own").status_code == 204
    assert client.get(f"{API}/prompts/own").status_code == 404
    assert [one["version"] for one in client.get(f"{API}/prompts/own/history").json()["items"]] == [1, 2]


def test_pins_goals_documents_and_tools(client: ServerClient, chat: str) -> None:
    client.post(f"{chat}/turns", json={"messages": HELLO})
    pin = client.post(f"{chat}/pins", json={"text": "Never on a Friday.", "locked": True}).json()
    assert client.get(f"{chat}/pins").json()["items"] == [pin]
    assert client.delete(f"{chat}/pins/{pin['id']}").status_code == 409
    assert client.delete(f"{chat}/pins/{pin['id']}?force=true").status_code == 204
    goal = client.post(f"{chat}/goals", json={"title": "Ship it", "steps": ["Design"]}).json()
    client.post(f"{chat}/goals/{goal['id']}/steps", json={"step": 1, "status": "done"})
    client.post(f"{chat}/goals/{goal['id']}/decisions", json={"text": "Use JWT"})
    client.post(f"{chat}/goals/{goal['id']}/artifacts", json={"path": "a.py"})
    done = client.post(f"{chat}/goals/{goal['id']}/done").json()
    assert (done["status"], done["steps"][0]["status"], done["decisions"]) == ("done", "done", ["Use JWT"])
    client.put(f"{chat}/documents/epic", json={"text": "Move the shop."})
    assert client.get(f"{chat}/documents/epic").json() == {"name": "epic", "text": "Move the shop."}
    assert client.put(f"{chat}/documents/other", json={"text": "x"}).status_code == 422
    names = [tool["name"] for tool in client.get(f"{chat}/tools?format=anthropic").json()["items"]]
    assert "get_turn" in names
    answer = client.post(f"{chat}/tools/get_turn", json={"arguments": {"turn_id": "T-1"}}).json()["text"]
    assert answer
    board = client.get(f"{chat}/board").json()
    assert set(board) == {"retrieved", "notes", "prefetched", "turns"}


def test_a_topic_is_sealed_and_unsealed_until_the_next_message(client: ServerClient, chat: str) -> None:
    client.put(f"{chat}/strategy", json={"name": "topics"})
    client.post(f"{chat}/turns", json={"messages": HELLO})
    assert client.post(f"{chat}/topics/unseal").status_code == 409
    assert client.post(f"{chat}/topics/seal").json()["why"] == "manual"
    assert client.get(f"{chat}/topics").json()["current_first"] is None
    assert client.post(f"{chat}/topics/seal").status_code == 422
    assert client.post(f"{chat}/topics/unseal").json()["current_first"] == "T-1"
    client.post(f"{chat}/topics/seal")
    client.post(f"{chat}/turns", json={"messages": HELLO})
    late = client.post(f"{chat}/topics/unseal")
    assert (late.status_code, late.json()["type"]) == (409, "urn:foveate:refused")


def test_checkpoints_are_listed(client: ServerClient, chat: str) -> None:
    assert client.get(f"{chat}/checkpoints").status_code == 422
    client.put(f"{chat}/strategy", json={"name": "checkpoint"})
    client.post(f"{chat}/turns", json={"messages": HELLO})
    assert client.get(f"{chat}/checkpoints").json()["items"] == []
    assert client.get(f"{chat}/reliability").json()["reliability"]["score"] > 0


def test_import_and_export_are_each_others_inverse(client: ServerClient, chat: str) -> None:
    client.post(f"{chat}/turns", json={"messages": HELLO, "at": "2026-11-15T10:00:00Z"})
    assert client.get(f"{chat}/export").json()["turns"][0]["id"] == "T-1"
    exported = client.get(f"{chat}/export?format=foveate").content
    report = client.post(f"{API}/import?session=copy&name=talk.json", content=exported)
    assert report.status_code == 201, report.text
    assert report.json()["sessions"][0]["added"] == 2
    assert client.get(f"{API}/sessions/copy/turns/T-1").json()["content"].startswith("[user] The port")
    again = client.post(f"{API}/import?session=copy&name=talk.json", content=exported).json()
    assert again["sessions"][0]["added"] == 0
    assert client.get(f"{chat}/export?format=nope").status_code == 422
    assert "/tmp" not in client.post(f"{API}/import", content=b"\x00\x01").text
    assert client.post(f"{API}/import?name=../x", content=exported).status_code == 422


def test_a_comparison_is_a_job_with_progress(client: ServerClient, chat: str) -> None:
    assert client.post(f"{chat}/compare", json={}).status_code == 422
    client.post(f"{chat}/turns", json={"messages": HELLO})
    assert client.post(f"{chat}/compare", json={"strategies": ["nope"]}).status_code == 422
    job = client.post(f"{chat}/compare", json={"strategies": ["standard"], "budgets_tokens": [4_000]})
    assert (job.status_code, job.json()["total"]) == (202, 2)
    found = _ended(client, job.json()["id"])
    assert (found["status"], found["done"]) == ("done", 2)
    assert found["result"]["runs"][0]["strategy"] == "standard"
    assert found["id"] in {one["id"] for one in client.get(f"{API}/jobs").json()["items"]}
    assert client.delete(f"{API}/jobs/{found['id']}").json()["status"] == "done"
    assert client.get(f"{API}/jobs/job-x").json()["type"] == "urn:foveate:job-not-found"


def _ended(client: ServerClient, job_id: str) -> dict[str, Any]:
    def job() -> dict[str, Any]:
        return dict(client.get(f"{API}/jobs/{job_id}").json())

    wait_until(lambda: job()["ended_at"])
    return job()


def test_pages_of_sessions_have_each_once_while_others_are_used(client: ServerClient) -> None:
    names = [f"page-{number}" for number in range(7)]
    for name in names:
        client.post(f"{API}/sessions", json={"id": name, "channel": "paged"})
    seen: list[str] = []
    cursor = ""
    while True:
        page = client.get(f"{API}/sessions?channel=paged&limit=3{cursor}").json()
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        client.post(f"{API}/sessions/page-0/turns", json={"messages": HELLO})
        cursor = f"&cursor={page['next_cursor']}"
    assert set(seen) | {"page-0"} == set(names)
    assert len(seen) == len(set(seen))


def test_pages_of_turns_in_both_orders(client: ServerClient, chat: str) -> None:
    client.post(f"{chat}/turns", json={"messages": HELLO * 5})
    for order, wanted in (("oldest", [1, 2, 3, 4, 5]), ("newest", [5, 4, 3, 2, 1])):
        seen: list[int] = []
        cursor = ""
        while True:
            page = client.get(f"{chat}/turns?limit=2&level=R&order={order}{cursor}").json()
            seen += [item["number"] for item in page["items"]]
            assert all("8443" in item["content"] for item in page["items"])
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
        assert seen == wanted
    for wrong in ("x", "AAAA", "MQ==", "é"):
        assert client.get(f"{chat}/turns", params={"cursor": wrong}).status_code in (200, 422)
        assert client.get(f"{API}/sessions", params={"cursor": wrong}).status_code == 422


def test_a_write_with_the_same_key_is_done_once(client: ServerClient, chat: str) -> None:
    key = {"Idempotency-Key": "one"}
    first = client.post(f"{chat}/goals", json={"title": "Ship it"}, headers=key)
    second = client.post(f"{chat}/goals", json={"title": "Ship it"}, headers=key)
    assert second.json() == first.json()
    assert (first.status_code, second.status_code) == (201, 201)
    assert second.headers["idempotent-replayed"] == "true"
    assert len(client.get(f"{chat}/goals").json()["items"]) == 1
    other = client.post(f"{chat}/goals", json={"title": "Another"}, headers=key)
    assert (other.status_code, other.json()["type"]) == (422, "urn:foveate:key-reused")
    assert (
        client.post(f"{chat}/goals", json={"title": "Another"}, headers={"Idempotency-Key": "two"}).status_code == 201
    )
    assert client.post(f"{chat}/goals", json={"title": "x"}, headers={"Idempotency-Key": "a" * 256}).status_code == 400


@pytest.mark.parametrize(("key", "status"), [("a", 201), ("a key", 201), ("x" * 256, 400), ("", 400), ("\xe9", 400)])
def test_a_key_has_the_characters_that_the_document_names(
    client: ServerClient, chat: str, key: str, status: int
) -> None:
    headers = [(b"idempotency-key", key.encode("latin-1"))]
    assert client.post(f"{chat}/goals", json={"title": "Ship it"}, headers=headers).status_code == status


def test_identical_writes_at_once_are_done_once(client: ServerClient, chat: str) -> None:
    def send(_: int) -> httpx2.Response:
        return client.post(f"{chat}/goals", json={"title": "Ship it"}, headers={"Idempotency-Key": "together"})

    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(send, range(5)))
    assert {answer.status_code for answer in answers} == {201}
    assert len(client.get(f"{chat}/goals").json()["items"]) == 1


def test_a_write_whose_client_left_is_not_done_again() -> None:
    made: list[int] = []

    async def run() -> Response:
        replies, has_begun, may_end = Replies(10), asyncio.Event(), asyncio.Event()

        async def make() -> Response:
            made.append(1)
            has_begun.set()
            await may_end.wait()
            return Response("done", 201)

        where = ("acme", "K-1", "POST", "/goals", "", "key")
        left = asyncio.create_task(replies.once(where, b"digest", make))
        await has_begun.wait()
        left.cancel()
        await asyncio.wait([left])
        may_end.set()
        return await replies.once(where, b"digest", make)

    answer = asyncio.run(run())
    assert (answer.body, answer.headers["idempotent-replayed"], len(made)) == (b"done", "true", 1)


def test_a_failed_write_may_be_repeated_under_its_key(client: ServerClient, chat: str) -> None:
    key = {"Idempotency-Key": "again"}
    assert client.post(f"{chat}/goals/G-1/done", headers=key).status_code == 404
    client.post(f"{chat}/goals", json={"title": "Ship it"})
    assert client.post(f"{chat}/goals/G-1/done", headers=key).status_code == 200


def test_a_recorded_turn_is_known_by_its_key_after_a_restart(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "turn-1"}
    for _ in range(2):
        with client_of(tmp_path / "a.db") as client:
            client.post(f"{API}/sessions", json={"id": "chat"})
            answer = client.post(f"{API}/sessions/chat/turns", json={"messages": HELLO}, headers=key)
            assert answer.json()["turns"][0]["id"] == "T-1"
            assert client.get(f"{API}/sessions/chat").json()["turns"] == 1


def test_the_key_of_a_recorded_turn_is_refused_for_another_body_after_a_restart(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "turn-1"}
    for messages, status in ((HELLO, 201), ([{"role": "user", "content": "another"}], 422), (HELLO[:1], 422)):
        with client_of(tmp_path / "a.db") as client:
            client.post(f"{API}/sessions", json={"id": "chat"})
            answer = client.post(f"{API}/sessions/chat/turns", json={"messages": messages}, headers=key)
            assert answer.status_code == status
            assert status == 201 or answer.json()["type"] == "urn:foveate:key-reused"
            assert client.get(f"{API}/sessions/chat").json()["turns"] == 1


def test_a_session_says_whether_its_budget_was_chosen(client: ServerClient) -> None:
    for body, chosen in (({"id": "a"}, False), ({"id": "b", "budget_tokens": 32_000}, True)):
        assert client.post(f"{API}/sessions", json=body).json()["budget_chosen"] is chosen


def test_a_search_lists_turns_by_time_with_their_dates(client: ServerClient) -> None:
    client.post(f"{API}/sessions", json={"id": "zoo"})
    for day in ("2026-02-01", "2026-03-01"):
        message = {"role": "user", "content": f"Anna: the zebra is fed on {day}"}
        body = {"messages": [message], "at": f"{day}T10:00:00Z"}
        assert client.post(f"{API}/sessions/zoo/turns", json=body).is_success
    listed = client.get(f"{API}/sessions/zoo/search", params={"order": "time"}).json()["items"]
    assert [hit["at"][:10] for hit in listed] == ["2026-02-01", "2026-03-01"]
    asked = {"q": "zebra", "speaker": "Anna", "after": "March 2026"}
    assert [hit["turn_id"] for hit in client.get(f"{API}/search", params=asked).json()["items"]] == ["T-2"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nope", 404),
        ("GET", "/nope", 404),
        ("PUT", "/api/v1/sessions", 405),
        ("GET", "/api/v1/sessions?limit=0", 422),
        ("GET", "/api/v1/sessions?limit=x", 422),
        ("GET", "/api/v1/sessions?nope=1", 422),
        ("GET", "/api/v1/sessions?limit=1&limit=2", 422),
        ("GET", "/api/v1/search", 422),
        ("GET", "/api/v1/search?q=%20", 422),
        ("GET", "/api/v1/search?q=x&after=nonsense", 422),
        ("GET", "/api/v1/search?q=x&order=newest", 422),
        ("GET", "/api/v1/sessions/nope", 404),
        ("GET", "/api/v1/sessions/%FF", 404),
        ("GET", "/api/v1/sessions/%00", 404),
        ("GET", "/api/v1/events?kinds=nope", 422),
        ("GET", "/api/v1/events?session=nope", 404),
    ],
)
def test_errors_are_problems(client: ServerClient, method: str, path: str, status: int) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert set(problem) == {"type", "title", "status", "detail", "request_id"}
    assert problem["status"] == status


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("OPTIONS", "/api/v1/sessions/chat", "DELETE, GET, PATCH"),
        ("DELETE", "/api/v1/cabinet/prune", "POST"),
        ("DELETE", "/v1/files", "GET, POST"),
    ],
)
def test_a_method_that_is_not_allowed_is_answered_with_all_that_are(
    client: ServerClient, method: str, path: str, allowed: str
) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_a_defect_is_a_problem_without_details(client: ServerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("the secret of the house")

    monkeypatch.setattr(client.fov, "sessions", broken)
    answer = client.get(f"{API}/sessions")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in answer.text


def test_each_error_of_the_library_has_a_status() -> None:
    def every(kind: type[errors.FoveateError]) -> Iterator[type[errors.FoveateError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from every(child)

    statuses = {}
    for kind in filter(lambda kind: kind.__module__ == "foveate.errors", every(errors.FoveateError)):
        made = kind.__new__(kind)
        made.args = ("x",)
        statuses[kind.__name__] = problem_of(made).status
    assert statuses["SessionNotFound"] == 404
    assert statuses["PinLocked"] == 409
    assert statuses["StoreBusy"] == 503
    defects = {name for name, status in statuses.items() if status == 500}
    assert defects == {"FoveateError", "InvariantBroken", "StoreError", "NotADatabase", "NewerSchema", "Damaged"}


def test_an_error_of_the_store_does_not_name_its_file() -> None:
    problem = problem_of(errors.StoreBusy("/var/lib/foveate/a.db", "is locked"), "acme")
    assert (problem.status, problem.kind) == (503, "store-busy")
    assert "/var" not in problem.detail


def test_the_document_is_openapi_3_1_and_names_every_endpoint_once() -> None:
    document = describe(ENDPOINTS)
    assert document["openapi"] == "3.1.0"
    listed = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len({operation["operationId"] for operation in listed}) == len(listed) == len(ENDPOINTS)
    for operation in listed:
        assert operation["summary"], operation["operationId"]
    for operation in listed:
        body = operation.get("requestBody")
        kind = next(iter(body["content"].values()))["schema"].get("$ref", "").rpartition("/")[2] if body else ""
        if kind:  # an empty body has the defaults, where all fields have one
            assert body["required"] == bool(document["components"]["schemas"][kind].get("required")), operation
    text = msgspec.json.encode(document).decode()
    for reference in {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert reference in document["components"]["schemas"]


def _events(lines: Iterator[str], count: int) -> list[tuple[int, str, dict[str, Any]]]:
    """The next events of a stream."""
    found: list[tuple[int, str, dict[str, Any]]] = []
    number, kind = 0, ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            number = int(value)
        elif name == "event":
            kind = value
        elif name == "data":
            found.append((number, kind, json.loads(value)))
            if len(found) == count:
                break
    return found


def test_events_are_streamed_and_resumed(tmp_path: Path) -> None:
    with listening(tmp_path / "a.db") as url, httpx2.Client(base_url=f"{url}{API}", timeout=PATIENCE_SECONDS) as client:
        client.post("/sessions", json={"id": "chat"})

        def record() -> None:
            client.post("/sessions/chat/turns", json={"messages": HELLO}).raise_for_status()

        query = "/events?kinds=turn-recorded"
        with client.stream("GET", query) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.iter_lines()
            assert next(lines) == ": events"
            threading.Thread(target=record).start()
            ((number, kind, data),) = _events(lines, 1)
        assert (kind, data["session_id"], data["turn_id"]) == ("turn-recorded", "chat", "T-1")
        record()
        record()
        with client.stream("GET", query, headers={"Last-Event-ID": str(number)}) as stream:
            missed = _events(stream.iter_lines(), 2)
        assert [data["turn_id"] for _, _, data in missed] == ["T-2", "T-3"]
        with client.stream("GET", query, headers={"Last-Event-ID": str(missed[0][0])}) as stream:
            assert [data["turn_id"] for _, _, data in _events(stream.iter_lines(), 1)] == ["T-3"]


def test_a_client_that_was_away_too_long_is_told_of_the_gap(tmp_path: Path) -> None:
    with sync.open(tmp_path / "a.db") as fov:
        hub = EventHub(fov, 2, Metrics())  # type: ignore[arg-type] # it only subscribes when it is started
        start = hub.last
        for session in ("acme:a", "b", "acme:a", "acme:a"):
            hub.take(Event("turn-recorded", session, datetime.now(UTC)))
    assert hub.is_gone("", start)
    assert [numbered.event.session_id for numbered in hub.after("", start)] == ["acme:a", "acme:a"]
    assert not hub.is_gone("", start + 2)
    assert hub.is_gone("acme", start)
    assert not hub.is_gone("acme", start + 1), "only events of others were dropped since"
    assert not hub.is_gone("other", start)
    assert hub.is_gone("", start - 1), "the server was started anew"
    assert hub.after("other", 0) == []


def test_a_session_gets_a_scope_and_loses_it(client: ServerClient) -> None:
    made = client.post(f"{API}/sessions", json={"id": "scoped", "scope": "user:anna"})
    assert made.json()["scope"] == "user:anna"
    changed = client.patch(f"{API}/sessions/scoped", json={"scope": "project:shop"}).json()
    assert changed["scope"] == "project:shop"
    assert client.patch(f"{API}/sessions/scoped", json={"title": "x"}).json()["scope"] == "project:shop"
    assert client.patch(f"{API}/sessions/scoped", json={"scope": "nobody:x"}).status_code == 422
    assert client.patch(f"{API}/sessions/scoped", json={"scope": ""}).json()["scope"] == ""


def test_a_stream_of_events_ends_when_its_key_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.server.api.events.KEEP_ALIVE_SECONDS", 0.1)
    with sync.open(tmp_path / "a.db") as fov:
        key = fov.keys.create("k", rights=["read"])
    with (
        listening(tmp_path / "a.db", key_cache_seconds=0) as url,
        httpx2.Client(base_url=f"{url}{API}", timeout=PATIENCE_SECONDS) as client,
        client.stream("GET", "/events", headers=bearer(key.secret)) as stream,
        sync.open(tmp_path / "a.db") as fov,
    ):
        lines = stream.iter_lines()
        assert next(lines) == ": events"
        fov.keys.revoke(key.info.id)
        assert [line for line in lines if line and line != ": waiting"] == []


def test_a_tenant_gets_only_its_own_events(tmp_path: Path) -> None:
    with listening(tmp_path / "a.db", key_cache_seconds=0) as url, httpx2.Client(base_url=f"{url}{API}") as client:
        owner = client.post("/keys", json={"rights": ["admin"]}).json()["secret"]
        keys = {
            name: client.post("/keys", json={"tenant": name}, headers=bearer(owner)).json()["secret"]
            for name in ("acme", "other")
        }
        for name in ("other", "acme"):
            client.post("/sessions", json={"id": f"of-{name}"}, headers=bearer(keys[name])).raise_for_status()
            client.post(f"/sessions/of-{name}/turns", json={"messages": HELLO}, headers=bearer(keys[name]))
        headers = {**bearer(keys["acme"]), "Last-Event-ID": "0"}
        with client.stream("GET", "/events?kinds=turn-recorded", headers=headers) as stream:
            (_, gap, _), (_, _, data) = _events(stream.iter_lines(), 2)
        assert (gap, data["session_id"]) == ("gap", "of-acme")
        headers = {**bearer(owner), "Last-Event-ID": "0"}
        with client.stream("GET", "/events?kinds=turn-recorded", headers=headers) as stream:
            found = [data.get("session_id") for _, _, data in _events(stream.iter_lines(), 3)]
        assert found == [None, "other:of-other", "acme:of-acme"]


def test_no_secret_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(0), client_of(tmp_path / "a.db", key_cache_seconds=0) as client:
        key = call(client, client.fov.keys.create, rights=["admin"]).secret
        client.get(f"{API}/sessions", headers=bearer(key))
        client.get(f"{API}/sessions?token={key}", headers=bearer(key))
        client.get(f"{API}/sessions", headers={"x-api-key": "fov_wrong"})
    own = [record.getMessage() for record in caplog.records if not record.name.startswith("httpx2")]
    written = "".join([*own, *capfd.readouterr()])
    assert key not in written
    assert "fov_wrong" not in written


def test_an_agent_is_started_seen_and_cancelled(client: ServerClient, chat: str) -> None:
    session = chat.rpartition("/")[2]
    made = client.post(f"{API}/agents", json={"task": "Count the sheep.", "session": session, "max_tokens": 9_000})
    agent = made.json()
    assert (made.status_code, agent["state"], agent["parent_session_id"]) == (201, "queued", session)
    path = f"{API}/agents/{agent['id']}"
    assert client.get(path).json() == agent
    assert [one["id"] for one in client.get(f"{API}/agents?session={session}").json()["items"]] == [agent["id"]]
    refused = client.post(f"{path}/approval", json={"allow": True})
    assert (refused.status_code, "is not waiting for an approval" in refused.json()["detail"]) == (409, True)
    foreign = client.post(f"{API}/agents", json={"task": "x", "model": "scripted:/etc/passwd"})
    assert (foreign.status_code, "is not configured" in foreign.json()["detail"]) == (422, True)
    assert [one["state"] for one in client.post(f"{path}/cancel").json()["items"]] == ["cancelled"]
    assert client.get(f"{API}/agents/a-0").json()["type"] == "urn:foveate:agent-not-found"


def test_an_agent_that_waits_for_an_approval_goes_on_after_it(client: ServerClient) -> None:
    async def wait(fov: Foveate) -> str:
        agent = await fov.agents.spawn("Deploy.")
        (row,) = [row for row in await fov.agents.rows.claim(CLAIM) if row.id == agent.id]
        await fov.agents.rows.park(row, '{"for":"approval","tool":"deploy","arguments":{"place":"here"}}')
        return agent.id

    path = f"{API}/agents/{call(client, wait, client.fov)}"
    assert client.get(path).json()["waits"] == {
        "for": "approval",
        "tool": "deploy",
        "arguments": {"place": "here"},
        "can_remember": True,
        "right": "admin",
    }
    approved = client.post(f"{path}/approval", json={"allow": True, "for_session": True})
    assert (approved.status_code, approved.json()["state"]) == (200, "queued")


def test_a_turn_is_erased_after_a_preview_and_listed(client: ServerClient) -> None:
    client.post(f"{API}/sessions", json={"id": "leak"})
    said = {"messages": [{"role": "user", "content": "It is zebrafish."}, {"role": "assistant", "content": "Noted."}]}
    client.post(f"{API}/sessions/leak/turns", json=said)
    key = {"Idempotency-Key": "context-of-leak"}
    assert "zebrafish" in client.post(f"{API}/sessions/leak/context", json={"prompt": "?"}, headers=key).text
    preview = client.post(f"{API}/sessions/leak/erase", json={"turns": ["T-1"]}).json()
    assert (preview["is_erased"], preview["counts"]["messages"]) == (False, 2)
    assert client.get(f"{API}/sessions/leak/erasures").json() == {"items": []}
    done = client.post(f"{API}/sessions/leak/erase", json={"turns": ["T-1"], "dry_run": False}).json()
    assert done["is_erased"]
    again = client.post(f"{API}/sessions/leak/context", json={"prompt": "?"}, headers=key)
    assert "zebrafish" not in again.text
    (row,) = client.get(f"{API}/sessions/leak/erasures").json()["items"]
    assert (row["turns"], row["by"]) == (["T-1"], "the owner")
    assert client.post(f"{API}/sessions/leak/erase", json={}).status_code == 422
    assert client.post(f"{API}/sessions/leak/erase", json={"turns": ["T-9"]}).status_code == 404
