"""A chat in the browser: the prompt is sent as a form, and the answer arrives as a stream of events.

prompt ──► chat ──► events ──► stream ──► browser
             │ a tool that needs approval: a question in the stream, the decision by a separate form
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from starlette.responses import Response

from foveate.agents.budget import fitting_budget, most_output
from foveate.agents.chat import AnswerPiece, AnswerSummary, Chat, ChatEvent, Notice, ToolRequest, ToolResponse
from foveate.agents.options import ChatOptions
from foveate.agents.toolboxes import ToolChoice, note_packs, open_toolbox, read_packs
from foveate.errors import SessionExists, contained
from foveate.server.api.events import event_response
from foveate.server.dashboard.approvals import ChatApprover, Question
from foveate.server.dashboard.page import BASE, HEADERS, Form, Pages, Visit, render, session_path
from foveate.server.problems import ProblemError, explained
from foveate.session import Session
from foveate.session.documents import PACK
from foveate.tools import Toolbox, packs
from foveate.turn import Json, Text, turn_number

NO_MODEL = "no model is configured for chats; run 'foveate models set chat NAME', or start with --model"
MAX_PROMPT_CHARS = 400_000
MAX_ID_CHARS = 180
"""Characters of a session's id that are used in the id of its fork."""
MAX_FORKS = 100
"""Number of names that are tried for the fork of an edited prompt."""
pages = Pages()

Item = ChatEvent | Question | Exception | None
"""An item of the chat's stream; None at its end."""


@dataclass(frozen=True, slots=True)
class ToolChoices:
    """The tool packs that can be chosen for a chat."""

    names: tuple[str, ...]
    chosen: tuple[str, ...]
    """The packs that the session used last."""
    roots: tuple[str, ...]
    """Folders that the tools are confined to."""


async def tool_choices(visit: Visit, session: Session) -> ToolChoices | None:
    """Return the available packs; None if the caller may not use tools: a chat uses the owner's folders."""
    if visit.view.right != "admin":
        return None
    settings = visit.view.settings
    used = read_packs(await session.documents.get(PACK))
    return ToolChoices(packs.pack_names(settings.tools.packs), used, settings.agents.roots)


@pages.add("POST", f"{BASE}/sessions/{{session}}/say", right="write")
async def say(visit: Visit, session: str) -> Response:
    """Record a prompt and stream the answer. If the browser disconnects, the partial answer is recorded."""
    form = await visit.form_lists()
    text = "".join(form.get("prompt", ()))
    if not text.strip():
        raise ProblemError(422, "the prompt is empty")
    if len(text) > MAX_PROMPT_CHARS:
        raise ProblemError(413, f"the prompt has more than {MAX_PROMPT_CHARS:,} characters; import it as a transcript")
    found = await visit.view.open_session(session)
    items: asyncio.Queue[Item] = asyncio.Queue()
    approve = ChatApprover(visit.parts.approvals, visit.principal.tenant, found.id, items.put_nowait)
    chosen = tuple(name for name in dict.fromkeys(form.get("pack", ())) if name)
    toolbox = await _toolbox(visit, found, chosen, approve)
    chat = await _open(visit, found, "".join(form.get("model", ())), toolbox)
    return event_response(_stream(chat, text, visit, items), HEADERS)


@pages.add("POST", f"{BASE}/approvals/{{question}}", right="write")
async def decide(visit: Visit, question: str, form: Form) -> Response:
    """Approve or deny a waiting tool call."""
    decision = form.get("decision", "")
    visit.view.check_right("admin", "a decision about a tool call")
    found = visit.parts.approvals.decide(visit.principal.tenant, question, decision)
    if visit.is_fragment:
        return visit.part("approval_answer.html", question=found, decision=decision)
    return visit.go(session_path(found.session_id, "#chat"))


@pages.add("POST", f"{BASE}/sessions/{{session}}/edit", right="write")
async def edit_prompt(visit: Visit, session: Session, form: Form) -> Response:
    """Fork a session before a turn; the fork's page contains the turn's prompt, ready to edit and send."""
    turn = turn_number(form.get("turn", ""))
    if turn is None or not 1 <= turn <= session.info.turns:
        raise ProblemError(422, f"there is no turn {form.get('turn', '')[:50]!r} to edit")
    stem = session.id[:MAX_ID_CHARS].rstrip()
    for place in range(1, MAX_FORKS + 1):
        try:
            fork = await session.fork(f"{stem}-edit-{place}", turn - 1)
        except SessionExists:
            continue
        return visit.go(f"{session_path(fork.id)}?edit=T-{turn}#chat")
    raise ProblemError(409, f"{session.id} has {MAX_FORKS} edited forks already; use 'Fork here' with another name")


