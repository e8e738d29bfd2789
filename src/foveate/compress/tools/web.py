"""Web pages and web searches: address, title, headings, and the results' titles and links."""

from __future__ import annotations

import re

from foveate.compress.exchange import ToolExchange
from foveate.compress.lines import both_ends, brief, error_lines, fold, without_blanks
from foveate.compress.tools import generic, json_data
from foveate.text import several

tools: tuple[str, ...] = (
    "webfetch", "websearch", "fetch", "fetchurl", "browse", "browser", "geturl", "openurl", "httpget", "search",
    "googlesearch", "tavilysearch", "bravewebsearch", "webbrowser", "readurl", "scrape", "*websearch*", "*webfetch*",
)  # fmt: skip

_TITLE = re.compile(r"(?i)<title[^>]*>\s*([^<]{1,200})|^(?:title:|#)\s+(.{1,200})$", re.MULTILINE)
_HEADING = re.compile(r"^(?:#{1,4} \S|={3,}$|title:|url:|source:)", re.IGNORECASE)
_LINK = re.compile(r"https?://[^\s<>\"')\]]+")
_TAG = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|<!--.*?-->|<[^<>]{1,2000}>", re.IGNORECASE | re.DOTALL)
_HTML = re.compile(r"(?i)^\s*(?:<!doctype html|<html|<head|<body|<div)")


def recognises(exchange: ToolExchange) -> bool:
    return bool(_HTML.match(exchange.output))


def summarise(exchange: ToolExchange) -> str:
    asked = exchange.argument("url", "query", "q", "search_query", "prompt", "input") or generic.subject(exchange)
    shown = brief(asked, 70)
    if exchange.failed or not exchange.lines:
        return f"{shown}: {generic.outcome(exchange)}"
    title = _title(exchange.output)
    size = several(exchange.total_lines, "line")
    if exchange.argument("url") is None:
        size = several(len(set(_LINK.findall(exchange.output))), "link")
    return f"{shown}: " + (f"{brief(title, 60)}, {size}" if title else size)


def key_lines(exchange: ToolExchange) -> list[str]:
    lines = _text_lines(exchange)
    telling = [line for line in lines if _HEADING.match(line) or _LINK.search(line)]
    return [*([title] if (title := _title(exchange.output)) else []), *error_lines(lines)[:5], *telling, *lines[:20]]


def smooth(exchange: ToolExchange) -> list[str]:
    if json_data.recognises(exchange):
        return json_data.smooth(exchange)
    return both_ends(without_blanks(fold(_text_lines(exchange), similar=False)), exchange.total_lines)


def _title(output: str) -> str | None:
    found = _TITLE.search(output[:8_000])
    return (found[1] or found[2]).strip() if found else None


def _text_lines(exchange: ToolExchange) -> list[str]:
    """Return the page's lines; of HTML, only the words."""
    if not recognises(exchange):
        return exchange.lines
    return [words for line in _TAG.sub(" ", exchange.output).split("\n") if (words := " ".join(line.split()))]
