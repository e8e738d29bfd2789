"""The examples of the HTTP API page run, and answer what the page shows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import httpx2

from support.paths import ROOT
from support.patience import PATIENCE_SECONDS
from support.servers import listening

PAGE = ROOT / "docs" / "reference" / "api.md"
EXAMPLE = re.compile(r"^```sh\n(curl .*?)^```\n(?:\n```json\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
ANY = "…"


def test_the_examples_of_the_api_page_run_in_order(tmp_path: Path) -> None:
    examples = EXAMPLE.findall(PAGE.read_text("utf-8"))
    assert len(examples) >= 8
    with listening(tmp_path / "a.db") as url, httpx2.Client(timeout=PATIENCE_SECONDS) as client:
        for command, shown in examples:
            answer = _curl(client, command, url)
            assert answer.is_success, (command, answer.text)
            if shown:
                _compare(json.loads(shown), answer.json())


def _curl(client: httpx2.Client, command: str, url: str) -> httpx2.Response:
    """What the command would send; so that the test does not need curl."""
    words = iter(shlex.split(command.replace("\\\n", " "))[1:])
    method, body, address = "GET", None, ""
    headers = {}
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word in ("-d", "--data-binary"):
            body = next(words)
        else:
            address = word
    return client.request(method, address.replace("http://127.0.0.1:8484", url), headers=headers, content=body)


def _compare(shown: Any, real: Any) -> None:
    """What is shown is there; more may be."""
    if shown == ANY:
        return
    if isinstance(shown, dict):
        for key, value in shown.items():
            _compare(value, real[key])
    elif isinstance(shown, list):
        assert len(shown) == len(real)
        for one, other in zip(shown, real, strict=True):
            _compare(one, other)
    else:
        assert shown == real


def test_the_page_names_every_path_of_the_document() -> None:
    from foveate.server.api.table import ENDPOINTS

    text = PAGE.read_text("utf-8")
    for endpoint in ENDPOINTS:
        last = [part for part in endpoint.path.split("/") if part and not part.startswith("{")][-1]
        is_detail = re.search(r"/goals/\{goal\}/|/prune|/strategy|/labels", endpoint.path)
        assert is_detail or last in text, endpoint.path
