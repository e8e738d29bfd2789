"""Renditions, eras, plans and boards: everything made from the raw log. Functions of a connection.

Turns without renditions are the worker's queue: `claim` leases some, `add_renditions` stores the result once,
even if several workers made it. Turns queued for a model are in another queue: `foveate.store.queue`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any, TypeAlias, TypeVar

from foveate.errors import Damaged, SessionNotFound
from foveate.store import leases, passages, queue
from foveate.store.bodies import digest_of, is_intact
from foveate.store.lineage import (
    COUNT_MESSAGES,
    NO_LIMIT,
    TurnSpan,
    chain_of,
    current_number,
    fork_turns,
    get_session,
    number_of,
    select_spans,
    spans,
)
from foveate.store.log import READ_TURNS
from foveate.store.rows import (
    ERA_FANOUT,
    LOCAL_MAKER,
    Backlog,
    Claim,
    DueTurn,
    EraRow,
    NewPassages,
    NewRendition,
    Origin,
    PostponedTurn,
    RefinedTurn,
    RenditionRow,
    RenditionSizes,
    SessionRow,
)
from foveate.store.sql import Connection, keep_data, load_data, now_us

CLAIM_WINDOW = 256
"""Number of turns beyond the settled ones that a claim examines."""
REGROWTH = 1.5
"""An open turn gets new renditions once its number of messages has grown by this factor."""

GET_SETTLED = "SELECT settled FROM sessions WHERE number = :number"
SET_SETTLED = "UPDATE sessions SET settled = :settled WHERE number = :number AND settled < :settled"
LIST_UNSETTLED = "SELECT id FROM sessions WHERE last_turn > settled ORDER BY number"
ADD_RENDITION = """INSERT INTO renditions (session, turn, messages, maker, version, is_complete, smoothed_tokens,
    compressed_tokens, tiny_tokens, tiny, compressed, smoothed, units, refusals, made_us, due_us, calls, parked,
    digest, tiny_digest, words, brief, brief_tokens)
    VALUES (:session, :turn, :messages, :maker, :version, :is_complete, :smoothed_tokens, :compressed_tokens,
    :tiny_tokens, :tiny, :compressed, :smoothed, :units, :refusals, :now_us, :due_us, :calls, :parked,
    :digest, :tiny_digest, :words, :brief, :brief_tokens)
    ON CONFLICT (session, turn, messages, maker, version) DO NOTHING RETURNING id"""
_MADE = "FROM renditions WHERE session = :session AND turn BETWEEN :first AND :last ORDER BY turn, id"
LIST_MADE = f"SELECT turn, messages {_MADE}"
LIST_SIZES = f"""SELECT turn, messages, id, smoothed_tokens, compressed_tokens, tiny_tokens, words, brief_tokens
    {_MADE}"""
LIST_TINIES = f"SELECT turn, messages, id, session, tiny_digest, tiny, tiny_tokens {_MADE}"
LIST_RENDITIONS = f"""SELECT turn, messages, id, session, digest, smoothed_tokens, compressed_tokens, tiny_tokens,
    tiny, compressed, smoothed, units, maker, version, is_complete, made_us, brief, brief_tokens {_MADE}"""
LIST_BY_RULES = LIST_RENDITIONS.replace("ORDER BY", f"AND maker = '{LOCAL_MAKER}' ORDER BY")
COUNT_RENDITIONS = """SELECT (turn - 1) / {chunk_turns:d}, count(*) FROM renditions
    WHERE session = :session AND turn BETWEEN :first AND :last GROUP BY 1"""
GET_RENDITION = f"""SELECT session, turn, messages, smoothed_tokens, compressed_tokens, tiny_tokens, tiny, compressed,
    smoothed, units, words, brief, brief_tokens FROM renditions r WHERE id = :rendition AND {queue.NEWEST}"""  # noqa: S608
DROP_RENDITION = "DELETE FROM renditions WHERE id = :id"
COUNT_REFUSALS = "SELECT coalesce(sum(refusals), 0) FROM renditions WHERE session = :session"
COUNT_BACKLOG = f"""SELECT count(*), coalesce(sum(1 - is_complete), 0),
    coalesce(sum(CASE WHEN maker = :local THEN 0 ELSE 1 END), 0)
    FROM renditions r WHERE session = :session AND {queue.NEWEST}"""  # noqa: S608
ADD_ERA = """INSERT INTO eras (session, level, place, tokens, units, made_us, digest)
    VALUES (:session, :level, :place, :tokens, :units, :now_us, :digest)
    ON CONFLICT (session, level, place) DO UPDATE SET tokens = :tokens, units = :units, made_us = :now_us,
    digest = :digest"""
DROP_ERA = "DELETE FROM eras WHERE session = :session AND level = :level AND place = :place AND digest = :digest"
LIST_ERAS = """SELECT place, tokens, units, session, digest FROM eras
    WHERE session = :session AND level = :level AND place BETWEEN :first AND :last ORDER BY place"""
LIST_ERA_TOKENS = """SELECT place, tokens FROM eras
    WHERE session = :session AND level = :level AND place BETWEEN :first AND :last ORDER BY place"""
_PLACES = "session = :session AND level = :level AND place BETWEEN :first AND :last"
COUNT_ERAS = f"SELECT count(*), max(place) FROM eras WHERE {_PLACES}"  # noqa: S608
LIST_PLACES = f"SELECT place FROM eras WHERE {_PLACES} ORDER BY place"  # noqa: S608
GET_PRUNED = "SELECT pruned_us FROM sessions WHERE id = :id"
LAYER = "layer"

_HASHED = ("smoothed_tokens", "compressed_tokens", "tiny_tokens", "tiny", "compressed", "smoothed", "units")

T = TypeVar("T")
TurnRange: TypeAlias = tuple[int, int]
"""The first and the last turn."""

_log = logging.getLogger(__name__)


def unsettled(connection: Connection) -> list[str]:
    """List the sessions that have turns without renditions, including open turns."""
    return [row[0] for row in connection.execute(LIST_UNSETTLED)]


def claim(
    connection: Connection, session_id: str, *, owner: str, limit: int, lease_seconds: float, include_open: bool
) -> list[Claim]:
    """Lease up to `limit` turns without renditions; an open turn only if requested, or much grown."""
    session = get_session(connection, session_id)
    leased = leases.leased_turns(connection, session.number)
    lacking = list(_lacking(connection, session, include_open=include_open))
    free = [(turn, count) for turn, count in lacking if turn not in leased][:limit]
    attempts = leases.take_turns(connection, session.number, [turn for turn, _ in free], owner, lease_seconds)
    return [Claim(session_id, turn, count, attempts[turn]) for turn, count in free if turn in attempts]


def add_renditions(
    connection: Connection, session_id: str, renditions: Sequence[NewRendition], *, owner: str | None = None
) -> list[int]:
    """Store renditions and release their leases; keep existing ones. Return the turns that were stored.

    With an `owner`, renditions of turns whose lease it has lost are rejected.
    """
    session = get_session(connection, session_id)
    number = session.number
    held = [made for made in renditions if owner is None or leases.end_turn(connection, number, made.turn, owner)]
    for rendition in held:
        _add(connection, number, rendition)
    _index(connection, number, [made.passages for made in held if made.passages])
    _settle(connection, session)
    return [made.turn for made in held]


def sizes_of(connection: Connection, session_id: str, first: int, last: int) -> list[RenditionSizes]:
    """List the tokens of the turns at each level, oldest first, including ancestors' turns."""
    chain = chain_of(connection, session_id)
    made = _newest(connection, LIST_SIZES, chain, first, last)
    missing = (None,) * 6
    sizes = []
    for row in select_spans(connection, READ_TURNS, chain, first, last):
        rendition, smoothed, compressed, tiny, words, brief = made.get(row[0], missing)
        sizes.append(
            RenditionSizes(
                row[0],
                row[2],
                row[1],
                rendition,
                smoothed,
                compressed,
                tiny,
                bool(row[7]),
                words=words,
                brief=brief,
                at_us=row[4],
                erased_us=row[8],
            )
        )
    return sizes


