"""`foveate ui`: serves the dashboard on this machine, and opens it."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from foveate.cli import cli
from foveate.server import process


@pytest.mark.parametrize("has_browser", [True, False])
def test_the_dashboard_is_served_on_loopback_and_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_browser: bool
) -> None:
    opened: list[str] = []
    served: dict[str, Any] = {}

    def serve(location: Path, settings: Any, *, on_ready: Any) -> None:
        served.update(location=location, host=settings.server.host)
        on_ready(process.ServeReport("http://127.0.0.1:8500", 1, (), needs_key=False))

    def open_browser(url: str) -> bool:
        opened.append(url)
        return has_browser

    monkeypatch.setattr(process, "serve", serve)
    monkeypatch.setattr("webbrowser.open", open_browser)
    told = CliRunner().invoke(cli, ["ui", "--db", str(tmp_path / "a.db")])
    assert told.exit_code == 0
    assert (opened, served["host"]) == (["http://127.0.0.1:8500"], "127.0.0.1")
    assert ("No browser was found" in told.output) is not has_browser
    CliRunner().invoke(cli, ["ui", "--no-browser", "--db", str(tmp_path / "a.db")])
    assert len(opened) == 1
