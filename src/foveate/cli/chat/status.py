"""What an answer took, in the line below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foveate.cli.ui.terminal import line, shorten

if TYPE_CHECKING:
    from rich.text import Text

    from foveate.agents.chat import AnswerSummary

BAR_CELLS = 8
BETWEEN = " · "
LEAST_NAME_CHARS = 8
"""Of a model; with less room it is left out."""
CENT = 0.01


def status(done: AnswerSummary, spent_usd: float, *, width: int) -> Text:
    """What an answer took, in a line; where the terminal is narrow, with less of the model's name, then of the rest."""
    filled = min(BAR_CELLS, round(BAR_CELLS * done.tokens / done.budget_tokens))
    bar = f"{'█' * filled}{'░' * (BAR_CELLS - filled)}"
    cached = f"{'?' if done.cached_share is None else f'{done.cached_share:.0%}'} cached"
    usd, in_all = dollars(done.usd), dollars(spent_usd)
    parts = [
        f"{done.turn_id} {bar} {done.tokens:,}/{done.budget_tokens:,}{BETWEEN + done.mode if done.mode else ''}",
        f"{cached} ({done.predicted_cached_share:.0%} predicted)",
        usd if usd == in_all else f"{usd} ({in_all} in all)",
        f"{done.seconds:.1f} s",
    ]
    for place, shorter in ((1, cached), (2, usd)):
        if len(BETWEEN.join(parts)) > width:
            parts[place] = shorter
    room = width - len(BETWEEN.join(["", *parts]))
    if room >= min(LEAST_NAME_CHARS, len(done.model)):
        parts.insert(-1, shorten(done.model, room))
    return line((BETWEEN.join(parts), "dim"))


def dollars(usd: float) -> str:
    return (
        "$0" if not usd else f"${usd:.2f}" if usd >= CENT * 100 else f"${usd:.4f}" if usd >= CENT / 100 else "<$0.0001"
    )
