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
from typing import Annotated, get_type_hints

import msgspec
from msgspec import Meta, Struct

from foveate.compress.settings import CompressSettings
from foveate.config import SettingKey, converted, drop_retired_keys, is_list, keys_of, refuse_unknown_keys
from foveate.context.allotments import Allotments
from foveate.context.settings import ContextSettings
from foveate.errors import SettingsError
from foveate.events import EventSettings
from foveate.models.settings import ModelsSettings
from foveate.plan import Strategy
from foveate.recall.settings import RecallSettings
from foveate.store.settings import StoreSettings
from foveate.strategy import load, names
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
RETIRED_KEYS = {
    "recall.method": "keyword and vector scores are always added as standard scores",
    "recall.hops": "recall searches once",
    "recall.hop_weight": "recall searches once",
    "recall.reranker_path": "there is no cross-encoder; recall.judge_model can order what was found",
    "recall.rerank_seconds": "there is no cross-encoder; recall.judge_model can order what was found",
}
"""Settings that no longer exist, each with the reason. They are accepted for one release, with a warning."""


class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new session gets where nothing else is said."""

    strategy: Annotated[str, Meta(min_length=1)] = "gradient"
    """How it is shown: a strategy's name."""
    budget_tokens: Annotated[int, Meta(ge=1, le=100_000_000)] = 100_000
    """What a context takes at most."""
    model: str | None = None
    """Whose tokens are counted; None: those of OpenAI's newer models."""


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


def strategy_names() -> tuple[str, ...]:
    """All strategies, built-in and registered."""
    return names()


def check_strategy(name: str) -> None:
    """`UnknownStrategy` if there is no strategy of this name; it lists those that exist."""
    load(name)


def describe() -> list[SettingKey]:
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
    return _convert(drop_retired_keys(values, RETIRED_KEYS))


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
