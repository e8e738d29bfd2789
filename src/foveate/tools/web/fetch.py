"""Fetch a page by plain HTTP or Firecrawl: checked before each connection, limited in size and time, and decoded."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

import foveate
from foveate.cache import BoundedCache
from foveate.tools.settings import WebSettings
from foveate.tools.tool import ToolError, missing_extra
from foveate.tools.web import guard
from foveate.tools.web.guard import CheckedTarget, Resolver
from foveate.tools.web.readable import markdown
from foveate.unpack import Unpacker, UnpackError

if TYPE_CHECKING:
    import httpx2

MAX_REDIRECTS = 5
MAX_ADDRESSES = 3
"""Limit of a host's addresses that are tried."""
CACHED_PAGES = 16
_HEADERS = {
    "User-Agent": f"foveate/{foveate.__version__}",
    "Accept": "text/html,application/xhtml+xml,text/*,application/json;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TYPE = re.compile(r"\s*([\w.+-]{1,60}/[\w.+-]{1,60})")
_CHARSET = re.compile(r"""(?i)charset\s*=\s*["']?([\w.:-]{1,40})""")
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_TEXT_TYPES = re.compile(r"text/|application/(?:json|xml|javascript|yaml|toml|sql|x-ndjson|.+\+(?:json|xml|yaml))$")
_META_BYTES = 2_048
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_ENCODINGS = re.compile(r"(?:utf|ascii|iso8859|cp\d|gb|big5|euc|shift_jis|koi8|mac|iso2022|hz|johab|tis)")
"""Character sets of pages; Python has other codecs, some of them slow by design."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The response of a URL."""

    url: str
    """The final URL, after redirects."""
    media_type: str
    content: bytes
    """The decompressed content, up to the limit."""
    title: str = ""
    text: str | None = None
    """Readable text; None if it is not text."""
    truncated: bool = False


V = TypeVar("V")


class ExpiringCache(Generic[V]):
    """A bounded cache whose entries are dropped after a number of seconds."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._entries: BoundedCache[Hashable, tuple[float, V]] = BoundedCache(limit)
        self._clock = clock

    def get(self, key: Hashable, max_age_seconds: float) -> V | None:
        """Return the value of a key, if it is not older than this."""
        found = self._entries.get(key)
        if found is None or self._clock() - found[0] >= max_age_seconds:
            return None
        return found[1]

    def put(self, key: Hashable, value: V) -> None:
        self._entries[key] = (self._clock(), value)

    def clear(self) -> None:
        self._entries.clear()


_cache: ExpiringCache[Page] = ExpiringCache(CACHED_PAGES)


async def fetch(url: str, settings: WebSettings, *, resolver: Resolver = guard.resolve) -> Page:
    """Fetch the page of a URL, or return the cached one. `ToolError` names the reason of a failure."""
    key = (url, settings)
    if found := _cache.get(key, settings.cache_seconds):
        return found
    try:
        async with asyncio.timeout(settings.seconds):
            page = await (_crawled if settings.firecrawl_url else _plain)(url, settings, resolver)
    except TimeoutError:
        raise ToolError(f"{url[:200]} did not answer completely within {settings.seconds:g} seconds") from None
    _cache.put(key, page)
    return page


async def _plain(url: str, settings: WebSettings, resolver: Resolver) -> Page:
    target = await guard.check(url, settings.allow_hosts, resolver)
    for _ in range(MAX_REDIRECTS + 1):
        answer = await _request(target, settings)
        if isinstance(answer, Page):
            return answer
        target = await guard.check(answer, settings.allow_hosts, resolver)
    raise ToolError(f"{url[:200]} was redirected more than {MAX_REDIRECTS} times")


async def _request(target: CheckedTarget, settings: WebSettings) -> Page | httpx2.URL:
    """Return the page, or its redirect target. The connection goes to a checked address."""
    import httpx2  # noqa: PLC0415 # of the extra `tools`; the guard needed it already

    problem = ""
    for address in target.addresses[:MAX_ADDRESSES]:
        try:
            return await _request_from(address, target.url, settings)
        except httpx2.ConnectError as error:
            problem = str(error)
        except httpx2.HTTPError as error:
            raise ToolError(f"{target.url} can't be fetched: {type(error).__name__}: {error}") from None
    raise ToolError(f"{target.url} can't be fetched: no connection ({problem})")


async def _request_from(address: str, url: httpx2.URL, settings: WebSettings) -> Page | httpx2.URL:
    import httpx2  # noqa: PLC0415 # of the extra `tools`

    # Neither proxies nor netrc of the environment: a proxy would resolve the name once more.
    transport = httpx2.AsyncHTTPTransport(verify=url.scheme == "https", trust_env=False, retries=0)
    async with httpx2.AsyncClient(transport=transport, trust_env=False, timeout=settings.seconds) as client:
        request = client.build_request(
            "GET",
            url.copy_with(host=address),
            headers=_HEADERS | {"Host": url.netloc.decode("ascii")},
            extensions={"sni_hostname": url.raw_host.decode("ascii").strip("[]")},
        )
        answer = await client.send(request, stream=True, follow_redirects=False)
        try:
            if answer.status_code in _REDIRECTS and "location" in answer.headers:
                return _joined(url, answer.headers["location"])
            if answer.status_code != HTTPStatus.OK:
                raise ToolError(f"{url} answered {answer.status_code} {_reason(answer.status_code)}".rstrip())
            content, truncated = await _read(answer, settings.max_bytes)
            return await asyncio.to_thread(make_page, str(url), answer.headers, content, truncated=truncated)
        finally:
            await answer.aclose()


def _joined(url: httpx2.URL, location: str) -> httpx2.URL:
    import httpx2  # noqa: PLC0415 # of the extra `tools`

    try:
        return url.join(location)
    except httpx2.InvalidURL:
        raise ToolError(f"{url} redirects to an invalid URL") from None


def _reason(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""


async def _read(answer: httpx2.Response, limit: int) -> tuple[bytes, bool]:
    """Read the decompressed content up to the limit; return it and whether there was more."""
    content = bytearray()
    try:
        unpacker = Unpacker(answer.headers.get("content-encoding", ""))
        async for raw in answer.aiter_raw():
            for piece in unpacker.feed(raw):
                content += piece
                if len(content) > limit:
                    return bytes(content[:limit]), True
    except UnpackError as error:
        raise ToolError(f"{answer.url} can't be read: the answer {error}") from error
    return bytes(content), False


def make_page(url: str, headers: Mapping[str, str], content: bytes, *, truncated: bool = False) -> Page:
    """Make a page from a response: its type, and its text if it has one."""
    declared = headers.get("content-type", "")
    found = _TYPE.match(declared)
    media_type = found[1].lower() if found else _guessed_type(content)
    if media_type in _HTML_TYPES:
        title, text = markdown(decode(content, declared), url)
        return Page(url=url, media_type=media_type, content=content, title=title, text=text, truncated=truncated)
    text_or_none = decode(content, declared) if _TEXT_TYPES.match(media_type) and b"\0" not in content[:1000] else None
    return Page(url=url, media_type=media_type, content=content, text=text_or_none, truncated=truncated)


def _guessed_type(content: bytes) -> str:
    if b"\0" in content[:1000]:
        return "application/octet-stream"
    return "text/html" if re.match(rb"(?i)\s*<(?:!doctype html|html)", content) else "text/plain"


def decode(content: bytes, declared: str) -> str:
    """Decode by the byte order mark, the header, the page's own declaration, or as UTF-8, else as Western."""
    for mark, encoding in _MARKS.items():
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    named = _CHARSET.search(declared) or _CHARSET.search(content[:_META_BYTES].decode("ascii", "replace"))
    if named:
        try:
            known = codecs.lookup(named[1]).name
        except LookupError:
            known = ""
        if _ENCODINGS.match(known.replace("-", "").replace("windows", "cp")):
            return content.decode("cp1252" if known in ("ascii", "iso8859-1") else known, "replace")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        # A page that was cut off in the middle of a character is still UTF-8.
        is_cut_off = error.reason == "unexpected end of data" and not content[: error.start].isascii()
        return content.decode("utf-8" if is_cut_off else "cp1252", "replace")


async def _crawled(url: str, settings: WebSettings, resolver: Resolver) -> Page:
    """Fetch a page by Firecrawl. The URL is checked here too: the service may run inside a private network."""
    target = await guard.check(url, settings.allow_hosts, resolver)
    answer = await call_service(
        "POST",
        f"{settings.firecrawl_url.rstrip('/')}/v2/scrape",
        settings,
        key=os.environ.get(settings.firecrawl_key_variable, ""),
        body={"url": str(target.url), "formats": ["markdown"]},
    )
    data = answer.get("data")
    text = data.get("markdown") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(text, str):
        raise ToolError(f"Firecrawl has no text of {target.url}: {str(answer.get('error', 'no reason given'))[:200]}")
    metadata = data.get("metadata")
    title = metadata.get("title") if isinstance(metadata, dict) else ""
    kept = text.encode("utf-8", "replace")[: settings.max_bytes]
    return Page(
        url=str(target.url),
        media_type="text/markdown",
        content=kept,
        title=title if isinstance(title, str) else "",
        text=kept.decode("utf-8", "ignore"),
        truncated=len(kept) < len(text.encode("utf-8", "replace")),
    )


async def call_service(
    method: str,
    url: str,
    settings: WebSettings,
    *,
    key: str = "",
    body: Mapping[str, object] | None = None,
    query: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """Call a configured service and return its JSON object; `ToolError` names the failure."""
    try:
        import httpx2  # noqa: PLC0415 # of the extra `tools`
    except ImportError:
        raise missing_extra("the web") from None
    headers = {name: _HEADERS[name] for name in ("User-Agent", "Accept-Encoding")}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with httpx2.AsyncClient(timeout=settings.seconds) as client:
            request = client.build_request(method, url, json=body, params=query, headers=headers)
            answer = await client.send(request, stream=True)
            try:
                content, truncated = await _read(answer, settings.max_bytes)
            finally:
                await answer.aclose()
            if answer.status_code != HTTPStatus.OK:
                raise ToolError(f"{url} answered {answer.status_code} {_reason(answer.status_code)}".rstrip())
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ToolError(f"{url} can't be reached: {type(error).__name__}: {error}") from None
    return _as_object(url, content, truncated=truncated)


def _as_object(url: str, content: bytes, *, truncated: bool) -> dict[str, object]:
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        found = None
    if truncated or not isinstance(found, dict):
        raise ToolError(f"{url} answered with something else than a JSON object")
    return found
