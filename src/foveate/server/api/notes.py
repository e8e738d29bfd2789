"""What people keep beside the turns: pins, goals, documents and the board."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from foveate.server.api.endpoint import Call, Endpoints
from foveate.session.goals import Goal
from foveate.session.values import Board, Pin

routes = Endpoints("notes")
Text = Annotated[str, Meta(min_length=1)]


class PinList(Struct, frozen=True, kw_only=True):
    """The pins, oldest first."""

    items: list[Pin]


class PinBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule or fact that every context includes verbatim."""

    text: Text
    locked: bool = False
    """Removing it then needs `force`."""


class UnpinQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to remove it."""

    force: bool = False
    """Even if it is locked."""


class GoalList(Struct, frozen=True, kw_only=True):
    """The goals, in the order they were added."""

    items: list[Goal]


class GoalBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A goal to add."""

    title: Text
    priority: Literal["low", "normal", "high"] = "normal"
    steps: list[Text] = []


class StepBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step, by its number from 1 or its title; an unknown title adds a step."""

    step: int | Text
    status: Literal["pending", "in progress", "done"] = "pending"


class DecisionBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision to lock: every context includes it verbatim."""

    text: Text


class ArtifactBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that the goal created, modified or deleted."""

    path: Text
    change: Literal["created", "modified", "deleted"] = "created"


class DocumentBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document; an empty text removes it."""

    text: str


class DocumentResource(Struct, frozen=True, kw_only=True):
    """A document of the session; empty if there is none."""

    name: str
    text: str


@routes.add("GET", "/sessions/{session}/pins", right="read")
async def list_pins(call: Call, session: str) -> PinList:
    """The pins."""
    return PinList(items=await (await call.view.open_session(session)).pins())


@routes.add("POST", "/sessions/{session}/pins", right="write", status=201)
async def add_pin(call: Call, session: str, body: PinBody) -> Pin:
    """Pin a text. Pinning it again returns the existing pin."""
    return await (await call.view.open_session(session)).pin(body.text, locked=body.locked)


@routes.add("DELETE", "/sessions/{session}/pins/{pin}", right="write")
async def remove_pin(call: Call, session: str, pin: str, query: UnpinQuery) -> None:
    """Remove a pin; 409 if it is locked."""
    await (await call.view.open_session(session)).unpin(pin, even_if_locked=query.force)


@routes.add("GET", "/sessions/{session}/goals", right="read")
async def list_goals(call: Call, session: str) -> GoalList:
    """The goals."""
    return GoalList(items=list(await (await call.view.open_session(session)).goals.list()))


@routes.add("POST", "/sessions/{session}/goals", right="write", status=201)
async def add_goal(call: Call, session: str, body: GoalBody) -> Goal:
    """Add a goal."""
    goals = (await call.view.open_session(session)).goals
    return await goals.add(body.title, priority=body.priority, steps=body.steps)


@routes.add("POST", "/sessions/{session}/goals/{goal}/steps", right="write")
async def set_step(call: Call, session: str, goal: str, body: StepBody) -> Goal:
    """Set the status of a step, or add one."""
    return await (await call.view.open_session(session)).goals.step(goal, body.step, body.status)


@routes.add("POST", "/sessions/{session}/goals/{goal}/decisions", right="write")
async def lock_decision(call: Call, session: str, goal: str, body: DecisionBody) -> Goal:
    """Lock a decision."""
    return await (await call.view.open_session(session)).goals.decide(goal, body.text)


@routes.add("POST", "/sessions/{session}/goals/{goal}/artifacts", right="write")
async def add_artifact(call: Call, session: str, goal: str, body: ArtifactBody) -> Goal:
    """Note a file of the goal."""
    return await (await call.view.open_session(session)).goals.artifact(goal, body.path, body.change)


@routes.add("POST", "/sessions/{session}/goals/{goal}/done", right="write")
async def finish_goal(call: Call, session: str, goal: str) -> Goal:
    """Mark a goal as done."""
    return await (await call.view.open_session(session)).goals.done(goal)


@routes.add("GET", "/sessions/{session}/documents/{name}", right="read")
async def get_document(call: Call, session: str, name: str) -> DocumentResource:
    """A document, e.g. `epic` or `tasks`."""
    found = await call.view.open_session(session)
    return DocumentResource(name=name, text=await found.documents.get(name))


@routes.add("PUT", "/sessions/{session}/documents/{name}", right="write")
async def set_document(call: Call, session: str, name: str, body: DocumentBody) -> DocumentResource:
    """Set or replace a document."""
    await (await call.view.open_session(session)).documents.give(name, body.text)
    return DocumentResource(name=name, text=body.text)


@routes.add("GET", "/sessions/{session}/board", right="read")
async def get_board(call: Call, session: str) -> Board:
    """Retrieved turns that contexts show for some turns."""
    return await (await call.view.open_session(session)).board()


@routes.add("PUT", "/sessions/{session}/board/{item}", right="write")
async def save_board_item(call: Call, session: str, item: str) -> Board:
    """Keep an item on the board until it is dismissed."""
    found = await call.view.open_session(session)
    await found.save(item)
    return await found.board()


@routes.add("DELETE", "/sessions/{session}/board/{item}", right="write")
async def dismiss_board_item(call: Call, session: str, item: str) -> Board:
    """Remove an item from the board."""
    found = await call.view.open_session(session)
    await found.dismiss(item)
    return await found.board()
