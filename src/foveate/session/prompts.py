"""Stored prompts, by key and version. Nothing is overwritten: a new version supersedes the previous one.

await fov.prompts.set("reviews/code", "Review {language} code. {{include:modes/core}}")
await fov.prompts.render("reviews/code", language="Python")

The prompts that ship with the package have stable keys and can be overridden; `reset` restores them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from foveate.errors import InputError, InvalidPrompt, PromptNotFound, Refused
from foveate.models.prompts import BUILT_IN, CORE_MODE, MODES, built_in, check_variables, compose, fill, variables_of
from foveate.session.keys import Right
from foveate.session.record import check_text
from foveate.store import SessionRow, Store
from foveate.store.prompts import PromptRow
from foveate.strategy.checkpoint import Checkpoint
from foveate.turn import from_us

MAX_PROMPT_CHARS = 200_000
MAX_KEY_CHARS = 100
RightCheck = Callable[[Right, str], None]
_KEY = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*")


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """One version of a prompt."""

    key: str
    version: int
    """Version number; 0 is the built-in text."""
    text: str
    sha256: str
    variables: tuple[str, ...]
    is_built_in: bool
    """Whether this is the text that ships with the package."""
    created: datetime | None = None


class Prompts:
    """The prompts of a tenant, or of the owner. Every change is durable when its method returns."""

    def __init__(
        self, store: Store, tenant: str = "", *, check_right: RightCheck = lambda _right, _action: None
    ) -> None:
        """`check_right` raises an error if a change needs a right that the caller lacks."""
        self._store = store
        self._tenant = tenant
        self._check_right = check_right

    async def list(self) -> Sequence[PromptInfo]:
        """List the newest version of every prompt, sorted by key."""
        own = await self._own()
        keys = sorted({*BUILT_IN, *(key for key, row in own.items() if row.text is not None)})
        return [_info(key, own.get(key)) for key in keys]

    async def get(self, key: str, version: int | None = None) -> PromptInfo:
        """Return a version of a prompt (default: the newest); version 0 is the built-in text."""
        if version is None:
            found = await self._own()
            if key not in BUILT_IN and (key not in found or found[key].text is None):
                raise PromptNotFound(key, await self.keys())
            return _info(key, found.get(key))
        if version == 0 and key in BUILT_IN:
            return _info(key, None)
        rows = {row.version: row for row in await self._store.prompts.history(self._tenant, key)}
        if version not in rows:
            raise PromptNotFound(f"{key} version {version}", ())
        return _info(key, rows[version])

    async def history(self, key: str) -> Sequence[PromptInfo]:
        """List all versions of a prompt, oldest first; the built-in text is version 0."""
        first = [_info(key, None)] if key in BUILT_IN else []
        rows = await self._store.prompts.history(self._tenant, key)
        if not first and not rows:
            raise PromptNotFound(key, await self.keys())
        return [*first, *(_info(key, row) for row in rows)]

    async def set(self, key: str, text: str) -> PromptInfo:
        """Store a new version of a prompt.

        Its variables and includes are checked, and so are the prompts that include it.
        """
        self._check_key(key)
        check_text("text", text)
        if not text.strip():
            raise InvalidPrompt(key, "has no text; 'foveate prompts reset' restores a built-in one")
        if len(text) > MAX_PROMPT_CHARS:
            raise InvalidPrompt(key, f"has {len(text):,} characters; up to {MAX_PROMPT_CHARS:,} can be stored")
        text = f"{text.rstrip()}\n"
        before = await self._texts()
        self._check_direction(key, before)
        texts = {**before, key: text}
        self._check(key, texts)
        own = await self._own()
        if key in own and own[key].text == text:
            return _info(key, own[key])
        return _info(key, await self._store.prompts.add(self._tenant, key, text))

    async def reset(self, key: str) -> PromptInfo | None:
        """Restore the built-in text of a prompt. A prompt without one is removed, and None is returned.

        A prompt that another one includes can't be removed.
        """
        own = await self._own()
        row = own.get(key)
        if row is None or row.text is None:
            if key in BUILT_IN:
                return _info(key, None)
            raise PromptNotFound(key, await self.keys())
        texts = await self._texts()
        self._check_direction(key, texts)
        texts.pop(key)
        for name in texts:
            compose(name, lambda included: texts.get(included) or built_in(included))
        await self._store.prompts.add(self._tenant, key, None)
        return _info(key, None) if key in BUILT_IN else None

    async def text(self, key: str, *, tier: int | None = None) -> str:
        """Return a prompt with its includes resolved; variables are not replaced."""
        return _composed(key, await self._texts(), tier=tier)

    async def render(self, key: str, /, **variables: str) -> str:
        """Return a prompt with its includes and variables replaced.

        `InvalidPrompt` names missing and unknown variables.
        """
        return fill(key, await self.text(key), variables)

    async def modes(self) -> tuple[str, ...]:
        """List the names of the modes."""
        return tuple(key.removeprefix(MODES) for key in await self.keys() if key.startswith(MODES) and key != CORE_MODE)

    async def keys(self) -> tuple[str, ...]:
        """List the keys of all prompts."""
        return tuple(sorted({*BUILT_IN, *await self._texts()}))

    async def check_mode(self, name: str) -> str:
        """Return the name of a mode; `InputError` if it is unknown. An empty name is valid."""
        known = await self.modes()
        if name and name not in known:
            raise InputError(f"no mode {name[:80]!r}; available: {', '.join(known)}")
        return name

    def _check_key(self, key: str) -> None:
        if not _KEY.fullmatch(key) or len(key) > MAX_KEY_CHARS:
            raise InputError(
                f"{key[:80]!r} can't be the key of a prompt; use a-z, 0-9, '.', '_', '-' and '/', e.g. reviews/code"
            )
        if self._tenant and key in BUILT_IN and not key.startswith(MODES):
            raise Refused(f"the prompt {key!r} is the owner's: models are sent it for the sessions of all tenants")

    def _check_direction(self, key: str, texts: Mapping[str, str]) -> None:
        """Raise `RightMissing` if a change would direct agents with a right that the caller lacks: contexts, runs and
        modes of all sessions contain the owner's built-in prompts, modes, and what these include."""
        if not self._tenant and (key.startswith(MODES) or key in _directing(texts)):
            self._check_right("admin", f"a change of the prompt {key!r}")

    @staticmethod
    def _check(key: str, texts: dict[str, str]) -> None:
        made = compose(key, lambda name: texts.get(name) or built_in(name))
        shipped = built_in(key)
        if key.startswith(MODES):
            check_variables(key, frozenset(), variables_of(made))
        elif shipped is not None:
            check_variables(key, variables_of(shipped), variables_of(made))
        for name in texts:
            compose(name, lambda included: texts.get(included) or built_in(included))

    async def _own(self) -> dict[str, PromptRow]:
        return {row.key: row for row in await self._store.prompts.newest(self._tenant)}

    async def _texts(self) -> dict[str, str]:
        """Read the stored texts by key; a tenant's text overrides the owner's."""
        shared = await self._store.prompts.newest("") if self._tenant else []
        return {
            row.key: row.text
            for row in [*shared, *await self._store.prompts.newest(self._tenant)]
            if row.text is not None
        }


