"""Heartbeats of processes that do background work: `foveate worker` and `foveate serve`. Functions of a connection.

A heartbeat is a row with an end. Its process renews it, and removes it when it stops; the row of a process that died
expires. Nothing is claimed by it: work is leased by `foveate.store.leases`.
"""

from __future__ import annotations

from foveate.store import leases
from foveate.store.rows import RunningWorker, WorkerBeat
from foveate.store.sql import Connection

BEAT = """INSERT INTO workers (id, kind, host, pid, version, compresses, started_us, seen_us, until_us)
    VALUES (:id, :kind, :host, :pid, :version, :compresses, :now_us, :now_us, :until_us)
    ON CONFLICT (id) DO UPDATE SET seen_us = :now_us, until_us = :until_us"""
LIST = f"""SELECT kind, host, pid, version, compresses, started_us, seen_us FROM workers
    WHERE {leases.LIVE} ORDER BY started_us, id"""  # noqa: S608 - constants
DROP_DEAD = f"DELETE FROM workers WHERE NOT ({leases.LIVE})"  # noqa: S608
DROP = "DELETE FROM workers WHERE id = :id"


def beat(connection: Connection, worker: WorkerBeat, lease_seconds: float) -> None:
    """Note that a process runs, for this time; remove those that have died."""
    times = leases.times(connection, lease_seconds)
    compresses = int(worker.compresses)
    own = {"id": worker.id, "kind": worker.kind, "host": worker.host, "pid": worker.pid, "version": worker.version}
    connection.execute(BEAT, {**own, "compresses": compresses, **times})
    connection.execute(DROP_DEAD, times)


def end(connection: Connection, worker_id: str) -> None:
    """Remove the heartbeat of a process that stops."""
    connection.execute(DROP, {"id": worker_id})


def running(connection: Connection) -> tuple[RunningWorker, ...]:
    """List the processes that run, in the order in which they started."""
    times = leases.times(connection)
    return tuple(
        RunningWorker(
            kind=kind,
            host=host,
            pid=pid,
            version=version,
            compresses=bool(compresses),
            running_seconds=max(0.0, (times["now_us"] - started_us) / 1_000_000),
            seen_seconds=max(0.0, (times["now_us"] - seen_us) / 1_000_000),
        )
        for kind, host, pid, version, compresses, started_us, seen_us in connection.execute(LIST, times)
    )
