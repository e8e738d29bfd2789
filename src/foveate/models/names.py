"""Names of models: of a provider, of an endpoint by its address, of a model on this machine, or of a plug-in.

    openai:gpt-5-mini    anthropic:claude-haiku-4-5    google:gemini-2.5-flash    openrouter:qwen/qwen3-32b
    ollama:qwen3:8b      qwen3@http://127.0.0.1:8080/v1      local      scripted:FILE

A name is parsed without any I/O; `load_model` then loads the model, or reports what to install or set.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from foveate.errors import ModelUnavailable
from foveate.models import Model, Purpose
from foveate.models.settings import ModelsSettings
from foveate.plugins import Registry
from foveate.secrets import scrub, scrub_line

Kind = Literal["openai", "anthropic", "google", "openrouter", "ollama", "endpoint", "local", "plugin"]

PLUGINS: Final[Registry[Callable[[str, ModelsSettings], Model]]] = Registry("foveate.models")
"""Entry points by prefix; the value is a callable `(name, ModelsSettings) -> Model`."""
ENDPOINT_KEY: Final = "FOVEATE_ENDPOINT_KEY"
"""Holds the key of endpoints in the settings that `models.key_variables` does not list; most need none."""
OLLAMA_ADDRESS: Final = "OLLAMA_BASE_URL"
"""Ollama's address, if it is not on this machine. Packages of other providers read their own variables."""
HOST_KEYS: Final[Mapping[str, str]] = {"api.openai.com": "OPENAI_API_KEY", "openrouter.ai": "OPENROUTER_API_KEY"}
"""Default key variables of known hosts, which `models.key_variables` overrides."""
MAX_NAME_CHARS: Final = 500
FORMS: Final = (
    "write openai:MODEL, anthropic:MODEL, google:MODEL, openrouter:VENDOR/MODEL, ollama:MODEL, "
    "MODEL@http://host:port/v1, or local"
)


@dataclass(frozen=True, slots=True)
class Service:
    """A provider with its own prefix."""

    kind: Kind
    key_variables: tuple[str, ...]
    """The first one that is set is used."""
    base_url: str | None = None
    """None: the default of the provider's package, or its own environment variable."""


