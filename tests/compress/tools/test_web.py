"""Pages keep title, headings and words; markup goes."""

from __future__ import annotations

from support.exchanges import lines, smoothed, summary

HTML = (
    "<!DOCTYPE html><html><head><title>Tide tables</title><style>b{}</style></head>"
    "\n<body><h1>Tides</h1>\n<p>High at 11:30</p></body></html>"
)
MARKDOWN = "# Tide tables\n\n## Today\n\nHigh at 11:30, see https://example.org/t\n"


def test_a_page_is_its_address_and_its_title() -> None:
    said = summary("WebFetch", {"url": "https://example.org", "prompt": "tides"}, MARKDOWN)
    assert said == "{WebFetch https://example.org: Tide tables, 5 lines}"
    assert "Tide tables" in summary("web_fetch", {"url": "https://example.org"}, HTML)


def test_of_html_only_the_words_stay() -> None:
    assert smoothed("web_fetch", {"url": "u"}, HTML) == ["Tide tables", "Tides", "High at 11:30"]


def test_headings_and_links_are_key_lines() -> None:
    chosen = lines("WebFetch", {"url": "u"}, MARKDOWN)
    assert chosen[:3] == ["Tide tables", "# Tide tables", "## Today"]


def test_a_web_search_counts_its_links() -> None:
    assert summary("WebSearch", {"query": "tides"}, "a https://a.org\nb https://b.org") == "{WebSearch tides: 2 links}"