def counts(connection: Connection, session_id: str, first: int, last: int, *, chunk_turns: int) -> dict[int, int]:
    """Count the renditions in each chunk of turns; sizes change only if the count changes."""
    found: Counter[int] = Counter()
    statement = COUNT_RENDITIONS.format(chunk_turns=chunk_turns)
    for chunk, count in _made(connection, statement, chain_of(connection, session_id), first, last):
        found[chunk] += count
    return dict(found)


def renditions(connection: Connection, session_id: str, first: int, last: int) -> list[RenditionRow]:
    """List the newest renditions of these turns."""
    made = _newest(connection, LIST_RENDITIONS, chain_of(connection, session_id), first, last, is_intact=_is_whole)
    return [RenditionRow(turn, *values[3:]) for turn, values in made.items()]


def renditions_by_rules(connection: Connection, session_id: str, first: int, last: int) -> list[RenditionRow]:
    """List the newest renditions that the local compressor made of these turns; a model's has its levels besides the
    model's own."""
    made = _newest(connection, LIST_BY_RULES, chain_of(connection, session_id), first, last, is_intact=_is_whole)
    return [RenditionRow(turn, *values[3:]) for turn, values in made.items()]


def tinies(connection: Connection, session_id: str, first: int, last: int) -> list[tuple[int, str, int]]:
    """List the turns with their tiny texts and the tokens of these texts."""
    made = _newest(connection, LIST_TINIES, chain_of(connection, session_id), first, last, is_intact=_is_tiny_whole)
    return [(turn, text, tokens) for turn, (*_, text, tokens) in made.items()]


