"""Prompts for models: built-in texts, and texts that override them.

    {name}               a variable
    {{name}}             the text {name} itself
    {{include:key}}      another prompt, whole
    {{tier:3}}           a line of its own: what follows is for contexts of tier 3 and up

All functions are pure, except `load_overrides`. Overrides apply within a `with overridden(…)` block, including the
tasks and threads started in it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Final

from foveate.errors import InvalidPrompt
from foveate.store.operations import Store

_STRATEGY = "foveate.strategy"
_COMPRESS = "foveate.compress.model"
BUILT_IN: Final[Mapping[str, tuple[str, str]]] = {
    **{
        f"compress/{name}": (_COMPRESS, f"prompts/{name}.md")
        for name in ("rules", "smooth", "compress", "tiny", "said", "request", "again", "era", "shrink")
    },
    "explain/gradient": (_STRATEGY, "explanation.md"),
    "explain/standard": (_STRATEGY, "standard.md"),
    "explain/oneshot": (_STRATEGY, "oneshot.md"),
    **{f"explain/{name}": (f"{_STRATEGY}.{name}", "explanation.md") for name in ("checkpoint", "topics", "hybrid")},
    **{f"summary/{name}": (f"{_STRATEGY}.{name}", "prompt.md") for name in ("checkpoint", "topics", "hybrid")},
    **{
        f"knowledge/{name}": ("foveate.knowledge", f"prompts/{name}.md")
        for name in ("learn", "request", "again", "topics")
    },
    "recall/choose": ("foveate.recall", "prompts/choose.md"),
    "run/instructions": ("foveate.agents", "run.md"),
    **{
        f"modes/{name}": ("foveate.session", f"modes/{name}.md")
        for name in ("core", "developer", "planning", "assistant", "debugger")
    },
}
"""Package and file of each prompt, by its key."""
MODES: Final = "modes/"
"""Prefix of prompts of modes; they have no variables."""
CORE_MODE: Final = "modes/core"
"""The part that all built-in modes include; not a mode itself."""
MAX_TIER: Final = 5
MAX_DEPTH: Final = 16
"""Maximum depth of includes."""
MAX_COMPOSED_CHARS: Final = 1_000_000
Lookup = Callable[[str], str | None]
"""The text of a prompt by its key; None if there is none."""

_VARIABLE = re.compile(r"(?<!\{)\{([a-z][a-z0-9_]*)\}(?!\})")
_QUOTED = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")
_INCLUDE = re.compile(r"\{\{include:([^{}\s]*)\}\}")
_TIER = re.compile(r"\{\{tier:([^{}\n]*)\}\}\s*")
_overrides: ContextVar[Mapping[str, str] | None] = ContextVar("foveate_prompts", default=None)
_log = logging.getLogger(__name__)


@cache
def built_in(key: str) -> str | None:
    """Return the built-in text; None if there is none."""
    place = BUILT_IN.get(key)
    return None if place is None else files(place[0]).joinpath(*place[1].split("/")).read_text("utf-8")


def prompt_text(key: str) -> str:
    """Return the current text of a built-in prompt: the override, if any."""
    texts = _overrides.get()
    found = texts.get(key) if texts else None
    text = found if found is not None else built_in(key)
    assert text is not None, f"there is no built-in prompt {key!r}"
    return text


@contextmanager
def overridden(texts: Mapping[str, str] | None) -> Iterator[None]:
    """Override prompts by key within the block."""
    token = _overrides.set(texts)
    try:
        yield
    finally:
        _overrides.reset(token)


async def load_overrides(store: Store) -> dict[str, str]:
    """Load the owner's texts of built-in prompts, composed."""
    return composed_overrides({row.key: row.text for row in await store.prompts.newest("") if row.text is not None})


def composed_overrides(own: Mapping[str, str]) -> dict[str, str]:
    """Compose texts of built-in prompts. Invalid ones are skipped with a warning."""
    found: dict[str, str] = {}
    for key in own:
        if key in BUILT_IN:
            try:
                found[key] = compose(key, lambda name: own.get(name) or built_in(name))
            except InvalidPrompt as error:
                _log.warning("%s; the built-in one is used", error)
    return found


def variables_of(text: str) -> frozenset[str]:
    """Return the names of the variables in a text."""
    return frozenset(_VARIABLE.findall(text))


def compose(key: str, lookup: Lookup, *, tier: int | None = None) -> str:
    """Compose a prompt with all its includes, limited to a tier; default: all lines.

    Raise `InvalidPrompt` for a cycle, a missing include, or a text that is too large.
    """
    return _composed(key, lookup, tier, ())


def _composed(key: str, lookup: Lookup, tier: int | None, above: tuple[str, ...]) -> str:
    if key in above:
        raise InvalidPrompt(above[0], f"includes itself: {' → '.join((*above, key))}")
    if len(above) >= MAX_DEPTH:
        raise InvalidPrompt(above[0], f"has includes more than {MAX_DEPTH} deep: {' → '.join(above)}")
    text = lookup(key)
    if text is None:
        named = f"includes {key!r}, which does not exist" if above else "does not exist"
        raise InvalidPrompt(above[-1] if above else key, named)
    parts = _INCLUDE.split(_sized(key, text, tier))
    within = (*above, key)
    for index in range(1, len(parts), 2):  # the keys of includes
        parts[index] = _composed(parts[index], lookup, tier, within).rstrip("\n")
    made = "".join(parts)
    if len(made) > MAX_COMPOSED_CHARS:
        raise InvalidPrompt(within[0], f"has more than {MAX_COMPOSED_CHARS:,} characters with its includes")
    return made


def _sized(key: str, text: str, tier: int | None) -> str:
    """Return the lines for a tier."""
    least, kept = 1, []
    for line in text.splitlines(keepends=True):
        mark = _TIER.fullmatch(line)
        if mark is None:
            if tier is None or tier >= least:
                kept.append(line)
        elif mark[1] in map(str, range(1, MAX_TIER + 1)):
            least = int(mark[1])
        else:
            raise InvalidPrompt(key, f"has a line {line.strip()!r}; tiers are 1 to {MAX_TIER}")
    return "".join(kept)


def fill(key: str, text: str, variables: Mapping[str, str]) -> str:
    """Fill in the variables of a composed text; raise `InvalidPrompt` with missing and unknown ones."""
    wanted = variables_of(text)
    check_variables(key, wanted, frozenset(variables))
    filled = _VARIABLE.sub(lambda match: variables[match[1]], text)
    return _QUOTED.sub(r"{\1}", filled)


def check_variables(key: str, wanted: frozenset[str], given: frozenset[str]) -> None:
    """Raise `InvalidPrompt` with the missing and unknown variables, if any."""
    missing, unknown = sorted(wanted - given), sorted(given - wanted)
    if missing or unknown:
        problems = [f"needs {_named(missing)}"] * bool(missing) + [f"has no {_named(unknown)}"] * bool(unknown)
        known = f"; its variables: {_named(sorted(wanted))}" if wanted else "; it has no variables"
        raise InvalidPrompt(key, " and ".join(problems) + known)


def _named(names: list[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)
