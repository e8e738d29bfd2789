"""A chat in the browser: the prompt is sent as a form, and the answer arrives as a stream of events.

prompt ──► chat ──► events ──► stream ──► browser
             │ a tool that needs approval: a question in the stream, the decision by a separate form
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import groupby

from starlette.responses import Response

from foveate.agents.budget import fitting_budget, most_output
from foveate.agents.chat import (
    AnswerPiece,
    AnswerSummary,
    Chat,
    ChatEvent,
    Notice,
    RequestSent,
    ToolRequest,
    ToolResponse,
)
from foveate.agents.choice import ChatModel, chat_models, remember_model, remembered_model
from foveate.agents.options import ChatOptions
from foveate.agents.toolboxes import ToolChoice, note_packs, open_toolbox, read_packs
from foveate.errors import ModelUnavailable, SessionExists, SettingsError, contained
from foveate.server.api.events import event_response
from foveate.server.dashboard.approvals import ChatApprover, Question
from foveate.server.dashboard.markdown import GrowingMarkdown
from foveate.server.dashboard.page import BASE, HEADERS, Form, Pages, Visit, render, session_path
from foveate.server.problems import ProblemError, explained
from foveate.session import Session
from foveate.session.documents import PACK
from foveate.settings import load_settings
from foveate.tools import Toolbox, packs
from foveate.turn import Json, Text, turn_number

NO_MODEL = "no model is chosen; choose one, or run 'foveate models set chat NAME'"
MAX_PROMPT_CHARS = 400_000
MAX_ID_CHARS = 180
"""Characters of a session's id that are used in the id of its fork."""
MAX_FORKS = 100
"""Number of names that are tried for the fork of an edited prompt."""
MAX_MODEL_CHARS = 300
PAINT_SECONDS = 0.05
"""Pause after a part of an answer was sent; what arrives meanwhile is sent together."""
PAINT_CHARS_PER_SECOND = 100_000
"""An answer whose last block has this many characters is drawn once a second."""
pages = Pages()

Item = ChatEvent | Question | Exception | None
"""An item of the chat's stream; None at its end."""


@dataclass(frozen=True, slots=True)
class ModelChoices:
    """The models that can be chosen for a chat."""

    known: tuple[ChatModel, ...]
    chosen: str
    """The model that the session used last, or the configured one; empty: none."""
    may_name: bool
    """Whether the caller may name any other model."""

    @property
    def is_capable(self) -> bool:
        """Whether there is a model besides toys."""
        return any(not model.is_toy for model in self.known)


async def model_choices(visit: Visit, session: Session) -> ModelChoices:
    """Return the configured models; the owner's also those for other purposes, and those of a changed settings file."""
    settings = visit.view.settings
    found = {model.name: model for model in chat_models(settings, any_purpose=visit.is_owner)}
    if visit.is_owner:
        with suppress(SettingsError):
            found = {model.name: model for model in chat_models(load_settings(), any_purpose=True)} | found
    known = tuple(sorted(found.values(), key=lambda model: model.is_toy))
    chosen = await remembered_model(session, settings.models, tuple(found))
    if chosen and chosen not in found and visit.is_owner:
        known = (*known, ChatModel(chosen))
    elif chosen not in found:
        chosen = next(iter((*visit.view.models_for("chat"), *found)), "")
    return ModelChoices(known, chosen, visit.is_owner)


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
    """Record a prompt, or ask again for the answer to the newest one, and stream the answer.

    If the browser disconnects, the call of the model is cancelled and the partial answer is recorded.
    """
    form = await visit.form_lists()
    text = "".join(form.get("prompt", ()))
    is_again = "again" in form
    if not text.strip() and not is_again:
        raise ProblemError(422, "the prompt is empty")
    if len(text) > MAX_PROMPT_CHARS:
        raise ProblemError(413, f"the prompt has more than {MAX_PROMPT_CHARS:,} characters; import it as a transcript")
    found = await visit.view.open_session(session)
    items: asyncio.Queue[Item] = asyncio.Queue()
    approve = ChatApprover(visit.parts.approvals, visit.principal.tenant, found.id, items.put_nowait)
    chosen = tuple(name for name in dict.fromkeys(form.get("pack", ())) if name)
    toolbox = await _toolbox(visit, found, chosen, approve)
    model = next((name.strip() for name in (*form.get("model", ()), *form.get("other", ())) if name.strip()), "")
    chat = await _open(visit, found, model, toolbox)
    return event_response(_stream(chat, None if is_again else text, visit, items), HEADERS)


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
    choices = await model_choices(visit, found)
    model = model or choices.chosen
    if not model:
        raise ProblemError(422, NO_MODEL)
    if not visit.is_owner and model not in (names := [one.name for one in choices.known]):
        raise ProblemError(422, f"the model {model[:80]!r} is not configured; available: {', '.join(names) or 'none'}")
    if len(model) > MAX_MODEL_CHARS:
        raise ProblemError(422, f"the name of a model has at most {MAX_MODEL_CHARS} characters")
    configured = fov.models_for("chat")
    is_default = model == next(iter(configured), None)
    # A conversation goes to another model than the chosen one only if the settings say so.
    chosen = configured if is_default else (model,)
    try:
        await fov.check_model(model)
    except ModelUnavailable as error:
        raise ProblemError(422, str(error)) from error
    await remember_model(found, "" if is_default else model)
    window = fov.window_tokens(model)
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


async def _stream(chat: Chat, text: str | None, visit: Visit, items: asyncio.Queue[Item]) -> AsyncIterator[bytes]:
    """Stream the events of a chat, which runs in its own task so that a question can be shown while a call waits."""
    running = asyncio.create_task(_run(chat, text, items))
    growing = GrowingMarkdown()
    try:
        while True:
            arrived = [await items.get()]
            while not items.empty():
                arrived.append(items.get_nowait())
            for pieces, others in groupby(arrived, lambda item: isinstance(item, AnswerPiece)):
                if pieces:
                    text_of_all = "".join(item.text for item in others if isinstance(item, AnswerPiece))
                    painted = await asyncio.to_thread(growing.feed, text_of_all)
                    yield _bytes("piece", {"finished": painted.finished, "tail": painted.tail})
                    await asyncio.sleep(PAINT_SECONDS + len(painted.tail) / PAINT_CHARS_PER_SECOND)
                    continue
                growing = GrowingMarkdown()
                for item in others:
                    if item is None:
                        return
                    if event := _event(item, chat.session, visit):
                        yield event
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _run(chat: Chat, text: str | None, items: asyncio.Queue[Item]) -> None:
    with contained() as outcome:
        async with aclosing(chat.answer() if text is None else chat.say(text)) as events:
            async for event in events:
                items.put_nowait(event)
    if outcome.error is not None:
        items.put_nowait(outcome.error)
    items.put_nowait(None)


def _event(item: Item, session: Session, visit: Visit) -> bytes | None:
    """Encode an item for the browser: a notice, a part of the page, or the end."""
    if isinstance(item, RequestSent):
        return _bytes("sent", f"{item.tokens:,} tokens sent")
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


def _bytes(kind: str, data: str | dict[str, str]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
