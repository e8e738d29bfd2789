"""schemathesis over the whole HTTP API: no 500, and no answer outside the schema.

    python bench/api_schema.py --examples 30        # needs: pip install schemathesis (its command `st`)

Starts a server on a store with some sessions and a key, names them in the document's path parameters so that requests
reach data, and runs schemathesis twice: with the document as it is, and with values that the API takes. The event
stream, which has no end, and comparisons, which take minutes of both processors, are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2

HELLO = [{"role": "user", "content": "The port is 8443."}, {"role": "assistant", "content": "Noted."}]
SESSIONS = {"chat": "gradient", "topical": "topics", "checkpointed": "checkpoint", "plain": "standard"}
VALUES = {
    "session": [*SESSIONS, "nope"],
    "turn": ["T-1", "T-2", "2", "T-99", "x"],
    "pin": ["P-1", "P-2", "P-99"],
    "goal": ["G-1", "G-9"],
    "item": ["T-1-R", "nope"],
    "job": ["job-1"],
    "key": ["K-1"],
}
NAMES = {"call_tool": ["get_turn", "search", "nope"]}
"""Values of `name`: tools, or else documents."""
SKIPPED = ("stream_events", "compare_strategies")
MESSAGE = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {"role": {"enum": ["user", "assistant", "system"]}, "content": {"type": "string", "minLength": 1}},
}
REFINED = {
    "RecordBody": {
        "messages": {"type": "array", "minItems": 1, "items": MESSAGE},
        "at": {"enum": [None, "2026-11-15"]},
    },
    "StrategyBody": {
        "name": {"enum": ["gradient", "topics", "nope"]},
        "settings": {"enum": [{}, {"x": 1}]},
    },
    "SessionChanges": {"strategy": {"enum": ["gradient", "hybrid"]}, "strategy_settings": {"enum": [{}]}},
    "PruneBody": {"before": {"enum": ["2001-01-01", "2000-05-05T10:00:00Z", "x"]}},
}
"""Values that the API takes where the schema allows any: without them most requests end with a 422."""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=20, help="examples for each operation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--st", default="st", help="the command of schemathesis")
    options = parser.parse_args()
    if not shutil.which(options.st):
        sys.exit("schemathesis is not installed: pip install schemathesis")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        sys.exit(run(Path(folder), options))


def run(folder: Path, options: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "foveate", "serve", "--db", str(folder / "a.db"), "--port", "0", "--json"]
    environment = {**os.environ, "FOVEATE_SERVER__REQUESTS_PER_MINUTE": "0"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert server.stdout
    try:
        url = json.loads(server.stdout.readline())["url"]
        document, key = prepare(url)
        skipped = [part for name in SKIPPED for part in ("--exclude-operation-id", name)]
        failed = 0
        for is_refined in (False, True):
            if is_refined:
                for name, properties in REFINED.items():
                    document["components"]["schemas"][name]["properties"] |= properties
            (folder / "openapi.json").write_text(json.dumps(document))
            tested = [options.st, "run", str(folder / "openapi.json"), "--url", url, *skipped, "-c", CHECKS]
            tested += ["-n", str(options.examples), "--seed", str(options.seed), "--phases", "coverage,fuzzing"]
            tested += ["-H", f"Authorization: Bearer {key}"]
            failed |= subprocess.run(tested, cwd=folder, env=os.environ, check=False).returncode
        return failed
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def prepare(url: str) -> tuple[dict[str, Any], str]:
    """The document, with values for its path parameters that exist, and a key."""
    with httpx2.Client(base_url=f"{url}/api/v1", timeout=60) as client:
        for name, strategy in SESSIONS.items():
            client.post("/sessions", json={"id": name, "strategy": strategy}).raise_for_status()
            client.post(f"/sessions/{name}/turns", json={"messages": HELLO * 5}).raise_for_status()
            client.post(f"/sessions/{name}/settle").raise_for_status()
            client.post(f"/sessions/{name}/pins", json={"text": "Never on a Friday."}).raise_for_status()
            client.post(f"/sessions/{name}/goals", json={"title": "Ship it"}).raise_for_status()
        document: dict[str, Any] = client.get("/openapi.json").json()
        key: str = client.post("/keys", json={"rights": ["admin"]}).json()["secret"]
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                if parameter["in"] == "path":
                    parameter["schema"] = {"enum": values(operation["operationId"], parameter["name"])}
    return document, key


def values(operation: str, parameter: str) -> list[str]:
    if operation == "delete_session":
        return ["nope"]
    return VALUES.get(parameter) or NAMES.get(operation, ["epic", "tasks", "nope"])


if __name__ == "__main__":
    main()
