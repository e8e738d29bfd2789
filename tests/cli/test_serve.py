"""`foveate serve` and `foveate keys`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

import foveate
from support.command_line import Shell
from support.command_line import command as words_of
from support.patience import PATIENCE_SECONDS, wait_until
from support.served import served


def test_a_server_says_where_it_is_and_stops_gracefully_with_an_open_stream(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    with served(shell) as (process, ready), httpx2.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as client:
        assert set(ready) == {"url", "gateway", "dashboard", "pid", "db"}
        assert client.get("/healthz").json()["status"] == "ok"
        client.post("/api/v1/sessions", json={"id": "chat"}).raise_for_status()
        with client.stream("GET", "/api/v1/events") as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": events"
            os.kill(ready["pid"], signal.SIGTERM)
            assert "data" not in "".join(lines)
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stderr
        logged = process.stderr.read().splitlines()
        # A health check is routine: it is logged at debug.
        assert logged[1].split()[1:5] == ["INFO", "POST", "/api/v1/sessions", "201"]
        started = f"started: Foveate {foveate.__version__} at {ready['url']}, store {shell.db}"
        assert logged[0].endswith(f" INFO foveate.server.process: {started}")
        assert any(line.endswith(" INFO foveate.server.process: stopping: SIGTERM") for line in logged)
    assert [session["id"] for session in shell.json("sessions")] == ["chat"]


UPSTREAMS = """[server]
upstream = "https://last.example/v1"
[server.upstreams.claude]
url = "https://someone:hidden@first.example/v1"
key_variable = "FIRST_PROVIDER_KEY"
"""


def _told(shell: Shell, **variables: str) -> tuple[str, str]:
    """What `foveate serve` prints to a person up to its store, and its log from start to stop."""
    words = words_of("serve", "--port", "0")
    environment = shell.environment(**variables)
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
        assert process.stdout
        printed = ""
        while "\nStore " not in printed and (line := process.stdout.readline()):
            printed += line
        os.kill(process.pid, signal.SIGTERM)
        logged = process.communicate(timeout=PATIENCE_SECONDS)[1]
    finally:
        process.kill()
        process.wait()
    return printed, logged


def test_the_upstreams_of_the_settings_are_said_at_the_start_and_without_any_what_sets_one(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", width=300)
    (tmp_path / "foveate.toml").write_text(UPSTREAMS)
    printed, _ = _told(shell, FOVEATE_CONFIG=str(tmp_path / "foveate.toml"), FIRST_PROVIDER_KEY="sk-1")
    assert "/v1 forwards to https://first.example/v1 (claude), https://last.example/v1\n" in printed
    assert "hidden" not in printed
    printed, _ = _told(shell)
    assert "/v1 has no upstream yet; --upstream URL sets one\n" in printed


@pytest.mark.parametrize("url", ["localhost:11434", "ftp://x.example", "https://"])
def test_an_upstream_that_is_no_url_is_an_error_at_the_start(url: str, tmp_path: Path) -> None:
    problem = Shell(tmp_path / "chat.db").error("serve", "--upstream", url, "--port", "0", code=2)
    assert "server.upstream" in problem
    assert f"a URL that begins with http:// or https://, or none; got '{url}'" in " ".join(problem.split())


def test_an_upstream_without_its_key_is_a_warning_at_the_start(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", width=300)
    (tmp_path / "foveate.toml").write_text(UPSTREAMS)
    printed, logged = _told(shell, FOVEATE_CONFIG=str(tmp_path / "foveate.toml"))
    warning = "upstream 'claude' has no key: the environment variable FIRST_PROVIDER_KEY is not set"
    assert f"Warning   {warning}" in printed
    assert " WARNING " in logged
    assert warning in logged


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    with served(Shell(tmp_path / "chat.db")) as (process, ready):
        address = ("127.0.0.1", int(ready["url"].rpartition(":")[2]))
        with socket.create_connection(address) as waiting:
            waiting.sendall(b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
            os.kill(ready["pid"], signal.SIGTERM)
            wait_until(lambda: not _accepts(address))
            os.kill(ready["pid"], signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == -signal.SIGTERM


def _accepts(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address).close()
    except OSError:
        return False
    return True


def test_tools_over_http_use_the_folders_and_commands_that_the_server_was_started_with(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("A wall.")
    options = ("--allow-exec", "--root", str(tmp_path / "work"))
    with (
        served(shell, *options) as (_, ready),
        httpx2.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as client,
    ):
        read = client.post("/api/v1/tools/read_file/call", json={"arguments": {"path": "a.txt"}}).json()
        assert "A wall." in read["text"]
        body = {"arguments": {"command": "cat a.txt; exit 3"}, "approve": True}
        executed = client.post("/api/v1/tools/exec/call", json=body).json()
        assert ("A wall." in executed["text"], executed["exit_code"]) == (True, 3) or "sandbox" in executed["text"]


JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "compare": ("/api/v1/sessions/chat/compare", {"json": {"strategies": ["gradient"], "budgets_tokens": [2_000]}}),
    "compare-page": (
        "/ui/compare",
        {"files": {"session": (None, "chat"), "budgets": (None, "2k"), "strategy": (None, "topics")}},
    ),
    "compare-page of a file": (
        "/ui/compare",
        {
            "files": {
                "file": ("talk.jsonl", b'{"role":"user","content":"Yes?"}\n{"role":"assistant","content":"No."}\n'),
                "budgets": (None, "2k"),
                "strategy": (None, "standard"),
            }
        },
    ),
    "doctor": ("/ui/doctor", {"data": {"now": "1"}}),
    "learn": ("/api/v1/knowledge/learn", {"json": {}}),
    "run": ("/api/v1/sessions/work/run", {"json": {"epic": "Move the shop."}}),
}
"""A request for each kind of job."""


@pytest.mark.parametrize("command", ["serve", "ui"])
def test_every_kind_of_job_is_done_by_a_server_with_settings_of_its_own(tmp_path: Path, command: str) -> None:
    shell = Shell(tmp_path / "chat.db")
    (tmp_path / "script.toml").write_text('[[reply]]\nsays = "Moved."\n')
    (tmp_path / "foveate.toml").write_text("[server]\nmax_jobs = 3\n[tools]\n[gradient]\nraw_share = 0.2\n")
    variables = {
        "FOVEATE_CONFIG": str(tmp_path / "foveate.toml"),
        "FOVEATE_MODELS__CHAT": f"scripted:{tmp_path / 'script.toml'}",
    }
    with (
        served(shell, command=command, **variables) as (_, ready),
        httpx2.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as client,
    ):
        client.post("/api/v1/sessions", json={"id": "chat"}).raise_for_status()
        client.post("/api/v1/sessions", json={"id": "work", "strategy": "oneshot"}).raise_for_status()
        said = [{"role": "user", "content": "Always deploy on Tuesdays."}, {"role": "assistant", "content": "I will."}]
        client.post("/api/v1/sessions/chat/turns", json={"messages": said}).raise_for_status()
        for path, body in JOBS.values():
            answer = client.post(path, headers={"Origin": ready["url"]}, **body)
            assert answer.status_code in (202, 303), (path, answer.text)

        def jobs() -> Any:
            return client.get("/api/v1/jobs").json()["items"]

        wait_until(lambda: all(job["status"] not in ("queued", "running") for job in jobs()))
        assert {(job["kind"], job["status"], job["problem"]) for job in jobs()} == {
            (kind.split()[0], "done", None) for kind in JOBS
        }
        page = next(job for job in jobs() if job["kind"] == "compare-page")
        assert "No recommendation: only " in client.get(f"/ui/compare/{page['id']}").text


def test_listening_to_others_needs_a_key(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db")
    refused = shell.error("serve", "--host", "0.0.0.0", "--port", "0", code=2)
    assert "listening on 0.0.0.0 needs a key, and none exists; create one with 'foveate keys create'" in refused
    shell("keys", "create")
    with served(shell, "--host", "0.0.0.0") as (_, ready):
        url = ready["url"].replace("0.0.0.0", "127.0.0.1")
        assert httpx2.get(f"{url}/healthz").status_code == 200
        assert httpx2.get(f"{url}/api/v1/sessions").status_code == 401


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "foveate.server.process", None)
    assert "pip install 'foveate[server]'" in Shell(tmp_path / "chat.db").error("serve", code=2)


def test_a_port_in_use_is_said_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        failed = Shell(tmp_path / "chat.db").error("serve", "--port", port)
    assert f"Error: can't listen on 127.0.0.1:{port}; choose another port" in failed


def test_keys_are_created_listed_and_revoked(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", width=120)
    made = shell.json("keys", "create", "laptop", "--tenant", "acme", "--right", "read", "--right", "gateway")
    assert made["secret"].startswith("fov_")
    assert (made["info"]["tenant"], made["info"]["rights"]) == ("acme", ["gateway", "read"])
    shown = shell("keys", "create")
    assert shown.startswith("fov_")
    assert "gateway, read, write for all tenants. The key is not shown again." in shown
    listed = shell("keys", "list")
    assert "laptop" in listed
    assert made["secret"] not in listed
    assert shell("keys", "revoke", made["info"]["id"]) == f"Revoked {made['info']['id']}.\n"
    assert shell.json("keys", "list")[0]["revoked_at"] is not None
    assert "no active key" in shell.error("keys", "revoke", made["info"]["id"])
    assert "can't be a tenant's name" in shell.error("keys", "create", "--tenant", "A B")


def test_a_schedule_that_can_not_be_read_is_reported_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOVEATE_KNOWLEDGE__SCHEDULE", "daily")
    shell = Shell(tmp_path / "chat.db")
    assert "knowledge.schedule: 'daily' is not a cron expression" in shell.error("serve", "--port", "0", code=2)
    assert not shell.db.exists()