async def edited_prompt(visit: Visit, fork: Session) -> str:
    """Return the prompt that the fork was made to edit; empty if there is none."""
    turn = turn_number(visit.query("edit"))
    info = fork.info
    forked_at = (turn_number(info.fork_turn_id) if info.fork_turn_id else 0) or 0
    if turn is None or info.parent_id is None or turn != forked_at + 1:
        return ""
    parent = await visit.view.open_session(info.parent_id)
    if turn > parent.info.turns:
        return ""
    messages = (await parent.load_turn(turn)).messages
    parts = (part for message in messages if message.role == "user" for part in message.parts)
    return "\n\n".join(part.text for part in parts if isinstance(part, Text))[:MAX_PROMPT_CHARS]


async def _toolbox(visit: Visit, session: Session, names: tuple[str, ...], approve: ChatApprover) -> Toolbox | None:
    if not names:
        return None
    visit.view.check_right("admin", "a pack of tools")
    choice = ToolChoice(packs=names, roots=visit.view.settings.agents.roots)
    toolbox = await open_toolbox(visit.view, session, choice, approve=approve)
    await note_packs(session, choice)
    return toolbox


async def _open(visit: Visit, found: Session, model: str, toolbox: Toolbox | None) -> Chat:
    fov = visit.view
    models = fov.models_for("chat")
    if model and model not in models:
        raise ProblemError(422, f"the model {model[:80]!r} is not configured; available: {', '.join(models) or 'none'}")
    chosen = tuple(dict.fromkeys((*([model] if model else []), *models)))
    if not chosen:
        raise ProblemError(422, NO_MODEL)
    await fov.check_model(chosen[0])
    window = fov.window_tokens(chosen[0])
    output = most_output(window)
    found.engine.limit_budget(
        fitting_budget(
            None,
            found.info,
            default_tokens=fov.settings.session.budget_tokens,
            output_tokens=output,
            window_tokens=window,
            option="the budget",
        )
    )
    return Chat(found, fov.caller, chosen, ChatOptions.of(fov, toolbox, max_output_tokens=output))


async def _stream(chat: Chat, text: str, visit: Visit, items: asyncio.Queue[Item]) -> AsyncIterator[bytes]:
    """Stream the events of a chat, which runs in its own task so that a question can be shown while a call waits."""
    running = asyncio.create_task(_run(chat, text, items))
    try:
        while (item := await items.get()) is not None:
            if event := _event(item, chat.session, visit):
                yield event
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _run(chat: Chat, text: str, items: asyncio.Queue[Item]) -> None:
    with contained() as outcome:
        async with aclosing(chat.say(text)) as events:
            async for event in events:
                items.put_nowait(event)
    if outcome.error is not None:
        items.put_nowait(outcome.error)
    items.put_nowait(None)


def _event(item: Item, session: Session, visit: Visit) -> bytes | None:
    """Encode an item for the browser: text, a part of the page, or the end."""
    if isinstance(item, AnswerPiece):
        return _bytes("piece", item.text)
    if isinstance(item, Notice):
        return _bytes("notice", item.text)
    if isinstance(item, Exception):
        return _bytes("problem", explained(item, visit.principal.tenant, "a chat"))
    if part := _part(item):
        template, values = part
        kind = "done" if isinstance(item, AnswerSummary) else "part"
        return _bytes(kind, render(template, {"info": session.info, "may_write": True, **values}))
    return None


def _part(item: Item) -> tuple[str, Mapping[str, object]] | None:
    """Return the template of an event and its values; None if it has none."""
    match item:
        case ToolRequest(name, arguments):
            return "chat_tool.html", {"name": name, "arguments": argument_rows(arguments)}
        case ToolResponse():
            return "chat_result.html", {"result": item}
        case Question():
            return "approval.html", question_values(item)
        case AnswerSummary():
            share = item.cached_share if item.cached_share is not None else item.predicted_cached_share
            return "chat_done.html", {"done": item, "share": share}
        case _:
            return None


def question_values(question: Question) -> dict[str, object]:
    """Return the template values of an open question."""
    return {"question": question, "arguments": argument_rows(dict(question.arguments))}


def argument_rows(arguments: Json) -> list[tuple[str, str]]:
    """Return the arguments of a call as names and texts."""
    if not isinstance(arguments, Mapping):
        return [("", str(arguments))]
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in arguments.items()
    ]


def _bytes(kind: str, text: str) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(text)}\n\n".encode()
