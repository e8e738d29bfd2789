"""Fork of a session: a new session that shares the turns up to a certain one."""

from __future__ import annotations

import re

from foveate.errors import SessionExists, TurnNotFound
from foveate.session.record import check_session_id
from foveate.session.tenant import check_unreserved, public_id, stored_id
from foveate.store import NewSession, SessionRow, Store
from foveate.turn import turn_id, turn_number

_ADDED = re.compile(r"(?:, from T-\d+)+\Z")


async def fork_session(
    store: Store, row: SessionRow, session_id: str, at: str | int | None, *, title: str | None, exist_ok: bool
) -> SessionRow:
    """Create a fork, and return its row.

    With `exist_ok`, an existing fork at the same turn (without `at`: at any turn) is returned.
    """
    parent_id = public_id(row.tenant, row.id)
    number = row.last_turn if at is None else 0 if at == 0 else turn_number(at)
    if number is None or (at is None and not number):
        raise TurnNotFound(parent_id, str(at or "T-1"), row.last_turn)
    if not row.tenant:
        await check_unreserved(store, session_id)
    new = NewSession(
        id=stored_id(row.tenant, public_id(row.tenant, check_session_id(session_id))),
        tenant=row.tenant,
        title=title if title is not None else _fork_title(row.title or parent_id, number),
        platform=row.platform,
        channel=row.channel,
        strategy=row.strategy,
        settings=row.settings,
        budget_tokens=row.budget_tokens,
        budget_chosen=row.budget_chosen,
        model=row.model,
        encoding=row.encoding,
        mode=row.mode,
        scope=row.scope,
    )
    try:
        return await store.fork_session(new, row.id, number)
    except SessionExists:
        forked = await store.get_session(new.id)
        is_same = forked.parent_id == row.id and (at is None or forked.fork_turn == number)
        if not (exist_ok and is_same):
            raise SessionExists(session_id) from None
    return forked


def split_title(title: str) -> tuple[str, str]:
    """Split a title from what forks added to it."""
    added = _ADDED.search(title)
    return (title[: added.start()], added[0]) if added else (title, "")


def _fork_title(parent: str, turn: int) -> str:
    return f"{parent}, from {turn_id(turn)}" if turn else parent
