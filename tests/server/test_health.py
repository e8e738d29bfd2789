"""`/healthz` answers while the process runs; `/readyz` says whether requests can be served, and what an operator
should look at."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

import foveate
from foveate.server import health
from foveate.server.health import check_disk
from foveate.settings import load_settings
from foveate.store.rows import QueueState
from support.servers import ServerClient, bearer, call, client_of, listening

MB = 1_000_000


def _checks(client: ServerClient) -> dict[str, Any]:
    return dict(client.get("/readyz").json()["checks"])


def test_a_sound_server_is_ready_and_says_what_it_checked(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        alive = client.get("/healthz").json()
        assert (alive["status"], set(alive)) == ("ok", {"status", "version", "uptime_seconds"})
        answer = client.get("/readyz")
        checks = answer.json()["checks"]
        assert (answer.status_code, answer.json()["status"]) == (200, "ready")
        assert set(checks) == {"database", "queue", "workers", "disk"}
        assert {check["state"] for check in checks.values()} == {"ok"}
        assert checks["disk"]["free_bytes"] > checks["disk"]["store_bytes"] > 0


def test_only_the_owner_sees_the_figures(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db", key_cache_seconds=0) as client:
        admin = call(client, client.fov.keys.create, "first", rights=["admin"]).secret
        tenant = call(client, client.fov.keys.create, "t", tenant="acme", rights=["admin"]).secret
        assert client.get("/readyz").json() == {"status": "ready"}
        assert client.get("/readyz", headers=bearer(tenant)).json() == {"status": "ready"}
        assert client.get("/readyz", headers=bearer("fov_wrong")).json() == {"status": "ready"}
        assert "checks" in client.get("/readyz", headers=bearer(admin)).json()


def test_a_database_that_does_not_answer_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "DATABASE_SECONDS", 0.05)
    with client_of(tmp_path / "a.db") as client:

        def slow(_connection: object) -> None:
            time.sleep(0.5)

        readers = client.fov.settings.store.readers
        assert client.portal
        busy = [client.portal.start_task_soon(client.fov.store.passages.read, slow) for _ in range(readers)]
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
        assert answer.headers["retry-after"] == "1"
        assert "no answer within 0.05 s" in answer.json()["checks"]["database"]["detail"]
        assert client.get("/healthz").status_code == 200
        for task in busy:
            task.result()


def test_strangers_learn_only_which_check_failed(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db", client=("10.1.2.3", 5), max_body_mb=10_000) as client:
        health_of = client.server.state.health
        health_of._settings = SimpleNamespace(max_body_mb=10**12, upstreams={})
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "unavailable", "failed": ["disk"]})


def test_a_full_disk_fails_and_one_without_room_for_a_backup_warns(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(bytes(3 * MB))
    path.with_name("a.db-wal").write_bytes(bytes(2 * MB))

    def state(free_bytes: int, folder: Path = path) -> str:
        return check_disk(folder, MB, usage=lambda _: (0, 0, free_bytes)).state

    assert [state(2 * MB - 1), state(2 * MB), state(5 * MB - 1), state(5 * MB)] == ["fail", "warn", "warn", "ok"]
    assert check_disk(tmp_path / "gone" / "a.db", MB).state == "fail"


def test_turns_that_wait_for_a_model_longer_than_two_leases_are_a_warning(tmp_path: Path) -> None:
    def queue(waited_seconds: float) -> QueueState:
        return QueueState(
            sessions=0,
            due_sessions=0,
            model_turns=0,
            due_model_turns=0,
            waited_seconds=waited_seconds,
            leased=0,
            expired=0,
            owners=0,
            parked=0,
            parked_turns=(),
        )

    with client_of(tmp_path / "a.db") as client:
        checked = client.server.state.health._background
        lease_seconds = client.fov.settings.compress.lease_seconds
        assert checked(queue(2 * lease_seconds))["queue"].state == "ok"
        late = checked(queue(2 * lease_seconds + 1))["queue"]
        assert (late.state, "has waited 121 s" in late.detail) == ("warn", True)


def test_a_server_that_leaves_compression_to_workers_warns_while_none_runs(tmp_path: Path) -> None:
    settings = load_settings(overrides={"compress": {"enabled": False, "processes": 0}})
    opened = foveate.open(tmp_path / "a.db", settings=settings)
    with client_of(tmp_path / "a.db", opened=opened) as client:
        workers = _checks(client)["workers"]
        assert (workers["state"], workers["running"]) == ("warn", 0)
        assert "no 'foveate worker' runs" in workers["detail"]
        assert client.get("/readyz").status_code == 200


def test_many_probes_share_a_report(tmp_path: Path) -> None:
    with client_of(tmp_path / "a.db") as client:
        first = _checks(client)
        assert all(_checks(client) == first for _ in range(5))


def test_a_real_server_answers_its_supervisor(tmp_path: Path) -> None:
    with listening(tmp_path / "a.db") as url:
        assert httpx2.get(f"{url}/readyz").json()["status"] == "ready"
