"""`/prompts`: stored prompts by key and version. A `/` in a key is written `%2F`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.page import ItemList
from foveate.session.prompts import PromptInfo

routes = Endpoints("prompts")


class PromptList(ItemList[PromptInfo], frozen=True):
    """Prompts by key, or the versions of one prompt, oldest first."""


class PromptQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The version to get."""

    version: Annotated[int, Meta(ge=0)] | None = None
    """Default: the newest. 0: the built-in text."""


class PromptBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text of a new version."""

    text: Annotated[str, Meta(min_length=1)]


class RenderBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values of the variables."""

    variables: dict[str, str] = {}


class RenderedPrompt(Struct, frozen=True, kw_only=True):
    """A prompt with its includes and variables."""

    key: str
    text: str


@routes.add("GET", "/prompts", right="read")
async def list_prompts(call: Call) -> PromptList:
    """List the newest version of each prompt."""
    return PromptList(items=list(await call.view.prompts.list()))


@routes.add("GET", "/prompts/{prompt}", right="read")
async def get_prompt(call: Call, prompt: str, query: PromptQuery) -> PromptInfo:
    """Get a prompt."""
    return await call.view.prompts.get(prompt, query.version)


@routes.add("PUT", "/prompts/{prompt}", right="write")
async def set_prompt(call: Call, prompt: str, body: PromptBody) -> PromptInfo:
    """Store a new version. Built-in prompts, modes and what they include need the right `admin`. 422 if variables or
    includes are not valid."""
    return await call.view.prompts.set(prompt, body.text)


@routes.add("DELETE", "/prompts/{prompt}", right="write")
async def reset_prompt(call: Call, prompt: str) -> None:
    """Restore the built-in text, or remove a prompt of your own. Earlier versions stay in the history."""
    await call.view.prompts.reset(prompt)


@routes.add("GET", "/prompts/{prompt}/history", right="read")
async def get_prompt_history(call: Call, prompt: str) -> PromptList:
    """List all versions of a prompt."""
    return PromptList(items=list(await call.view.prompts.history(prompt)))


@routes.add("POST", "/prompts/{prompt}/render", right="read")
async def render_prompt(call: Call, prompt: str, body: RenderBody) -> RenderedPrompt:
    """Render a prompt with its includes and variables. 422 names missing and unknown variables."""
    return RenderedPrompt(key=prompt, text=await call.view.prompts.render(prompt, **body.variables))
