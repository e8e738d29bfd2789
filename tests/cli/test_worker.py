"""`foveate worker`: the queue is worked off, shown, and left in good order."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path

from foveate import sync
from foveate.settings import load_settings
from foveate.store import open_store
from foveate.store.queue import MAX_ATTEMPTS
from foveate.store.settings import StoreSettings
from support.command_line import HELLO, Shell, command
from support.patience import wait_until

OFF = load_settings(environment={}, overrides={"compress": {"enabled": False, "processes": 0}})


async def _die(path: Path) -> None:
    """Claim the first turn as workers that do not survive it."""
    store = await open_store(str(path), StoreSettings())
    for _ in range(MAX_ATTEMPTS):
        await store.derived.claim("s", owner="dead", limit=1, lease_seconds=0, include_open=False)
    await store.close()


def test_the_status_counts_what_is_left_and_lists_what_is_parked(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "chat.db", width=200)
    with sync.open(shell.db, settings=OFF) as fov:
        fov.session("s").record([*HELLO, *HELLO])
    asyncio.run(_die(shell.db))
    assert "Sessions with work   1 (1 now)" in shell("worker", "--status")
    assert shell.json("worker", "--status")["expired"] == 1
    shell("worker", "--drain")
    state = shell.json("worker", "--status")
    assert (state["sessions"], state["leased"], state["expired"], state["parked"]) == (0, 0, 0, 1)
    assert "s T-1: 5 workers ended while they compressed it" in shell("worker", "--status")
    assert "parked: 1 turn" in shell("doctor")


def test_a_terminated_worker_ends_in_good_order_and_leaves_no_lease(postgres_url: str) -> None:
    with sync.open(postgres_url, settings=OFF) as fov:
        session = fov.session("s")
        shell = Shell(Path(postgres_url))
        environment = shell.environment(
            FOVEATE_DB=postgres_url, FOVEATE_COMPRESS__PROCESSES="0", FOVEATE_COMPRESS__QUIET_SECONDS="0"
        )
        with subprocess.Popen(command("worker"), env=environment, stdout=subprocess.PIPE) as worker:
            session.record([*HELLO, *HELLO])
            wait_until(lambda: session.stats().pending == 0)
            worker.send_signal(signal.SIGTERM)
            out, _ = worker.communicate()
        assert (worker.returncode, out.splitlines()[-1]) == (0, b"Stopped; 0 agents ended here.")
        state = fov.queue_state()
        assert (state.leased, state.expired) == (0, 0)


def test_doctor_describes_the_server(postgres_url: str) -> None:
    shell = Shell(Path("unused.db"))
    with sync.open(postgres_url, settings=OFF) as fov:
        fov.session("s").record(HELLO)
    facts = shell.json("doctor", "--db", postgres_url)["database"]
    assert facts["database"].startswith("PostgreSQL 1")
    assert {"vector extension", "row-level security", "connections", "pooler", "commits"} <= set(facts)
    assert facts["replicas"] == "none"
