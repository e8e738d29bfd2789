"""Lists and their pages: a limit, and a cursor to the next page."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Struct

from foveate.server.problems import ProblemError

T = TypeVar("T")

Limit = Annotated[int, Meta(ge=1, le=500)]
"""Items on a page."""
DEFAULT_LIMIT = 50


class ItemList(Struct, Generic[T], frozen=True, kw_only=True):
    """A list in a response."""

    items: list[T]


class ItemPage(ItemList[T], Generic[T], frozen=True, kw_only=True):
    """A page of a list."""

    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""


def write_cursor(*parts: str | int) -> str:
    """Encode these parts as a cursor, which is opaque to clients."""
    text = "\n".join(map(str, parts))
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def read_cursor(cursor: str, parts: int) -> Sequence[str]:
    """Decode a cursor into its parts; `ProblemError` 422 if it is not valid."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        found = raw.decode("utf-8", "surrogatepass").split("\n")
    except (binascii.Error, ValueError) as error:
        raise _invalid(cursor) from error
    if len(found) != parts:
        raise _invalid(cursor)
    return found


def read_number(cursor: str) -> int:
    """Decode a cursor that holds a number."""
    (found,) = read_cursor(cursor, 1)
    if not found.isascii() or not found.isdecimal() or len(found) > 18:  # noqa: PLR2004
        raise _invalid(cursor)
    return int(found)


def _invalid(cursor: str) -> ProblemError:
    return ProblemError(422, f"{cursor[:50]!r} is not a cursor; use next_cursor of the previous page")
