"""Every endpoint of the OpenAPI document x every right x another tenant x no key x a forwarded request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from starlette.routing import Route

from foveate.server.api.table import ENDPOINTS
from foveate.server.problems import MEDIA_TYPE, Problem
from support.servers import ServerClient, bearer, call, client_of

RIGHTS = ("gateway", "read", "write", "admin")
HELLO = [{"role": "user", "content": "The port is 8443."}, {"role": "assistant", "content": "Noted."}]
BODIES: dict[str, Any] = {
    "create_session": {"id": "new"},
    "change_session": {"title": "Mine"},
    "fork_session": {"id": "fork"},
    "set_strategy": {"name": "standard"},
    "set_labels": {"channel": "c"},
    "prune_session": {"before": "2020-01-01T00:00:00Z"},
    "erase_in_session": {"turns": ["T-1"]},
    "record_turns": {"messages": HELLO},
    "make_context": {"prompt": "port?"},
    "call_tool": {"arguments": {}},
    "add_pin": {"text": "Never on a Friday."},
    "add_goal": {"title": "Ship it"},
    "set_step": {"step": "Design"},
    "lock_decision": {"text": "Use JWT"},
    "add_artifact": {"path": "a.py"},
    "set_document": {"text": "Move the shop."},
    "compare_strategies": {"strategies": ["standard"], "budgets_tokens": [4000]},
    "create_key": {"name": "k"},
    "set_budget": {"budget_usd": 5.0},
    "set_prompt": {"text": "Answer in Latin."},
    "render_prompt": {"variables": {}},
    "prune_cabinet": {"dry_run": True},
    "spawn_agent": {"task": "Count."},
    "decide_call": {"allow": True},
    "answer_agent": {"text": "Yes."},
    "execute_tool": {"arguments": {"turn_id": "T-1"}, "session": "chat"},
    "add_knowledge": {"title": "Ports", "text": "The shop listens on 8443."},
    "learn_knowledge": {"scope": "project:", "dry_run": True},
    "edit_knowledge": {"text": "The shop listens on 8444."},
    "approve_knowledge": {},
    "pin_knowledge": {},
    "retire_knowledge": {"reason": "it moved"},
    "summarize_file": {"summary": "Signs tokens."},
    "run_session": {"epic": "Move the shop."},
}
IDS = {"session": "chat", "turn": "T-1", "pin": "P-1", "goal": "G-1", "name": "epic", "item": "T-1-R", "job": "job-1"}
IDS |= {"file": "f-000000000000", "prompt": "modes%2Flatin", "agent": "a-0", "tool": "get_turn", "knowledge": "k-0"}
IDS |= {"path": "src%2Fjwt.py", "number": "1"}
NEEDED = {"search_all": "q=port", "search_session": "q=port"}
UNTESTED = ("stream_events",)
"""Streams have a test of their own."""


class Operation(NamedTuple):
    """An endpoint as the document has it."""

    name: str
    method: str
    path: str
    right: str

    def send(self, client: ServerClient, headers: dict[str, str], **ids: str) -> Any:
        path = self.path.format(**{**IDS, "key": "K-00000000", **ids})
        body = BODIES.get(self.name)
        content = (
            {"content": b'{"role":"user","content":"hi"}\n'} if self.name == "import_transcript" else {"json": body}
        )
        return client.request(self.method, f"{path}?{NEEDED.get(self.name, '')}", headers=headers, **content)


class Stage(NamedTuple):
    """A server with the sessions of two tenants, and keys."""

    client: ServerClient
    operations: list[Operation]
    keys: dict[str, str]
    """Of the tenant acme by right."""
    stranger: str
    """An admin key of another tenant."""


def operations_of(client: ServerClient, **headers: str) -> list[Operation]:
    document = client.get("/api/v1/openapi.json", headers=headers).json()
    return [
        Operation(described["operationId"], method.upper(), path, described["x-right"])
        for path, methods in document["paths"].items()
        for method, described in methods.items()
        if described["operationId"] not in UNTESTED
    ]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("matrix")
    with client_of(folder / "a.db", key_cache_seconds=0) as client:
        operations = operations_of(client)
        keys = {
            right: call(client, client.fov.keys.create, right, tenant="acme", rights=[right]).secret for right in RIGHTS
        }
        stranger = call(client, client.fov.keys.create, tenant="other", rights=["admin"]).secret
        for secret in (keys["admin"], stranger):
            client.post("/api/v1/sessions", json={"id": "chat"}, headers=bearer(secret)).raise_for_status()
        client.post("/api/v1/sessions/chat/turns", json={"messages": HELLO}, headers=bearer(keys["admin"]))
        yield Stage(client, operations, keys, stranger)


def test_every_write_of_the_document_has_a_body_here(stage: Stage) -> None:
    """So that an endpoint that is added is in the table."""
    bodiless = {"delete_session", "settle_session", "remove_pin", "finish_goal", "save_board_item", "import_transcript"}
    bodiless |= {"dismiss_board_item", "seal_topic", "unseal_topic", "cancel_job", "revoke_key", "reset_prompt"}
    bodiless |= {"cancel_agent", "import_knowledge"}
    writes = {operation.name for operation in stage.operations if operation.method != "GET"}
    assert writes == set(BODIES) | bodiless


def test_each_endpoint_takes_the_right_it_declares_and_no_other(stage: Stage) -> None:
    wrong = []
    for operation in stage.operations:
        if operation.name == "delete_session":
            continue  # it would take the session from the others
        for right in RIGHTS:
            status = operation.send(stage.client, bearer(stage.keys[right])).status_code
            is_allowed = right in (operation.right, "admin")
            if (status == 403) == is_allowed or status in (401, 500):
                wrong.append((operation.name, right, status))
    assert not wrong


def test_each_answer_has_the_type_that_its_endpoint_declares(stage: Stage) -> None:
    kinds = {endpoint.handler.__name__: endpoint for endpoint in ENDPOINTS}
    checked = 0
    for operation in stage.operations:
        endpoint = kinds[operation.name]
        if operation.name == "delete_session" or endpoint.answer in (None, str):
            continue
        answer = operation.send(stage.client, bearer(stage.keys["admin"]))
        if answer.is_success:
            assert answer.status_code == endpoint.status, operation.name
            msgspec.json.decode(answer.content, type=endpoint.answer)
            checked += 1
        else:
            problem = msgspec.json.decode(answer.content, type=Problem)
            assert (problem.status, answer.headers["content-type"]) == (answer.status_code, MEDIA_TYPE)
    assert checked > 25


def test_without_a_key_and_through_a_proxy_nothing_is_answered(stage: Stage) -> None:
    for headers in ({}, {"X-Forwarded-For": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}, bearer("fov_wrong")):
        wrong = [
            (operation.name, answer.status_code)
            for operation in stage.operations
            if (answer := operation.send(stage.client, headers)).status_code != 401
        ]
        assert not wrong, headers


def test_another_tenant_is_told_that_a_session_does_not_exist(stage: Stage) -> None:
    stage.client.post("/api/v1/sessions", json={"id": "secret"}, headers=bearer(stage.keys["admin"]))
    for operation in stage.operations:
        if "{session}" not in operation.path:
            continue
        foreign = operation.send(stage.client, bearer(stage.stranger), session="secret")
        unknown = operation.send(stage.client, bearer(stage.stranger), session="unknown")
        assert (foreign.status_code, unknown.status_code) == (404, 404), operation.name
        told = [answer.text.replace(answer.json()["request_id"], "") for answer in (foreign, unknown)]
        assert told[0].replace("'secret'", "'unknown'") == told[1], operation.name
        qualified = operation.send(stage.client, bearer(stage.stranger), session="acme:secret")
        assert qualified.status_code == 404, operation.name


def test_lists_search_and_costs_have_only_the_tenants_own(stage: Stage) -> None:
    own, other = bearer(stage.keys["read"]), bearer(stage.stranger)
    assert "chat" in {item["id"] for item in stage.client.get("/api/v1/sessions", headers=own).json()["items"]}
    listed = stage.client.get("/api/v1/sessions", headers=other).json()["items"]
    assert [item["id"] for item in listed] == ["chat"]
    assert listed[0]["turns"] == 0
    found = stage.client.get("/api/v1/search?q=port 8443", headers=own).json()["items"]
    assert {hit["session_id"] for hit in found} >= {"chat"}
    assert stage.client.get("/api/v1/search?q=port 8443", headers=other).json()["items"] == []
    assert stage.client.get("/api/v1/cost", headers=other).json()["items"] == []
    assert stage.client.get("/api/v1/jobs", headers=other).json()["items"] == []
    assert {key["tenant"] for key in stage.client.get("/api/v1/keys", headers=other).json()["items"]} == {"other"}


def test_the_owner_sees_all_tenants_by_their_names(stage: Stage) -> None:
    owner = bearer(call(stage.client, stage.client.fov.keys.create, rights=["read"]).secret)
    listed = {item["id"] for item in stage.client.get("/api/v1/sessions", headers=owner).json()["items"]}
    assert {"acme:chat", "other:chat"} <= listed
    assert stage.client.get("/api/v1/sessions/acme%3Achat", headers=owner).status_code == 200


def test_errors_write_ids_as_the_tenant_knows_them(stage: Stage) -> None:
    answer = stage.client.get("/api/v1/sessions/chat/turns/T-99", headers=bearer(stage.keys["read"]))
    assert answer.status_code == 404
    assert "acme:" not in answer.text
    assert "'chat'" in answer.json()["detail"]


def test_a_tenants_admin_makes_keys_of_its_own_tenant_only(stage: Stage) -> None:
    admin = bearer(stage.keys["admin"])
    made = stage.client.post("/api/v1/keys", json={"rights": ["read"]}, headers=admin).json()
    assert made["tenant"] == "acme"
    assert stage.client.get("/api/v1/sessions/chat", headers=bearer(made["secret"])).status_code == 200
    refused = stage.client.post("/api/v1/keys", json={"tenant": "other"}, headers=admin)
    assert refused.status_code == 403
    assert stage.client.delete(f"/api/v1/keys/{made['id']}", headers=bearer(stage.stranger)).status_code == 404
    assert stage.client.delete(f"/api/v1/keys/{made['id']}", headers=admin).status_code == 204


def test_every_other_route_is_behind_the_same_check(stage: Stage) -> None:
    routes = [route for route in stage.client.server.routes if isinstance(route, Route)]
    paths = {route.path: route for route in routes if not route.path.startswith("/api/")}
    public = {"/healthz", "/readyz"}
    open_to_all = {"/ui/login", "/ui/login/end", "/ui/static/{name:path}"}
    assert len(paths) > 10
    for path, route in paths.items():
        methods = (route.methods or {"POST"}) - {"HEAD", "OPTIONS"}
        url = re.sub(r"\{[^}]*\}", "x", path)
        for method in methods:
            for headers in ({}, {"X-Forwarded-For": "127.0.0.1"}, bearer("fov_wrong")):
                answer = stage.client.request(method, url, headers=headers, follow_redirects=False)
                if path in open_to_all:
                    continue
                # A browser is sent to the form for a key.
                refused = (303, "/ui/login") if path == "/" or path.startswith("/ui/") else (401, None)
                wanted = (200, None) if path in public else refused
                assert (answer.status_code, answer.headers.get("location")) == wanted, (method, path, headers)
            if re.match(r"(/s/.*)?/v1", path):
                status = stage.client.request(method, url, headers=bearer(stage.keys["read"])).status_code
                assert status == 403, (method, path)


def test_metrics_are_the_owners(stage: Stage) -> None:
    assert stage.client.get("/metrics", headers=bearer(stage.keys["admin"])).status_code == 403
    assert stage.client.get("/metrics", headers=bearer(stage.keys["read"])).status_code == 403
    owner = bearer(call(stage.client, stage.client.fov.keys.create, rights=["admin"]).secret)
    text = stage.client.get("/metrics", headers=owner).text
    assert 'foveate_requests_total{method="GET",route="/api/v1/sessions/{session}",status="200"}' in text
    assert "foveate_turns_parked 0" in text
    assert "secret" not in text