SERVICES: Final[Mapping[str, Service]] = {
    "openai": Service("openai", ("OPENAI_API_KEY",)),
    "anthropic": Service("anthropic", ("ANTHROPIC_API_KEY",)),
    "google": Service("google", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
    "openrouter": Service("openrouter", ("OPENROUTER_API_KEY",), "https://openrouter.ai/api/v1"),
    "ollama": Service("ollama", (), "http://localhost:11434/v1"),
}
_MEANT: Final = {"gemini": "google", "claude": "anthropic", "gpt": "openai", "chatgpt": "openai", "llama": "ollama"}
"""Common aliases of providers."""
_FAMILIES: Final = ((r"gpt-|o\d|chatgpt|codex", "openai"), (r"claude", "anthropic"), (r"gemini|gemma", "google"))
"""Name patterns of models whose provider is known."""

_ENDPOINT = re.compile(r"(?P<model>.*)@(?P<url>[a-zA-Z][\w+.-]*://.*)")


@dataclass(frozen=True, slots=True)
class ModelName:
    """A parsed name."""

    name: str
    """As written in the settings."""
    kind: Kind
    model: str
    """The provider's name for it."""
    provider: str
    """The provider whose limits it shares."""
    base_url: str | None = None
    key_variables: tuple[str, ...] = ()
    needs_key: bool = False


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key and the variable it came from; its `repr` hides it."""

    variable: str
    value: str

    def __repr__(self) -> str:
        return f"Key({self.variable})"


def parse_name(
    name: str,
    *,
    key_variables: Mapping[str, str] | None = None,
    plugins: Collection[str] = (),
    hosts: Collection[str] = (),
) -> ModelName:
    """Parse a name; raise `ModelUnavailable` with the problem and the accepted forms.

    `key_variables` is the setting of that name, `plugins` the prefixes registered by plug-ins. `hosts` are those that
    `FOVEATE_ENDPOINT_KEY` may be sent to; empty: any.
    """
    _check_text(name)
    if match := _ENDPOINT.fullmatch(name):
        return _endpoint(name, match["model"], match["url"], key_variables or {}, hosts)
    prefix, colon, model = name.partition(":")
    if model.startswith("//"):
        raise _bad_name(name, f"the model is missing in front of the address: write MODEL@{name}")
    if prefix == "local":
        return ModelName(name, "local", model, "local")
    if service := SERVICES.get(prefix):
        if not model:
            raise _bad_name(name, f"the model is missing: write {prefix}:MODEL")
        needs_key = bool(service.key_variables)
        return ModelName(name, service.kind, model, prefix, service.base_url, service.key_variables, needs_key)
    if prefix in plugins:
        return ModelName(name, "plugin", model, prefix)
    raise _bad_name(name, _what_was_meant(name, prefix, model if colon else "", plugins))


def _check_text(name: str) -> None:
    if not name.strip():
        raise _bad_name(name, f"the name is empty; {FORMS}")
    if len(name) > MAX_NAME_CHARS:
        raise _bad_name(name[:20] + "…", f"the name is longer than {MAX_NAME_CHARS} characters; {FORMS}")
    if any(char.isspace() or not char.isprintable() for char in name):
        raise _bad_name(name, f"the name contains a space or an unprintable character; {FORMS}")
    if scrub(name) != name or "?" in name:
        raise _bad_name(
            name.partition("?")[0],
            f"the name may contain a key, and names are shown; put the key in the environment (the variable of the "
            f"provider, {ENDPOINT_KEY}, or one that models.key_variables names), and {FORMS}",
        )


def _endpoint(name: str, model: str, url: str, key_variables: Mapping[str, str], hosts: Collection[str]) -> ModelName:
    parts = _address(name, url)
    if not model:
        raise _bad_name(name, f"the model is missing in front of the @: write MODEL@{url}")
    host = parts.hostname or ""
    place = parts.netloc.lower()
    # The default path of an API is /v1, as in llama.cpp, vLLM, Ollama and LM Studio.
    path = parts.path.rstrip("/") or "/v1"
    given = key_variables.get(place) or key_variables.get(host)
    shared = (ENDPOINT_KEY,) if not hosts or place in hosts else ()
    known = (given,) if given else (HOST_KEYS[host], *shared) if host in HOST_KEYS else ()
    return ModelName(
        name,
        "endpoint",
        model,
        place,
        f"{parts.scheme}://{place}{path}",
        known or shared,
        needs_key=bool(known),
    )


def _address(name: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError as error:
        raise _bad_name(name, f"the address can't be read ({error}): write MODEL@http://host:port/v1") from None
    if parts.scheme not in ("http", "https"):
        raise _bad_name(name, f"the address begins with {parts.scheme}://: use http:// or https://")
    if not parts.hostname:
        raise _bad_name(name, "the address has no host: write MODEL@http://host:port/v1")
    if parts.path.rstrip("/").endswith("/chat/completions"):
        raise _bad_name(name, "the address is too long: omit /chat/completions, e.g. http://host:port/v1")
    return parts


def _what_was_meant(name: str, prefix: str, model: str, plugins: Collection[str]) -> str:
    if "@" in name:
        return "the address after the @ must begin with http:// or https://, e.g. MODEL@http://host:port/v1"
    known = [*SERVICES, "local", *sorted(plugins)]
    if model:
        near = _MEANT.get(prefix.lower()) or next(iter(difflib.get_close_matches(prefix.lower(), known, n=1)), None)
        meant = f"did you mean {near}:{model}? Or " if near else ""
        return f"there is no provider {prefix!r}; {meant}{FORMS}"
    family = next((family for pattern, family in _FAMILIES if re.match(pattern, prefix.lower())), None)
    near = next(iter(difflib.get_close_matches(prefix.lower(), known, n=1)), None)
    if near in SERVICES:
        return f"the model is missing: write {near}:MODEL"
    meant = f"did you mean {family}:{prefix}? Or " if family else f"did you mean {near}? Or " if near else ""
    return f"the name has no provider; {meant}{FORMS}"


def _bad_name(name: str, problem: str) -> ModelUnavailable:
    shown = scrub_line(name)
    return ModelUnavailable(shown if shown and shown == name else repr(shown), problem, reason="name")


def models_for(purpose: Purpose, settings: ModelsSettings) -> tuple[str, ...]:
    """Return the model for a purpose, then the fallbacks without duplicates; empty if no model is configured for it.

    S is made by rules unless a model is configured for it; T uses the model of C.
    """
    own: dict[Purpose, str | None] = {
        "smooth": settings.smooth,
        "roll-up": settings.roll_up or settings.default,
        "shrink": settings.shrink,
        "compress": settings.compress or settings.default,
        "tiny": settings.tiny or settings.compress or settings.default,
        "chat": settings.chat or settings.default,
        "check": settings.default,
        "recall": None,  # named by `recall.filter_model` and `recall.judge_model`
        "learn": None,  # named by `knowledge.model`
        "embed": None,  # named by `recall.embeddings_model`
    }
    first = own[purpose]
    return tuple(dict.fromkeys((first, *settings.fallbacks))) if first else ()


def understand(name: str, settings: ModelsSettings, more: Iterable[str | None] = ()) -> ModelName:
    """Parse a name with these settings and the installed plug-ins.

    `more` are models named in other sections of the settings.
    """
    return parse_name(
        name,
        key_variables=settings.key_variables,
        plugins=PLUGINS.registered.keys(),
        hosts=_model_hosts(settings, more),
    )


def plain_model(name: str, settings: ModelsSettings) -> str | None:
    """Return a model's name without its provider or address, for information.

    `gpt-5@http://host/v1` and `openai:gpt-5` both become `gpt-5`; None if nothing remains.
    """
    while name:
        try:
            name = understand(name, settings).model
        except ModelUnavailable:
            return name
    return None


def named_hosts(settings: ModelsSettings) -> frozenset[str]:
    """Return the hosts of endpoints named in the settings, as `host` or `host:port`."""
    return _model_hosts(settings) | settings.key_variables.keys()


def _model_hosts(settings: ModelsSettings, more: Iterable[str | None] = ()) -> frozenset[str]:
    """Return the hosts of the models named in the settings."""
    names = (settings.default, settings.chat, settings.compress, settings.tiny, settings.smooth, settings.roll_up)
    found = (_ENDPOINT.fullmatch(name or "") for name in (*names, *settings.fallbacks, *more))
    return frozenset(urlsplit(match["url"]).netloc.lower() for match in found if match)


def find_key(parsed: ModelName, environment: Mapping[str, str] | None = None) -> ApiKey | None:
    """Return the key from the environment, if one of the variables is set."""
    environment = os.environ if environment is None else environment
    for variable in parsed.key_variables:
        if value := environment.get(variable, "").strip():
            return ApiKey(variable, value)
    return None


def address_of(parsed: ModelName, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the address of its API, if known."""
    environment = os.environ if environment is None else environment
    own = environment.get(OLLAMA_ADDRESS) if parsed.kind == "ollama" else None
    return own or parsed.base_url


def load_model(name: str, settings: ModelsSettings, more: Iterable[str | None] = ()) -> Model:
    """Load a model by name; raise `ModelUnavailable` with what to install, set or write instead.

    `more` are models named in other sections of the settings.
    """
    parsed = understand(name, settings, more)
    if parsed.kind == "local":
        from foveate.models import local  # noqa: PLC0415 - it needs an extra

        return local.load(name, settings)
    if parsed.kind == "plugin":
        return _load_plugin(PLUGINS.registered[parsed.provider], parsed, settings)
    from foveate.models import adapter  # noqa: PLC0415 - it needs an extra

    return adapter.load(parsed, settings)


def _load_plugin(point: EntryPoint, parsed: ModelName, settings: ModelsSettings) -> Model:
    package = point.dist.name if point.dist else point.value
    try:
        load: Callable[[str, ModelsSettings], Model] = point.load()
    except (ImportError, AttributeError) as error:
        raise ModelUnavailable(
            parsed.name, f"the plug-in {point.value} of {package} can't be loaded: {error}", reason="extra"
        ) from error
    return load(parsed.name, settings)


def window_of(name: str, settings: ModelsSettings) -> int | None:
    """Return the model's window in tokens, from its name or the list of `genai-prices`; None if unknown.

    The first call loads the list, which takes a moment.
    """
    try:
        parsed = understand(name, settings)
        if parsed.kind == "local":
            from foveate.models import local  # noqa: PLC0415 - needed only for local models

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
