"""Knowledge in the HTTP API: read, decided on, edited, exported and imported, each tenant its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.patience import wait_until
from support.servers import ServerClient, bearer, call, client_of

API = "/api/v1/knowledge"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerClient]:
    with client_of(tmp_path_factory.mktemp("api") / "a.db") as made:
        made.post("/api/v1/sessions", json={"id": "chat"}).raise_for_status()
        made.post("/api/v1/sessions/chat/turns", json={"messages": [{"role": "user", "content": "8443"}]})
        yield made


def add(client: ServerClient, title: str, **more: Any) -> str:
    made = client.post(API, json={"title": title, "text": f"About {title}.", **more})
    assert made.status_code == 201, made.text
    found: str = made.json()["id"]
    return found


def test_an_item_is_added_decided_on_and_edited_as_versions(client: ServerClient) -> None:
    made = add(client, "Ports", scope="project:shop", sources=["chat/T-1"])
    assert client.get(f"{API}/{made[:7]}").json()["sources"] == ["chat/T-1"]
    client.post(f"{API}/{made}/pin", json={"reason": "sure"}).raise_for_status()
    edited = client.patch(f"{API}/{made}", json={"text": "8444", "version": 2, "reason": "it moved"})
    assert (edited.json()["version"], edited.json()["state"]) == (3, "pinned")
    stale = client.patch(f"{API}/{made}", json={"text": "8445", "version": 2})
    assert (stale.status_code, stale.json()["type"]) == (409, "urn:foveate:refused")
    client.post(f"{API}/{made}/retire").raise_for_status()
    assert client.post(f"{API}/{made}/approve").json()["state"] == "approved"
    versions = client.get(f"{API}/{made}/versions").json()["items"]
    assert [each["reason"] for each in versions] == ["sure", "it moved", "retired", "approved", ""]
    assert client.patch(f"{API}/{made}", json={}).status_code == 422
    assert client.get(f"{API}/k-9").json()["type"] == "urn:foveate:knowledge-not-found"


def test_lists_have_pages_and_filters(client: ServerClient) -> None:
    made = [add(client, f"Rule {number}", scope="org:pages", kind="lesson") for number in range(5)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = client.get(f"{API}?scope=org:pages&limit=2{cursor}").json()
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == sorted(made)
    assert client.get(f"{API}?scope=org:pages&kind=reference").json() == {"items": [], "next_cursor": None}
    assert client.get(f"{API}?scope=org:pages&state=proposed").json()["items"] == []
    for wrong in ("scope=pages", "kind=rule", "state=new", "cursor=x"):
        assert client.get(f"{API}?{wrong}").status_code == 422
    assert client.get(f"{API}/runs").json() == {"items": []}


def test_an_export_is_imported_back_and_a_broken_one_is_not(client: ServerClient) -> None:
    add(client, "Names", scope="org:files")
    exported = client.get(f"{API}/export?scope=org:files")
    assert exported.headers["content-type"].startswith("text/markdown")
    assert client.post(f"{API}/import", content=exported.content).json()["unchanged"] == 1
    edited = exported.text.replace("About Names.", "Short ones.") + "\n## Dates\n- scope: org:files\n\nISO.\n"
    planned = client.post(f"{API}/import?dry_run=true", content=edited).json()
    assert (planned["new"], planned["changed"], planned["items"]) == (1, 1, [])
    imported = client.post(f"{API}/import", content=edited).json()
    assert [(item["title"], item["version"]) for item in imported["items"]] == [("Names", 2), ("Dates", 1)]
    broken = client.post(f"{API}/import", content="## New\n\nText.\n\n## Forged\n<!-- k-9999999999@1 -->\n\nText.\n")
    assert broken.status_code == 422
    assert "line 6: there is no item k-9999999999 here" in broken.json()["detail"]
    assert len(client.get(f"{API}?scope=org:files").json()["items"]) == 2
    assert client.post(f"{API}/import", content=b"\xff").status_code == 422
    assert client.post(f"{API}/import", content=b"").status_code == 422


def test_learning_is_a_job_whose_result_says_what_changed(client: ServerClient) -> None:
    client.post("/api/v1/sessions", json={"id": "rules"}).raise_for_status()
    client.put("/api/v1/sessions/rules/labels", json={"channel": "rules"}).raise_for_status()
    for text in ("Always run the tests with make.", "From now on, always run the tests with make."):
        client.post("/api/v1/sessions/rules/turns", json={"messages": [{"role": "user", "content": text}]})
    job = client.post(f"{API}/learn", json={"scope": "project:rules"})
    assert (job.status_code, job.json()["kind"]) == (202, "learn")
    ended = finished(client, job.json()["id"])
    assert (ended["status"], ended["done"], ended["result"]["calls"]) == ("done", ended["total"], 0)
    (report,) = ended["result"]["scopes"]
    assert (report["outcome"], report["turns"], report["usage"]) == ("learned", 2, None)
    lessons = client.get(f"{API}?scope=project:rules&kind=lesson").json()["items"]
    assert [(item["maker"], item["state"]) for item in lessons] == [("local", "proposed")]
    assert set(lessons[0]["sources"]) == {"rules/T-1", "rules/T-2"}
    (run,) = client.get(f"{API}/runs?scope=project:rules").json()["items"]
    assert (run["state"], run["report"]["turns"]) == ("done", 2)
    again = client.post(f"{API}/learn", json={"scope": "project:rules"}).json()["id"]
    assert finished(client, again)["result"]["scopes"][0]["outcome"] == "unchanged"
    assert client.post(f"{API}/learn", json={"scope": "rules"}).status_code == 422


def finished(client: ServerClient, job: str) -> Any:
    wait_until(lambda: client.get(f"/api/v1/jobs/{job}").json()["ended_at"])
    return client.get(f"/api/v1/jobs/{job}").json()


def test_a_tenant_neither_sees_nor_changes_the_knowledge_of_another(tmp_path_factory: pytest.TempPathFactory) -> None:
    with client_of(tmp_path_factory.mktemp("tenants") / "a.db", key_cache_seconds=0) as client:
        secrets = {
            name: bearer(call(client, client.fov.keys.create, tenant=name, rights=["admin"]).secret)
            for name in ("acme", "other")
        }
        body = {"title": "Ports", "text": "8443"}
        made = client.post(API, json=body, headers=secrets["acme"]).json()["id"]
        exported = client.get(f"{API}/export", headers=secrets["acme"]).text
        stranger = secrets["other"]
        assert client.get(API, headers=stranger).json()["items"] == []
        for method, path in (
            ("GET", ""),
            ("GET", "/versions"),
            ("PATCH", ""),
            ("POST", "/approve"),
            ("POST", "/pin"),
            ("POST", "/retire"),
        ):
            for item_id in (made, f"acme:{made}"):
                body = {"text": "x"} if method == "PATCH" else {}
                answer = client.request(method, f"{API}/{item_id}{path}", json=body, headers=stranger)
                assert answer.status_code == 404, (method, path)
        foreign = client.post(f"{API}/import", content=exported.replace("8443", "x"), headers=stranger)
        assert (foreign.status_code, "there is no item" in foreign.text) == (422, True)
        assert client.get(f"{API}/{made}", headers=secrets["acme"]).json()["version"] == 1
