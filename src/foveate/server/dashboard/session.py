"""A session's page: the picture of its context, its turns at every level, and what a person can change."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.responses import Response

from foveate.errors import FoveateError
from foveate.server.dashboard.page import BASE, Pages, Visit, session_path, whole_number
from foveate.server.dashboard.picture import draw
from foveate.server.problems import ProblemError
from foveate.session import Session
from foveate.session.values import TurnContent
from foveate.settings import check_strategy, strategy_names
from foveate.text import part_text
from foveate.turn import Message, Text, turn_number

LEVELS = ("R", "S", "C", "T")
TURNS_PAGE = 40
MAX_TEXT_CHARS = 20_000
"""Characters of a text on a page; a link shows the rest."""
TOPICS = "topics"
pages = Pages()


@dataclass(frozen=True, slots=True)
class LevelText:
    """A turn at one level."""

    level: str
    text: str
    tokens: int
    share: float
    """Of the raw turn."""
    maker: str
    made: str
    is_cut: bool
    lost: tuple[str, ...]
    """Words of the level above it that it does not have."""


@pages.add("GET", f"{BASE}/sessions/{{session}}", right="read")
async def show_session(visit: Visit, session: str) -> Response:
    """The session with its picture."""
    found = await visit.view.open_session(session)
    stats, pins, goals, board = await asyncio.gather(found.stats(), found.pins(), found.goals.list(), found.board())
    info = found.info
    return visit.page(
        "session.html",
        title=info.title or info.id,
        info=info,
        stats=stats,
        pins=pins,
        goals=goals,
        board=board,
        strategies=strategy_names(),
        problem=found.strategy_problem,
        topics=await _topics(found),
        checkpoints=await found.checkpoints.list() if info.strategy == "checkpoint" else (),
        reliability=await visit.view.reliability(session),
        usd=sum(row.usd for row in await visit.view.costs(session)),
        models=visit.view.models_for("chat"),
        last_turn=info.turns,
    )


@pages.add("GET", f"{BASE}/sessions/{{session}}/picture", right="read")
async def show_picture(visit: Visit, session: str) -> Response:
    """The picture of the context as it is now, or as it would be with another budget or strategy."""
    budget = whole_number(visit.query("budget"), "the budget", least=100)
    strategy = visit.query("strategy") or None
    if strategy:
        check_strategy(strategy)
    async with visit.parts.open_sessions.use(visit.view, session) as found:
        info = found.info
        context = await found.look(budget_tokens=budget, strategy=strategy)
    is_preview = context.budget_tokens != info.budget_tokens or context.planned.strategy != info.strategy
    picture = await asyncio.to_thread(draw, context)
    return visit.part("picture.html", picture=picture, info=info, is_preview=is_preview)


@pages.add("GET", f"{BASE}/sessions/{{session}}/past", right="read")
async def show_past(visit: Visit, session: str) -> Response:
    """What contexts showed when the plan had changed, by its number, oldest first."""
    found = await visit.view.open_session(session)
    pictures = await found.pictures()
    if not pictures:
        return visit.part("past.html", info=found.info, picture=None, place=0, total=0)
    place = min(len(pictures), whole_number(visit.query("at"), "at") or len(pictures))
    return visit.part("past.html", info=found.info, picture=pictures[place - 1], place=place, total=len(pictures))


@pages.add("GET", f"{BASE}/sessions/{{session}}/turns", right="read")
async def list_turns(visit: Visit, session: str) -> Response:
    """Turns, the newest first, in pages."""
    found = await visit.view.open_session(session)
    newest = found.info.turns
    last = min(newest, whole_number(visit.query("before"), "before", least=0) or newest)
    first = max(1, last - TURNS_PAGE + 1)
    outlines = (await found.outline(first, last))[::-1] if newest else []
    gists = await _gists(found, first, last) if newest else {}
    values = {"info": found.info, "outlines": outlines, "gists": gists, "next": first - 1 if first > 1 else None}
    return visit.part("turn_rows.html", values=values)


@pages.add("GET", f"{BASE}/sessions/{{session}}/find", right="read")
async def find_in_session(visit: Visit, session: str) -> Response:
    """Turns of this session that match a query."""
    query = visit.query("q").strip()[:500]
    found = await visit.view.open_session(session)
    hits = await found.search(query, 30) if query else []
    return visit.part("session_hits.html", info=found.info, query=query, hits=hits)


@pages.add("GET", f"{BASE}/sessions/{{session}}/turns/{{turn}}", right="read")
async def show_turn(visit: Visit, session: str, turn: str) -> Response:
    """A turn at all its levels, side by side, and its messages."""
    found = await visit.view.open_session(session)
    is_whole = visit.query("whole") == "1"
    levels = await _levels(found, turn, is_whole=is_whole)
    number = turn_number(turn) or 0
    values = {
        "info": found.info,
        "turn": f"T-{number}",
        "number": number,
        "levels": levels,
        "messages": [_shown(message, is_whole=is_whole) for message in (await found.load_turn(turn)).messages],
        "details": await found.turn_details(turn),
        "is_whole": is_whole,
    }
    if visit.is_fragment:
        return visit.part("turn.html", values=values)
    return visit.page("turn_page.html", title=f"T-{number} of {found.info.title or found.id}", values=values)


@pages.add("POST", f"{BASE}/sessions/{{session}}/change", right="write")
async def change_session(visit: Visit, session: str) -> Response:
    """Set title, budget and strategy."""
    form = await visit.form()
    found = await visit.view.open_session(session)
    budget = whole_number(form.get("budget", ""), "the budget", least=100)
    info = found.info
    await visit.view.session(
        session,
        title=form.get("title") or None,
        strategy=form.get("strategy") if form.get("strategy") not in ("", info.strategy) else None,
        budget_tokens=budget if budget != info.budget_tokens else None,
    )
    return visit.go(session_path(session))


@pages.add("POST", f"{BASE}/sessions/{{session}}/pin", right="write")
async def add_pin(visit: Visit, session: str) -> Response:
    """Pin a rule or fact."""
    form = await visit.form()
    await (await visit.view.open_session(session)).pin(form.get("text", ""), locked="locked" in form)
    return visit.go(session_path(session, "#pins"))


@pages.add("POST", f"{BASE}/sessions/{{session}}/unpin", right="write")
async def remove_pin(visit: Visit, session: str) -> Response:
    """Remove a pin that is not locked."""
    form = await visit.form()
    await (await visit.view.open_session(session)).unpin(form.get("pin", ""))
    return visit.go(session_path(session, "#pins"))


@pages.add("POST", f"{BASE}/sessions/{{session}}/goal", right="write")
async def add_goal(visit: Visit, session: str) -> Response:
    """Add a goal, or mark one as done."""
    form = await visit.form()
    goals = (await visit.view.open_session(session)).goals
    if form.get("done"):
        await goals.done(form["done"])
    else:
        await goals.add(form.get("title", ""))
    return visit.go(session_path(session, "#goals"))


@pages.add("POST", f"{BASE}/sessions/{{session}}/board", right="write")
async def change_board(visit: Visit, session: str) -> Response:
    """Keep an item of the board, or remove it."""
    form = await visit.form()
    found = await visit.view.open_session(session)
    await (found.save if form.get("action") == "save" else found.dismiss)(form.get("item", ""))
    return visit.go(session_path(session, "#board"))


@pages.add("POST", f"{BASE}/sessions/{{session}}/seal", right="write")
async def seal_topic(visit: Visit, session: str) -> Response:
    """Seal the current topic; it can be undone until the next message."""
    found = await visit.view.open_session(session)
    topic = await found.topics.seal_current_topic()
    return visit.part("sealed.html", info=found.info, topic=topic)


@pages.add("POST", f"{BASE}/sessions/{{session}}/unseal", right="write")
async def unseal_topic(visit: Visit, session: str) -> Response:
    """Take the seal back."""
    found = await visit.view.open_session(session)
    await found.topics.unseal()
    return visit.part("seal.html", info=found.info, note="The seal was undone.")


@pages.add("POST", f"{BASE}/sessions/{{session}}/fork", right="write")
async def fork_session(visit: Visit, session: str) -> Response:
    """A new session that shares the turns up to one of them."""
    form = await visit.form()
    found = await visit.view.open_session(session)
    name = form.get("name", "").strip()
    if not name:
        raise ProblemError(422, "the fork needs a name")
    fork = await found.fork(name, form.get("turn") or None)
    return visit.go(session_path(fork.id))


async def _topics(session: Session) -> object:
    if session.info.strategy != TOPICS:
        return None
    return await session.topics.get_history()


async def _gists(session: Session, first: int, last: int) -> dict[int, str]:
    """The shortest rendition of each turn that has one."""
    try:
        contents = await session.get_turns(first, last, "T", "plain")
    except FoveateError:  # of one that is not compressed yet; each by itself then
        tried = (await _gist(session, number) for number in range(first, last + 1))
        contents = [content async for content in tried if content]
    return {turn_number(content.turn_id) or 0: content.content for content in contents}


async def _gist(session: Session, number: int) -> TurnContent | None:
    try:
        return await session.get_turn(number, "T", "plain")
    except FoveateError:
        return None


async def _levels(session: Session, turn: str, *, is_whole: bool) -> list[LevelText]:
    details = {level.level: level for level in (await session.turn_details(turn)).levels}
    found: list[LevelText] = []
    above: TurnContent | None = None
    raw_tokens = 1
    for level in LEVELS:
        try:
            content = await session.get_turn(turn, level, "plain")
        except FoveateError:  # not made yet, or pruned
            continue
        raw_tokens = content.tokens if level == "R" else raw_tokens
        made = details.get(level)
        text = content.content
        is_cut = len(text) > MAX_TEXT_CHARS and not is_whole
        found.append(
            LevelText(
                level,
                text[:MAX_TEXT_CHARS] if is_cut else text,
                content.tokens,
                content.tokens / max(1, raw_tokens),
                made.maker if made else "",
                made.made_at.strftime("%Y-%m-%d %H:%M") if made and made.made_at else "",
                is_cut,
                _lost(above.content, text) if above else (),
            )
        )
        above = content
    return found


def _lost(above: str, below: str, most: int = 40) -> tuple[str, ...]:
    """Telling words of a text that a shorter one does not have, in their order."""
    kept = {word.strip(".,;:!?()[]{}\"'`").casefold() for word in below.split()}
    lost: dict[str, None] = {}
    for word in above.split():
        bare = word.strip(".,;:!?()[]{}\"'`")
        if len(bare) > 3 and bare.casefold() not in kept:  # noqa: PLR2004 - shorter words tell little
            lost.setdefault(bare, None)
        if len(lost) >= most:
            break
    return tuple(lost)


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A part of a message as the page shows it."""

    kind: str
    """`text`, `toolcall`, `toolresult`, …"""
    text: str
    is_cut: bool


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message as the page shows it."""

    role: str
    parts: tuple[ShownPart, ...]


def _shown(message: Message, *, is_whole: bool) -> ShownMessage:
    parts = []
    for part in message.parts:
        text = part.text if isinstance(part, Text) else part_text(part)
        is_cut = len(text) > MAX_TEXT_CHARS and not is_whole
        parts.append(ShownPart(type(part).__name__.lower(), text[:MAX_TEXT_CHARS] if is_cut else text, is_cut))
    return ShownMessage(message.role, tuple(parts))
