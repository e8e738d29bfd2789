"""Writes the baseline database of the current schema: `python tests/store/make_baseline.py`, once per schema."""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import foveate.sync as foveate
from foveate import Message, Text, ToolCall
from foveate.store import sql

BASELINES = Path(__file__).parent / "baselines"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chat.db"
        with foveate.open(path) as fov:
            first = fov.session("first", title="The first of its kind", platform="terminal", model="gpt-5")
            first.record(
                [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Which port?"},
                    {"role": "assistant", "content": "8443."},
                ],
                at="2026-01-02T03:04:05Z",
            )
            call = Message("assistant", (ToolCall("ls", {"path": "src"}, id="c1"),))
            first.record([Message("user", (Text("List it"),)), call], at="2026-01-02T03:05:05Z")
            first.pin("Never deploy on a Friday.", locked=True)
            worker = first.fork("worker", "T-1")
            worker.record({"role": "user", "content": "In the worker."}, at="2026-01-02T03:06:05Z")
            fov.settle()
            first.context("Which port?")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(path, BASELINES / f"schema-{sql.latest_version()}.db")


if __name__ == "__main__":
    main()
