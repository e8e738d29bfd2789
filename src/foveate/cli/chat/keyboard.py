"""A sign of life while a model reads its prompt, which takes a small one on a small machine half a minute."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from foveate.cli.ui.terminal import line

if TYPE_CHECKING:
    from rich.console import Console

TICK_SECONDS = 1.0


class WaitLine:
    """A dim line with the seconds that pass; nothing where it could not be taken away again."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._ticking: asyncio.Task[None] | None = None

    def begin(self, tokens: int) -> None:
        self.end()
        if self._out.is_terminal and not self._out.is_dumb_terminal:
            self._ticking = asyncio.create_task(self._tick(tokens))

    def end(self) -> None:
        """Take the line away, if there is one."""
        if self._ticking:
            self._ticking.cancel()
            self._ticking = None
            self._erase()

    async def _tick(self, tokens: int) -> None:
        began = time.monotonic()
        while True:
            self._erase()
            text = f"reading {tokens:,} tokens … {time.monotonic() - began:.0f} s"
            self._out.print(line((text, "dim")), end="", no_wrap=True, overflow="ellipsis")
            await asyncio.sleep(TICK_SECONDS)

    def _erase(self) -> None:
        from rich.control import Control
        from rich.segment import ControlType

        self._out.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
