"""Every extra is checked in an environment of its own when a release is built."""

from __future__ import annotations

import tomllib

from support.paths import ROOT

COMBINED = {"all", "dev", "docs"}
"""Extras that only join others, or are for development."""


def test_every_extra_is_installed_by_itself_before_a_release() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    script = (ROOT / ".ci/package").read_text("utf-8")
    listed = {line.split()[0] for line in script.rpartition("<<'END'\n")[2].splitlines() if " " in line}
    assert listed == extras.keys() - COMBINED
