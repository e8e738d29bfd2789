"""Databases of other programs, made from fixtures of their rows."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from support.transcripts import FIXTURES

AGENT_TABLES = """
CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
  message_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
"""
AGENT_ITEMS = (
    {"role": "user", "content": "When is high tide?"},
    {"type": "function_call", "call_id": "call_1", "name": "tide", "arguments": '{"day": "today"}', "id": "fc_1"},
    {"type": "function_call_output", "call_id": "call_1", "output": "11:30"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "At 11:30.", "annotations": []}],
    },
)


def opencode_database(path: Path) -> Path:
    """Rows that OpenCode 1.18 wrote."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((FIXTURES / "databases" / "opencode.sql").read_text("utf-8"))
    return path


def cursor_database(path: Path) -> Path:
    rows = json.loads((FIXTURES / "databases" / "cursor.json").read_text("utf-8"))
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("ItemTable", "cursorDiskKV"):
            connection.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        connection.executemany(
            "INSERT INTO cursorDiskKV VALUES (?, ?)", [(key, json.dumps(row).encode()) for key, row in rows.items()]
        )
    return path


def agents_database(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(AGENT_TABLES)
        for number, item in enumerate(AGENT_ITEMS):
            row = ("thread-1", json.dumps(item), f"2026-11-01 10:00:0{number}")
            connection.execute(
                "INSERT INTO agent_messages (session_id, message_data, created_at) VALUES (?, ?, ?)", row
            )
    return path
