"""Login with a key, and logout. The key is stored in a cookie that scripts can't read."""

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
    """Show the login form."""
    if visit.is_fragment:  # htmx was redirected here: replace the whole page
        return visit.go(LOGIN)
    return visit.page("login.html", title="Log in", problem="")


@pages.add("POST", LOGIN, right=None)
async def log_in(visit: Visit, form: Form) -> Response:
    """Check the key and store it in the cookie."""
    key = form.get("key", "").strip()
    try:
        principal = await visit.parts.access.identify_key(key)
    except ProblemError as error:
        return visit.page("login.html", title="Log in", status=error.status, problem=error.detail)
    if not principal.may("read"):
        problem = "this key lacks the right 'read', which the dashboard needs"
        return visit.page("login.html", title="Log in", status=403, problem=problem)
    answer = visit.go(HOME)
    answer.set_cookie(
        COOKIE, key, httponly=True, samesite="strict", secure=visit.request.url.scheme == "https", path="/"
    )
    return answer


@pages.add("POST", f"{LOGIN}/end", right=None)
async def log_out(visit: Visit) -> Response:
    """Delete the cookie with the key."""
    answer = visit.go(LOGIN)
    answer.delete_cookie(COOKIE, path="/")
    return answer
