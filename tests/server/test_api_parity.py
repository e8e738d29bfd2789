"""What the library can do is reachable over the HTTP API: files, details of turns, scopes, reports, one-shot runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foveate.session import Session
from support.patience import wait_until
from support.servers import ServerClient, bearer, call, client_of

API = "/api/v1"
READ = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "src/jwt.py"}'}}
WORK: list[dict[str, Any]] = [
    {"role": "user", "content": "What does jwt.py do?"},
    {"role": "assistant", "content": "", "tool_calls": [READ]},
    {"role": "tool", "tool_call_id": "c1", "content": "def sign(token):\n    return token\n"},
    {"role": "assistant", "content": "It signs tokens."},
]
SCRIPT = """
[[reply]]
contains = "Iteration 1:"
says = "STATUS: question: Which port?"
[[reply]]
contains = "Iteration 2:"
calls_tool = "finish"
arguments = { summary = "Moved to 8443." }
[[reply]]
says = "?"
"""


SLOW = """
[[reply]]
says = "?"
delay_seconds = 600
"""


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """A client of a server whose model follows `SCRIPT`, or the script that is the parameter."""
    script = tmp_path / "script.toml"
    script.write_text(getattr(request, "param", SCRIPT), "utf-8")
    monkeypatch.setenv("FOVEATE_MODELS__CHAT", f"scripted:{script}")
    with client_of(tmp_path / "a.db") as made:
        yield made


@pytest.fixture
def chat(client: ServerClient) -> str:
    client.post(f"{API}/sessions", json={"id": "chat", "strategy": "hybrid"}).raise_for_status()
    client.post(f"{API}/sessions/chat/turns", json={"messages": WORK}).raise_for_status()
    return f"{API}/sessions/chat"


def test_files_of_a_session_are_listed_and_described(client: ServerClient, chat: str) -> None:
    (read,) = client.get(f"{chat}/files").json()["reads"]
    assert (read["path"], read["turn"], read["lines"]) == ("src/jwt.py", 1, 2)
    changed = client.put(f"{chat}/files/src%2Fjwt.py", json={"summary": "Signs and checks tokens."}).json()
    assert changed["summaries"] == {"src/jwt.py": "Signs and checks tokens."}
    assert changed["reads"][0]["summary"] == "Signs and checks tokens."
    assert client.put(f"{chat}/files/src%2Fjwt.py", json={"summary": ""}).json()["summaries"] == {}


def test_a_turn_has_details_of_its_levels(client: ServerClient, chat: str) -> None:
    details = client.get(f"{chat}/turns/T-1/details").json()
    assert (details["id"], details["messages"], details["tool_calls"]) == ("T-1", 4, 1)
    assert details["levels"][0]["maker"] == "recorded"
    assert client.get(f"{chat}/turns/T-9/details").json()["type"] == "urn:foveate:turn-not-found"


def test_a_scope_is_searched_and_listed_and_nothing_else(client: ServerClient) -> None:
    for name, scope in (("mine", "user:anna"), ("hers", "user:bea")):
        client.post(f"{API}/sessions", json={"id": name, "scope": scope}).raise_for_status()
        said = [{"role": "user", "content": f"The port of {name} is 8443."}]
        client.post(f"{API}/sessions/{name}/turns", json={"messages": said}).raise_for_status()
    found = client.get(f"{API}/search?q=port 8443&scope=user:anna").json()["items"]
    assert {hit["session_id"] for hit in found} == {"mine"}
    assert [one["id"] for one in client.get(f"{API}/sessions?scope=user:bea").json()["items"]] == ["hers"]
    assert client.get(f"{API}/search?q=port&scope=nobody").status_code == 422


def test_another_tenants_scope_has_no_hits(client: ServerClient) -> None:
    client.post(f"{API}/sessions", json={"id": "mine", "scope": "user:anna"}).raise_for_status()
    said = [{"role": "user", "content": "The port is 8443."}]
    client.post(f"{API}/sessions/mine/turns", json={"messages": said}).raise_for_status()
    stranger = bearer(call(client, client.fov.keys.create, tenant="other", rights=["read"]).secret)
    assert client.get(f"{API}/search?q=port 8443&scope=user:anna", headers=stranger).json()["items"] == []


def test_messages_are_reported_with_what_they_became(client: ServerClient, chat: str) -> None:
    reports = client.get(f"{chat}/messages").json()["items"]
    assert [(one["speaker"], one["form"]) for one in reports] == [
        ("user", "whole"),
        ("assistant", "whole"),
        ("tool", "whole"),
        ("assistant", "whole"),
    ]
    client.post(f"{API}/sessions", json={"id": "talk"})
    assert client.get(f"{API}/sessions/talk/messages").status_code == 422


def test_a_one_shot_run_asks_is_answered_and_ends(client: ServerClient) -> None:
    client.post(f"{API}/sessions", json={"id": "work", "strategy": "oneshot"}).raise_for_status()

    def run(**body: Any) -> Any:
        made = client.post(f"{API}/sessions/work/run", json=body)
        assert made.status_code == 202, made.text
        path = f"{API}/jobs/{made.json()['id']}"
        wait_until(lambda: client.get(path).json()["status"] in ("done", "failed"))
        return client.get(path).json()

    asked = run(epic="Move the shop.", tasks="- [ ] Move it")
    assert (asked["status"], asked["kind"], asked["done"]) == ("done", "run", asked["total"])
    assert (asked["result"]["reason"], asked["result"]["text"]) == ("question", "Which port?")
    ended = run(answer="8443.")["result"]
    assert (ended["reason"], ended["text"], ended["iterations"]) == ("done", "Moved to 8443.", 2)
    assert client.get(f"{API}/sessions/work/documents/epic").json()["text"] == "Move the shop."


@pytest.mark.parametrize("client", [SLOW], indirect=True)
def test_a_session_has_one_run_at_a_time(client: ServerClient) -> None:
    client.post(f"{API}/sessions", json={"id": "work"}).raise_for_status()
    first = client.post(f"{API}/sessions/work/run", json={"epic": "Wait for ever."})
    second = client.post(f"{API}/sessions/work/run", json={})
    assert (first.status_code, second.status_code) == (202, 409)
    job = first.json()["id"]
    assert job in second.json()["detail"]
    assert client.delete(f"{API}/jobs/{job}").json()["status"] == "cancelled"


def tenant_with_a_run(client: ServerClient, session: str) -> tuple[dict[str, str], str]:
    """The key of the tenant acme, and the job of its run of a session."""
    acme = bearer(call(client, client.fov.keys.create, tenant="acme", rights=["read", "write"]).secret)
    client.post(f"{API}/sessions", json={"id": session}, headers=acme).raise_for_status()
    made = client.post(f"{API}/sessions/{session}/run", json={"epic": "Wait for ever."}, headers=acme)
    assert made.status_code == 202, made.text
    return acme, str(made.json()["id"])


@pytest.mark.parametrize("client", [SLOW], indirect=True)
def test_the_run_of_a_tenant_concerns_its_session_alone(client: ServerClient) -> None:
    owner = bearer(call(client, client.fov.keys.create, rights=["read", "write"]).secret)
    client.post(f"{API}/sessions", json={"id": "work"}, headers=owner).raise_for_status()
    acme, job = tenant_with_a_run(client, "work")
    same = client.post(f"{API}/sessions/acme:work/run", json={}, headers=owner)
    assert (same.status_code, job in same.json()["detail"]) == (409, True)
    own = client.post(f"{API}/sessions/work/run", json={"epic": "Wait for ever."}, headers=owner)
    assert own.status_code == 202
    shown = {one["id"]: one["session_id"] for one in client.get(f"{API}/jobs", headers=owner).json()["items"]}
    assert shown == {job: "acme:work", own.json()["id"]: "work"}
    assert client.get(f"{API}/jobs/{job}", headers=acme).json()["session_id"] == "work"


@pytest.mark.parametrize("client", [SLOW], indirect=True)
def test_a_run_that_the_owner_started_is_not_named_to_the_tenant(client: ServerClient) -> None:
    owner = bearer(call(client, client.fov.keys.create, rights=["read", "write"]).secret)
    acme = bearer(call(client, client.fov.keys.create, tenant="acme", rights=["read", "write"]).secret)
    client.post(f"{API}/sessions", json={"id": "work"}, headers=acme).raise_for_status()
    job = client.post(f"{API}/sessions/acme:work/run", json={"epic": "Wait for ever."}, headers=owner).json()["id"]
    refused = client.post(f"{API}/sessions/work/run", json={}, headers=acme)
    assert (refused.status_code, job in refused.json()["detail"]) == (409, False)


@pytest.mark.parametrize("client", [SLOW], indirect=True)
def test_the_runs_of_a_tenant_take_no_place_from_those_of_others(client: ServerClient) -> None:
    for name in ("w1", "w2", "w3"):
        acme, queued = tenant_with_a_run(client, name)
    beta = bearer(call(client, client.fov.keys.create, tenant="beta", rights=["read", "write"]).secret)
    client.post(f"{API}/sessions", json={"id": "b"}, headers=beta).raise_for_status()
    run = client.post(f"{API}/sessions/b/run", json={"epic": "Wait for ever."}, headers=beta).json()["id"]
    wait_until(lambda: client.get(f"{API}/jobs/{run}", headers=beta).json()["status"] == "running")
    assert client.get(f"{API}/jobs/{queued}", headers=acme).json()["status"] == "queued"


def test_a_run_takes_only_models_that_are_configured(client: ServerClient) -> None:
    client.post(f"{API}/sessions", json={"id": "work"}).raise_for_status()
    foreign = client.post(f"{API}/sessions/work/run", json={"epic": "x", "model": "scripted:/etc/passwd"})
    assert (foreign.status_code, "is not configured" in foreign.json()["detail"]) == (422, True)


LIBRARY_ONLY = {
    "explain_turn": "drawn by the dashboard",
    "handoff": "writes a file for a client of this machine",
    "picture": "drawn by the dashboard",
    "calibrate": "by the gateway, with the counts of the provider's answers",
    "load_turn": "values for programs; `/export` has the messages",
    "load_turns": "values for programs; `/export` has the messages",
    "pictures": "drawn by the dashboard",
    "read_page": "`/tools/get_turn`",
    "turn": "a `with` block; `/turns` records both halves",
}
ENDPOINT_OF = {
    "record": "record_turns", "record_all": "record_turns", "context": "make_context", "tools": "list_tools",
    "get_turn": "get_turn", "get_turns": "list_turns", "get_turns_by_topic": "call_tool", "outline": "list_turns",
    "turn_details": "get_turn_details", "search": "search_session", "pin": "add_pin", "pins": "list_pins",
    "unpin": "remove_pin", "board": "get_board", "dismiss": "dismiss_board_item", "save": "save_board_item",
    "goals": "add_goal", "documents": "get_document", "files": "list_files", "topics": "list_topics",
    "checkpoints": "list_checkpoints", "prompts": "list_prompts", "cabinet": "list_cabinet", "set_mode":
    "change_session", "use": "set_strategy", "rename": "change_session", "label": "set_labels", "fork": "fork_session",
    "stats": "get_stats", "export": "export_session", "call_tool": "call_tool", "refresh": "get_session",
    "message_reports": "report_messages", "erase": "erase_in_session", "erasures": "list_erasures",
    "requests": "list_requests", "request": "get_request",
}  # fmt: skip


def test_every_method_of_a_session_has_an_endpoint(client: ServerClient) -> None:
    document = client.get(f"{API}/openapi.json").json()
    served = {described["operationId"] for methods in document["paths"].values() for described in methods.values()}
    values = {"counter", "engine", "id", "info", "shows_goals", "strategy_problem"}
    methods = {name for name in vars(Session) if not name.startswith("_")} - values
    assert methods == LIBRARY_ONLY.keys() | ENDPOINT_OF.keys()
    assert set(ENDPOINT_OF.values()) <= served
