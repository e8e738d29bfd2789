"""Lines that keep their indent when they wrap."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text


class HangingConsole(Console):
    """A console that begins the continuation of a wrapped line at the line's own indent."""

    def print(self, *objects: Any, **options: Any) -> None:
        if (
            len(objects) == 1
            and isinstance(objects[0], Text)
            and not (options.get("soft_wrap") or options.get("no_wrap"))
        ):
            objects = (self._hanging(objects[0]),)
        super().print(*objects, **options)

    def _hanging(self, text: Text) -> Text:
        indent = len(text.plain) - len(text.plain.lstrip(" "))
        has_room = 0 < indent <= self.width // 2
        if not has_room or "\n" in text.plain or text.cell_len <= self.width:
            return text
        lines = text[indent:].wrap(self, self.width - indent)
        for line in lines:
            line.pad_left(indent)
            line.rstrip()
        return Text("\n").join(lines)
