"""`/sessions/{session}/topics` and `/checkpoints`: the topics or checkpoints of a session."""

from __future__ import annotations

from msgspec import Struct

from foveate.server.api.endpoint import Endpoints
from foveate.session import Session
from foveate.session.checkpoints import CheckpointInfo, CheckpointStatus
from foveate.session.topics import Topic, TopicsHistory

routes = Endpoints("topics")


class CheckpointList(Struct, frozen=True, kw_only=True):
    """The checkpoints that contexts include now, oldest first."""

    items: list[CheckpointInfo]
    status: CheckpointStatus


@routes.add("GET", "/sessions/{session}/topics", right="read")
async def list_topics(session: Session) -> TopicsHistory:
    """List bulks, past topics and the current one. 422 unless the session uses the topics strategy."""
    return await session.topics.get_history()


@routes.add("POST", "/sessions/{session}/topics/seal", right="write")
async def seal_topic(session: Session) -> Topic:
    """End the current topic; the next message begins a new one."""
    return await session.topics.seal_current_topic()


@routes.add("POST", "/sessions/{session}/topics/unseal", right="write")
async def unseal_topic(session: Session) -> TopicsHistory:
    """Undo the last seal. Possible until the next message."""
    await session.topics.unseal()
    return await session.topics.get_history()


@routes.add("GET", "/sessions/{session}/checkpoints", right="read")
async def list_checkpoints(session: Session) -> CheckpointList:
    """List the checkpoints and the use of the budget. 422 unless the session uses the checkpoint strategy."""
    checkpoints = session.checkpoints
    return CheckpointList(items=list(await checkpoints.list()), status=await checkpoints.status())
