"""Select the model of a chat or a run, and the token limits of its prompts and answers."""

from __future__ import annotations

from foveate.agents.chat import WINDOW_MARGIN_TOKENS, check_window
from foveate.agents.options import DEFAULT_MAX_OUTPUT_TOKENS
from foveate.errors import InputError, ModelUnavailable
from foveate.models import local
from foveate.models.names import load_model, models_for, named_hosts, understand
from foveate.models.settings import ModelsSettings
from foveate.session.values import SessionInfo

WINDOW_SHARE = 8
"""An answer gets at most this fraction (one in this many) of a known window."""
THOUSAND = 1_000


def model_for(requested: str | None, own: str | None, *, settings: ModelsSettings) -> str | None:
    """Return the model to use: the requested one, the configured one, or the session's last one.

    The last one counts only if it is safe to use again: not `local`, which is for trying things out, and no endpoint
    that the settings don't name, since the conversation and a key would be sent there.
    """
    configured = next(iter(models_for("chat", settings)), None)
    if requested or configured or not own:
        return requested or configured
    try:
        parsed = understand(own, settings)
    except ModelUnavailable:
        return None
    if parsed.kind == "local" or (parsed.kind == "endpoint" and parsed.provider not in named_hosts(settings)):
        return None
    return own


def check_name(model: str, settings: ModelsSettings) -> None:
    """Raise `ModelUnavailable` if the name can't be a model's; the error names a valid form."""
    understand(model, settings)


async def check_model(model: str, settings: ModelsSettings) -> None:
    """Raise `ModelUnavailable` if the model can't be called; the error names what to install, set or write."""
    await load_model(model, settings).close()


def local_model() -> str:
    """Return the name of the small local model; `ModelUnavailable` names what to install for it."""
    local.parse_name(local.PREFIX)
    return local.PREFIX


def most_output(window_tokens: int | None) -> int:
    """Return the default limit of an answer."""
    if window_tokens is None:
        return DEFAULT_MAX_OUTPUT_TOKENS
    return min(DEFAULT_MAX_OUTPUT_TOKENS, max(1, window_tokens // WINDOW_SHARE))


def fitting_budget(
    asked_tokens: int | None,
    known: SessionInfo | None,
    *,
    default_tokens: int,
    output_tokens: int,
    window_tokens: int | None,
    option: str,
) -> int:
    """Return the budget that `option` requests, or that of the known session, or the default.

    A default budget is reduced to fit the window while this model answers; an explicitly chosen one is rejected if it
    does not fit.
    """
    budget_tokens = asked_tokens or (known.budget_tokens if known else default_tokens)
    if window_tokens is None:
        return budget_tokens
    most = window_tokens - output_tokens - WINDOW_MARGIN_TOKENS
    if asked_tokens is None and not (known and known.budget_chosen):
        budget_tokens = max(1, min(budget_tokens, most))
    try:
        check_window(budget_tokens, output_tokens, window_tokens)
    except InputError as error:
        written = f"{most // THOUSAND}k" if most >= THOUSAND else f"{most}"
        raise InputError(f"{error}, e.g. {option} {written}" if most > 0 else str(error)) from error
    return budget_tokens
