"""The annotated boundaries: the file stays what it was, and the detector is as good on it as the docs say."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import pytest

from boundaries import CASES, decide
from foveate.strategy.topics import Topics

WRITTEN = "592db60a0b86b01039279bd097b04ed705cd2a9ec285ca4cd6fb76d1e016db3e"
MOST_WRONG = {"explicit": 0, "silence": 0, "phrase-trap": 0, "quoted": 0, "pause": 0, "clock-backwards": 0}
"""Of the kinds that a rule decides, nothing; what is about subjects is in docs/lab/topics.md."""


def cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CASES.read_text("utf-8").splitlines()]


def test_the_cases_are_those_written_before_the_detector() -> None:
    assert hashlib.sha256(CASES.read_bytes()).hexdigest() == WRITTEN
    assert Counter(case["expected"] for case in cases()) == {"boundary": 40, "same": 40}


@pytest.mark.parametrize("kind", MOST_WRONG)
def test_what_a_rule_decides_is_decided_right(kind: str) -> None:
    own = [case for case in cases() if case["kind"] == kind]
    wrong = [case["id"] for case in own if bool(decide(case, Topics())) != (case["expected"] == "boundary")]
    assert len(wrong) <= MOST_WRONG[kind], wrong


def test_a_subject_is_seldom_ended_by_mistake() -> None:
    same = [case for case in cases() if case["expected"] == "same"]
    assert sum(bool(decide(case, Topics())) for case in same) <= 1
