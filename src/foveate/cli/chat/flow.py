"""An answer as it flows in: words are shown when they are complete, and lines end between them."""

from __future__ import annotations

import re
from collections.abc import Callable

_WORD_OR_SPACE = re.compile(r"\s+|\S+")


class LineFlow:
    """Breaks lines at a width, which may change meanwhile; without one the text goes through as it comes."""

    def __init__(self, write: Callable[[str], object], width: Callable[[], int | None]) -> None:
        self._write = write
        self._get_width = width
        self._column = 0
        self._held = ""
        """The beginning of a word, or the spaces before one."""
        self._is_open = False

    def add(self, piece: str) -> None:
        self._is_open = self._is_open or bool(piece)
        if self._get_width() is None:
            self._write(piece)
            return
        *complete, self._held = _WORD_OR_SPACE.findall(self._held + piece) or [""]
        self._put(complete)

    def end(self) -> None:
        """Show what is held, and end the line if one was begun."""
        self._put([self._held])
        if self._is_open:
            self._write("\n")
        self._column, self._held, self._is_open = 0, "", False

    def _put(self, tokens: list[str]) -> None:
        from rich.cells import cell_len

        width = self._get_width()
        for token in tokens:
            size = cell_len(token)
            if "\n" in token:
                before, _, rest = token.partition("\n")
                is_room = width is None or self._column + cell_len(before) <= width
                self._column = cell_len(token.rpartition("\n")[2])
                self._write(token if is_room else f"\n{rest}")
            elif width and self._column and self._column + size > width:
                # A space at the end of a line, or at the beginning of the next, is left out.
                self._column = 0 if token.isspace() else size
                self._write("\n" if token.isspace() else f"\n{token}")
            elif token:
                self._column += size
                self._write(token)
