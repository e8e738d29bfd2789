"""Status of the configured models: purposes, keys, prices, windows, and whether they answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from foveate.errors import ModelError, ModelUnavailable
from foveate.models import Ask
from foveate.models.caller import Caller
from foveate.models.names import find_key, understand, window_of
from foveate.models.prices import tariff_for
from foveate.models.settings import ModelsSettings
from foveate.store.rows import NANO
from foveate.turn import Message, Text, Usage

PURPOSES = ("chat", "compress", "tiny", "smooth", "roll_up", "shrink")
"""Purposes as named in the settings."""
INHERITED = {"chat": ("default",), "compress": ("default",), "tiny": ("compress", "default")}
"""Settings that provide a purpose's model by default."""
QUESTION = "Answer with the one word: yes"
QUESTION_TOKENS = 16
ANSWER_TOKENS = 256
"""Room for models that reason before answering."""
SAMPLE_TOKENS = 1_000
"""Size of the request whose price is shown; a million tokens would get the price of a long prompt."""
MILLION = 1_000_000


class ModelTarget(NamedTuple):
    """A model that is tested once, whatever its number of uses; the same name may both chat and embed."""

    model: str
    makes_vectors: bool


@dataclass(frozen=True, slots=True)
class ModelUse:
    """A purpose, its model, and the setting that names it."""

    purpose: str
    model: str
    source: str

    @property
    def target(self) -> ModelTarget:
        return ModelTarget(self.model, makes_vectors=self.purpose == "embed")


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """The state of a configured model."""

    model: str
    provider: str = ""
    key_variable: str | None = None
    key_needed: bool = False
    key_set: bool = False
    input_usd: float | None = None
    """Per million tokens; None if the price is unknown."""
    output_usd: float | None = None
    window_tokens: int | None = None
    makes_vectors: bool = False
    answers: bool | None = None
    """None: not tested."""
    seconds: float | None = None
    """Duration of the call alone."""
    reason: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The configured models: their uses in order, and the status of each."""

    uses: tuple[ModelUse, ...]
    statuses: dict[ModelTarget, ModelStatus]


def uses_of(settings: ModelsSettings) -> list[ModelUse]:
    """List each purpose with its model and the setting that names it, then the fallbacks."""
    uses: list[ModelUse] = []
    for purpose in PURPOSES:
        for source in (purpose, *INHERITED.get(purpose, ())):
            if name := getattr(settings, source):
                uses.append(ModelUse(purpose.replace("_", "-"), name, f"models.{source}"))
                break
    uses.extend(ModelUse("fallback", name, "models.fallbacks") for name in dict.fromkeys(settings.fallbacks))
    return uses


def describe_models(uses: Iterable[ModelUse], settings: ModelsSettings) -> ModelReport:
    """Report the configured models without any call."""
    uses = tuple(uses)
    return ModelReport(uses, {use.target: status_of(use.target, settings) for use in uses})


def status_of(target: ModelTarget, settings: ModelsSettings) -> ModelStatus:
    """Return a model's status from settings, the environment and the price list, without a call."""
    name = target.model
    try:
        parsed = understand(name, settings, (name,))
    except ModelUnavailable as error:
        return ModelStatus(error.model, problem=error.problem, reason=error.reason)
    key = find_key(parsed)
    tariff = tariff_for(name, settings)
    usd = [
        None if tariff.is_estimate else tariff.nano_usd(usage) / NANO * (MILLION / SAMPLE_TOKENS)
        for usage in (Usage(input_tokens=SAMPLE_TOKENS), Usage(output_tokens=SAMPLE_TOKENS))
    ]
    status = ModelStatus(
        name,
        parsed.provider,
        key_variable=key.variable if key else " or ".join(parsed.key_variables) or None,
        key_needed=parsed.needs_key,
        key_set=key is not None,
        input_usd=usd[0],
        output_usd=usd[1],
        window_tokens=window_of(name, settings),
        makes_vectors=target.makes_vectors,
    )
    if parsed.needs_key and key is None:
        problem = f"no key; set the environment variable {status.key_variable}"
        return replace(status, answers=False, reason="key", problem=problem)
    return status


async def try_model(status: ModelStatus, caller: Caller, *, name: str) -> ModelStatus:
    """Ask a model for one word; `name` is the caller's name for it."""
    ask = Ask(
        purpose="check",
        messages=(Message("user", (Text(QUESTION),)),),
        max_output_tokens=ANSWER_TOKENS,
        input_tokens=QUESTION_TOKENS,
    )
    try:
        answered = await caller.ask(ask, [name], max_calls=1)
    except ModelError as error:
        return replace(status, answers=False, reason=getattr(error, "reason", None), problem=error.problem)
    return replace(status, answers=True, seconds=round(answered.seconds, 3))
