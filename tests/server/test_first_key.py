"""A server makes its first key itself: from a file, or into one."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import httpx2
import pytest

import foveate
from foveate.errors import InputError
from foveate.server.local import FIRST_KEY, make_first_key
from foveate.session.keys import KeyInfo
from support.command_line import Shell
from support.served import served
from support.servers import bearer

SECRET = "fov_" + "0123456789abcdef" * 3


def _made(folder: Path, times: int = 1) -> list[KeyInfo]:
    async def run() -> list[KeyInfo]:
        async with foveate.open(folder / "a.db") as fov:
            for _ in range(times):
                await make_first_key(fov.keys, str(folder / "secrets" / "key"))
            return list(await fov.keys.list())

    return asyncio.run(run())


def test_a_missing_file_gets_a_new_key_that_only_its_owner_reads(tmp_path: Path) -> None:
    (key,) = _made(tmp_path, times=2)
    file = tmp_path / "secrets" / "key"
    assert (key.name, key.rights, key.tenant) == (FIRST_KEY, ("gateway", "read", "write", "admin"), "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(file.read_text().strip()) == len("fov_") + 48


def test_a_given_key_is_the_first_one(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    shell = Shell(tmp_path / "chat.db")
    environment = {"FOVEATE_SERVER__FIRST_KEY_FILE": str(tmp_path / "key")}
    for _ in range(2):  # the second start finds the key
        with served(shell, "--host", "0.0.0.0", **environment) as (_, ready):
            url = ready["url"].replace("0.0.0.0", "127.0.0.1")
            assert httpx2.get(f"{url}/api/v1/sessions").status_code == 401
            assert httpx2.get(f"{url}/api/v1/keys", headers=bearer(SECRET)).status_code == 200
    assert [key["name"] for key in shell.json("keys", "list")] == [FIRST_KEY]


@pytest.mark.parametrize(
    "text", ["", "fov_short", "sk-" + "a" * 60, "fov_" + "ä" * 48, f"{SECRET} {SECRET}", "\0" * 50]
)
def test_what_is_no_key_stops_the_start_and_is_not_repeated(text: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(text)
    shell = Shell(tmp_path / "chat.db")
    run = shell.really("serve", "--port", "0", FOVEATE_SERVER__FIRST_KEY_FILE=str(tmp_path / "key"))
    assert run.returncode == 2
    assert b"server.first_key_file" in run.stderr
    assert text[4:].strip().encode() not in run.stderr or len(text) < 10


def test_a_store_that_has_a_key_ignores_the_file(tmp_path: Path) -> None:
    async def run() -> int:
        async with foveate.open(tmp_path / "a.db") as fov:
            made = await fov.keys.create("own")
            await fov.keys.revoke(made.info.id)
            await make_first_key(fov.keys, str(tmp_path / "key"))
            return len(await fov.keys.list())

    assert asyncio.run(run()) == 1
    assert not (tmp_path / "key").exists()


def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    async def run() -> None:
        async with foveate.open(tmp_path / "a.db") as fov:
            (tmp_path / "file").touch()
            with pytest.raises(InputError, match=r"server\.first_key_file"):
                await make_first_key(fov.keys, str(tmp_path / "file" / "key"))

    asyncio.run(run())
