"""All settings in one typed object, from a TOML or YAML file, the environment and code, in that order.

    foveate.open("chat.db", settings=load_settings("foveate.toml"))
    FOVEATE_STORE__SYNCHRONOUS=normal foveate import …

Each package declares its own section; a strategy's section is found through the registry, a plug-in's too. Packages
above this one are named in `UPPER_SECTIONS`.
An unknown key, a wrong type or a value out of range is a `SettingsError` that names the key and the accepted values.
"""

from __future__ import annotations

import difflib
import importlib
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import msgspec
from msgspec import Meta, Struct

from foveate.compress.settings import CompressSettings
from foveate.config import (
    SettingKey,
    converted,
    drop_retired_keys,
    field_hints,
    is_list,
    keys_of,
    refuse_unknown_keys,
    takes,
)
from foveate.context.allotments import Allotments
from foveate.context.settings import ContextSettings
from foveate.errors import SettingsError, UnknownStrategy, did_you_mean
from foveate.events import EventSettings
from foveate.models.settings import ModelsSettings
from foveate.recall.settings import RecallSettings
from foveate.store.settings import CabinetSettings, StoreSettings
from foveate.strategy import Strategy, load, names
from foveate.telemetry import TelemetrySettings

ENVIRONMENT_PREFIX = "FOVEATE_"
CONFIG_VARIABLE = "FOVEATE_CONFIG"
"""Environment variable with the settings file of programs that have no other."""
NEARLY = 0.9
"""Minimum similarity of a variable to a setting's for it to count as a misspelling, by difflib's ratio."""
RETIRED_KEYS = {
    "recall.method": "keyword and vector scores are always added as standard scores",
    "recall.hops": "recall searches once",
    "recall.hop_weight": "recall searches once",
    "recall.reranker_path": "there is no cross-encoder; recall.judge_model can order what was found",
    "recall.rerank_seconds": "there is no cross-encoder; recall.judge_model can order what was found",
    "context.cache_read_price": "no choice depends on prices",
    "context.cache_write_price": "no choice depends on prices",
    "gradient.token_worth": "a rebuild fills gradient.low_water of the room",
    "gradient.tiny_share": "eras have a fixed share",
    "recall.gate_score": "a prompt that asks about the past always recalls",
    "recall.passages": "recall.least_score decides how much is recalled",
    "recall.broad_passages": "recall.least_score decides how much is recalled",
    "allotments.recall_one_off": "allotments.recall is the share of previews too",
    "allotments.recall_one_off_limit_tokens": "allotments.recall_limit_tokens is the limit of previews too",
}
"""Settings that no longer exist, each with the reason. They are accepted for one release, with a warning."""


_files_read: dict[Path, None] = {}
"""The settings files that this process has read."""
_BY_NAME = ("strategies", "upper", "profiles")
"""Attributes of the settings that hold several sections."""
UPPER_SECTIONS = {
    "agents": "foveate.agents.settings:AgentsSettings",
    "knowledge": "foveate.knowledge.settings:KnowledgeSettings",
    "server": "foveate.server.settings:ServerSettings",
    "tools": "foveate.tools.settings:ToolsSettings",
}
"""Sections of packages that import this one, by name; each is loaded when settings are read."""


class SessionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defaults for new sessions."""

    strategy: Annotated[str, Meta(min_length=1)] = "gradient"
    """Name of the strategy."""
    budget_tokens: Annotated[int, Meta(ge=1, le=100_000_000)] = 100_000
    """Token budget of a context."""
    model: str | None = None
    """Model whose tokenizer is used for counting. None: OpenAI's o200k_base."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings; each section documents its own.

    A strategy's section is an attribute too, e.g. `settings.gradient.recent`.
    """

    store: StoreSettings = StoreSettings()
    session: SessionSettings = SessionSettings()
    events: EventSettings = EventSettings()
    compress: CompressSettings = CompressSettings()
    context: ContextSettings = ContextSettings()
    models: ModelsSettings = ModelsSettings()
    recall: RecallSettings = RecallSettings()
    allotments: Allotments = Allotments()
    cabinet: CabinetSettings = CabinetSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    strategies: Mapping[str, Strategy] = {}
    """The strategies with settings other than the defaults, by name."""
    upper: Mapping[str, Struct] = {}
    """The sections of `UPPER_SECTIONS` with settings other than the defaults."""
    profiles: Mapping[str, Mapping[str, Mapping[str, object]]] = {}
    """Settings of strategies for the sessions of a scope, e.g. {"project:shop": {"gradient": {"raw_share": 0.2}}}."""

    def __getattr__(self, name: str) -> Any:
        if name in UPPER_SECTIONS:
            return self.upper.get(name) or _upper_section(name)()
        strategy = None if name.startswith("_") else _strategy_named(name)
        if strategy is None:
            raise AttributeError(f"settings have no section {name!r}")
        return self.strategies.get(strategy) or load(strategy)()

    def with_strategy(self, name: str, **values: object) -> Settings:
        """Return these settings with a strategy's section changed."""
        return msgspec.structs.replace(self, strategies={**self.strategies, name: make_strategy(name, self, values)})

    def given_for(self, scope: str, strategy: str, own: Mapping[str, object]) -> dict[str, object]:
        """Return a session's overrides of the strategy's section: those of its scope's profile, then its own."""
        return {**self.profiles.get(scope, {}).get(_section_name(strategy), {}), **own}


