"""Scripts of the scripted model in files; see `foveate.testing.scripted.load`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from foveate.errors import ModelUnavailable
from foveate.models import Ask
from foveate.models.settings import Price
from foveate.testing.behaviours import (
    Behaviour,
    BreaksOff,
    CallsTool,
    Delays,
    Empty,
    Fails,
    Refuses,
    Says,
    SaysJson,
    Stalls,
    Truncates,
)
from foveate.turn import Text

Count = Annotated[int, Meta(ge=1)]


class ScriptedReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One behaviour in a file, and when it is used: in order, or whenever all its conditions hold."""

    says: str | None = None
    says_json: dict[str, Any] | list[Any] | None = None
    calls_tool: str | None = None
    arguments: dict[str, Any] = {}
    fails: str | None = None
    retry_after_seconds: float | None = None
    is_permanent: bool = False
    stalls: int | None = None
    breaks_off: int | None = None
    truncates: str | None = None
    refuses: bool = False
    empty: bool = False
    delay_seconds: float = 0.0
    call: Count | None = None
    """Used on this call, counted from 1."""
    every: Count | None = None
    """Used on every n-th call."""
    contains: str | None = None
    """Used if the prompt contains this text; case is ignored."""
    purpose: str | None = None
    results: Annotated[int, Meta(ge=0)] | None = None
    """Used if the request has this many tool results."""
    result_contains: str | None = None
    """Used if the last tool result contains this text; case is ignored."""

    @property
    def is_conditional(self) -> bool:
        conditions = (self.call, self.every, self.contains, self.purpose, self.results, self.result_contains)
        return any(condition is not None for condition in conditions)

    def applies(self, ask: Ask, *, call: int, prompt: str) -> bool:
        return (
            self.call in (None, call)
            and (self.every is None or call % self.every == 0)
            and (self.contains is None or self.contains.lower() in prompt.lower())
            and self.purpose in (None, ask.purpose)
            and self._fits_results(ask)
        )

    def _fits_results(self, ask: Ask) -> bool:
        results = [result for message in ask.messages for result in message.tool_results]
        last = "".join(part.text for part in results[-1].content if isinstance(part, Text)) if results else ""
        is_count = self.results in (None, len(results))
        return is_count and (self.result_contains is None or self.result_contains.lower() in last.lower())

    def behaviour(self, *, call: int, prompt: str) -> Behaviour:
        made = self._behaviour({"{n}": str(call), "{prompt}": prompt})
        return Delays(self.delay_seconds, made) if self.delay_seconds else made

    def _behaviour(self, values: dict[str, str]) -> Behaviour:  # noqa: PLR0911 - one line for each
        if self.says is not None:
            return Says(_filled(self.says, values))
        if self.says_json is not None:
            return SaysJson(_filled(self.says_json, values))
        if self.calls_tool is not None:
            return CallsTool(self.calls_tool, _filled(self.arguments, values))
        if self.fails is not None:
            return Fails(self.fails, self.retry_after_seconds, is_permanent=self.is_permanent)
        if self.stalls is not None:
            return Stalls(self.stalls)
        if self.breaks_off is not None:
            return BreaksOff(self.breaks_off)
        if self.truncates is not None:
            return Truncates(_filled(self.truncates, values))
        return Refuses() if self.refuses else Empty()

    def __post_init__(self) -> None:
        given = [self.says, self.says_json, self.calls_tool, self.fails, self.stalls, self.breaks_off, self.truncates]
        if sum(behaviour is not None for behaviour in given) + self.refuses + self.empty != 1:
            raise ValueError(
                "a reply has exactly one of says, says_json, calls_tool, fails, stalls, breaks_off, "
                "truncates, refuses and empty"
            )


class ScriptFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole script file."""

    reply: Annotated[list[ScriptedReply], Meta(min_length=1)]
    provider: str = "scripted"
    window_tokens: Count | None = None
    price: Price | None = None


@dataclass(slots=True)
class FileScript:
    """Chooses the reply to each call."""

    file: ScriptFile
    calls: int = 0
    _in_order: list[ScriptedReply] = field(init=False)
    _taken: int = 0

    def __post_init__(self) -> None:
        self._in_order = [reply for reply in self.file.reply if not reply.is_conditional] or [ScriptedReply(empty=True)]

    def __call__(self, ask: Ask) -> Behaviour:
        self.calls += 1
        prompt = next((message.text for message in reversed(ask.messages) if message.role == "user"), "")
        for reply in self.file.reply:
            if reply.is_conditional and reply.applies(ask, call=self.calls, prompt=prompt):
                return reply.behaviour(call=self.calls, prompt=prompt)
        reply = self._in_order[min(self._taken, len(self._in_order) - 1)]
        self._taken += 1
        return reply.behaviour(call=self.calls, prompt=prompt)


def read_script(name: str, path: Path) -> ScriptFile:
    """Read the script in a file; `ModelUnavailable` names the problem."""
    try:
        data = path.read_bytes()
        loaded = msgspec.json.decode(data) if path.suffix == ".json" else tomllib.loads(data.decode("utf-8"))
        return msgspec.convert(loaded, ScriptFile)
    except OSError as error:
        raise ModelUnavailable(name, f"the script can't be read: {error.strerror}", reason="name") from error
    except ValueError as error:  # an error of the format, the encoding or the shape
        raise ModelUnavailable(name, f"the script {path.name} is invalid: {error}", reason="name") from error


def _filled(value: Any, values: dict[str, str]) -> Any:
    """Replace the placeholders in all texts of a value."""
    if isinstance(value, str):
        for placeholder, text in values.items():
            value = value.replace(placeholder, text)
        return value
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    return {key: _filled(item, values) for key, item in value.items()} if isinstance(value, dict) else value
