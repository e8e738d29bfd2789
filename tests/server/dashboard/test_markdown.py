"""Markdown of answers: what is shown, what stays text, and an answer that arrives in pieces."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.server.dashboard.markdown import MAX_MARKDOWN_CHARS, GrowingMarkdown, render_markdown

ANSWER = """# Ports

The gateway listens on **8443**, *not* on `80`:

```python
port = 8443  # <b>
```

1. Stop it.
   - wait
2. Start it.

| service | port |
| :-- | --: |
| gateway | 8443 |

> Ports below 1024 need rights.

See [the docs](https://example.com/?a=1&b=2).
"""
BITS = ("a", " ", "\n", "\n\n", "# ", "- ", "1. ", "```", "~~~\n", "> ", "| a | b |\n", "| - | - |\n", "---\n", "    x")
MARKS = ("**", "`", "[x](https://a.b)", "<script>", "===\n", "\t", "#", "=", "-", "*", "word\n")
PIECES = st.lists(st.sampled_from(BITS + MARKS), max_size=40)
BLOCKS = {"blockquote", "div", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul"}
TABLES = {"table", "tbody", "td", "th", "thead", "tr"}
TAGS = {"a", "br", "code", "em", "s", "span", "strong"} | BLOCKS | TABLES
ATTRIBUTES = {"href", "target", "rel", "class", "tabindex", "start"}


class Seen(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: dict[str, str] = {}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name: value or "" for name, value in attrs}


def test_an_answer_is_shown_with_code_lists_tables_and_links() -> None:
    html = str(render_markdown(ANSWER))
    assert "<h3>Ports</h3>" in html
    assert "<strong>8443</strong>, <em>not</em> on <code>80</code>" in html
    assert '<span class="language">python</span>' in html
    assert "port = 8443  # &lt;b&gt;\n</code>" in html
    assert '<td class="right">8443</td>' in html
    assert 'href="https://example.com/?a=1&amp;b=2" target="_blank" rel="noopener noreferrer nofollow"' in html


@pytest.mark.parametrize(
    "text",
    [
        "[x](javascript:alert(1))",
        "[x](JAVASCRIPT:alert(1))",
        "[x](&#x6a;avascript:alert(1))",
        "[x](java\tscript:alert(1))",
        "<javascript:alert(1)>",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](vbscript:x) [y](file:///etc/passwd) [z](//evil.example) [i](/ui/doctor) [q](?x)",
        "![x](https://evil.example/pixel.png)",
        "<img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        "<!-- x --><?php x ?><![CDATA[x]]>",
        '```"><script>alert(1)</script>\nx\n```',
        "    </code></pre><script>alert(1)</script>",
        '[x](https://a.b "\' onclick=alert(1)")',
        '[x](https://a.b/"onmouseover="alert(1))',
        "| a |\n| :-: |\n| <b style=x>y</b> |",
        "[a]: javascript:alert(1)\n\n[a]",
        "\ud800 [x](https://a.b/\ud800)",
    ],
)
def test_hostile_markdown_becomes_text_or_a_harmless_link(text: str) -> None:
    seen = Seen(str(render_markdown(text)))
    assert seen.tags <= TAGS
    assert seen.attributes.keys() <= ATTRIBUTES
    assert seen.attributes.get("href", "https://").startswith("https://")


@given(st.text(max_size=300))
def test_any_text_has_only_harmless_elements(text: str) -> None:
    seen = Seen(str(render_markdown(text)))
    assert seen.tags <= TAGS
    assert seen.attributes.keys() <= ATTRIBUTES


@given(PIECES)
def test_an_answer_in_pieces_ends_as_the_whole_answer(pieces: list[str]) -> None:
    growing = GrowingMarkdown()
    finished, tail = "", ""
    for piece in pieces:
        painted = growing.feed(piece)
        finished += painted.finished
        tail = painted.tail
    assert finished + tail == str(render_markdown("".join(pieces)))


def test_a_block_of_code_in_progress_is_shown_as_code_and_not_sent_again_when_it_ends() -> None:
    growing = GrowingMarkdown()
    painted = growing.feed("Look:\n\n```py\nx = 1")
    assert painted.finished == "<p>Look:</p>\n"
    assert "<code>x = 1</code>" in painted.tail
    assert "<code>x = 1" in growing.feed("\ny = 2\n").tail
    painted = growing.feed("```\n\nDone")
    assert "y = 2" in painted.tail
    painted = growing.feed(".\n")
    assert "y = 2" in painted.finished
    assert painted.tail == "<p>Done.</p>\n"


def test_a_text_that_is_too_large_is_shown_as_it_is() -> None:
    text = "[" * (MAX_MARKDOWN_CHARS + 1)
    assert str(render_markdown(text)) == f'<div class="said">{text}</div>'
    assert GrowingMarkdown().feed(text).tail == f'<div class="said">{text}</div>'
    code = GrowingMarkdown().feed("```\n" + "<x>\n" * MAX_MARKDOWN_CHARS).tail
    assert code.startswith('<div class="code">')