def texts(
    connection: Connection, session_id: str, tiny: Sequence[TurnRange], whole: Sequence[TurnRange]
) -> tuple[list[tuple[int, str, int]], list[RenditionRow]]:
    """Return the tiny texts of some ranges of turns, and all renditions of others."""
    chain = chain_of(connection, session_id)
    tinies = [
        (turn, text, tokens)
        for first, last in tiny
        for turn, (*_, text, tokens) in _newest(
            connection, LIST_TINIES, chain, first, last, is_intact=_is_tiny_whole
        ).items()
    ]
    made = [
        RenditionRow(turn, *values[3:])
        for first, last in whole
        for turn, values in _newest(connection, LIST_RENDITIONS, chain, first, last, is_intact=_is_whole).items()
    ]
    return tinies, made


def add_eras(connection: Connection, session_id: str, eras: Sequence[EraRow], origin: Origin | None = None) -> None:
    """Store eras, unless turns were removed since `origin` was read."""
    number = current_number(connection, session_id, origin)
    if number is None:
        return
    owner = {"session": number, "now_us": now_us()}
    digests = (digest_of(era.units, era.level, era.place, era.tokens) for era in eras)
    rows = zip(eras, digests, strict=True)
    connection.executemany(ADD_ERA, [{**asdict(era), **owner, "digest": digest} for era, digest in rows])


def eras(connection: Connection, session_id: str, level: int, first: int, last: int) -> list[EraRow]:
    """List the eras of a level by place, including those of ancestors before the fork."""
    found = []
    for place, tokens, units, session, digest in _eras(connection, LIST_ERAS, session_id, level, (first, last)):
        if is_intact(digest, units, level, place, tokens):
            found.append(EraRow(level, place, tokens, units))
        else:
            _log.warning("era %d of level %d of session %r is damaged; it will be made again", place, level, session_id)
            values = {"session": session, "level": level, "place": place, "digest": digest}
            connection.repair(DROP_ERA, values)
    return found


