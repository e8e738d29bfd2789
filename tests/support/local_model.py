"""The real local model for tests: one server per test process, started when a test first asks for it.

Its answers are poor and differ from machine to machine; a test looks at how they come, never at what they say.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest

from foveate.errors import ModelUnavailable
from foveate.models.local import serve
from foveate.turn import Json

WINDOW_TOKENS = 2_048
WITHOUT_WEIGHTS_VARIABLE = "FOVEATE_TESTS_WITHOUT_WEIGHTS"
"""Set where the weights can't be installed: the tests that need them are skipped instead of failing."""
REQUEST_LIMIT_SECONDS = 120


@pytest.fixture(scope="session")
def local_url() -> Iterator[str]:
    """Where the model is served, as in `http://127.0.0.1:8080/v1`; its window has WINDOW_TOKENS."""
    try:
        with serve(window_tokens=WINDOW_TOKENS) as base_url:
            yield base_url
    except ModelUnavailable as error:
        if error.reason == "extra" and WITHOUT_WEIGHTS_VARIABLE in os.environ:
            pytest.skip(str(error))
        pytest.fail(f"{error} (or set {WITHOUT_WEIGHTS_VARIABLE}=1 to do without these tests)")


def count_exactly(local_url: str, text: str) -> int:
    """What the model's own tokenizer says."""
    body = json.dumps({"content": text}).encode()
    request = Request(f"{local_url.removesuffix('/v1')}/tokenize", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=REQUEST_LIMIT_SECONDS) as response:
        answer: dict[str, list[Json]] = json.load(response)
    return len(answer["tokens"])
