"""`web_search`: pages that a configured service finds, Perplexity or SearXNG."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from foveate.tools.builtin.fetch_url import as_data
from foveate.tools.settings import WebSettings
from foveate.tools.tool import Annotations, ToolError, tool
from foveate.tools.web.fetch import ExpiringCache, call_service
from foveate.tools.workspace import Workspace

MAX_RESULTS = 10
MAX_QUERY_CHARS = 1_000
CACHED_SEARCHES = 100
_GRACE_SECONDS = 660.0
_PERPLEXITY = "https://api.perplexity.ai"
_MAX_TITLE_CHARS, _MAX_URL_CHARS, _MAX_SNIPPET_CHARS = 200, 500, 300


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One page that was found, each field in one line."""

    title: str
    url: str
    snippet: str


_cache: ExpiringCache[tuple[SearchResult, ...]] = ExpiringCache(CACHED_SEARCHES)


@tool(annotations=Annotations(read_only=True, destructive=False, open_world=True), timeout_seconds=_GRACE_SECONDS)
async def web_search(workspace: Workspace, query: Annotated[str, "What to look for"]) -> str:
    """Search the web. The answer lists title, URL and a few words of each page; fetch_url reads one."""
    found = await search(query, workspace.settings.web)
    if not found:
        return "No results.\n"
    listed = [
        f"{number}. {result.title}\n   {result.url}\n   {result.snippet}".rstrip()
        for number, result in enumerate(found, 1)
    ]
    return as_data("\n".join(listed)) + "\n"


async def search(query: str, settings: WebSettings) -> tuple[SearchResult, ...]:
    """Query the service, or return the cached answer. `ToolError` names what to configure."""
    if not query.strip() or len(query) > MAX_QUERY_CHARS:
        raise ToolError(f"a query has 1 to {MAX_QUERY_CHARS:,} characters")
    service = _SERVICES.get(settings.search)
    if service is None:
        raise ToolError(
            "no search service is configured. A person sets tools.web.search to perplexity, with the key in "
            f"{settings.search_key_variable}, or to searxng, with tools.web.search_url"
        )
    key = (query, settings)
    if found := _cache.get(key, settings.cache_seconds):
        return found
    try:
        async with asyncio.timeout(settings.seconds):
            results = await service(query, settings)
    except TimeoutError:
        raise ToolError(f"the search did not finish within {settings.seconds:g} seconds") from None
    _cache.put(key, results)
    return results


async def _perplexity(query: str, settings: WebSettings) -> tuple[SearchResult, ...]:
    secret = os.environ.get(settings.search_key_variable, "")
    if not secret:
        raise ToolError(f"the key of Perplexity is missing: a person sets {settings.search_key_variable}")
    base = (settings.search_url or _PERPLEXITY).rstrip("/")
    body = {"query": query, "max_results": MAX_RESULTS}
    answer = await call_service("POST", f"{base}/search", settings, key=secret, body=body)
    return _results(answer, "snippet")


async def _searxng(query: str, settings: WebSettings) -> tuple[SearchResult, ...]:
    if not settings.search_url:
        raise ToolError("SearXNG has no address of its own: a person sets tools.web.search_url")
    asked = {"q": query, "format": "json"}
    answer = await call_service("GET", f"{settings.search_url.rstrip('/')}/search", settings, query=asked)
    return _results(answer, "content")


_SERVICES: Mapping[str, Callable[[str, WebSettings], Awaitable[tuple[SearchResult, ...]]]] = {
    "perplexity": _perplexity,
    "searxng": _searxng,
}


def _results(answer: Mapping[str, object], snippet_key: str) -> tuple[SearchResult, ...]:
    listed = answer.get("results")
    if not isinstance(listed, list):
        raise ToolError("the search service answered without a list of results")
    found = [
        SearchResult(
            _line(entry.get("title"), _MAX_TITLE_CHARS),
            _line(entry.get("url"), _MAX_URL_CHARS),
            _line(entry.get(snippet_key), _MAX_SNIPPET_CHARS),
        )
        for entry in listed
        if isinstance(entry, dict)
    ]
    return tuple(result for result in found if result.url.startswith(("http://", "https://")))[:MAX_RESULTS]


def _line(value: object, limit: int) -> str:
    text = " ".join(value.split()) if isinstance(value, str) else ""
    return text if len(text) <= limit else text[: limit - 1] + "…"