def era_tokens(connection: Connection, session_id: str, level: int, first: int, last: int) -> list[tuple[int, int]]:
    """List the places of eras and their tokens, without units."""
    return _eras(connection, LIST_ERA_TOKENS, session_id, level, (first, last))


def next_era(connection: Connection, session_id: str, level: int) -> int:
    """Return the place of the first missing era of a level."""
    place = 0
    for span in spans(chain_of(connection, session_id)):
        values = {"session": span.session, "level": level, "first": place, "last": _last_place(span, level)}
        count, last = connection.execute(COUNT_ERAS, values).fetchone()
        if count and count == last - place + 1:
            place = last + 1
        elif count:  # one was damaged and dropped
            places = {row[0] for row in connection.execute(LIST_PLACES, values)}
            return next(each for each in range(place, last + 1) if each not in places)
    return place


def settled(connection: Connection, session_id: str) -> int:
    """Return the last turn up to which every turn has its renditions."""
    # An ancestor counts only up to the fork; its unsettled turns before the fork limit the fork too.
    limit = NO_LIMIT
    for row in reversed(chain_of(connection, session_id)):
        if row.parent is None or limit >= row.fork_turn - 1:
            limit = int(connection.execute(GET_SETTLED, {"number": row.number}).fetchone()[0])
    return limit


def plan(connection: Connection, session_id: str, strategy: str) -> bytes | None:
    """Return a strategy's stored plan; None if it is missing or damaged."""
    return load_data(connection, "plans", number_of(connection, session_id), strategy)


def keep_plan(
    connection: Connection, session_id: str, strategy: str, data: bytes, origin: Origin | None = None
) -> None:
    """Store a plan, unless turns were removed since `origin` was read."""
    number = current_number(connection, session_id, origin)
    if number is not None:
        keep_data(connection, "plans", number, strategy, data)


def offer(connection: Connection, session_id: str, strategy: str) -> bytes | None:
    """Return the displayed artefacts that a model may word; None if they are missing or damaged."""
    return load_data(connection, "offers", number_of(connection, session_id), strategy)


def keep_offer(
    connection: Connection, session_id: str, strategy: str, data: bytes, origin: Origin | None = None
) -> None:
    """Store an offer, unless turns were removed since `origin` was read."""
    number = current_number(connection, session_id, origin)
    if number is not None:
        keep_data(connection, "offers", number, strategy, data)


def recalled(connection: Connection, session_id: str) -> bytes | None:
    """Return the last memory layer; None if it is missing or damaged."""
    return load_data(connection, "recalled", number_of(connection, session_id), LAYER)


def keep_recalled(connection: Connection, session_id: str, data: bytes, origin: Origin | None = None) -> None:
    """Store a memory layer, unless turns were removed since `origin` was read."""
    number = current_number(connection, session_id, origin)
    if number is not None:
        keep_data(connection, "recalled", number, LAYER, data)


def pruned(connection: Connection, session_id: str) -> int | None:
    """Return the time of the last prune, different after each one; None if there was none."""
    row = connection.execute(GET_PRUNED, {"id": session_id}).fetchone()
    if row is None:
        raise SessionNotFound(session_id)
    return None if row[0] is None else int(row[0])


