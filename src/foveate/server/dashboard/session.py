"""A session's page: the picture of its context, and its controls."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from foveate.server.dashboard.chat import edited_prompt, model_choices, question_values, tool_choices
from foveate.server.dashboard.page import BASE, Form, Pages, Visit, session_path, whole_number
from foveate.server.dashboard.picture import MAX_PART_CHARS, draw
from foveate.server.dashboard.turns import recent_turns
from foveate.server.problems import ProblemError
from foveate.session import Session
from foveate.session.checkpoints import advice
from foveate.session.values import Context
from foveate.settings import check_strategy, strategy_names

pages = Pages()


@pages.add("GET", f"{BASE}/sessions/{{session}}", right="read")
async def show_session(visit: Visit, session: Session) -> Response:
    """Show the session with its picture."""
    pins, goals, board = await asyncio.gather(session.pins(), session.goals.list(), session.board())
    info = session.info
    return visit.page(
        "session.html",
        title=info.title or info.id,
        info=info,
        pins=pins,
        goals=goals,
        board=board,
        strategies=strategy_names(),
        problem=session.strategy_problem,
        topics=await session.topics.get_history() if info.strategy == "topics" else None,
        checkpoints=await session.checkpoints.list() if info.strategy == "checkpoint" else (),
        **await _status(visit, session),
        models=await model_choices(visit, session),
        tools=await tool_choices(visit, session),
        recent=await recent_turns(session),
        prompt=await edited_prompt(visit, session),
        questions=[
            question_values(one) for one in visit.parts.approvals.of_session(visit.principal.tenant, session.id)
        ],
    )


@pages.add("GET", f"{BASE}/sessions/{{session}}/status", right="read")
async def show_status(visit: Visit, session: Session) -> Response:
    """Show sizes, progress of the compression, reliability and cost."""
    return visit.part("session_status.html", **await _status(visit, session))


async def _status(visit: Visit, session: Session) -> dict[str, Any]:
    costs = await visit.view.costs(session.id)
    trust = await visit.view.reliability(session.id)
    return {
        "stats": await session.stats(),
        "reliability": trust,
        "advice": advice(trust.level, session.info) if trust else "",
        "usd": sum(row.usd for row in costs),
    }


@pages.add("GET", f"{BASE}/sessions/{{session}}/picture", right="read")
async def show_picture(visit: Visit, session: str) -> Response:
    """Draw the current context, or a preview with another budget or strategy."""
    async with visit.parts.open_sessions.use(visit.view, session) as found:
        info = found.info
        context = await _looked_at(visit, found)
        picture = await found.picture(context)
    is_preview = context.budget_tokens != info.budget_tokens or context.planned.strategy != info.strategy
    return visit.part(
        "picture.html",
        chart=draw(picture, context.planned),
        planned=context.planned,
        info=info,
        is_preview=is_preview,
        most_chars=MAX_PART_CHARS,
    )


@pages.add("GET", f"{BASE}/sessions/{{session}}/why", right="read")
async def show_reason(visit: Visit, session: str) -> Response:
    """Explain why a turn, the newest by default, is shown as it is in the drawn context."""
    number = whole_number(visit.query("turn").removeprefix("T-"), "the turn")
    async with visit.parts.open_sessions.use(visit.view, session) as found:
        turn = await found.explain_turn(number or found.info.turns, await _looked_at(visit, found))
        return visit.part("why.html", turn=turn, info=found.info, is_new=False)


async def _looked_at(visit: Visit, session: Session) -> Context:
    """Return the context that a request for a picture is about."""
    budget = whole_number(visit.query("budget"), "the budget", least=100)
    strategy = visit.query("strategy") or None
    if strategy:
        check_strategy(strategy)
    return await session.engine.look(budget_tokens=budget, strategy=strategy)


@pages.add("GET", f"{BASE}/sessions/{{session}}/past", right="read")
async def show_past(visit: Visit, session: Session) -> Response:
    """Show the levels of the turns after each change of the plan, by its number, oldest first."""
    pictures = await session.pictures()
    place = min(len(pictures), whole_number(visit.query("at"), "at") or len(pictures)) if pictures else 0
    picture = pictures[place - 1] if pictures else None
    return visit.part("past.html", info=session.info, picture=picture, place=place, total=len(pictures))


@pages.add("POST", f"{BASE}/sessions/{{session}}/change", right="write")
async def change_session(visit: Visit, session: Session, form: Form) -> Response:
    """Set title, budget and strategy."""
    budget = whole_number(form.get("budget", ""), "the budget", least=100)
    info = session.info
    await visit.view.session(
        session.id,
        title=form.get("title") or None,
        strategy=form.get("strategy") if form.get("strategy") not in ("", info.strategy) else None,
        budget_tokens=budget if budget != info.budget_tokens else None,
    )
    return visit.go(session_path(session.id))


@pages.add("POST", f"{BASE}/sessions/{{session}}/pin", right="write")
async def add_pin(visit: Visit, session: Session, form: Form) -> Response:
    """Pin a rule or fact."""
    await session.pin(form.get("text", ""), locked="locked" in form)
    return visit.go(session_path(session.id, "#pins"))


@pages.add("POST", f"{BASE}/sessions/{{session}}/unpin", right="write")
async def remove_pin(visit: Visit, session: Session, form: Form) -> Response:
    """Remove a pin that is not locked."""
    await session.unpin(form.get("pin", ""))
    return visit.go(session_path(session.id, "#pins"))


@pages.add("POST", f"{BASE}/sessions/{{session}}/goal", right="write")
async def add_goal(visit: Visit, session: Session, form: Form) -> Response:
    """Add a goal, or mark one as done."""
    if form.get("done"):
        await session.goals.done(form["done"])
    else:
        await session.goals.add(form.get("title", ""))
    return visit.go(session_path(session.id, "#goals"))


@pages.add("POST", f"{BASE}/sessions/{{session}}/board", right="write")
async def change_board(visit: Visit, session: Session, form: Form) -> Response:
    """Keep an item of the board, or remove it."""
    await (session.save if form.get("action") == "save" else session.dismiss)(form.get("item", ""))
    return visit.go(session_path(session.id, "#board"))


@pages.add("POST", f"{BASE}/sessions/{{session}}/retrieve", right="write")
async def retrieve_turn(visit: Visit, session: Session, form: Form) -> Response:
    """Put a turn on the board, word for word, as if the model had read it."""
    await session.load_turn(form.get("turn", ""))
    await session.call_tool("get_turn", {"turn_id": form["turn"], "level": "R"})
    if visit.is_fragment:
        return visit.part("why.html", turn=await session.explain_turn(form["turn"]), info=session.info, is_new=True)
    return visit.go(session_path(session.id, "#board"))


@pages.add("POST", f"{BASE}/sessions/{{session}}/seal", right="write")
async def seal_topic(visit: Visit, session: Session) -> Response:
    """Seal the current topic; this can be undone until the next message."""
    topic = await session.topics.seal_current_topic()
    return visit.part("sealed.html", info=session.info, topic=topic)


@pages.add("POST", f"{BASE}/sessions/{{session}}/unseal", right="write")
async def unseal_topic(visit: Visit, session: Session) -> Response:
    """Undo the seal."""
    await session.topics.unseal()
    return visit.part("seal.html", info=session.info, note="The seal was undone.")


@pages.add("POST", f"{BASE}/sessions/{{session}}/fork", right="write")
async def fork_session(visit: Visit, session: Session, form: Form) -> Response:
    """Create a session that shares the turns up to one of them."""
    name = form.get("name", "").strip()
    if not name:
        raise ProblemError(422, "the fork needs a name")
    fork = await session.fork(name, form.get("turn") or None)
    return visit.go(session_path(fork.id))
