"""Logging in with a key, and logging out. The key is kept in a cookie that no script can read."""

from __future__ import annotations

from starlette.responses import Response

from foveate.server.access import COOKIE
from foveate.server.dashboard.page import Form, Pages, Visit
from foveate.server.problems import HOME_PATH as HOME
from foveate.server.problems import LOGIN_PATH as LOGIN
from foveate.server.problems import ProblemError

pages = Pages()


@pages.add("GET", LOGIN, right=None)
async def show_login(visit: Visit) -> Response:
    """The form for a key."""
    if visit.is_fragment:  # htmx was sent here: the whole page has to change
        return visit.go(LOGIN)
    return visit.page("login.html", title="Log in", problem="")


@pages.add("POST", LOGIN, right=None)
async def log_in(visit: Visit, form: Form) -> Response:
    """Check the key and keep it."""
    key = form.get("key", "").strip()
    try:
        principal = await visit.parts.access.identify_key(key)
    except ProblemError as error:
        return visit.page("login.html", title="Log in", status=error.status, problem=error.detail)
    if not principal.may("read"):
        problem = "this key has no right 'read'; the dashboard needs it"
        return visit.page("login.html", title="Log in", status=403, problem=problem)
    answer = visit.go(HOME)
    answer.set_cookie(
        COOKIE, key, httponly=True, samesite="strict", secure=visit.request.url.scheme == "https", path="/"
    )
    return answer


@pages.add("POST", f"{LOGIN}/end", right=None)
async def log_out(visit: Visit) -> Response:
    """Forget the key."""
    answer = visit.go(LOGIN)
    answer.delete_cookie(COOKIE, path="/")
    return answer