def refine(connection: Connection, due: DueTurn, made: RefinedTurn) -> bool:
    """Store a model's rendition and release the lease. Return False if the turn has newer renditions or another worker
    has claimed it. The row is added to the newest one: a later one covers more messages."""
    if not queue.take_due(connection, due):
        return False
    row = connection.execute(GET_RENDITION, {"rendition": due.rendition}).fetchone()
    is_kept = False
    if row is not None:
        (
            session,
            turn,
            messages,
            smoothed_tokens,
            compressed_tokens,
            tiny_tokens,
            tiny,
            compressed,
            smoothed,
            units,
            words,
            brief,
            brief_tokens,
        ) = row
        rendition = NewRendition(
            turn=turn,
            messages=messages,
            maker=made.maker,
            version=made.version,
            is_complete=made.is_complete,
            smoothed_tokens=_first(made.smoothed_tokens, smoothed_tokens),
            compressed_tokens=_first(made.compressed_tokens, compressed_tokens),
            tiny_tokens=_first(made.tiny_tokens, tiny_tokens),
            tiny=_first(made.tiny, tiny),
            compressed=_first(made.compressed, compressed),
            smoothed=_first(made.smoothed, smoothed),
            units=units,
            refusals=made.refusals,
            words=words,
            brief=brief,
            brief_tokens=brief_tokens,
        )
        is_kept = _insert(connection, session, rendition, made.calls) is not None
    queue.note(connection, due, PostponedTurn(due_us=None, calls=made.calls))
    return is_kept


def _first(value: T | None, default: T) -> T:
    return default if value is None else value


def backlog(connection: Connection, session_id: str) -> Backlog:
    session = get_session(connection, session_id)
    values = {"session": session.number, "local": LOCAL_MAKER}
    made, incomplete, by_model = connection.execute(COUNT_BACKLOG, values).fetchone()
    waiting, due_us = connection.execute(queue.COUNT_WAITING, values).fetchone()
    (refusals,) = connection.execute(COUNT_REFUSALS, values).fetchone()
    pending = len(list(_lacking(connection, session, include_open=True, stop_early=False)))
    return Backlog(pending, made - incomplete, incomplete, refusals, waiting, due_us, by_model)


def _eras(connection: Connection, statement: str, session_id: str, level: int, places: tuple[int, int]) -> list[Any]:
    """List a level's eras by place: the session's own, and those of its ancestors that end before the fork."""
    found: dict[int, Any] = {}
    for span in reversed(spans(chain_of(connection, session_id))):
        reach = min(places[1], _last_place(span, level))
        values = {"session": span.session, "level": level, "first": places[0], "last": reach}
        for row in connection.execute(statement, values):
            found.setdefault(row[0], row)
    return [found[place] for place in sorted(found)]


def _last_place(span: TurnSpan, level: int) -> int:
    """Return the last era of a span; an ancestor's last era ends before the fork."""
    return NO_LIMIT if span.last == NO_LIMIT else (span.last - 1) // ERA_FANOUT**level - 1


def _add(connection: Connection, session: int, rendition: NewRendition) -> None:
    place = {"session": session, "turn": rendition.turn}
    (calls,) = connection.execute(queue.SPENT_CALLS, place).fetchone()
    row = _insert(connection, session, rendition, calls)
    if row is not None:
        connection.execute(queue.FORGET_DUE, {**place, "id": row})
    connection.execute(leases.DROP_LEASE, place)


def _insert(connection: Connection, session: int, rendition: NewRendition, calls: int) -> int | None:
    """Insert a rendition and return its id; None if it is stored already."""
    values = rendition_values(session, rendition, calls=calls, made_us=now_us())
    row = connection.execute(ADD_RENDITION, values).fetchone()
    return None if row is None else int(row[0])


def rendition_values(session: int, rendition: NewRendition, *, calls: int, made_us: int) -> dict[str, Any]:
    """Return the parameters of ADD_RENDITION."""
    values = {field.name: getattr(rendition, field.name) for field in fields(rendition) if field.name != "passages"}
    values |= {"session": session, "calls": calls, "now_us": made_us}
    values["tiny_digest"] = digest_of(rendition.tiny, rendition.tiny_tokens)
    values["digest"] = digest_of(*(values[name] for name in _HASHED), *_known(rendition.brief))
    return values


