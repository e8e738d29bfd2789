"""Stored prompts: prompts that models get, with a history; a change is a new version, and nothing is overwritten."""

from __future__ import annotations

from starlette.responses import Response

from foveate.server.dashboard.page import BASE, Form, Pages, Visit, url, whole_number
from foveate.session.prompts import MAX_PROMPT_CHARS

MAX_PROMPTS = 500
MAX_VERSIONS = 100
"""Number of versions of a prompt that are listed, the newest ones."""
pages = Pages()


@pages.add("GET", f"{BASE}/prompts", right="read")
async def list_prompts(visit: Visit) -> Response:
    """List the prompts."""
    prompts = list(await visit.view.prompts.list())
    return visit.page("prompts.html", title="Prompts", prompts=prompts[:MAX_PROMPTS], total=len(prompts))


@pages.add("POST", f"{BASE}/prompts", right="write")
async def create_prompt(visit: Visit, form: Form) -> Response:
    """Store the first version of a prompt, or a new version of a known one."""
    return await _store(visit, form.get("key", "").strip(), form)


@pages.add("GET", f"{BASE}/prompts/{{prompt}}", right="read")
async def show_prompt(visit: Visit, prompt: str) -> Response:
    """Show a prompt, or an earlier version of it, with its history."""
    prompts = visit.view.prompts
    versions = list(await prompts.history(prompt))[::-1]
    wanted = whole_number(visit.query("version"), "the version", least=0)
    newest = next((one for one in await prompts.list() if one.key == prompt), None)
    shown = await prompts.get(prompt, wanted) if wanted is not None or newest else versions[0]
    return visit.page(
        "prompt.html",
        title=prompt,
        prompt=shown,
        newest=newest,
        is_old=newest is None or shown.sha256 != newest.sha256,
        versions=versions[:MAX_VERSIONS],
        total=len(versions),
        most=MAX_PROMPT_CHARS,
    )


@pages.add("POST", f"{BASE}/prompts/{{prompt}}", right="write")
async def change_prompt(visit: Visit, prompt: str, form: Form) -> Response:
    """Store a new version. Prompts that direct models in all sessions need the right `admin`."""
    return await _store(visit, prompt, form)


@pages.add("POST", f"{BASE}/prompts/{{prompt}}/reset", right="write")
async def reset_prompt(visit: Visit, prompt: str) -> Response:
    """Restore the built-in text, or remove a prompt that has none; earlier versions stay in the history."""
    built_in = await visit.view.prompts.reset(prompt)
    return visit.go(f"{BASE}/prompts/{url(prompt)}" if built_in else f"{BASE}/prompts")


async def _store(visit: Visit, key: str, form: Form) -> Response:
    await visit.view.prompts.set(key, form.get("text", ""))
    return visit.go(f"{BASE}/prompts/{url(key)}")
