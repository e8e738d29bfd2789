"""The SQL of the queue for models, that every database shares; `foveate.store.sql` has the rest."""

from __future__ import annotations

# An open turn may still grow; it waits until it is closed.
_CLOSED = "(r.turn < s.last_turn OR s.head = 'closed')"
_NEWEST = """NOT EXISTS
    (SELECT 1 FROM renditions later WHERE later.session = r.session AND later.turn = r.turn AND later.id > r.id)"""

LIST_DUE_SESSIONS = f"""SELECT id, due_us FROM
    (SELECT s.id, s.number, (SELECT r.due_us FROM renditions r WHERE r.session = s.number AND r.due_us IS NOT NULL
        AND {_CLOSED} ORDER BY r.due_us LIMIT 1) AS due_us FROM sessions s) waiting
    WHERE due_us IS NOT NULL ORDER BY due_us, number"""  # noqa: S608 - constants
LIST_DUE = f"""SELECT r.turn, r.messages, r.id, r.due_us, r.calls, r.smoothed_tokens, r.compressed_tokens
    FROM renditions r JOIN sessions s ON s.number = r.session
    WHERE r.session = :session AND r.due_us IS NOT NULL AND r.due_us <= :due_us AND {_CLOSED}
    AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.session = r.session AND l.turn = r.turn
        AND l.until_us > :now_us AND l.until_us <= :latest_us)
    ORDER BY r.due_us, r.id LIMIT :limit"""  # noqa: S608
SET_DUE = "UPDATE renditions SET due_us = :due_us WHERE id = :rendition"
SET_CALLS = "UPDATE renditions SET calls = :calls WHERE id = :rendition"
FORGET_DUE = """UPDATE renditions SET due_us = NULL
    WHERE session = :session AND turn = :turn AND id < :id AND due_us IS NOT NULL"""
SPENT_CALLS = "SELECT coalesce(max(calls), 0) FROM renditions WHERE session = :session AND turn = :turn"
POSTPONE = """UPDATE renditions SET due_us = :due_us, calls = :calls, refusals = refusals + :refusals,
    is_complete = CASE WHEN :is_marked AND maker = :local THEN 0 ELSE is_complete END WHERE id = :rendition"""
# Kept only beside the newest renditions of the turn: what came meanwhile is of more messages.
REFINE = f"""INSERT INTO renditions (session, turn, messages, maker, version, is_complete, smoothed_tokens,
    compressed_tokens, tiny_tokens, tiny, compressed, smoothed, units, refusals, made_us, calls)
    SELECT session, turn, messages, :maker, :version, :is_complete, coalesce(:smoothed_tokens, smoothed_tokens),
    coalesce(:compressed_tokens, compressed_tokens), coalesce(:tiny_tokens, tiny_tokens), coalesce(:tiny, tiny),
    coalesce(:compressed, compressed), coalesce(:smoothed, smoothed), units, :refusals, :now_us, :calls
    FROM renditions r WHERE id = :rendition AND {_NEWEST}
    ON CONFLICT (session, turn, messages, maker, version) DO NOTHING"""  # noqa: S608
HURRY = "UPDATE renditions SET due_us = :now_us WHERE due_us > :now_us"
HOLD = "UPDATE renditions SET due_us = :until_us WHERE session = :session AND due_us < :until_us"
RELEASE_LEASES = "DELETE FROM leases WHERE owner = :owner"
RENEW_LEASES = "UPDATE leases SET until_us = :until_us WHERE owner = :owner"
LIST_STALE = f"""SELECT turn FROM renditions r WHERE session = :session
    AND ((maker = :local AND (version < :version OR (is_complete = 0 AND (calls = 0 OR :is_local_only))))
    OR (maker <> :local AND is_complete = 0 AND NOT :is_local_only)) AND {_NEWEST}"""  # noqa: S608
DROP_RENDITIONS = "DELETE FROM renditions WHERE session = :session AND turn = :turn"
LOWER_SETTLED = "UPDATE sessions SET settled = :settled WHERE number = :session AND settled > :settled"
WANT_MODEL = f"""UPDATE renditions AS r SET due_us = :now_us, calls = 0
    WHERE session = :session AND (maker = :local OR version < :version) AND {_NEWEST}"""  # noqa: S608
COUNT_WAITING = f"""SELECT count(*), min(r.due_us) FROM renditions r JOIN sessions s ON s.number = r.session
    WHERE r.session = :session AND r.due_us IS NOT NULL AND {_CLOSED}"""  # noqa: S608
COUNT_REFUSALS = "SELECT coalesce(sum(refusals), 0) FROM renditions WHERE session = :session"
COUNT_BACKLOG = f"""SELECT count(*), coalesce(sum(1 - is_complete), 0),
    coalesce(sum(CASE WHEN maker = :local THEN 0 ELSE 1 END), 0)
    FROM renditions r WHERE session = :session AND {_NEWEST}"""  # noqa: S608


def count_renditions(chunk_turns: int) -> str:
    """The statement that counts the renditions of each chunk of so many turns."""
    return f"""SELECT (turn - 1) / {chunk_turns:d}, count(*) FROM renditions
    WHERE session = :session AND turn BETWEEN :first AND :last GROUP BY 1"""  # noqa: S608
