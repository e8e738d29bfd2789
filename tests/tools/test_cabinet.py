"""Large results: in the file cabinet whole, in the conversation by head, tail, size, hash and key."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import foveate
from foveate.session import Session
from foveate.tokens import count_tokens
from foveate.tools import Toolbox, ToolOutput, Workspace, packs, registry, tool
from foveate.tools.cabinet import CABINET_TOOLS
from foveate.tools.tool import Tool

LOG = "".join(f"line {number}: all is well\n" for number in range(1, 20_001))


@tool(max_output_tokens=400)
def make_log(size: int = len(LOG)) -> str:
    """Print a long log."""
    return LOG[:size]


async def allow(_tool: Tool, _arguments: object) -> bool:
    return True


def with_toolbox(
    folder: Path, job: Callable[[Toolbox, Session], Awaitable[None]], *tools: Tool, root: Path | None = None
) -> None:
    """Run a job with tools of its own and those of the cabinet, in a session with one turn."""

    async def run() -> None:
        async with foveate.open(folder / "chat.db") as fov:
            session = await fov.session("s")
            await session.record([{"role": "user", "content": "Go on"}])
            own = root or folder
            names = ("read_cabinet", "write_from_cabinet")
            workspace = Workspace.at([own], session=session, fov=fov)
            await job(Toolbox([*tools, *map(registry.find, names)], workspace, approve=allow), session)

    asyncio.run(run())


def key_in(output: ToolOutput) -> str:
    return output.text.partition("file cabinet as ")[2].partition(":")[0]


def test_a_long_result_is_shortened_and_the_log_keeps_all_of_it(tmp_path: Path) -> None:
    async def job(toolbox: Toolbox, session: Session) -> None:
        short = await toolbox.call("make_log", {})
        assert count_tokens(short.text) < 400
        assert short.text.startswith("line 1: all is well\n")
        assert "line 20000: all is well\n" in short.text
        assert f"{len(LOG):,} bytes, 20,000 lines, sha256 {hashlib.sha256(LOG.encode()).hexdigest()}" in short.text
        assert await session.cabinet.content(key_in(short)) == LOG.encode()
        (held,) = await session.engine.store.cabinet.of_turns("s", 1, 1)
        assert held.key == key_in(short)
        assert (await toolbox.call("make_log", {}, whole=True)).text == LOG
        assert (await toolbox.call("make_log", {"size": 20})).text == LOG[:20]

    with_toolbox(tmp_path, job, make_log)


def test_lines_are_read_and_found_by_key(tmp_path: Path) -> None:
    async def job(toolbox: Toolbox, _: Session) -> None:
        key = key_in(await toolbox.call("make_log", {}))

        async def read(**arguments: object) -> str:
            return (await toolbox.call("read_cabinet", {"key": key, **arguments})).text

        assert await read(first_line=777, lines=2) == (
            f"[{key}, lines 777 to 778 of 20,000]\n"
            "line 777: all is well\nline 778: all is well\n[Next: first_line=779]\n"
        )
        assert (await read(find="LINE 1234:")) == "1234: line 1234: all is well\n"
        many = await read(find="line 12", lines=2)
        assert many.splitlines()[1:] == ["120: line 120: all is well", "[More lines have 'line 12': first_line=121]"]
        assert (await read(find="line 12", lines=2, first_line=121)).startswith("121: line 121: all is well\n")
        assert "there is no line 20,001" in await read(first_line=20_001)
        assert "first_line: expected" in await read(first_line=0)
        long = await read(lines=2_000)
        assert len(long) < 31_000
        assert "[Next: first_line=" in long
        assert (await toolbox.call("read_cabinet", {})).text.startswith(f"{key} make_log result")

    with_toolbox(tmp_path, job, make_log)


def test_a_line_without_end_is_read_in_pieces(tmp_path: Path) -> None:
    async def job(toolbox: Toolbox, session: Session) -> None:
        entry = await session.cabinet.file(b"x" * 2_500, name="one line")
        assert (await session.cabinet.excerpt(entry.key, 3)).text == "x" * 500 + "\n"

    with_toolbox(tmp_path, job)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"key": "f-000000000000"}, "there is no 'f-000000000000' in the file cabinet"),
        ({"key": "f-000000000000", "find": "x"}, "there is no 'f-000000000000' in the file cabinet"),
        ({"key": "../../etc/passwd"}, "keys look like f-"),
        ({"key": 3}, "key: expected 'str'"),
        ({"key": "f-000000000000", "lines": 5_000}, "lines"),
    ],
)
def test_a_wrong_key_or_range_is_explained(tmp_path: Path, arguments: dict[str, Any], problem: str) -> None:
    async def job(toolbox: Toolbox, _: Session) -> None:
        output = await toolbox.call("read_cabinet", arguments)
        assert output.is_error
        assert problem in output.text

    with_toolbox(tmp_path, job)


def test_binary_content_is_written_and_not_read(tmp_path: Path) -> None:
    image = bytes(range(256)) * 10

    async def job(toolbox: Toolbox, session: Session) -> None:
        entry = await session.cabinet.file(image, name="plot.png", media_type="image/png")
        read = await toolbox.call("read_cabinet", {"key": entry.key})
        assert "is binary: image/png, 2,560 bytes; it can be written to a file" in read.text
        written = await toolbox.call("write_from_cabinet", {"key": entry.key, "path": "plots/plot.png"})
        assert written.text == "Created plots/plot.png (2,560 bytes).\n"
        assert (tmp_path / "plots" / "plot.png").read_bytes() == image

    with_toolbox(tmp_path, job)


@pytest.mark.parametrize("path", ["../outside", "/etc/outside", "link/outside", "."])
def test_a_file_outside_the_roots_is_never_written(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)

    async def job(toolbox: Toolbox, session: Session) -> None:
        entry = await session.cabinet.file(b"secret", name="x")
        output = await toolbox.call("write_from_cabinet", {"key": entry.key, "path": path})
        assert output.is_error
        assert "outside the folders" in output.text or "is a folder" in output.text
        assert not (tmp_path / "outside").exists()

    with_toolbox(tmp_path, job, root=root)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    old = root / "old.txt"
    old.write_text("old")
    old.chmod(0o640)

    async def job(toolbox: Toolbox, session: Session) -> None:
        entry = await session.cabinet.file(b"new", name="x")
        await toolbox.call("write_from_cabinet", {"key": "f-000000000000", "path": "old.txt"})
        assert old.read_text() == "old"
        await toolbox.call("write_from_cabinet", {"key": entry.key, "path": "old.txt"})
        assert (old.read_text(), old.stat().st_mode & 0o777) == ("new", 0o640)
        below = await toolbox.call("write_from_cabinet", {"key": entry.key, "path": "old.txt/below"})
        assert "not a directory" in below.text
        assert [path.name for path in root.iterdir()] == ["old.txt"]

    with_toolbox(tmp_path, job, root=root)


def test_fifty_megabytes_are_filed_and_read_by_range(tmp_path: Path) -> None:
    @tool(max_output_tokens=400)
    def flood() -> str:
        """Print 50 MB."""
        return "0123456789abcde\n" * (50_000_000 // 16)

    async def job(toolbox: Toolbox, _: Session) -> None:
        output = await toolbox.call("flood", {})
        assert "50,000,000 bytes" in output.text
        read = await toolbox.call("read_cabinet", {"key": key_in(output), "first_line": 3_000_000, "lines": 1})
        assert "0123456789abcde\n" in read.text

    with_toolbox(tmp_path, job, flood)
    assert (tmp_path / "chat.db").stat().st_size < 5_000_000


def test_any_tool_may_file_so_every_pack_reads_and_only_writers_write() -> None:
    assert CABINET_TOOLS == ("read_cabinet",)
    assert registry.find("read_cabinet").annotations.read_only
    assert registry.find("write_from_cabinet").approval == "ask"
    assert all("write_from_cabinet" in tools for tools in packs.PACKS.values() if "write_file" in tools)
    assert "write_from_cabinet" not in packs.PACKS["research"]
