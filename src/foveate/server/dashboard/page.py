"""Declares and renders pages: templates, headers, and the right that each needs."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

import foveate
from foveate.errors import FoveateError
from foveate.events import EVENT_KINDS
from foveate.server.access import check_right
from foveate.server.api.endpoint import ApiParts, Call, Handler, bound
from foveate.server.dashboard.markdown import render_markdown
from foveate.server.problems import DASHBOARD_PATH, HOME_PATH, ProblemError, problem_of
from foveate.server.settings import MB
from foveate.session.keys import Right
from foveate.session.subagents import AgentInfo
from foveate.session.values import SessionInfo
from foveate.text import several

BASE = DASHBOARD_PATH
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Content-Security-Policy: nothing inline, nothing from other origins."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers hide the origin of forms too
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
NAVIGATION = (
    (HOME_PATH, "Sessions"),
    (f"{BASE}/compare", "Compare"),
    (f"{BASE}/costs", "Costs"),
    (f"{BASE}/knowledge", "Knowledge"),
    (f"{BASE}/agents", "Agents"),
    (f"{BASE}/prompts", "Prompts"),
    (f"{BASE}/cabinet", "Cabinet"),
    (f"{BASE}/import", "Import"),
    (f"{BASE}/settings", "Settings"),
)
SERVER_ERROR = 500
MAX_DIGITS = 18
"""Digits of a typed number."""
MINUTE, HOUR, DAY = 60, 3_600, 86_400
WEEK = 7 * DAY

Method = Literal["GET", "POST"]
Item = TypeVar("Item", SessionInfo, AgentInfo)
Form: TypeAlias = dict[str, str]
"""The text fields of a form; of several fields with one name the last."""

_log = logging.getLogger(__name__)


class Visit(Call):
    """One request for a page."""

    __slots__ = ()

    @property
    def is_owner(self) -> bool:
        """Whether the caller may use what is the owner's: folders, models that no setting names, and settings."""
        return self.view.right == "admin" and not self.principal.tenant

    @property
    def is_fragment(self) -> bool:
        """Whether htmx requests a part of the page."""
        return "hx-request" in self.request.headers

    def page(self, template: str, *, title: str, status: int = 200, **values: Any) -> Response:
        """Render a whole page."""
        shown = {
            "title": title,
            "status": status,
            "navigation": NAVIGATION,
            "path": self.request.url.path,
            "kinds": " ".join(EVENT_KINDS),
            "version": foveate.__version__,
            "has_key": bool(self.principal.key_id),
            "may_write": self.principal.may("write"),
            **values,
        }
        return HTMLResponse(render(template, shown), status, HEADERS)

    def part(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Render a part of a page, for htmx."""
        shown = {"may_write": self.principal.may("write"), **values}
        return HTMLResponse(render(template, shown), status, HEADERS)

    def part_or_page(self, part: str, page: str, *, title: str, **values: Any) -> Response:
        """Render the part for a request of htmx, or the whole page for any other."""
        return self.part(part, **values) if self.is_fragment else self.page(page, title=title, **values)

    def go(self, path: str) -> Response:
        """Redirect the browser."""
        if self.is_fragment:
            return Response(status_code=204, headers={**HEADERS, "HX-Redirect": path})
        return RedirectResponse(path, 303, HEADERS)

    async def form(self) -> Form:
        return {name: values[-1] for name, values in (await self.form_lists()).items()}

    async def form_lists(self) -> dict[str, list[str]]:
        """Read the text fields of a form, with all values of each."""
        self.check_size()
        found: dict[str, list[str]] = {}
        for name, value in (await self.request.form(max_files=0)).multi_items():
            if isinstance(value, str):
                found.setdefault(name, []).append(value.replace("\r\n", "\n"))
        return found

    def check_size(self) -> None:
        """Raise `ProblemError` if the body is too large, or its size is not known."""
        most = self.parts.settings.max_body_mb
        length = self.request.headers.get("content-length", "")
        if not length.isdecimal():
            raise ProblemError(411, "the size of the body is missing: send Content-Length")
        if int(length) > most * MB:
            raise ProblemError(413, f"the upload is larger than {most:,} MB; import files with 'foveate import'")

    def query(self, name: str, default: str = "") -> str:
        return self.request.query_params.get(name, default)


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A page with its path and the right that it needs."""

    method: Method
    path: str
    right: Right | None
    """None for a public page."""
    handler: Handler


class Pages:
    """The pages of one module."""

    def __init__(self) -> None:
        self.listed: list[PageRoute] = []

    def add(self, method: Method, path: str, *, right: Right | None) -> Callable[[Handler], Handler]:
        """Declare a page. `{names}` in the path are arguments of the handler, and `form` has the submitted fields."""

        def declare(handler: Handler) -> Handler:
            changes = method != "GET" and right != "read"
            self.listed.append(PageRoute(method, path, right, bound(handler, changes=changes)))
            return handler

        return declare


def make_routes(pages: Sequence[PageRoute], parts: ApiParts) -> list[Route]:
    """Return the routes of these pages."""
    return [Route(page.path, _runner(page, parts), methods=[page.method]) for page in pages]


def _runner(page: PageRoute, parts: ApiParts) -> Callable[[Request], Awaitable[Response]]:
    takes_form = "form" in inspect.signature(page.handler).parameters

    async def run(request: Request) -> Response:
        visit = Visit.of(request, parts)
        arguments = visit.path_arguments()
        try:
            if page.right:
                check_right(visit.principal, page.right)
            if takes_form:
                arguments["form"] = await visit.form()
            response: Response = await page.handler(visit, **arguments)
            return response
        except ProblemError as error:
            return refused(visit, error)
        except FoveateError as error:
            problem = problem_of(error, visit.principal.tenant)
            if problem.status >= SERVER_ERROR:
                _log.error("%s %s failed", request.method, page.path, exc_info=error)
            return refused(visit, problem)

    run.__doc__ = inspect.getdoc(page.handler)
    return run


def refused(visit: Visit, error: ProblemError) -> Response:
    """Render an error instead of the page."""
    if visit.is_fragment:
        return visit.part("problem.html", status=error.status, problem=error.detail)
    return visit.page("error.html", title="Problem", status=error.status, problem=error.detail)


def render(template: str, values: Mapping[str, object]) -> str:
    """Render a template; every value is escaped."""
    text: str = _environment().get_template(template).render(values)
    # Old logs may have lone surrogates, which UTF-8 can't encode.
    return text.encode("utf-8", "replace").decode()


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("foveate.server.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "number": number,
        "age": age,
        "when": when,
        "url": url,
        "share": share,
        "money": money,
        "decimals": decimals,
        "size": size,
        "several": several,
        "markdown": render_markdown,
    }
    found.globals["session_path"] = session_path
    return found


def descend(top: str, below: Mapping[str, Sequence[Item]]) -> Iterator[tuple[Item, int]]:
    """Yield all descendants of an id in depth-first order, each with its depth."""
    waiting = [(item, 1) for item in reversed(below.get(top, ()))]
    while waiting:
        item, depth = waiting.pop()
        yield item, depth
        waiting.extend((child, depth + 1) for child in reversed(below.get(item.id, ())))


def session_path(session_id: str, rest: str = "") -> str:
    """Return the path of a session's page."""
    return f"{BASE}/sessions/{url(session_id)}{rest}"


def url(text: object) -> str:
    """Quote a text as a path segment."""
    return quote(str(text), safe="", errors="replace")


def number(value: float) -> str:
    return f"{value:,.0f}"


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def money(value: float, places: int | None = None) -> str:
    """Format dollars; `places` is the number of decimals of a column."""
    return f"${value:,.{decimals((value,)) if places is None else places}f}"


def decimals(usd: Iterable[float]) -> int:
    """Return the number of decimals of a column of dollars: more if an amount is below one dollar."""
    return 4 if any(0 < value < 1 for value in usd) else 2


def size(value: int) -> str:
    """Return a number of bytes with its unit, e.g. `7.2 kB`."""
    for factor, unit in ((MB, "MB"), (1_000, "kB")):
        if value >= factor:
            return f"{value / factor:,.1f} {unit}"
    return several(value, "byte")


def when(moment: datetime | None) -> str:
    """Format a time in UTC."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def age(moment: datetime) -> str:
    """Return how long ago a time was, e.g. `3 h ago`."""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    if seconds < MINUTE:
        return "just now"
    for limit, size, unit in ((HOUR, MINUTE, "min"), (DAY, HOUR, "h"), (10 * WEEK, DAY, "d")):
        if seconds < limit:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds // WEEK)} weeks ago"


def whole_number(text: str, name: str, *, least: int = 1, most: int = 100_000_000) -> int | None:
    """Parse a typed number, e.g. `8000` or `8k`; None if the field is empty."""
    typed = text.strip().lower().replace(",", "").replace("_", "")
    if not typed:
        return None
    scale = {"k": 1_000, "m": 1_000_000}.get(typed[-1], 1)
    digits = typed.rstrip("km")
    # Python converts no more than 4,300 digits.
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS
    if not is_number or not least <= int(digits) * scale <= most:
        raise ProblemError(422, f"{name} takes a number from {least:,} to {most:,}, e.g. 8000 or 8k; got {text[:40]!r}")
    return int(digits) * scale
