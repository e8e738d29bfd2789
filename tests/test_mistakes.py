"""Frequent mistakes get an error that names the correction."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foveate
from foveate import errors
from foveate.errors import InputError, LevelUnknown, NotOpened, SettingsError, UnknownFormat, UnknownStrategy

USES: dict[str, Callable[[foveate.Foveate, foveate.Session], Any]] = {
    "did you mean gradient?": lambda fov, _: fov.session("b", strategy="gradeint"),
    "did you mean plain?": lambda _, session: session.get_turn("T-1", "R", format="plan"),  # type: ignore[arg-type]
    "did you mean C? available: R, S, C, T": lambda _, session: session.get_turn("T-1", "c"),  # type: ignore[arg-type]
    "no level 'Q'; available: R, S, C, T": lambda _, session: session.get_turn("T-1", "Q"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("hint", USES)
def test_a_wrong_name_gets_the_nearest_one(hint: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("a")
            await session.record({"role": "user", "content": "Hello."})
            with pytest.raises((LevelUnknown, UnknownFormat, UnknownStrategy)) as error:
                await USES[hint](fov, session)
            assert hint in str(error.value)

    asyncio.run(run())


def test_a_wrong_provider_format_and_tool_get_the_nearest_one(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            session = await fov.session("a")
            await session.record({"role": "user", "content": "Hello."})
            context = await session.context()
            with pytest.raises(UnknownFormat, match=r"did you mean openai\?"):
                context.request("opnai")  # type: ignore[arg-type]
            with pytest.raises(UnknownFormat, match=r"did you mean gemini\?"):
                session.tools("Gemini ")  # type: ignore[arg-type]
            assert "did you mean search_history?" in await session.call_tool("search_histry", {})

    asyncio.run(run())


def test_a_store_that_is_not_open_yet_tells_how_to_open_it(tmp_path: Path) -> None:
    opener: Any = foveate.open(tmp_path / "chat.db")
    with pytest.raises(NotOpened, match=r"'session' needs an open store; write 'async with foveate.open"):
        opener.session("a")
    with pytest.raises(NotOpened, match=r"foveate\.sync"), opener:
        pass
    with pytest.raises(AttributeError, match="no attribute 'sesion'"):
        _ = opener.sesion
    assert issubclass(NotOpened, InputError)
    assert not (tmp_path / "chat.db").exists()


def test_a_wrong_setting_of_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[session]\nbudget_token = 3\n")
    with pytest.raises(SettingsError, match=r"did you mean session\.budget_tokens\?.*mine\.toml\)"):
        foveate.load_settings(path, environment={})
    path.write_text("[store]\nreaders = 'many'\n")
    with pytest.raises(SettingsError, match=r"store\.readers: takes .*mine\.toml\)"):
        foveate.load_settings(path, environment={})
    with pytest.raises(SettingsError) as error:
        foveate.load_settings(path, environment={}, overrides={"store": {"readers": 2, "reader": 1}})
    assert "mine.toml" not in str(error.value)


def test_wrap_without_its_extra_names_what_to_install() -> None:
    script = "import sys; sys.modules['httpx2'] = None; import foveate; foveate.wrap"
    failed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "pip install 'foveate[openai]' or 'foveate[anthropic]'" in failed.stderr.splitlines()[-1]


def test_an_older_python_gets_one_clear_line() -> None:
    script = "import sys; sys.version_info = (3, 10, 2); sys.version = '3.10.2 (main)'; import foveate"
    failed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert failed.stderr.splitlines()[-1] == "ImportError: Foveate needs Python 3.11 or later; this is Python 3.10.2"


def test_the_tree_of_errors_is_complete() -> None:
    tree = errors.__doc__ or ""
    kinds = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert [name for name in kinds if not re.search(rf"\b{name}\b", tree)] == []
