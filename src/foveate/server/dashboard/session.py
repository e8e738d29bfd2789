"""A session's page: the picture of its context, and what a person can change."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from foveate.server.dashboard.chat import edited_prompt, question_values, tool_choices
from foveate.server.dashboard.page import BASE, Pages, Visit, session_path, whole_number
from foveate.server.dashboard.picture import draw
from foveate.server.dashboard.turns import recent_turns
from foveate.server.problems import ProblemError
from foveate.session import Session
from foveate.settings import check_strategy, strategy_names

TOPICS = "topics"
pages = Pages()


@pages.add("GET", f"{BASE}/sessions/{{session}}", right="read")
async def show_session(visit: Visit, session: str) -> Response:
    """The session with its picture."""
    found = await visit.view.open_session(session)
    pins, goals, board = await asyncio.gather(found.pins(), found.goals.list(), found.board())
    info = found.info
    return visit.page(
        "session.html",
        title=info.title or info.id,
        info=info,
        pins=pins,
        goals=goals,
        board=board,
        strategies=strategy_names(),
        problem=found.strategy_problem,
        topics=await _topics(found),
        checkpoints=await found.checkpoints.list() if info.strategy == "checkpoint" else (),
        values=await _status(visit, found),
        models=visit.view.models_for("chat"),
        tools=await tool_choices(visit, found),
        recent=await recent_turns(found),
        prompt=await edited_prompt(visit, found),
        questions=[question_values(one) for one in visit.parts.approvals.of_session(visit.principal.tenant, found.id)],
    )


@pages.add("GET", f"{BASE}/sessions/{{session}}/status", right="read")
async def show_status(visit: Visit, session: str) -> Response:
    """Sizes, progress of the compression, reliability and cost."""
    return visit.part("session_status.html", values=await _status(visit, await visit.view.open_session(session)))


async def _status(visit: Visit, session: Session) -> dict[str, object]:
    costs = await visit.view.costs(session.id)
    return {
        "stats": await session.stats(),
        "reliability": await visit.view.reliability(session.id),
        "usd": sum(row.usd for row in costs),
    }


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
