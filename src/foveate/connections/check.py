"""Check that a connection works: the settings are in place, the program is found, and the gateway answers."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from foveate.connections.clients import Client
from foveate.connections.connection import ConnectionRecord, Connections

TIMEOUT_SECONDS = 5
HOOK_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One result of a check."""

    is_ok: bool
    text: str


@dataclass(slots=True)
class CheckResult:
    """All results of a check."""

    findings: list[CheckFinding] = field(default_factory=list)

    @property
    def is_ok(self) -> bool:
        return all(one.is_ok for one in self.findings)

    def add(self, is_ok: bool, text: str) -> None:
        self.findings.append(CheckFinding(is_ok, text))


def check(client: Client, connections: Connections) -> CheckResult:
    """Check everything that the connection of a client needs."""
    result = CheckResult()
    record = connections.record(client)
    if record is None:
        result.add(False, f"{client.title} is not connected: foveate connect {client.name}")
        return result
    missing = connections.missing(record)
    for place in missing:
        result.add(False, f"no longer set: {place}; run 'foveate connect {client.name}' again")
    if not missing:
        files = ", ".join(file.path for file in record.files) or "they existed before"
        result.add(True, f"settings are in place ({record.mode} mode): {files}")
    program = shutil.which(client.program)
    result.add(program is not None, f"{client.program}: {program or 'not found on the PATH'}")
    if record.mode == "gateway":
        result.findings.append(check_gateway(client, record.url))
    else:
        _check_hooks(record, result)
    return result


def check_gateway(client: Client, url: str) -> CheckFinding:
    """Check that the gateway of a client answers."""
    try:
        with urlopen(f"{url}/healthz", timeout=TIMEOUT_SECONDS):  # noqa: S310 - the user's own gateway
            return CheckFinding(True, f"the gateway answers at {url}")
    except HTTPError as error:
        return CheckFinding(False, f"{url} answers with {error.code}; is it 'foveate serve'?")
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        advice = f"start 'foveate serve --upstream URL', or run 'foveate disconnect {client.name}' to do without it"
        return CheckFinding(False, f"no gateway at {url} ({reason}), so {client.title} can't connect: {advice}")


def _check_hooks(record: ConnectionRecord, result: CheckResult) -> None:
    """Run each command that a client would run."""
    commands = {
        hook["command"]
        for file in record.files
        for change in file.changes
        if change.path[0] == "hooks" and isinstance(change.value, dict)
        for hook in change.value.get("hooks", [])
    }
    for command in sorted(commands):
        probe = json.dumps({"hook_event_name": "foveate-check"})
        try:
            done = subprocess.run(  # noqa: S602 - as the client runs it
                command,
                shell=True,
                input=probe,
                capture_output=True,
                text=True,
                timeout=HOOK_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            result.add(False, f"'{command}' took longer than {HOOK_TIMEOUT_SECONDS} s")
            continue
        problem = done.stdout.strip() or done.stderr.strip()[-200:]
        is_ok = done.returncode == 0 and not problem
        result.add(is_ok, f"'{command}' {'works' if is_ok else f'fails: {problem}'}")
