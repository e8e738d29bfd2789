"""Import by drag and drop, and export as a download."""

from __future__ import annotations

from functools import partial
from pathlib import PurePath
from typing import BinaryIO

from starlette.datastructures import UploadFile
from starlette.responses import Response, StreamingResponse

from foveate.errors import FoveateError
from foveate.importer import accepted_files
from foveate.server.api.transfer import export_stream, import_named
from foveate.server.dashboard.page import BASE, HEADERS, Pages, Visit, url
from foveate.server.problems import ProblemError, explained
from foveate.server.time_limits import allow_long
from foveate.session import Session

MAX_FILES = 50
PIECE = 1 << 20
MAX_NAME_CHARS = 100
SUFFIXES = {"json": "json", "markdown": "md"}
pages = Pages()


@pages.add("GET", f"{BASE}/import", right="write")
async def show_import(visit: Visit) -> Response:
    """Show the import form."""
    return visit.page("import.html", title="Import", results=(), problems=(), accepted=accepted_files())


@pages.add("POST", f"{BASE}/import", right="write")
async def import_files(visit: Visit) -> Response:
    """Import transcripts; an unreadable one does not stop the others."""
    visit.check_size()
    allow_long(visit.request)
    results, problems = [], []
    max_mb = visit.parts.settings.max_body_mb
    async with visit.request.form(max_files=MAX_FILES) as form:
        for upload in form.getlist("file"):
            if not isinstance(upload, UploadFile) or not upload.filename:
                continue
            name = upload_name(upload)
            try:
                report = await import_named(visit.view, name, partial(copy_upload, upload), max_mb=max_mb)
                results.append((name, report))
            except (ProblemError, FoveateError) as error:
                problems.append((name, explained(error, visit.principal.tenant, "an import")))
    if not results and not problems:
        problems.append(("", "choose at least one file"))
    return visit.page("import.html", title="Import", results=results, problems=problems, accepted=accepted_files())


def upload_name(upload: UploadFile) -> str:
    """Return the name of an uploaded file, without its folders."""
    return PurePath((upload.filename or "").replace("\\", "/")).name[-MAX_NAME_CHARS:] or "transcript.jsonl"


async def copy_upload(upload: UploadFile, file: BinaryIO) -> None:
    """Copy an uploaded file into another file."""
    while piece := await upload.read(PIECE):
        file.write(piece)


@pages.add("GET", f"{BASE}/sessions/{{session}}/export", right="read")
async def export(visit: Visit, session: Session) -> Response:
    """Export a session, or one of its turns, as a download."""
    shape, turn = visit.query("format", "json"), visit.query("turn")
    stream = await export_stream(session.export(shape, first=turn or "T-1", last=turn or None))
    name = f"{url('-'.join(filter(None, (session.id, turn))))}.{SUFFIXES.get(shape, 'txt')}"
    headers = {**HEADERS, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return StreamingResponse(stream, media_type="application/octet-stream", headers=headers)
