"""Prints a streamed answer within the width of the terminal, and the status line below it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from foveate.cli.ui.terminal import line, shorten
from foveate.session.picture import silent_turns

if TYPE_CHECKING:
    from rich.text import Text

    from foveate.agents.chat import AnswerSummary

_WORD_OR_SPACE = re.compile(r"\s+|\S+")
BAR_CELLS = 8
BETWEEN = " · "
MIN_NAME_CHARS = 8
"""Minimum characters of a model's name; with less space it is omitted."""
CENT = 0.01


class LineFlow:
    """Wraps streamed text at a width, which may change; without a width the text is passed on unchanged."""

    def __init__(self, write: Callable[[str], object], width: Callable[[], int | None]) -> None:
        self._write = write
        self._get_width = width
        self._column = 0
        self._held = ""
        """A partial word, or the spaces before it."""
        self._is_open = False

    def add(self, piece: str) -> None:
        self._is_open = self._is_open or bool(piece)
        if self._get_width() is None:
            self._write(piece)
            return
        *complete, self._held = _WORD_OR_SPACE.findall(self._held + piece) or [""]
        self._put(complete)

    def end(self) -> None:
        """Write the buffered text, and end the line if it has any text."""
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
                # Spaces at a line break are dropped.
                self._column = 0 if token.isspace() else size
                self._write("\n" if token.isspace() else f"\n{token}")
            elif token:
                self._column += size
                self._write(token)


def status(done: AnswerSummary, spent_usd: float, *, width: int) -> Text:
    """Return the status line of an answer; a narrow terminal shortens the model's name first, then the rest."""
    filled = min(BAR_CELLS, round(BAR_CELLS * done.tokens / done.budget_tokens))
    bar = f"{'█' * filled}{'░' * (BAR_CELLS - filled)}"
    cached = f"{'?' if done.cached_share is None else f'{done.cached_share:.0%}'} cached"
    usd, in_all = dollars(done.usd), dollars(spent_usd)
    filling = f"{done.turn_id} {bar} {done.tokens:,}/{done.budget_tokens:,}"
    parts = [
        BETWEEN.join(filter(None, [filling, done.mode, silent_turns(done.turns_without_words)])),
        f"{cached} ({done.predicted_cached_share:.0%} predicted)",
        usd if usd == in_all else f"{usd} ({in_all} in all)",
        f"{done.seconds:.1f} s",
    ]
    for place, shorter in ((1, cached), (2, usd)):
        if len(BETWEEN.join(parts)) > width:
            parts[place] = shorter
    room = width - len(BETWEEN.join(["", *parts]))
    if room >= min(MIN_NAME_CHARS, len(done.model)):
        parts.insert(-1, shorten(done.model, room))
    return line((BETWEEN.join(parts), "dim"))


def dollars(usd: float) -> str:
    return (
        "$0" if not usd else f"${usd:.2f}" if usd >= CENT * 100 else f"${usd:.4f}" if usd >= CENT / 100 else "<$0.0001"
    )
