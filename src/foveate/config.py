"""Validation of a struct's keys; errors name the key and the accepted values."""

from __future__ import annotations

import ast
import inspect
import logging
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from foveate.errors import SettingsError, did_you_mean

P = TypeVar("P", bound=Struct)

_log = logging.getLogger(__name__)

_PLAIN: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    NoneType: "none",
}
_EACH: Mapping[object, str] = {int: "whole numbers", float: "numbers", str: "texts"}


class SettingKey(NamedTuple):
    """A key, a description of its values, and its default."""

    name: str
    takes: str
    default: object


def keys_of(part: type[Struct], prefix: str = "") -> list[SettingKey]:
    """Return the keys of a struct, as they are written."""
    keys = []
    for field in msgspec.structs.fields(part):
        made = field.default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT
        default = field.default_factory() if made else field.default
        keys.append(SettingKey(f"{prefix}{field.name}", takes(field.type), default))
    return keys


@cache
def key_texts(part: type[Struct]) -> Mapping[str, str]:
    """Return the docstring under each key of a struct, its own and inherited ones; empty if the source is missing."""
    found: dict[str, str] = {}
    for owner in reversed(part.__mro__):
        if not issubclass(owner, Struct) or owner is Struct:
            continue
        try:
            (definition,) = ast.parse(dedent(inspect.getsource(owner))).body
        except (OSError, SyntaxError):  # no source files are installed, or the class is defined in a program's string
            continue
        assert isinstance(definition, ast.ClassDef)
        for field, below in pairwise(definition.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    found[name] = " ".join(text.split())
    return found


def takes(hint: Any) -> str:
    """Describe the values of a type."""
    inner, origin = get_args(hint), get_origin(hint)
    if origin is None:
        is_part = isinstance(hint, type) and issubclass(hint, Struct)
        return f"a table with keys such as {msgspec.structs.fields(hint)[0].name}" if is_part else _PLAIN[hint]
    if origin is Annotated:
        return f"{takes(inner[0])}{_bounds(inner[1])}"
    if origin is Literal:
        return " or ".join(map(str, inner))
    if origin in (Union, UnionType):
        return ", or ".join(map(takes, inner))
    return _takes_many(origin, inner)


def _takes_many(origin: object, inner: tuple[Any, ...]) -> str:
    if origin is dict:
        return f"a table by name; each value is {takes(inner[1])}"
    assert origin is tuple, f"no description of {origin}"
    each = _EACH.get(inner[0]) or f"any of {', '.join(map(str, get_args(inner[0])))}"
    return f"a list of {each}" if inner[-1] is Ellipsis else f"a list of {len(inner)} {each}"


def _bounds(meta: Meta) -> str:
    if meta.pattern:
        return f", {meta.description}"
    if meta.min_length:
        return ", not empty"
    if meta.ge is not None and meta.le is not None:
        return f" from {meta.ge:,} to {meta.le:,}"
    least = f" of at least {meta.ge:,}" if meta.ge is not None else f" above {meta.gt:,}"
    return least if meta.le is None else f"{least}, up to {meta.le:,}"


def is_list(hint: object) -> bool:
    """Return whether a type accepts a list, alone or as an alternative."""
    if get_origin(hint) in (Union, UnionType):
        return any(map(is_list, get_args(hint)))
    return get_origin(hint) is tuple


def converted(values: Mapping[str, object], part: type[P], *, prefix: str = "") -> P:
    """Return the struct with these values; `SettingsError` names the first key with an invalid value."""
    try:
        return msgspec.convert(values, part, strict=False)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        if isinstance(error.__cause__, ValueError):
            # Raised by a part's own check of several keys together.
            raise SettingsError(f"{prefix}{key}".rstrip("."), problem) from error
        wanted: Any = part
        got: object = values
        for step in key.partition("[")[0].split("."):
            wanted = get_type_hints(wanted, include_extras=True)[step]
            got = got.get(step) if isinstance(got, Mapping) else got
        raise SettingsError(f"{prefix}{key}", f"takes {takes(wanted)}; got {got!r}") from error


@cache
def field_hints(part: type[Struct]) -> Mapping[str, Any]:
    """Return the types of a part's fields by name; cached, because reading them takes milliseconds."""
    return {name: hint for name, hint in get_type_hints(part).items() if get_origin(hint) is not ClassVar}


def refuse_unknown_keys(values: Mapping[str, object], part: type[Struct], *, prefix: str) -> None:
    """Raise `SettingsError` for unknown keys, with a suggestion, which msgspec does not make."""
    hints = field_hints(part)
    for key, value in values.items():
        if key not in hints:
            raise SettingsError(f"{prefix}{key}", f"does not exist; {did_you_mean(key, hints, prefix=prefix)}")
        hint = hints[key]
        if isinstance(value, Mapping) and isinstance(hint, type) and issubclass(hint, Struct):
            refuse_unknown_keys(value, hint, prefix=f"{prefix}{key}.")


def drop_retired_keys(values: Mapping[str, object], retired: Mapping[str, str]) -> dict[str, object]:
    """Remove retired keys from the values of all sections; each one found is logged as a warning.

    `retired` has the reason for each key, written as `section.key`. A retired key is accepted for one release.
    """
    kept: dict[str, object] = {}
    for section, given in values.items():
        if not isinstance(given, Mapping):
            kept[section] = given
            continue
        kept[section] = {key: value for key, value in given.items() if f"{section}.{key}" not in retired}
        for key in given:
            if reason := retired.get(f"{section}.{key}"):
                _log.warning("the setting %s.%s is ignored: %s", section, key, reason)
    return kept