def _directing(texts: Mapping[str, str]) -> set[str]:
    """Return the keys of the prompts that models are sent for any session."""
    found: set[str] = set()

    def read(key: str) -> str | None:
        found.add(key)
        return texts.get(key) or built_in(key)

    for key in {*BUILT_IN, *(key for key in texts if key.startswith(MODES))}:
        found.add(key)
        with suppress(InvalidPrompt):
            compose(key, read)
    return found


def mode_text(session: SessionRow, texts: Mapping[str, str]) -> str:
    """Compose the prompt of a session's mode for the tier of its budget; empty without a mode."""
    if not session.mode:
        return ""
    return _composed(f"{MODES}{session.mode}", texts, tier=Checkpoint().tier(session.budget_tokens))


def _composed(key: str, texts: Mapping[str, str], *, tier: int | None = None) -> str:
    """Compose a stored or built-in prompt with its includes."""
    if texts.get(key) is None and built_in(key) is None:
        raise PromptNotFound(key, tuple(sorted({*BUILT_IN, *texts})))
    return compose(key, lambda name: texts.get(name) or built_in(name), tier=tier)


def _info(key: str, row: PromptRow | None) -> PromptInfo:
    is_built_in = row is None or row.text is None
    text = (built_in(key) or "") if row is None or row.text is None else row.text
    return PromptInfo(
        key=key,
        version=0 if row is None else row.version,
        text=text,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        variables=tuple(sorted(variables_of(text))),
        is_built_in=is_built_in,
        created=None if row is None else from_us(row.created_us),
    )
