"""`/sessions/{session}/files` and `/messages`: files and todos that tool calls name, and what each message became."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from foveate.server.api.endpoint import Endpoints
from foveate.server.api.page import ItemList
from foveate.session import Session
from foveate.session.files import MAX_SUMMARY_CHARS, FileChange, FileRead, Todo
from foveate.session.messages import MessageReport

routes = Endpoints("files")


class FilesResource(Struct, frozen=True, kw_only=True):
    """Files that a session has read and changed, and its todo list, from the tool calls of its newest turns."""

    reads: list[FileRead]
    """The newest read of each path, with its lines, its hash, its summary and its sections."""
    changes: list[FileChange]
    """Oldest first, each with the todo that it was made for."""
    todos: list[Todo]
    summaries: dict[str, str]
    """Summaries that were set, by path."""


class FileSummaryBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A summary of a file."""

    summary: Annotated[str, Meta(max_length=MAX_SUMMARY_CHARS)]
    """Shown in place of the file's own description; empty removes it."""


class MessageReports(ItemList[MessageReport], frozen=True):
    """Messages, oldest first."""


@routes.add("GET", "/sessions/{session}/files", right="read")
async def list_files(session: Session) -> FilesResource:
    """List the files that tool calls have read and changed, and the todos."""
    return await _files(session)


@routes.add("PUT", "/sessions/{session}/files/{path}", right="write")
async def summarize_file(session: Session, path: str, body: FileSummaryBody) -> FilesResource:
    """Set the summary of a file, with the path as tool calls name it; a `/` is written `%2F`."""
    await session.files.summarize(path, body.summary)
    return await _files(session)


@routes.add("GET", "/sessions/{session}/messages", right="read")
async def report_messages(session: Session) -> MessageReports:
    """Report what each message became in the live context, and why. 422 unless the session uses the hybrid strategy."""
    return MessageReports(items=await session.message_reports())


async def _files(session: Session) -> FilesResource:
    found = await session.files.list()
    return FilesResource(
        reads=list(found.reads),
        changes=list(found.changes),
        todos=list(found.todos),
        summaries=dict(await session.files.summaries()),
    )
