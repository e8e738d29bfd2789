"""Tools: functions, checked arguments, packs, definitions, and calls that never raise."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import threading
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

import foveate
from foveate.errors import InputError, InvalidToolCall
from foveate.tools import Tool, Toolbox, ToolError, Workspace, packs, registry, tool
from foveate.tools.toolbox import FORMATS, definitions
from support.patience import PATIENCE_SECONDS


@tool
async def opening_hours(
    place: Annotated[str, "Name of the place"], day: Literal["weekday", "weekend"] = "weekday", limit: int | None = None
) -> str:
    """Look up when a place
    is open.

    This paragraph is for people.
    """
    return f"{place} {day} {limit}"


def test_a_function_is_described_by_its_signature_and_docstring() -> None:
    assert opening_hours.description == "Look up when a place is open."
    assert opening_hours.schema == {
        "type": "object",
        "properties": {
            "place": {"type": "string", "description": "Name of the place"},
            "day": {"type": "string", "enum": ["weekday", "weekend"]},
            "limit": {"type": "integer"},
        },
        "required": ["place"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "missing required field 'place'"),
        ({"place": 3}, "place: expected 'str', got 'int'"),
        ({"place": "zoo", "when": "now"}, "unknown field 'when'"),
        ({"place": "zoo", "day": "Monday"}, "day: invalid enum value 'Monday'"),
        ("{", "not JSON"),
        ("[1]", "not an object"),
    ],
)
def test_a_wrong_argument_is_named(arguments: object, problem: str) -> None:
    with pytest.raises(InvalidToolCall, match=r"call opening_hours\(place, \[day\], \[limit\]\)") as got:
        opening_hours.check(arguments)
    assert problem in str(got.value)


def test_null_is_an_absent_argument() -> None:
    assert opening_hours.check('{"place": "zoo", "limit": null}') == {"place": "zoo", "day": "weekday", "limit": None}


def _broken(how: str) -> Tool:
    @tool(name=how, timeout_seconds=0.05)
    async def broken() -> str:
        """Fail."""
        if how == "hangs":
            await asyncio.sleep(60)
        if how == "exits":
            sys.exit(3)
        raise ZeroDivisionError("division by zero")

    return broken


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("hangs", "did not finish within 0.05 seconds; check whether it took effect"),
        ("raises", "ZeroDivisionError"),
        ("exits", "tried to end the program"),
        ("absent", "there is no tool"),
    ],
)
def test_a_tool_that_fails_is_an_answer(name: str, problem: str) -> None:
    box = Toolbox([_broken(how) for how in ("hangs", "raises", "exits")], Workspace())
    output = asyncio.run(box.call(name, {}))
    assert output.is_error
    assert problem in output.text


def test_a_tool_that_needs_approval_is_not_run_without_it() -> None:
    ran: list[str] = []

    @tool(approval="ask")
    def delete(name: str) -> str:
        """Delete a thing."""
        ran.append(name)
        return "deleted"

    output = asyncio.run(Toolbox([delete], Workspace()).call("delete", {"name": "a"}))
    assert output.is_error
    assert not ran


def test_a_refusal_of_a_tool_is_not_logged_as_a_defect(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def picky() -> str:
        """Refuse."""
        raise ToolError("no")

    assert asyncio.run(Toolbox([picky], Workspace()).call("picky", {})).text == "Error: no\n"
    assert not caplog.records


def test_an_answer_has_no_lone_surrogates(tmp_path: Path) -> None:
    (tmp_path / "caf\udce9").touch()
    output = asyncio.run(Toolbox([registry.find("list_dir")], Workspace.at([tmp_path])).call("list_dir", {}))
    assert output.text.encode().startswith(b"caf")


@pytest.mark.parametrize("format", FORMATS)
def test_definitions_are_sorted_and_stable(format: str) -> None:  # noqa: A002
    tools = [registry.find(name) for name in registry.names()]
    one, other = definitions(tools, format), definitions(tools[::-1], format)
    assert msgspec.json.encode(one) == msgspec.json.encode(other)


def test_a_pack_that_includes_itself_is_refused() -> None:
    with pytest.raises(InputError, match="includes itself: mine → yours → mine"):
        packs.tools_of("mine", {"mine": ["yours"], "yours": ["mine"]})


@pytest.mark.parametrize("given", ["../x", "/etc/passwd", "link/passwd", "loop", "a/../../x", "a\0b", "\ud800"])
def test_a_path_outside_the_roots_is_refused(tmp_path: Path, given: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("/etc")
    (root / "loop").symlink_to(root / "loop")
    with pytest.raises(InputError, match=r"outside the folders|null characters|symbolic links|lone surrogates"):
        Workspace.at([root]).path(given)


def test_the_store_is_out_of_reach_even_inside_a_root(tmp_path: Path) -> None:
    async def check() -> None:
        async with foveate.open(tmp_path / "chat.db") as fov:
            workspace = Workspace.at([tmp_path], fov=fov)
            for name in ("chat.db", "chat.db-wal", "x/../chat.db"):
                with pytest.raises(InputError, match="is the store"):
                    workspace.path(name)
            assert workspace.path("chat.db.txt").name == "chat.db.txt"

    asyncio.run(check())


def test_a_registered_tool_is_found_and_its_compressor_must_exist() -> None:
    registry.register(opening_hours)
    assert "opening_hours" in registry.names()
    registry.unregister("opening_hours")
    assert "opening_hours" not in registry.names()
    with pytest.raises(InputError, match="no compressor 'hours'"):
        registry.register(dataclasses.replace(opening_hours, compressor="hours"))


def test_a_third_partys_tool_that_cannot_be_loaded_leaves_the_others_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", "no_such_module:broken", "foveate.tools")
    monkeypatch.setitem(registry.REGISTRY.registered, "broken", broken)
    monkeypatch.setattr(registry, "names", lambda: ("broken", "list_dir"))
    assert registry.usable_names() == ("list_dir",)
    with pytest.raises(InputError, match="'broken' can't be loaded: No module named 'no_such_module'"):
        registry.find("broken")


def test_a_function_that_hangs_does_not_keep_the_program_from_ending() -> None:
    released, ended = threading.Event(), []

    @tool(timeout_seconds=0.01)
    def hang() -> str:
        """Wait for a long time."""
        released.wait(PATIENCE_SECONDS)
        ended.append(threading.current_thread().daemon)
        return "late"

    output = asyncio.run(Toolbox([hang], Workspace()).call("hang", {}))
    assert "did not finish within 0.01 seconds" in output.text
    assert not ended  # the loop is closed, and did not wait for it
    thread = next(thread for thread in threading.enumerate() if thread.name == "hang")
    released.set()
    thread.join(PATIENCE_SECONDS)
    assert ended == [True]
