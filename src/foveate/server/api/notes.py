"""Pins, goals, documents and the board of a session."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from foveate.server.api.endpoint import Endpoints
from foveate.server.api.page import ItemList
from foveate.session import Session
from foveate.session.goals import Goal
from foveate.session.values import Board, Pin

routes = Endpoints("notes")
Text = Annotated[str, Meta(min_length=1)]


class PinList(ItemList[Pin], frozen=True):
    """The pins, oldest first."""


class PinBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule or fact that every context includes verbatim."""

    text: Text
    locked: bool = False
    """Removing it then needs `force`."""


class UnpinQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of removing a pin."""

    force: bool = False
    """Remove the pin even if it is locked."""


class GoalList(ItemList[Goal], frozen=True):
    """The goals, in the order they were added."""


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
async def list_pins(session: Session) -> PinList:
    """List the pins."""
    return PinList(items=await session.pins())


@routes.add("POST", "/sessions/{session}/pins", right="write", status=201)
async def add_pin(session: Session, body: PinBody) -> Pin:
    """Pin a text. Pinning it again returns the existing pin."""
    return await session.pin(body.text, locked=body.locked)


@routes.add("DELETE", "/sessions/{session}/pins/{pin}", right="write")
async def remove_pin(session: Session, pin: str, query: UnpinQuery) -> None:
    """Remove a pin; 409 if it is locked."""
    await session.unpin(pin, even_if_locked=query.force)


@routes.add("GET", "/sessions/{session}/goals", right="read")
async def list_goals(session: Session) -> GoalList:
    """List the goals."""
    return GoalList(items=list(await session.goals.list()))


@routes.add("POST", "/sessions/{session}/goals", right="write", status=201)
async def add_goal(session: Session, body: GoalBody) -> Goal:
    """Add a goal."""
    return await session.goals.add(body.title, priority=body.priority, steps=body.steps)


@routes.add("POST", "/sessions/{session}/goals/{goal}/steps", right="write")
async def set_step(session: Session, goal: str, body: StepBody) -> Goal:
    """Set the status of a step, or add one."""
    return await session.goals.step(goal, body.step, body.status)


@routes.add("POST", "/sessions/{session}/goals/{goal}/decisions", right="write")
async def lock_decision(session: Session, goal: str, body: DecisionBody) -> Goal:
    """Lock a decision."""
    return await session.goals.decide(goal, body.text)


@routes.add("POST", "/sessions/{session}/goals/{goal}/artifacts", right="write")
async def add_artifact(session: Session, goal: str, body: ArtifactBody) -> Goal:
    """Record a file of the goal."""
    return await session.goals.artifact(goal, body.path, body.change)


@routes.add("POST", "/sessions/{session}/goals/{goal}/done", right="write")
async def finish_goal(session: Session, goal: str) -> Goal:
    """Mark a goal as done."""
    return await session.goals.done(goal)


@routes.add("GET", "/sessions/{session}/documents/{name}", right="read")
async def get_document(session: Session, name: str) -> DocumentResource:
    """Get a document, e.g. `epic` or `tasks`."""
    return DocumentResource(name=name, text=await session.documents.get(name))


@routes.add("PUT", "/sessions/{session}/documents/{name}", right="write")
async def set_document(session: Session, name: str, body: DocumentBody) -> DocumentResource:
    """Set or replace a document."""
    await session.documents.give(name, body.text)
    return DocumentResource(name=name, text=body.text)


@routes.add("GET", "/sessions/{session}/board", right="read")
async def get_board(session: Session) -> Board:
    """Get the board: retrieved turns that contexts include for a few turns."""
    return await session.board()


@routes.add("PUT", "/sessions/{session}/board/{item}", right="write")
async def save_board_item(session: Session, item: str) -> Board:
    """Keep an item on the board until it is dismissed."""
    await session.save(item)
    return await session.board()


@routes.add("DELETE", "/sessions/{session}/board/{item}", right="write")
async def dismiss_board_item(session: Session, item: str) -> Board:
    """Remove an item from the board."""
    await session.dismiss(item)
    return await session.board()
