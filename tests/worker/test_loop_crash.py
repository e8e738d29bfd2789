"""A worker that is killed leaves nothing undone for ever and nothing done twice; `bench/worker_storm.py` for longer."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import foveate.sync
from worker_storm import Lost, storm, verify_file


def test_every_turn_has_its_renditions_once_after_kills_in_the_middle_of_compression(tmp_path: Path) -> None:
    done = storm(times=3, directory=tmp_path, seed=4)
    assert done.kills == 3
    assert done.turns > 0
    assert done.renditions >= done.turns


def test_the_storm_notices_a_rendition_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with foveate.sync.open(path) as fov:
        fov.session("s").record([{"role": "user", "content": "Which port?"}])
        fov.settle()
    verify_file(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM renditions")
        connection.commit()
    with pytest.raises(Lost, match="lack renditions"):
        verify_file(path)
