"""Addresses of a session: its id, a unique beginning of it, or its title; and the short ids in lists.

The session of a subagent or a branch is a child: its id begins with the parent's id and a slash.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from foveate.errors import SessionNotFound

MAX_IDS_NAMED = 3
MAX_WHOLE_CHARS = 16
"""An id up to this length is shown in full."""
LEAST_CHARS = 8
"""Minimum length of a shortened id."""
LEAST_CHILD_CHARS = 4
"""Minimum length of the part of a shortened id that names a child."""
ALIKE = 0.5
"""Similarity from which a name is suggested for an unknown address."""


class Addressed(Protocol):
    """Something with an id and a title that an address can match."""

    @property
    def id(self) -> str: ...

    @property
    def title(self) -> str: ...


S = TypeVar("S", bound=Addressed)


def find_session(sessions: Sequence[S], address: str) -> S:
    """Return the session that an address names.

    `SessionNotFound` lists the matches if there are several, and otherwise suggests a similar one.
    """
    by_id = {session.id: session for session in sessions}
    if address in by_id:
        return by_id[address]
    for found in (_by_prefix(sessions, address), _by_title(sessions, address)):
        if len(found) == 1:
            return found[0]
        if found:
            some = ", ".join(session.id for session in found[:MAX_IDS_NAMED])
            raise SessionNotFound(address, f"{len(found)} sessions match it, such as {some}; write more of the id")
    raise SessionNotFound(address, *_hint(sessions, address))


def parent_id(session_id: str, known: Mapping[str, object] | set[str]) -> str | None:
    """Return the id of the session whose subagent or branch this is; None if no known session is its parent."""
    end = session_id.find("/")
    while end > 0:
        if session_id[:end] in known:
            return session_id[:end]
        end = session_id.find("/", end + 1)
    return None


def short_ids(ids: Iterable[str], *, of: Iterable[str] | None = None) -> dict[str, str]:
    """Shorten each id to a unique beginning of at least 8 characters; ids of up to 16 characters are not shortened.

    With `of`, only these ids and their parents are shortened.
    """
    known = set(ids)
    parents = {each: parent_id(each, known) for each in known}
    requested = known if of is None else set(of)
    requested |= {parent for each in requested if (parent := parents[each])}
    tops = [each for each in known if parents[each] is None]
    short = _shortest(tops, LEAST_CHARS, MAX_WHOLE_CHARS, requested)
    families: dict[str, list[str]] = {}
    for each, parent in parents.items():
        if parent is not None and parent in requested:
            families.setdefault(parent, []).append(each.removeprefix(f"{parent}/"))
    for parent, tails in families.items():
        shown = _shortest(tails, LEAST_CHILD_CHARS, MAX_WHOLE_CHARS)
        short |= {f"{parent}/{tail}": f"{short.get(parent, parent)}/{shown[tail]}" for tail in tails}
    return short


def _by_prefix(sessions: Sequence[S], address: str) -> list[S]:
    found = [session for session in sessions if session.id.startswith(address)]
    if not found and "/" in address:  # shortened ids of a parent and its child
        head, _, tail = address.partition("/")
        known = {session.id for session in sessions}
        parents = [each for each in known if each.startswith(head) and parent_id(each, known) is None]
        found = [session for session in sessions if any(session.id.startswith(f"{one}/{tail}") for one in parents)]
    # If a session and its children match, the session is meant.
    return [session for session in found if not any(session.id.startswith(f"{other.id}/") for other in found)]


def _by_title(sessions: Sequence[S], address: str) -> list[S]:
    named = " ".join(address.split()).casefold()
    titles = [(session, " ".join(session.title.split()).casefold()) for session in sessions]
    exact = [session for session, title in titles if title == named]
    return exact or [session for session, title in titles if named and title.startswith(named)]


def _hint(sessions: Sequence[S], address: str) -> tuple[str, ...]:
    names = {name: session.id for session in sessions for name in (session.title, session.id) if name}
    near = difflib.get_close_matches(address, names, n=1, cutoff=ALIKE)
    if not near:
        return ()
    titled = f" ({near[0]!r})" if near[0] != names[near[0]] else ""
    return (f"did you mean {names[near[0]]}{titled}?",)


def _shortest(names: Iterable[str], least: int, most: int, requested: set[str] | None = None) -> dict[str, str]:
    """Shorten names to their shortest unique beginning; names of up to `most` characters are not shortened."""
    ordered = sorted(names)
    shown: dict[str, str] = {}
    for place, name in enumerate(ordered):
        if requested is not None and name not in requested:
            continue
        around = [ordered[other] for other in (place - 1, place + 1) if 0 <= other < len(ordered)]
        needed = 1 + max((_common(name, other) for other in around), default=0)
        shown[name] = name if len(name) <= most else name[: max(needed, least)]
    return shown


def _common(one: str, other: str) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
