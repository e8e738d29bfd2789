"""Import by drag and drop, and export as a download."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePath

from starlette.datastructures import UploadFile
from starlette.responses import Response, StreamingResponse

from foveate.errors import FoveateError
from foveate.server.api.transfer import export_stream
from foveate.server.dashboard.page import BASE, HEADERS, Pages, Visit, url
from foveate.server.problems import ProblemError, problem_of

MAX_FILES = 50
PIECE = 1 << 20
SUFFIXES = {"json": "json", "markdown": "md"}
pages = Pages()


@pages.add("GET", f"{BASE}/import", right="write")
async def show_import(visit: Visit) -> Response:
    """The form for transcripts."""
    return visit.page("import.html", title="Import", results=(), problems=())


@pages.add("POST", f"{BASE}/import", right="write")
async def import_files(visit: Visit) -> Response:
    """Import transcripts; one that can't be read does not stop the others."""
    limit = visit.parts.settings.max_body_mb * 1_000_000
    if int(visit.request.headers.get("content-length", "0") or 0) > limit:
        raise ProblemError(413, f"the files have more than {limit // 1_000_000:,} MB together; use 'foveate import'")
    results, problems = [], []
    async with visit.request.form(max_files=MAX_FILES) as form:
        for upload in form.getlist("file"):
            if not isinstance(upload, UploadFile) or not upload.filename:
                continue
            name = PurePath(upload.filename.replace("\\", "/")).name or "transcript.jsonl"
            try:
                results.append((name, await _import(visit, upload, name)))
            except (FoveateError, OSError, ValueError) as error:
                detail = problem_of(error, visit.principal.tenant).detail if isinstance(error, FoveateError) else ""
                problems.append((name, detail or f"it can't be read: {type(error).__name__}"))
    if not results and not problems:
        problems.append(("", "choose at least one file"))
    return visit.page("import.html", title="Import", results=results, problems=problems)


async def _import(visit: Visit, upload: UploadFile, name: str) -> object:
    with tempfile.TemporaryDirectory(prefix="foveate-import-") as folder:
        path = Path(folder) / name[-100:]
        with path.open("wb") as file:
            while piece := await upload.read(PIECE):
                file.write(piece)
        report = await visit.view.import_file(path)
        report.source = name
        return report


@pages.add("GET", f"{BASE}/sessions/{{session}}/export", right="read")
async def export(visit: Visit, session: str) -> Response:
    """A session as a file."""
    shape = visit.query("format", "json")
    found = await visit.view.open_session(session)
    stream = await export_stream(found.export(shape))
    name = f"{url(session)}.{SUFFIXES.get(shape, 'txt')}"
    headers = {**HEADERS, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return StreamingResponse(stream, media_type="application/octet-stream", headers=headers)