def make_strategy(name: str, settings: Settings, given: Mapping[str, object] | None = None) -> Strategy:
    """Make the strategy of this name with its section of the settings and the overrides of one session.

    `UnknownStrategy` lists the available ones; a `SettingsError` names the key, e.g. `topics.current`.
    """
    found = load(name)
    values: dict[str, object] = dict(given or {})
    if not issubclass(found, Struct):
        if values:
            raise SettingsError(f"{name}.{next(iter(values))}", "does not exist; this strategy has no settings")
        return found()
    base = settings.strategies.get(name)
    if not values:
        return base or found()
    refuse_unknown_keys(values, found, prefix=f"{name}.")
    before = msgspec.to_builtins(base) if base else {}
    return cast("Strategy", converted({**before, **values}, found, prefix=f"{name}."))


def sections() -> dict[str, type[Struct]]:
    """Return the sections by name: those of the packages, then those of the strategies."""
    own = {field.name: field.type for field in msgspec.structs.fields(Settings) if field.name not in _BY_NAME}
    own |= {name: _upper_section(name) for name in UPPER_SECTIONS}
    found = {name.replace("-", "_"): load(name) for name in names()}
    return own | {name: strategy for name, strategy in found.items() if issubclass(strategy, Struct)}


class SessionStrategy(NamedTuple):
    """The strategy that shows a session; `problem` is why it is not the session's own."""

    name: str
    strategy: Strategy
    problem: str = ""


def session_strategy(name: str, settings: Settings, given: Mapping[str, object] | None = None) -> SessionStrategy:
    """Return a session's strategy, or the default if its own no longer exists or rejects its settings."""
    try:
        return SessionStrategy(name, make_strategy(name, settings, given))
    except (UnknownStrategy, SettingsError) as error:
        default = settings.session.strategy
        return SessionStrategy(default, make_strategy(default, settings), f"{error}; shown by {default} instead")


def strategy_names() -> tuple[str, ...]:
    """Return all strategies, built-in and registered."""
    return names()


def check_strategy(name: str) -> None:
    """Raise `UnknownStrategy`, which lists the available ones, if there is no strategy of this name."""
    load(name)


def describe() -> list[SettingKey]:
    """Return each key with its values and default, for docs and help."""
    return [key for name, section in sections().items() for key in keys_of(section, prefix=f"{name}.")]


class ExplainedSetting(NamedTuple):
    """A setting with its value and the source of the value: `default`, `file`, `environment` or `program`."""

    key: SettingKey
    value: object
    source: str


def explain(settings: Settings, environment: Mapping[str, str] | None = None) -> list[ExplainedSetting]:
    """Return every setting. `program`: set on the command line or in code."""
    environment = os.environ if environment is None else environment
    path = environment.get(CONFIG_VARIABLE) or _default_file(environment)
    in_file = {_section_name(key): values for key, values in (_read_file(Path(path)) if path else {}).items()}
    in_environment = _read_environment(environment)
    found = []
    for key in describe():
        section, _, name = key.name.partition(".")
        value = getattr(getattr(settings, section), name)
        given = {"environment": in_environment, "file": in_file}
        source = next((place for place, values in given.items() if name in _table(values.get(section))), "program")
        found.append(ExplainedSetting(key, value, "default" if value == key.default else source))
    return found


def _table(values: object) -> Mapping[str, object]:
    return values if isinstance(values, Mapping) else {}


