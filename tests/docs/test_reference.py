"""The library reference is current, and every public class and method has a docstring."""

from __future__ import annotations

import foveate
from support.reference_page import CHAPTERS, PAGE, generate


def test_the_reference_is_current() -> None:
    assert PAGE.read_text("utf-8") == generate(), "run `python tests/support/reference_page.py`"


def test_every_name_of_the_package_is_in_the_reference() -> None:
    listed = {name for chapter in CHAPTERS for name in chapter.names}
    elsewhere = {
        "__version__",
        "errors",
        "FoveateError",
        "Settings",
    }  # the tree of errors, and docs/reference/settings.md
    assert set(foveate.__all__) - elsewhere <= listed
