"""Transcripts that programs really wrote: all of each comes in, and goes out again as it was."""

from __future__ import annotations

import json
from collections import Counter
from typing import NamedTuple

import pytest

from foveate.formats import HEAD_BYTES, detect_transcript
from support.paths import ROOT
from support.transcripts import Imported, import_bytes, json_lines, written
from support.turns import split_turns

FOLDER = ROOT.parent / "shared" / "data" / "transcripts"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the shared test data is not there: {FOLDER}")


class Expected(NamedTuple):
    format: str
    sessions: int
    messages: int
    injections: int
    display: int
    turns: int


EXPECTED = {
    "aider-chat-history.md": Expected("aider", 1, 2672, 0, 3668, 1768),
    "pi-large-session.jsonl": Expected("pi", 1, 914, 0, 105, 88),
    "tau-airline.json": Expected("tau-bench", 200, 5308, 0, 200, 1490),
    "swe-agent/6e44b9__sweagenttestrepo-1c2844.traj": Expected("swe-agent", 1, 10, 0, 1, 1),
    "swe-agent/BabyEncryption.traj": Expected("swe-agent", 1, 31, 0, 1, 15),
    "swe-agent/BabyTimeCapsule.traj": Expected("swe-agent", 1, 19, 0, 1, 9),
    "swe-agent/eps.traj": Expected("swe-agent", 1, 29, 0, 1, 14),
    "swe-agent/flash.traj": Expected("swe-agent", 1, 9, 0, 1, 4),
    "swe-agent/function_calling_simple.traj": Expected("swe-agent", 1, 12, 0, 0, 1),
    "swe-agent/humanevalfix-python-0.traj": Expected("swe-agent", 1, 11, 0, 1, 5),
    "swe-agent/i_got_id_demo.traj": Expected("swe-agent", 1, 43, 0, 1, 21),
    "swe-agent/katy.traj": Expected("swe-agent", 1, 37, 0, 1, 18),
    "swe-agent/marshmallow-code__marshmallow-1867.traj": Expected("swe-agent", 1, 23, 0, 1, 11),
    "swe-agent/networking_1.traj": Expected("swe-agent", 1, 9, 0, 1, 4),
    "swe-agent/pydicom__pydicom-1458.traj": Expected("swe-agent", 1, 25, 1, 1, 12),
    "swe-agent/rock.traj": Expected("swe-agent", 1, 25, 0, 1, 12),
    "swe-agent/swe-agent__test-repo-i1.traj": Expected("swe-agent", 1, 11, 1, 1, 5),
    "swe-agent/warmup.traj": Expected("swe-agent", 1, 15, 0, 1, 7),
}


def imported(name: str) -> Imported:
    path = FOLDER / name
    return import_bytes(EXPECTED[name].format, path.read_bytes(), path.name)


def named(format_: str) -> list[str]:
    return [name for name, expected in EXPECTED.items() if expected.format == format_]


def test_every_transcript_is_expected() -> None:
    files = (path for path in FOLDER.rglob("*") if path.is_file() and not path.name.startswith("LICENSE"))
    assert {str(path.relative_to(FOLDER)) for path in files} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_transcript_is_recognised_and_comes_in_whole(name: str) -> None:
    expected = EXPECTED[name]
    path = FOLDER / name
    with path.open("rb") as stream:
        assert detect_transcript(stream.read(HEAD_BYTES), path.name) == expected.format
    got = imported(name)
    assert got.problems == []
    kinds = Counter(item.message.kind for item in got.found)
    turns = sum(len(split_turns(messages)) for messages in got.sessions.values())
    counts = (len(got.sessions), kinds["message"], kinds["injection"], kinds["display"], turns)
    assert Expected(expected.format, *counts) == expected


@pytest.mark.thorough  # the readers' own tests make the claim
@pytest.mark.parametrize("name", EXPECTED)
def test_a_second_reading_gives_the_same_keys(name: str) -> None:
    assert imported(name).keys == imported(name).keys


def test_pi_comes_back_line_by_line() -> None:
    name = "pi-large-session.jsonl"
    assert json_lines(written("pi", imported(name).only())) == json_lines((FOLDER / name).read_bytes())


def test_tau_bench_comes_back_run_by_run() -> None:
    name = "tau-airline.json"
    runs = [json.loads(written("tau-bench", messages))[0] for messages in imported(name).sessions.values()]
    assert runs == json.loads((FOLDER / name).read_bytes())


@pytest.mark.parametrize("name", named("swe-agent"))
def test_swe_agent_comes_back_as_it_was(name: str) -> None:
    assert json.loads(written("swe-agent", imported(name).only())) == json.loads((FOLDER / name).read_bytes())


def test_aider_comes_back_byte_for_byte() -> None:
    name = "aider-chat-history.md"
    assert written("aider", imported(name).only()).encode() == (FOLDER / name).read_bytes()
