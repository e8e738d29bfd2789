"""Comparisons of strategies: start one on a session or a transcript, watch its progress, read the report."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.datastructures import UploadFile
from starlette.responses import HTMLResponse, Response

from foveate.replay.compare import described
from foveate.replay.page import write_report
from foveate.server.api.jobs import ENDED, Advance, JobResource
from foveate.server.api.transfer import BUDGETS_TOKENS, CompareBody, PlannedComparison
from foveate.server.dashboard.page import BASE, HEADERS, Pages, Visit, whole_number
from foveate.server.dashboard.transfer import copy_upload, upload_name
from foveate.server.problems import ProblemError
from foveate.server.time_limits import allow_long
from foveate.settings import make_strategy, strategy_names

pages = Pages()
_BETWEEN = re.compile(r"[,;\s]+")
"""Separates budgets."""
KIND = "compare-page"
MAX_BUDGETS = 10
MAX_CHOICES = 500
"""Number of sessions in the form's list, most recently used first."""


@pages.add("GET", f"{BASE}/compare", right="read")
async def show_compare(visit: Visit) -> Response:
    """Show the form, and the comparisons so far."""
    jobs = [job.shown(visit.principal) for job in visit.parts.jobs.list(visit.principal) if job.kind == KIND]
    return visit.page(
        "compare.html",
        title="Compare",
        sessions=await visit.view.sessions(limit=MAX_CHOICES),
        strategies={name: described(make_strategy(name, visit.view.settings)) for name in strategy_names()},
        budgets=", ".join(f"{tokens:,}".replace(",", "") for tokens in BUDGETS_TOKENS),
        jobs=jobs,
        chosen=visit.query("session"),
    )


@pages.add("POST", f"{BASE}/compare", right="read")
async def start_compare(visit: Visit) -> Response:
    """Start a job that compares strategies on a session, or on a transcript without importing it."""
    visit.check_size()
    allow_long(visit.request)
    async with visit.request.form(max_files=1) as form:
        names = [str(name) for name in form.getlist("strategy")]
        budgets = [whole_number(part, "a budget", least=100) for part in _BETWEEN.split(str(form.get("budgets", "")))]
        amounts = tuple(dict.fromkeys(tokens for tokens in budgets if tokens))
        if not amounts:
            raise ProblemError(422, "give at least one budget, e.g. 16k, 64k")
        if len(amounts) > MAX_BUDGETS:
            raise ProblemError(422, f"give at most {MAX_BUDGETS} budgets")
        wanted = CompareBody(strategies=names, budgets_tokens=list(amounts))
        upload = form.get("file")
        if isinstance(upload, UploadFile) and upload.filename:
            title = name = upload_name(upload)
            max_mb = visit.parts.settings.max_body_mb
            comparison = await PlannedComparison.of_file(name, partial(copy_upload, upload), wanted, max_mb=max_mb)
        else:
            found = await visit.view.open_session(str(form.get("session", "")))
            title, name = found.info.title or found.id, found.id
            comparison = await PlannedComparison.of(visit.view, found, wanted)

    async def work(advance: Advance) -> dict[str, Any]:
        return {"html": write_report(title, await comparison.run(advance))}

    job = visit.parts.jobs.start(visit.principal, KIND, name, total=comparison.total, work=work)
    return visit.go(f"{BASE}/compare/{job.id}")


@pages.add("GET", f"{BASE}/compare/{{job}}", right="read")
async def show_report(visit: Visit, job: str) -> Response:
    """Show the report, or the progress while it is being made."""
    found = visit.parts.jobs.get(visit.principal, job).shown(visit.principal)
    left = _seconds_left(found)
    if visit.is_fragment and found.status not in ENDED:
        return visit.part("progress.html", job=found, left=left)
    if visit.is_fragment:
        return HTMLResponse(status_code=204, headers={**HEADERS, "HX-Refresh": "true"})
    report = (found.result or {}).get("html", "")
    return visit.page("report.html", title="Comparison", job=found, report=report, left=left)


def _seconds_left(job: JobResource) -> int | None:
    """Estimate the rest of a job from its steps so far; None before it has done some."""
    if job.status in ENDED or not job.done:
        return None
    taken = (datetime.now(UTC) - job.created_at).total_seconds()
    return math.ceil(taken * (job.total - job.done) / job.done)
