"""The cases of the adapters' conformance suite as parameters of a test."""

from __future__ import annotations

import pytest

from foveate.testing.adapters import CASES, fifty_turns_fit_the_budget

LONG = pytest.param(fifty_turns_fit_the_budget, marks=pytest.mark.thorough)
every_short_case = pytest.mark.parametrize(
    "case", [LONG if case is fifty_turns_fit_the_budget else case for case in CASES], ids=lambda case: case.__name__
)
"""Fifty turns take seconds: `make thorough` and `make adapters` run them for every adapter."""
