"""What a transcript format knows so far of the sessions in one file: little, so that a huge file fits in memory."""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import PurePath
from typing import TYPE_CHECKING

from foveate.formats import Found, Header
from foveate.formats._lines import content_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from foveate.turn import Json, Message

TITLE_CHARACTERS = 80

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class TitleRank(IntEnum):
    """Where a title comes from: a higher one replaces a lower, a later one its equal, but the first prompt stays."""

    NONE = 0
    PROMPT = 1
    SUMMARY = 2
    GENERATED = 3
    CHOSEN = 4


@dataclass(slots=True)
class _Session:
    header: Header
    rank: TitleRank = TitleRank.NONE
    found: int = 0


class Sessions:
    """The sessions of one file: their headers as more becomes known, and their messages' keys."""

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._known: dict[str, _Session] = {}

    def learn(
        self,
        name: str,
        *,
        title: str | None = None,
        rank: TitleRank = TitleRank.NONE,
        model: str | None = None,
        channel: str | None = None,
    ) -> Iterator[Header]:
        """A header if the session is new or this is news of it."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = _Session(Header(name, platform=self._platform))
            before = None
        else:
            before = known.header
        header = replace(known.header, model=model or known.header.model, channel=channel or known.header.channel)
        if title and (rank > known.rank or rank == known.rank != TitleRank.PROMPT):
            header = replace(header, title=short_title(title))
            known.rank = rank
        known.header = header
        if header != before:
            yield header

    def channel(self, name: str) -> str | None:
        return self._known[name].header.channel if name in self._known else None

    def found(self, name: str, record: Mapping[str, Json], message: Message, *, line: int, id_: str | None) -> Found:
        """The message under its key: the record's own id where it has one, else its place in the session."""
        session = self._known[name]
        key = content_key(session.found, record)
        if id_:
            # Claude Code writes some records again under their old id, with another parent: content tells them apart.
            key = f"{id_}-{key.partition('-')[2]}"
        session.found += 1
        return Found(name, key, message, f"line {line}")


def short_title(text: str) -> str:
    """One line of at most TITLE_CHARACTERS characters."""
    title = " ".join(text.split())
    return title if len(title) <= TITLE_CHARACTERS else title[: TITLE_CHARACTERS - 1].rstrip() + "…"


def session_in_name(name: str) -> str:
    """The session a file's name speaks of: the first UUID in it, else the name without its ending."""
    file_name = PurePath(name).name
    found = _UUID.search(file_name)
    return found[0] if found else PurePath(name).stem or "session"


def made_session(messages: Sequence[Message]) -> str:
    """An id for a session that has none of its format: the same for the same messages, another for others."""
    digest = hashlib.sha256()
    for message in messages:
        digest.update(repr(message.without_original()).encode("utf-8", "backslashreplace"))
    return str(uuid.UUID(bytes=digest.digest()[:16], version=4))
