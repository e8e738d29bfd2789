"""`/tools`: who may call which tool, and what a call answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from foveate.client import Foveate
from foveate.store.agents import ClaimRequest
from foveate.tools import registry
from support.servers import ServerClient, bearer, call, client_of

API = "/api/v1"
READERS = {"file_search", "get_turn", "get_turns", "get_turns_by_topic", "grep", "list_dir", "read_cabinet"}
READERS |= {"context_remaining", "read_file", "search_history", "view_image", "wait_agent"}
IN_STORE = {"update_plan", "call_agent", "spawn_agent", "cancel_agent"}


class Stage(NamedTuple):
    """A server with a folder, and a key of each kind."""

    client: ServerClient
    folder: Path
    owner: dict[str, dict[str, str]]
    """Headers by right."""
    tenant: dict[str, str]
    """Headers of a tenant's admin."""

    def call(self, tool: str, headers: dict[str, str] | None = None, **body: Any) -> Any:
        given = headers or self.owner["admin"]
        return self.client.post(f"{API}/tools/{tool}/call", json=body, headers=given)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    base = tmp_path_factory.mktemp("tools")
    folder = base / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("A wall.\n")
    settings = base / "config.toml"
    settings.write_text(f'[agents]\nroots = ["{folder}"]\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOVEATE_CONFIG", str(settings))
        with client_of(base / "a.db") as client:
            create = client.fov.keys.create
            owner = {right: bearer(call(client, create, rights=[right]).secret) for right in ("read", "write", "admin")}
            tenant = bearer(call(client, create, tenant="acme", rights=["admin"]).secret)
            yield Stage(client, folder, owner, tenant)


def test_tools_are_listed_by_pack_and_shown_with_their_schema(stage: Stage) -> None:
    headers = stage.owner["read"]
    listed = stage.client.get(f"{API}/tools?pack=file-ops", headers=headers).json()
    names = [tool["name"] for tool in listed["items"]]
    assert "apply_patch" in names
    assert "exec" not in names
    assert "core-codex" in listed["packs"]
    shown = stage.client.get(f"{API}/tools/read_file", headers=headers).json()
    assert (shown["read_only"], shown["right"], shown["schema"]["required"]) == (True, "write", ["path"])
    assert stage.client.get(f"{API}/tools?pack=none", headers=headers).status_code == 422
    unknown = stage.client.get(f"{API}/tools/none", headers=headers)
    assert (unknown.status_code, unknown.json()["type"]) == (404, "urn:foveate:tool-not-found")


def test_a_call_takes_the_right_that_fits_its_danger(stage: Stage) -> None:
    """Each tool with each right, and with a tenant's key; only 403 matters here."""
    items = stage.client.get(f"{API}/tools", headers=stage.owner["read"]).json()["items"]
    rights = {tool["name"]: tool["right"] for tool in items}
    assert {name for name, right in rights.items() if right == "write"} == READERS | IN_STORE
    assert set(rights) == set(registry.names())
    for name, right in rights.items():
        allowed = {
            "read": False,
            "write": right == "write",
            "admin": name != "exec",  # this server was started without it
        }
        for key, is_allowed in allowed.items():
            assert (stage.call(name, stage.owner[key]).status_code != 403) == is_allowed, (name, key)
        assert (stage.call(name, stage.tenant).status_code != 403) == (right == "write"), name


def test_a_call_is_confined_to_the_folders_of_the_server_and_a_tenant_has_none(stage: Stage) -> None:
    read = {"arguments": {"path": "a.txt"}}
    answer = stage.call("read_file", stage.owner["write"], **read)
    assert (answer.status_code, answer.json()["is_error"]) == (200, False)
    assert "A wall." in answer.json()["text"]
    outside = stage.call("read_file", arguments={"path": "../config.toml"}).json()
    assert (outside["is_error"], "outside the folders" in outside["text"]) == (True, True)
    assert "no folder was given" in stage.call("read_file", stage.tenant, **read).json()["text"]
    wrong = stage.call("read_file", arguments={"path": 3}).json()
    assert (wrong["is_error"], "path: expected" in wrong["text"]) == (True, True)


def test_a_tool_that_needs_approval_is_executed_only_with_it(stage: Stage) -> None:
    write = {"arguments": {"path": "new.txt", "content": "Hello"}}
    refused = stage.call("write_file", **write)
    assert (refused.status_code, '"approve": true' in refused.json()["detail"]) == (409, True)
    assert not (stage.folder / "new.txt").exists()
    assert not stage.call("write_file", **write, approve=True).json()["is_error"]
    assert (stage.folder / "new.txt").read_text() == "Hello"
    assert stage.call("write_file", **write, approve=True, pack="research").status_code == 404


def test_a_tenants_call_sees_its_own_sessions_only(stage: Stage) -> None:
    hello = [{"role": "user", "content": "The port is 8443."}]
    stage.client.post(f"{API}/sessions", json={"id": "own"}, headers=stage.owner["write"])
    stage.client.post(f"{API}/sessions/own/turns", json={"messages": hello}, headers=stage.owner["write"])
    body: dict[str, Any] = {"arguments": {"turn_id": "T-1"}, "session": "own"}
    assert "8443" in stage.call("get_turn", **body).json()["text"]
    assert stage.call("get_turn", stage.tenant, **body).status_code == 404


def test_a_wait_in_the_name_of_a_running_agent_is_a_conflict(stage: Stage) -> None:
    async def running(fov: Foveate) -> tuple[str, str]:
        top = await fov.agents.spawn("Build.")
        child = await fov.agents.spawn("Dig.", parent=top.session_id)
        request = ClaimRequest(owner="w", limit=1, lease_seconds=60.0, max_attempts=3, top=top.id)
        assert [row.id for row in await fov.agents.rows.claim(request)] == [top.id]
        return top.session_id, child.id

    session, child = call(stage.client, running, stage.client.fov)
    answer = stage.call("wait_agent", session=session, arguments={"agent_ids": [child]})
    assert (answer.status_code, "belongs to a running agent" in answer.json()["detail"]) == (409, True)


def test_an_agent_is_started_with_a_stored_prompt_whose_variables_are_checked(stage: Stage) -> None:
    headers = stage.owner["write"]
    stage.client.put(f"{API}/prompts/review", json={"text": "Review {code}."}, headers=headers)

    def spawn(**body: Any) -> Any:
        return stage.client.post(f"{API}/agents", json=body, headers=headers)

    made = spawn(prompt="review", variables={"code": "a.py"}, kind="call")
    assert (made.status_code, made.json()["task"].strip(), made.json()["kind"]) == (201, "Review a.py.", "call")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"prompt": "review"}, "code"),
        ({"prompt": "review", "variables": {"code": "x", "colour": "red"}}, "colour"),
        ({"prompt": "review", "task": "Look."}, "either a task or"),
        ({"task": "Look.", "variables": {"code": "x"}}, "variables are for"),
        ({}, "either a task or"),
    ]
    for body, problem in wrong:
        answer = spawn(**body)
        assert (answer.status_code, problem in answer.json()["detail"]) == (422, True), body


def test_a_background_agent_has_mcp_servers_only_for_an_admin_of_the_owner(stage: Stage) -> None:
    body = {"task": "Look.", "mcp_servers": ["harbour"]}
    assert stage.client.post(f"{API}/agents", json=body, headers=stage.tenant).status_code == 403
    assert stage.client.post(f"{API}/agents", json=body, headers=stage.owner["write"]).status_code == 403
    missing = stage.client.post(f"{API}/agents", json=body, headers=stage.owner["admin"])
    assert (missing.status_code, "no MCP server 'harbour'" in missing.json()["detail"]) == (422, True)
