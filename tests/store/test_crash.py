"""A process that is killed loses nothing it acknowledged; `bench/crash_storm.py` does the same for longer."""

from pathlib import Path

import pytest

import foveate.sync
from crash_storm import Lost, Stormed, storm, verify_file


def test_a_killed_process_loses_no_acknowledged_turn_and_leaves_no_partial_one(tmp_path: Path) -> None:
    done = storm(times=3, directory=tmp_path, seed=3)
    assert done.kills == 3
    assert done.acknowledged > 0
    assert done.messages >= done.acknowledged


def test_the_storm_notices_a_call_that_is_there_in_part(tmp_path: Path) -> None:
    with foveate.sync.open(tmp_path / "storm.db") as fov:
        fov.session("s0").record([{"role": "user", "content": "call 1 message 1 of 2"}])
    with pytest.raises(Lost, match="has 2 messages"):
        verify_file(tmp_path / "storm.db")


def test_the_storm_accepts_a_file_that_was_made_in_peace(tmp_path: Path) -> None:
    with foveate.sync.open(tmp_path / "storm.db") as fov:
        given = [
            {"role": role, "content": f"call 1 message {n} of 2"} for n, role in enumerate(("user", "assistant"), 1)
        ]
        fov.session("s0").record(given)
    assert verify_file(tmp_path / "storm.db") == Stormed(unacknowledged=1, messages=2)
