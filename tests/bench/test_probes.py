"""Renditions made without a model change no claim of the probes."""

from __future__ import annotations

import pytest

from probes import KINDS, PER_KIND, Kind, Probe, load_probes, wrong_levels

PROBES = list(load_probes())
EVERY = 10
"""Every tenth probe is checked here; `python bench/probes.py` checks all of them."""


@pytest.mark.parametrize("kind", KINDS)
def test_no_level_reverses_a_claim_makes_it_certain_or_gives_it_to_another(kind: Kind) -> None:
    probes = [probe for probe in PROBES if probe.kind == kind]
    assert len(probes) == PER_KIND
    assert [(probe.sentence, wrong_levels(probe)) for probe in probes[::EVERY] if wrong_levels(probe)] == []


def test_a_probe_is_no_fault_of_its_own_turn() -> None:
    assert [probe.sentence for probe in PROBES if any(probe.is_wrong(one.text) for one in probe.messages)] == []


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("reversed", "You must restart the ledger service while the billing job is running."),
        ("certainty", "Marta move to Porto in June."),
        ("another", "Nora takes the morning shift."),
    ],
)
def test_a_probe_sees_the_wrong_claim(kind: Kind, wrong: str) -> None:
    first: Probe = next(probe for probe in PROBES if probe.kind == kind)
    assert first.is_wrong(wrong)
    assert not first.is_wrong(first.sentence)