def load_settings(
    path: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """Load defaults, then the file, `FOVEATE_PART__KEY` variables, and `overrides`, e.g. {"store": {"readers": 2}}.

    The file is `path`, or the one that `config_file` finds.
    """
    environment = os.environ if environment is None else environment
    path = path or environment.get(CONFIG_VARIABLE) or _default_file(environment)
    values: dict[str, object] = {}
    in_file = _read_file(Path(path)) if path else {}
    for source in (in_file, _read_environment(environment), overrides or {}):
        _merge(values, {_section_name(key): given for key, given in source.items()})
    try:
        settings = _convert(drop_retired_keys(values, RETIRED_KEYS))
    except SettingsError as error:
        if _has_key(in_file, error.key):
            raise SettingsError(error.key, f"{error.problem} (in {path})") from error
        variable = ENVIRONMENT_PREFIX + error.key.upper().replace(".", "__")
        if variable in environment:
            raise SettingsError(error.key, f"{error.problem} (in ${variable})") from error
        raise
    try:
        load(settings.session.strategy)
    except UnknownStrategy as error:
        raise SettingsError("session.strategy", str(error)) from error
    return settings


def settings_table(settings: Settings) -> dict[str, Any]:
    """Return settings as plain tables, as `settings_of` reads them: in another process, whose modules may differ."""
    plain = {name: getattr(settings, name) for name in Settings.__struct_fields__ if name not in _BY_NAME}
    plain |= {_section_name(name): strategy for name, strategy in settings.strategies.items()}
    table: dict[str, Any] = msgspec.to_builtins({**plain, **settings.upper, "profiles": settings.profiles})
    return table


def settings_of(table: Mapping[str, object]) -> Settings:
    """Return the settings of a `settings_table`."""
    return _convert(dict(table))


def config_file(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the settings file: the one in `$FOVEATE_CONFIG`, else `foveate/config.toml` in the user's configuration
    folder (`$XDG_CONFIG_HOME`, or `~/.config`); None if there is no home folder. It need not exist."""
    environment = os.environ if environment is None else environment
    if named := environment.get(CONFIG_VARIABLE):
        return Path(named).expanduser()
    home = environment.get("HOME") or environment.get("USERPROFILE")
    folder = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    return Path(folder) / "foveate" / "config.toml" if folder else None


def settings_files() -> tuple[Path, ...]:
    """Return the files that decide the settings: the default one, which need not exist, and those that were read."""
    default = config_file()
    return tuple(dict.fromkeys([*([default] if default else []), *_files_read]))


def _default_file(environment: Mapping[str, str]) -> Path | None:
    path = config_file(environment)
    return path if path and path.is_file() else None


def _read_file(path: Path) -> dict[str, object]:
    _files_read[path.expanduser().absolute()] = None
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
        raise SettingsError(str(path), "must have sections such as [store]")
    _refuse_other_keys(loaded, path)
    return loaded


def _read_yaml(text: str) -> object:
    import yaml  # noqa: PLC0415 - loaded only for YAML files

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _refuse_other_keys(loaded: dict[Any, object], path: Path) -> None:
    """Reject keys that are not text; YAML has numbers, dates, null and booleans (an unquoted `on` or `yes`) as keys."""
    pending: list[tuple[str, object]] = [("", loaded)]
    seen: set[int] = set()  # an alias can make a value contain itself
    while pending:
        place, value = pending.pop()
        if not isinstance(value, dict | list) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, list):
            pending += ((f"{place}[{number}]", item) for number, item in enumerate(value))
            continue
        for key, item in value.items():
            written = key if isinstance(key, str) else json.dumps(key, default=str).strip('"')
            name = f"{place}.{written}" if place else written
            if not isinstance(key, str):
                raise SettingsError(name, f"YAML does not read {written} as text; write it in quotes (in {path})")
            pending.append((name, item))


def _read_environment(environment: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for variable, value in environment.items():
        part, separator, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if variable.startswith(ENVIRONMENT_PREFIX) and separator:
            _merge(values, {part: _nested(key, value)})
        elif variable.startswith(ENVIRONMENT_PREFIX):
            _refuse_misspelt(variable)
    return values


def _nested(key: str, value: str) -> dict[str, object]:
    """Return nested tables of a key: `web__search` is the key `search` in the table `web`."""
    first, separator, rest = key.partition("__")
    return {first: _nested(rest, value)} if separator else {key: value}


def _refuse_misspelt(variable: str) -> None:
    """Reject a variable that is nearly a setting's name; others with this prefix may belong to other programs, and hold
    keys."""
    if variable.endswith("_KEY"):
        return
    known = [f"{name}__{key}".upper() for name, section in sections().items() for key in section.__struct_fields__]
    if near := difflib.get_close_matches(variable.removeprefix(ENVIRONMENT_PREFIX), known, 1, NEARLY):
        raise SettingsError(variable, f"does not exist; did you mean {ENVIRONMENT_PREFIX}{near[0]}?")


def _has_key(values: Mapping[str, object], key: str) -> bool:
    """Return whether a table has a key such as `store.readers`, or an item of a list in it."""
    first, _, rest = key.partition(".")
    inner = {_section_name(name.partition("[")[0]): value for name, value in values.items()}.get(
        _section_name(first.partition("[")[0])
    )
    return inner is not None and (not rest or not isinstance(inner, Mapping) or _has_key(inner, rest))


def _merge(into: dict[str, object], values: Mapping[str, object]) -> None:
    for key, value in values.items():
        old = into.get(key)
        if isinstance(old, dict) and isinstance(value, Mapping):
            _merge(old, value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def _convert(values: dict[str, object]) -> Settings:
    given = {key: strategy for key in values if (strategy := _strategy_named(key))}
    strategies = {strategy: _strategy_section(strategy, values.pop(key)) for key, strategy in given.items()}
    upper = {key: _upper_values(key, values.pop(key)) for key in UPPER_SECTIONS if key in values}
    profiles = values.pop("profiles", {})
    own = {name: hint for name, hint in field_hints(Settings).items() if name not in _BY_NAME}
    for key in values:
        if key not in own:
            known = [*own, *UPPER_SECTIONS, *(name.replace("-", "_") for name in names())]
            raise SettingsError(str(key), f"does not exist; {did_you_mean(key, known)}")
    refuse_unknown_keys(values, Settings, prefix="")
    for name, section in own.items():
        found = values.get(name)
        if isinstance(found, dict):
            values[name] = _with_lists(found, section)
    changed = {name: made for name, made in strategies.items() if made != load(name)()}
    others = {name: made for name, made in upper.items() if made != _upper_section(name)()}
    settings = msgspec.structs.replace(converted(values, Settings), strategies=changed, upper=others)
    return msgspec.structs.replace(settings, profiles=_profiles(profiles, settings))


def _profiles(given: object, settings: Settings) -> dict[str, dict[str, dict[str, object]]]:
    """Return the profiles, each checked, with the names of their sections."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    for scope, profile in _tables("profiles", given).items():
        for section, values in _tables(f"profiles.{scope}", profile).items():
            key = f"profiles.{scope}.{section}"
            strategy = _strategy_named(_section_name(section))
            if strategy is None:
                raise SettingsError(key, f"does not exist; a profile has sections of strategies: {', '.join(names())}")
            own = dict(_tables(key, values))
            try:
                make_strategy(strategy, settings, own)
            except SettingsError as error:
                raise SettingsError(f"profiles.{scope}.{error.key}", error.problem) from error
            found.setdefault(scope, {})[_section_name(section)] = own
    return found


def _tables(key: str, values: object) -> Mapping[str, object]:
    if not isinstance(values, Mapping):
        raise SettingsError(key, f"takes a table; got {values!r}")
    return values


def _upper_section(name: str) -> type[Struct]:
    module, _, kind = UPPER_SECTIONS[name].partition(":")
    section: type[Struct] = getattr(importlib.import_module(module), kind)
    return section


def _upper_values(name: str, values: object) -> Struct:
    section = _upper_section(name)
    if not isinstance(values, dict):
        raise SettingsError(name, f"takes {takes(section)}; got {values!r}")
    refuse_unknown_keys(values, section, prefix=f"{name}.")
    return converted(_with_lists(values, section), section, prefix=f"{name}.")


def _section_name(key: str) -> str:
    """Normalise `-` and `_` in the name of a section, because a variable can't contain the first."""
    return str(key).replace("-", "_")


def _strategy_named(section: str) -> str | None:
    """Return the strategy whose section has this name; None if there is none."""
    return next((name for name in names() if _section_name(name) == section), None)


def _strategy_section(name: str, values: object) -> Strategy:
    found = load(name)
    if not isinstance(values, dict):
        needed = takes(found) if issubclass(found, Struct) else "no settings"
        raise SettingsError(name, f"takes {needed}; got {values!r}")
    if issubclass(found, Struct):
        refuse_unknown_keys(values, found, prefix=f"{name}.")
        values = _with_lists(values, found)
    return make_strategy(name, Settings(), values)


def _with_lists(values: Mapping[str, object], section: type[Struct]) -> dict[str, object]:
    hints = field_hints(section)
    return {key: _as_list(value, hints[key]) for key, value in values.items()}


def _as_list(value: object, hint: object) -> object:
    """Split a text at commas if a list is expected, for environment variables."""
    if isinstance(value, dict) and isinstance(hint, type) and issubclass(hint, Struct):
        return _with_lists(value, hint)
    if isinstance(value, str) and is_list(hint):
        return [entry.strip() for entry in value.split(",") if entry.strip()]
    return value
