"""`/sessions/{session}/topics` and `/checkpoints`: what these strategies made of a conversation."""

from __future__ import annotations

from msgspec import Struct

from foveate.server.api.endpoint import Call, Endpoints
from foveate.session.checkpoints import CheckpointInfo, CheckpointStatus
from foveate.session.topics import Topic, TopicsHistory

routes = Endpoints("topics")


class CheckpointList(Struct, frozen=True, kw_only=True):
    """The checkpoints that contexts show now, oldest first."""

    items: list[CheckpointInfo]
    status: CheckpointStatus


@routes.add("GET", "/sessions/{session}/topics", right="read")
async def list_topics(call: Call, session: str) -> TopicsHistory:
    """Bulks, past topics and the current one. 422 unless the session uses the topics strategy."""
    return await (await call.view.open_session(session)).topics.get_history()


@routes.add("POST", "/sessions/{session}/topics/seal", right="write")
async def seal_topic(call: Call, session: str) -> Topic:
    """End the current topic; the next message begins a new one."""
    return await (await call.view.open_session(session)).topics.seal_current_topic()


@routes.add("POST", "/sessions/{session}/topics/unseal", right="write")
async def unseal_topic(call: Call, session: str) -> TopicsHistory:
    """Undo the last seal. Possible until the next message."""
    topics = (await call.view.open_session(session)).topics
    await topics.unseal()
    return await topics.get_history()


@routes.add("GET", "/sessions/{session}/checkpoints", right="read")
async def list_checkpoints(call: Call, session: str) -> CheckpointList:
    """The checkpoints and the use of the budget. 422 unless the session uses the checkpoint strategy."""
    checkpoints = (await call.view.open_session(session)).checkpoints
    return CheckpointList(items=list(await checkpoints.list()), status=await checkpoints.status())
