"""A chat in the browser: a prompt is sent as a form, and the answer comes as a stream of events."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

from foveate.agents.budget import fitting_budget, most_output
from foveate.agents.chat import AnswerPiece, AnswerSummary, Chat, ChatEvent, Notice, ToolRequest, ToolResponse
from foveate.errors import FoveateError, contained
from foveate.server.dashboard.page import BASE, HEADERS, Pages, Visit
from foveate.server.problems import ProblemError, problem_of

NO_MODEL = "no model is configured for chats; run 'foveate models set chat NAME', or start with --model"
MAX_PROMPT_CHARS = 400_000
pages = Pages()

_log = logging.getLogger(__name__)


@pages.add("POST", f"{BASE}/sessions/{{session}}/say", right="write")
async def say(visit: Visit, session: str) -> Response:
    """Record a prompt and stream the answer. If the browser goes away, the answer is recorded as far as it came."""
    form = await visit.form()
    text = form.get("prompt", "")
    if not text.strip():
        raise ProblemError(422, "the prompt is empty")
    if len(text) > MAX_PROMPT_CHARS:
        raise ProblemError(413, f"the prompt has more than {MAX_PROMPT_CHARS:,} characters; import it as a transcript")
    chat = await _open(visit, session, form.get("model", ""))
    events = _stream(chat, text, visit.principal.tenant)
    return StreamingResponse(events, media_type="text/event-stream", headers={**HEADERS, "X-Accel-Buffering": "no"})


async def _open(visit: Visit, session: str, model: str) -> Chat:
    fov = visit.view
    models = fov.models_for("chat")
    if model and model not in models:
        raise ProblemError(422, f"the model {model[:80]!r} is not configured; available: {', '.join(models) or 'none'}")
    chosen = tuple(dict.fromkeys((*([model] if model else []), *models)))
    if not chosen:
        raise ProblemError(422, NO_MODEL)
    await fov.check_model(chosen[0])
    found = await fov.open_session(session)
    window = fov.window_tokens(chosen[0])
    output = most_output(window)
    found.limit_budget(
        fitting_budget(
            None,
            found.info,
            default_tokens=fov.settings.session.budget_tokens,
            output_tokens=output,
            window_tokens=window,
            option="the budget",
        )
    )
    return Chat(found, fov.caller, chosen, max_output_tokens=output, costs=fov.costs)


async def _stream(chat: Chat, text: str, tenant: str) -> AsyncIterator[bytes]:
    with contained() as outcome:
        async with aclosing(chat.say(text)) as events:
            async for event in events:
                if data := _data(event):
                    yield _event(*data)
    error = outcome.error
    if isinstance(error, FoveateError):
        yield _event("problem", problem_of(error, tenant).detail)
    elif error is not None:
        _log.error("a chat failed", exc_info=error)
        yield _event("problem", "the server failed; its log has the details")


def _data(event: ChatEvent) -> tuple[str, str] | None:
    match event:
        case AnswerPiece(text):
            return "piece", text
        case ToolRequest(name, arguments):
            return "tool", f"{name} {json.dumps(arguments, ensure_ascii=False)[:200]}"
        case ToolResponse(name, tokens):
            return "tool", f"{name}: {tokens:,} tokens"
        case Notice(text):
            return "notice", text
        case AnswerSummary() as done:
            share = done.cached_share if done.cached_share is not None else done.predicted_cached_share
            cost = f", ${done.usd:.4f}" if done.usd else ""
            return "done", f"{done.turn_id} · {done.model} · {done.tokens:,} tokens, {share:.0%} cached{cost}"
        case _:
            return None


def _event(kind: str, text: str) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(text)}\n\n".encode()
