"""Every knob in one typed object, from a TOML or YAML file, the environment and code, in that order.

    foveate.open("chat.db", settings=load_settings("foveate.toml"))
    FOVEATE_STORE__SYNCHRONOUS=normal foveate import …

A wrong key, type or range is a `SettingsError` that names the key and what it takes.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, get_type_hints

import msgspec
from msgspec import Meta, Struct

from foveate.errors import SettingsError
from foveate.given import Key, converted, is_list, keys_of, refuse_unknown_keys
from foveate.strategy import Strategy, load
from foveate.strategy.allotments import Allotments
from foveate.strategy.checkpoint import Checkpoint
from foveate.strategy.gradient import Gradient
from foveate.strategy.hybrid import Hybrid
from foveate.strategy.oneshot import Oneshot
from foveate.strategy.standard import Standard
from foveate.strategy.topics import Topics

ENVIRONMENT_PREFIX = "FOVEATE_"
CONFIG_VARIABLE = "FOVEATE_CONFIG"
"""Names a settings file for programs that are given none."""
NEARLY = 0.9
"""How alike a variable is to a setting's that it is taken for a slip, by difflib's ratio."""


class StoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the raw log is kept."""

    synchronous: Literal["full", "normal"] = "full"
    """`full`: a turn survives a power cut once `record` returns. `normal`: it survives a crash of the program only."""
    lock_timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """How long to wait for other processes that write the same file."""
    compression_level: Annotated[int, Meta(ge=1, le=19)] = 3
    """zstd's, for stored bodies."""
    group_limit: Annotated[int, Meta(ge=1, le=10_000)] = 512
    """At most this many waiting writes share one commit."""
    readers: Annotated[int, Meta(ge=1, le=64)] = 4
    """Threads that read; each has a connection of its own."""


class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new session gets where nothing else is said."""

    strategy: Annotated[str, Meta(min_length=1)] = "gradient"
    """How it is shown: a strategy's name."""
    budget_tokens: Annotated[int, Meta(ge=1, le=100_000_000)] = 100_000
    """What a context takes at most."""
    model: str | None = None
    """Whose tokens are counted; None: those of OpenAI's newer models."""


class EventSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How events reach their subscribers."""

    queue_limit: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    """A subscriber this far behind loses the oldest events, and is told how many."""


class CompressSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the lower fidelities are made in the background."""

    enabled: bool = True
    """Off: turns stay raw until `foveate compress` is run."""
    processes: Annotated[int, Meta(ge=0, le=64)] = 1
    """Processes that compress, so that the program's own threads stay free; 0 does it in a thread."""
    batch_turns: Annotated[int, Meta(ge=1, le=1_000)] = 16
    """Turns that are claimed, made and kept together."""
    lease_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """A turn claimed by a worker that died is free again after this."""


class ContextSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How contexts are put together."""

    order: Literal["cache-first", "documented"] = "cache-first"
    """`cache-first`: what changes comes after what does not. `documented`: memory and board before the history."""
    explain: bool = True
    """Tell the model what tags are and how to retrieve."""
    board_life_turns: Annotated[int, Meta(ge=1, le=1_000)] = 5
    """For how many turns something retrieved stays on the board."""
    cache_ttl_seconds: Annotated[float, Meta(gt=0)] | None = None
    """After this long unused a provider's cache is cold, and a rebuild costs nothing extra. None: not known."""


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens."""

    input: Annotated[float, Meta(ge=0, le=100_000)]
    output: Annotated[float, Meta(ge=0, le=100_000)]
    cached: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    """For input that came from the provider's cache; None: as other input."""


class ModelsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which models are asked for what, and the limits they are asked within. Without a name nothing is asked.

    A name is `openai:gpt-5-mini`, `anthropic:…`, `google:…`, `openrouter:…`, `ollama:…`, `NAME@http://host:port/v1`
    for any other endpoint that speaks OpenAI's protocol, or `local`.
    """

    default: str | None = None
    """For chat, C and T, where they have no model of their own."""
    chat: str | None = None
    """For `foveate chat` and `foveate run`."""
    compress: str | None = None
    """For C, and for T if that has none of its own."""
    tiny: str | None = None
    """Differs from `compress`: T is then made in a call of its own."""
    smooth: str | None = None
    """S is made by rules; a model does it only if one is named here."""
    roll_up: str | None = None
    """Eras, checkpoints and summaries of topics are made by rules; a model words them only if one is named here."""
    fallbacks: tuple[str, ...] = ()
    """Tried in this order when a model fails or is held back."""
    mode: Literal["together", "separate", "chained"] = "together"
    """`together`: one call makes all levels of a turn. `separate`: a call each, side by side. `chained`: a call each,
    C made from S and T from C."""
    max_calls_per_turn: Annotated[int, Meta(ge=1, le=100)] = 6
    """No turn costs more calls than this, retries and later attempts included."""
    max_source_tokens: Annotated[int, Meta(ge=256, le=1_000_000)] = 16_000
    """A turn larger than this is shortened before a model sees it."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """For a whole answer; in a stream, until its first piece."""
    stall_seconds: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    """A stream that is silent for longer has failed."""
    max_retries: Annotated[int, Meta(ge=0, le=10)] = 2
    """So often is a model that failed asked again, before the next of `fallbacks` is; the levels of a turn are tried
    again later instead."""
    backoff_seconds: Annotated[float, Meta(ge=0, le=600)] = 1.0
    """Before the first retry; it doubles with each, and is varied at random."""
    max_backoff_seconds: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    """A provider that asks for a longer pause is not waited for; the work is done later."""
    breaker_failures: Annotated[int, Meta(ge=1, le=1_000)] = 5
    """After so many failures in a row a provider is left alone,"""
    breaker_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """for so long; then one call tries whether it has recovered."""
    concurrency: Annotated[int, Meta(ge=1, le=256)] = 4
    """Calls to one provider at a time."""
    requests_per_minute: Annotated[int, Meta(ge=1)] | None = None
    """To one provider; None: no limit."""
    tokens_per_minute: Annotated[int, Meta(ge=1)] | None = None
    """Sent to one provider and answered by it."""
    daily_usd: Annotated[float, Meta(ge=0, le=1_000_000)] | None = 5.0
    """All calls of one day (UTC) together cost at most this; None: no cap."""
    prices: dict[str, Price] = {}
    """By model name, where the price list has none or another: US dollars for a million tokens of `input` and `output`,
    and of `cached` input where that is cheaper."""
    unknown_price: Price = Price(input=5.0, output=25.0)
    """Assumed for a model that no list knows, unless it runs on this machine."""
    key_variables: dict[str, str] = {}
    """Which environment variable holds the key of an endpoint, by its host, as in {"llm.example.com": "TEAM_KEY"}."""


class RecallSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How what was blurred is found again."""

    enabled: bool = True
    """Off: nothing is recalled before a turn; searching still works."""
    deadline_seconds: Annotated[float, Meta(ge=0, le=60)] | None = 1.0
    """What is found by then is used. None: all is waited for, and the same store gives the same bytes."""
    search_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.2
    """For words and vectors, side by side, where models are asked about what they find."""
    filter_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.5
    """For models that sort out candidates, side by side."""
    judge_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.2
    """For the one that judges what they left."""
    filter_model: str | None = None
    """A small model that sorts out candidates, part by part; None: ranking alone decides."""
    judge_model: str | None = None
    """A model that judges what is left."""
    candidates: Annotated[int, Meta(ge=1, le=200)] = 30
    """Passages that models are asked about, and that a cross-encoder reads."""
    reranker_path: str | None = None
    """The .onnx file of a cross-encoder with BERT's word pieces, which puts candidates in order; needs
    foveate[minilm]. None: ranking alone does."""
    rerank_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.5
    """For the cross-encoder; when it is late, the order stays as it was."""
    gate: bool = True
    """Recall only for prompts that seem to need it, so that others leave the prompt cached to its end."""
    gate_score: Annotated[float, Meta(ge=0, le=100)] = 6.0
    """How far above the ordinary the best passage must stand, by words and vectors together, in standard deviations,"""
    gate_doubt_score: Annotated[float, Meta(ge=0, le=100)] = 9.0
    """and for a prompt that may or may not ask for the past. Tuned on LoCoMo-dev: its questions, its turns."""
    passages: Annotated[int, Meta(ge=1, le=2_000)] = 12
    """Recalled at most at the session's own budget, where what is recalled is not cached; a one-off fills its room."""
    method: Literal["blend", "rrf"] = "blend"
    """How words and vectors make one score: by how far they stand out, or by reciprocal ranks."""
    user_weight: Annotated[float, Meta(ge=0, le=100)] = 4.0
    """What a passage gains by being the user's own words, in standard deviations; tuned on BEAM-100k-dev."""
    near_weight: Annotated[float, Meta(ge=0, le=2)] = 0.3
    """How much of the best of the turns next to its own a passage gets; tuned on LoCoMo-dev and BEAM-100k-dev."""
    far_weight: Annotated[float, Meta(ge=0, le=2)] = 0.15
    """The same of those one further."""
    date_weight: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """What a passage gains by being of a time that the prompt names."""
    sitting_hours: Annotated[float, Meta(gt=0, le=10_000)] = 12.0
    """Turns further apart than this don't count as neighbours."""
    hops: Annotated[int, Meta(ge=1, le=2)] = 1
    """2: what was found is looked for in its turn, and what that finds counts too, while there is time."""
    hop_weight: Annotated[float, Meta(ge=0, le=10)] = 0.15
    """For how much, beside what the prompt itself finds."""
    ticklers: Annotated[int, Meta(ge=0, le=50)] = 3
    """Turns for which there is no room that are named with one sentence."""
    prefetch_turns: Annotated[int, Meta(ge=0, le=8)] = 2
    """Of so many of the best turns, those shown in part are put on the board whole, for this prompt; 0: none."""
    embeddings: str = "static"
    """What makes vectors: `static` is in the package; `minilm` needs foveate[minilm] and `model_path`; an address such
    as https://host/v1 needs `embeddings_model`, and has its key where other endpoints do."""
    model_path: str | None = None
    """The .onnx file of all-MiniLM-L6-v2."""
    embeddings_model: str | None = None
    """What the endpoint calls the model."""
    embeddings_seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
    """For the endpoint to answer a batch."""
    embeddings_batch: Annotated[int, Meta(ge=1, le=2_048)] = 64
    """Texts that are sent to the endpoint together."""

    @property
    def has_endpoint(self) -> bool:
        """Whether vectors are made behind an address."""
        return self.embeddings.startswith(("http://", "https://"))

    def __post_init__(self) -> None:
        if not self.has_endpoint and self.embeddings not in ("static", "minilm"):
            raise ValueError(f"embeddings takes static, minilm or an address; got {self.embeddings!r}")
        if self.has_endpoint and not self.embeddings_model:
            raise ValueError("embeddings_model is missing: say what the endpoint calls the model")


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings; each part documents its own."""

    store: StoreSettings = StoreSettings()
    session: SessionSettings = SessionSettings()
    events: EventSettings = EventSettings()
    compress: CompressSettings = CompressSettings()
    context: ContextSettings = ContextSettings()
    models: ModelsSettings = ModelsSettings()
    recall: RecallSettings = RecallSettings()
    allotments: Allotments = Allotments()
    gradient: Gradient = Gradient()
    standard: Standard = Standard()
    checkpoint: Checkpoint = Checkpoint()
    topics: Topics = Topics()
    hybrid: Hybrid = Hybrid()
    oneshot: Oneshot = Oneshot()


def make_strategy(name: str, settings: Settings, given: Mapping[str, object] | None = None) -> Strategy:
    """The strategy of this name with its part of the settings, changed by what is given for one session.

    `UnknownStrategy` lists those that exist; a `SettingsError` names the key, as in `topics.current`.
    """
    made = load(name)
    part = getattr(settings, name.replace("-", "_"), None)
    values: dict[str, object] = dict(given or {})
    if not issubclass(made, Struct):
        if values:
            raise SettingsError(f"{name}.{next(iter(values))}", "does not exist; this strategy has no settings")
        return made()
    base = msgspec.to_builtins(part) if isinstance(part, made) else {}
    refuse_unknown_keys(values, made, prefix=f"{name}.")
    return converted({**base, **values}, made, prefix=f"{name}.")


def describe() -> list[Key]:
    """Each key with what it takes and its default, for docs and help."""
    parts = msgspec.structs.fields(Settings)
    return [key for part in parts for key in keys_of(part.type, prefix=f"{part.name}.")]


def load_settings(
    path: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """Defaults, then the file, `FOVEATE_PART__KEY` variables, and `overrides` as in {"store": {"readers": 2}}."""
    environment = os.environ if environment is None else environment
    path = path or environment.get(CONFIG_VARIABLE)
    values: dict[str, object] = _read_file(Path(path)) if path else {}
    _merge(values, _read_environment(environment))
    _merge(values, overrides or {})
    return _convert(values)


def _read_file(path: Path) -> dict[str, object]:
    is_yaml = path.suffix.lower() in (".yaml", ".yml")
    try:
        text = path.expanduser().read_text("utf-8")
        loaded = _read_yaml(text) if is_yaml else tomllib.loads(text)
    except OSError as error:
        raise SettingsError(str(path), f"can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(str(path), f"is not {'YAML' if is_yaml else 'TOML'}: {error}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise SettingsError(str(path), "must hold named parts such as [store]")
    return loaded


def _read_yaml(text: str) -> object:
    import yaml  # noqa: PLC0415 - only those who use YAML pay for it

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _read_environment(environment: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for variable, value in environment.items():
        part, separator, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if variable.startswith(ENVIRONMENT_PREFIX) and separator:
            _merge(values, {part: {key: value}})
        elif variable.startswith(ENVIRONMENT_PREFIX):
            _refuse_misspelt(variable)
    return values


def _refuse_misspelt(variable: str) -> None:
    """One that is nearly a setting's is meant as one; others of this prefix may be anybody's, and hold keys."""
    if variable.endswith("_KEY"):
        return
    parts = msgspec.structs.fields(Settings)
    names = [f"{part.name}__{key}".upper() for part in parts for key in part.type.__struct_fields__]
    if near := difflib.get_close_matches(variable.removeprefix(ENVIRONMENT_PREFIX), names, 1, NEARLY):
        raise SettingsError(variable, f"does not exist; did you mean {ENVIRONMENT_PREFIX}{near[0]}?")


def _merge(into: dict[str, object], values: Mapping[str, object]) -> None:
    for key, value in values.items():
        old = into.get(key)
        if isinstance(old, dict) and isinstance(value, Mapping):
            _merge(old, value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def _convert(values: dict[str, object]) -> Settings:
    refuse_unknown_keys(values, Settings, prefix="")
    for name, part in get_type_hints(Settings).items():
        given = values.get(name)
        if isinstance(given, dict):
            values[name] = {key: _as_list(value, get_type_hints(part)[key]) for key, value in given.items()}
    return converted(values, Settings)


def _as_list(value: object, hint: object) -> object:
    """A list may be given as one text, as a variable has it: parted by commas."""
    if isinstance(value, str) and is_list(hint):
        return [entry.strip() for entry in value.split(",") if entry.strip()]
    return value
