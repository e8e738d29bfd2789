"""Who answers in a chat or a run, and how many tokens the prompts and answers may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foveate.agents.chat import DEFAULT_MAX_OUTPUT_TOKENS, WINDOW_MARGIN_TOKENS, check_window
from foveate.cli.ui.terminal import THOUSAND
from foveate.errors import InputError, ModelUnavailable
from foveate.models.names import load_model, models_for, understand

if TYPE_CHECKING:
    from foveate.models.settings import ModelsSettings

WINDOW_SHARE = 8
"""An answer takes at most this part of a known window, one in so many."""


def model_for(wished: str | None, own: str | None, *, settings: ModelsSettings) -> str | None:
    """Who answers: the model that is wished for, the session's own if it can be asked, or the settings'."""
    configured = next(iter(models_for("chat", settings)), None)
    if wished or not own:
        return wished or configured
    try:
        understand(own, settings)
    except ModelUnavailable:
        return configured
    return own


async def check_model(model: str, settings: ModelsSettings) -> None:
    """`ModelUnavailable` if it can't be asked: it says what to install, set or write."""
    await load_model(model, settings).close()


def most_output(window_tokens: int | None) -> int:
    """What an answer may take where nobody says it."""
    if window_tokens is None:
        return DEFAULT_MAX_OUTPUT_TOKENS
    return min(DEFAULT_MAX_OUTPUT_TOKENS, max(1, window_tokens // WINDOW_SHARE))


def fitting_budget(
    asked_tokens: int | None,
    own_tokens: int | None,
    *,
    default_tokens: int,
    output_tokens: int,
    window_tokens: int | None,
    option: str,
) -> int:
    """The budget as asked for with the option, or the session's own, or the default.

    The default, which nobody chose, is made to fit the window; another that does not fit is refused.
    """
    budget_tokens = asked_tokens or own_tokens or default_tokens
    if window_tokens is None:
        return budget_tokens
    most = window_tokens - output_tokens - WINDOW_MARGIN_TOKENS
    if asked_tokens is None and budget_tokens == default_tokens:
        budget_tokens = max(1, min(budget_tokens, most))
    try:
        check_window(budget_tokens, output_tokens, window_tokens)
    except InputError as error:
        written = f"{most // THOUSAND}k" if most >= THOUSAND else f"{most}"
        raise InputError(f"{error}, as in {option} {written}" if most > 0 else str(error)) from error
    return budget_tokens


def read_tokens(text: str) -> int:
    """A number of tokens as people write it: 8000, 8,000 or 8k."""
    plain = text.strip().lower().replace(",", "").replace("_", "")
    times = THOUSAND if plain.endswith("k") else 1
    digits = plain.removesuffix("k")
    if not digits.isascii() or not digits.isdecimal() or not int(digits[:12]):
        raise InputError(f"{text.strip()!r} is no number of tokens; write it as 8000 or 8k")
    return int(digits[:12]) * times
