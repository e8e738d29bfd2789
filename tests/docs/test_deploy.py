"""The files in `deploy/` fit together and start: what they name exists, and their commands run with their environment.

Docker and systemd themselves are not part of a test; `systemd-analyze` checks the units where it is installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from foveate.cli import INVALID
from foveate.settings import load_settings
from support.command_line import command
from support.paths import ROOT
from support.patience import PATIENCE_SECONDS, wait_until
from support.servers import bearer

DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HOME = "/var/lib/foveate"


def _instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, with continued lines joined and comments left out."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    return [
        (name, " ".join(rest.split())) for name, _, rest in (line.partition(" ") for line in lines.splitlines()) if name
    ]


INSTRUCTIONS = _instructions((DEPLOY / "Dockerfile").read_text())
FINAL = INSTRUCTIONS[[name for name, _ in INSTRUCTIONS].index("FROM", 1) :]


def _of(name: str, instructions: Sequence[tuple[str, str]] = FINAL) -> list[str]:
    return [value for found, value in instructions if found == name]


def _image_environment() -> dict[str, str]:
    return dict(re.findall(r"(\S+?)=(\S+)", " ".join(_of("ENV"))))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _environment(folder: Path, given: Mapping[str, str], **changes: str) -> dict[str, str]:
    """An environment of `deploy/` with its folder moved to this one."""
    moved = {key: value.replace(HOME, str(folder)) for key, value in given.items() if key != "PATH"}
    own = {key: value for key, value in os.environ.items() if not key.startswith("FOVEATE_")}
    return {**own, **moved, "FOVEATE_COMPRESS__PROCESSES": "0", **changes}


def _arguments(words: Sequence[str]) -> list[str]:
    """The command of a service, run by this interpreter."""
    assert Path(words[0]).name in PROJECT["scripts"], words
    return command(*words[1:])


@contextmanager
def _running(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(_arguments(words), env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def _answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/healthz").status_code == 200
    except httpx2.HTTPError:
        return False


def _succeeds(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    words = [sys.executable, *words[1:]] if words[0] == "python" else _arguments(words)
    return subprocess.run(words, env=environment, capture_output=True, check=False).returncode == 0


def test_the_image_needs_no_root_and_no_address_besides_its_base() -> None:
    assert {image.partition(" ")[0] for image in _of("FROM", INSTRUCTIONS)} == {"python:3.13-slim"}
    (user,) = _of("USER")
    assert int(user) > 1_000
    assert not re.search(r"https?://(?!127\.0\.0\.1)", (DEPLOY / "Dockerfile").read_text())
    assert _of("VOLUME") == [str(Path(_image_environment()["FOVEATE_DB"]).parent)] == [HOME]


def test_the_image_installs_extras_that_exist_with_the_pinned_versions() -> None:
    (extras,) = re.findall(r"^ARG EXTRAS=(.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert {*extras.split(",")} <= PROJECT["optional-dependencies"].keys()
    assert any("--constraint constraints.txt" in run for run in _of("RUN", INSTRUCTIONS))


def test_the_build_copies_files_that_exist_and_its_context_has_all_that_the_package_needs() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    copied = {name for copy in _of("COPY", INSTRUCTIONS) if "--from" not in copy for name in copy.split()[:-1]}
    assert kept == copied
    assert all((ROOT / name).exists() for name in copied)
    needed = {PROJECT["readme"], *PROJECT["license-files"], "hatch_build.py", "pyproject.toml", "src"}
    assert needed <= copied


def test_the_container_starts_with_a_key_of_its_own_and_its_health_check_tells(tmp_path: Path) -> None:
    port = _free_port()
    environment = _environment(tmp_path, _image_environment(), FOVEATE_SERVER__PORT=str(port))
    (entry,), (arguments,), (health,) = _of("ENTRYPOINT"), _of("CMD"), _of("HEALTHCHECK")
    check = json.loads(health.partition("CMD ")[2])
    url = f"http://127.0.0.1:{port}"
    with _running([*json.loads(entry), *json.loads(arguments)], environment) as process:
        wait_until(lambda: _answers(url))
        assert _succeeds(check, environment)
        key = (tmp_path / "first-key").read_text().strip()
        assert httpx2.get(f"{url}/api/v1/sessions").status_code == 401
        assert httpx2.get(f"{url}/api/v1/sessions", headers=bearer(key)).status_code == 200
        process.send_signal(getattr(signal, *_of("STOPSIGNAL")))
        assert process.wait(PATIENCE_SECONDS) == 0
    assert not _succeeds(check, environment)


def _compose(**variables: str) -> dict[str, Any]:
    """The services with variables filled in, as `docker compose` does; a required one that is missing fails."""

    def filled(match: re.Match[str]) -> str:
        if (value := variables.get(match[1])) is None:
            raise KeyError(match[1])
        return value

    text = (DEPLOY / "compose.yaml").read_text()
    found: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{(\w+)(?::\?[^}]*)?\}", filled, text))
    return found


def test_compose_does_not_start_without_a_password_and_names_what_exists() -> None:
    with pytest.raises(KeyError, match="POSTGRES_PASSWORD"):
        _compose()
    compose = _compose(POSTGRES_PASSWORD="secret")
    build = compose["services"]["server"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
    for service in compose["services"].values():
        named = {volume.partition(":")[0] for volume in service.get("volumes", [])}
        assert named <= compose["volumes"].keys()
        assert service.get("depends_on", {}).keys() <= compose["services"].keys()
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_composed_server_and_worker_start_on_one_database(tmp_path: Path, postgres_url: str) -> None:
    services = _compose(POSTGRES_PASSWORD="secret")["services"]
    port = _free_port()
    url = f"http://127.0.0.1:{port}"

    def of(name: str) -> dict[str, str]:
        given = {**_image_environment(), **services[name]["environment"]}
        assert given["FOVEATE_DB"] == "postgresql://foveate:secret@database/foveate"
        return _environment(tmp_path / name, given, FOVEATE_DB=postgres_url, FOVEATE_SERVER__PORT=str(port))

    (entry,) = _of("ENTRYPOINT")
    check = services["worker"]["healthcheck"]["test"]
    assert check[0] == "CMD"
    server, worker = of("server"), of("worker")
    with _running([*json.loads(entry), *services["server"]["command"]], server):
        wait_until(lambda: _answers(url))
        key = bearer((tmp_path / "server" / "first-key").read_text().strip())
        checks = httpx2.get(f"{url}/readyz", headers=key).json()["checks"]
        assert (checks["workers"]["state"], "disk" in checks) == ("warn", False)
        assert not _succeeds(check[1:], worker)
        with _running([*json.loads(entry), *services["worker"]["command"]], worker) as process:
            wait_until(lambda: _succeeds(check[1:], worker))
            wait_until(lambda: httpx2.get(f"{url}/readyz", headers=key).json()["checks"]["workers"]["state"] == "ok")
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0
        assert not _succeeds(check[1:], worker)


def _unit(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "systemd" / name).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


UNITS = ("foveate.service", "foveate-worker.service")


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_has_settings_that_exist_and_does_not_restart_what_can_not_start(name: str) -> None:
    unit = _unit(name)
    environment = dict(pair.split("=", 1) for pair in unit["Environment"])
    load_settings(environment={key: value for key, value in environment.items() if key != "FOVEATE_DB"})
    assert environment["FOVEATE_DB"] == f"{HOME}/foveate.db"
    assert unit["StateDirectory"] == [Path(HOME).name]
    assert unit["RestartPreventExitStatus"] == [str(INVALID)]
    assert {"DynamicUser", "NoNewPrivileges"} <= {key for key, value in unit.items() if value == ["yes"]}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for name in UNITS:
        text = (DEPLOY / "systemd" / name).read_text()
        (tmp_path / name).write_text(text.replace("/opt/foveate/bin/foveate", "/bin/true"))
    run = subprocess.run(
        ["systemd-analyze", "verify", *(str(tmp_path / name) for name in UNITS)], capture_output=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, b"")


def test_the_commands_of_the_units_start_on_one_file(tmp_path: Path) -> None:
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    units = [_unit(name) for name in UNITS]
    server, worker = (
        _environment(tmp_path, dict(pair.split("=", 1) for pair in unit["Environment"]), FOVEATE_SERVER__PORT=str(port))
        for unit in units
    )
    with _running(units[0]["ExecStart"][0].split(), server):
        wait_until(lambda: _answers(url))
        with _running(units[1]["ExecStart"][0].split(), worker):
            wait_until(lambda: _succeeds(["foveate", "worker", "--alive"], worker))
        key = bearer((tmp_path / "first-key").read_text().strip())
        assert httpx2.get(f"{url}/readyz", headers=key).json()["checks"]["workers"]["running"] >= 1
