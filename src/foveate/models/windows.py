"""How much a model takes in one request, where that is known without asking it."""

from __future__ import annotations

from foveate.errors import ModelUnavailable
from foveate.models.names import understand
from foveate.settings import ModelsSettings


def window_of(name: str, settings: ModelsSettings) -> int | None:
    """The model's window in tokens by its name or by the list that came with `genai-prices`; None if neither says.

    Takes a moment the first time, while the list is loaded.
    """
    try:
        parsed = understand(name, settings)
        if parsed.kind == "local":
            from foveate.models import local  # noqa: PLC0415 - others need not pay for it

            return local.parse_name(name).window_tokens
        import genai_prices  # noqa: PLC0415 - an extra
    except (ModelUnavailable, ModuleNotFoundError):
        return None
    if parsed.kind in ("plugin", "ollama"):
        return None
    one = genai_prices.Usage(input_tokens=1, output_tokens=1)
    try:
        if parsed.kind == "endpoint":
            found = genai_prices.calc_price(one, parsed.model, provider_api_url=parsed.base_url)
        else:
            found = genai_prices.calc_price(one, parsed.model, provider_id=parsed.provider)
    except LookupError:
        return None
    return found.model.context_window
