"""The turns of a session as pages: what is in a part of a message, and its label."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from foveate import Foveate
from foveate.turn import Attachment, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from support.servers import call, client_of


async def _use_a_tool(fov: Foveate) -> None:
    session = await fov.session("tools")
    found = ToolResult("c1", (Text("the first line"),), name="grep", is_error=True, exit_code=2)
    odd = Opaque("openai", {"type": "audio"})
    called = Message("assistant", (Reasoning("It may be a port."), ToolCall("grep", {"pattern": "port"}, id="c1"), odd))
    picture = Attachment("image", media_type="image/png", name="chart.png")
    await session.record([Message("user", (Text("Look."), picture)), called, Message("tool", (found,))])


def test_a_part_of_a_turn_has_one_label(tmp_path: Path) -> None:
    wanted = (
        "Image: chart.png image/png",
        "Reasoning: It may be a port.",
        'Tool call grep: {"pattern": "port"}',
        'Other openai: {"type": "audio"}',
        "Tool result grep, exit 2, error: the first line",
    )
    with client_of(tmp_path / "a.db") as client:
        call(client, _use_a_tool, client.fov)
        chat = unescape(client.get("/ui/sessions/tools").text).partition('id="chat"')[2]
        turn = unescape(client.get("/ui/sessions/tools/turns/T-1").text).partition("Messages as recorded")[2]
    for page in (chat, turn):
        assert [one for one in wanted if f"<summary>{one}</summary>" not in page] == []
        assert not re.search(r"\[(call|result|reasoning|other|image)\b", page)