def _is_whole(values: tuple[Any, ...]) -> bool:
    """Return whether a row of LIST_RENDITIONS is undamaged."""
    _, _, digest, *stored, brief, _ = values
    return is_intact(digest, *stored[: len(_HASHED)], *_known(brief))


def _known(value: T | None) -> tuple[T, ...]:
    """Return the value in a tuple, empty for None: a column that was added after the row was stored is not hashed."""
    return () if value is None else (value,)


def _is_tiny_whole(values: tuple[Any, ...]) -> bool:
    """Return whether a row of LIST_TINIES is undamaged."""
    _, _, digest, tiny, tokens = values
    return is_intact(digest, tiny, tokens)


def _index(connection: Connection, session: int, made: Sequence[NewPassages]) -> None:
    """Store index entries. A damaged index does not block renditions; its turns are indexed after a rebuild."""
    try:
        passages.add_all(connection, session, made)
    except Damaged as error:
        _log.warning("%d turns are not indexed: %s", len(made), error)
        passages.want_turns(connection, session, max(entry.turn for entry in made))


def _newest(
    connection: Connection,
    statement: str,
    chain: Sequence[SessionRow],
    first: int,
    last: int,
    *,
    is_intact: Callable[[tuple[Any, ...]], bool] | None = None,
) -> dict[int, tuple[Any, ...]]:
    """Return the newest renditions that cover exactly the messages of each turn that the session sees; drop damaged
    ones."""
    messages_of = dict(select_spans(connection, COUNT_MESSAGES, chain, first, last))
    found: dict[int, tuple[Any, ...]] = {}
    for turn, messages, *values in _made(connection, statement, chain, first, last):
        if messages != messages_of.get(turn):
            continue
        if is_intact and not is_intact(tuple(values)):
            row, session = values[:2]
            _log.warning("a rendition of T-%d of session %r is damaged; it will be made again", turn, chain[0].id)
            connection.repair(DROP_RENDITION, {"id": row})
            connection.repair(queue.LOWER_SETTLED, {"session": session, "settled": turn - 1})
            continue
        found[turn] = tuple(values)
    return found


def _made(
    connection: Connection, statement: str, chain: Sequence[SessionRow], first: int, last: int
) -> Iterator[tuple[Any, ...]]:
    """Yield rows of the lineage, oldest turn first; a fork has its own for the turn it forked at, if that was open."""
    yield from select_spans(connection, statement, chain, first, last)
    for session, turn in fork_turns(chain):
        if first <= turn <= last:
            yield from connection.execute(statement, {"session": session, "first": turn, "last": turn})


def _lacking(
    connection: Connection, session: SessionRow, *, include_open: bool, stop_early: bool = True
) -> Iterator[tuple[int, int]]:
    """Yield the unsettled turns that have no renditions of all their messages, with the message counts.

    One window is enough for a worker; `stop_early=False` finds all.
    """
    (settled,) = connection.execute(GET_SETTLED, {"number": session.number}).fetchone()
    chain = chain_of(connection, session.id)
    for first in range(settled + 1, session.last_turn + 1, CLAIM_WINDOW):
        last = min(first + CLAIM_WINDOW - 1, session.last_turn)
        made = dict(row[:2] for row in _made(connection, LIST_MADE, chain, first, last))
        found = False
        for turn, count in select_spans(connection, COUNT_MESSAGES, chain, first, last):
            is_open = turn == session.last_turn and session.is_open
            is_due = not is_open or include_open or (turn in made and count >= REGROWTH * made[turn])
            if made.get(turn) != count and is_due:
                found = True
                yield turn, count
        if found and stop_early:
            return


def _settle(connection: Connection, session: SessionRow) -> None:
    """Record the last turn up to which nothing is missing, so that these turns are not examined again."""
    first = next(_lacking(connection, session, include_open=False), None)
    settled = first[0] - 1 if first else session.last_turn - session.is_open
    connection.execute(SET_SETTLED, {"number": session.number, "settled": settled})
