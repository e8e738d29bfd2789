"""What `make docs` adds to the pages of docs/: a hook of mkdocs, which also writes llms.txt and llms-full.txt.

- README.md is the home page; the change log and CONTRIBUTING.md are pages too; decisions get a list.
- A link to a file of the repository that is no page becomes its path, or a link where `repo_url` is set.
- llms.txt lists the pages of the navigation, llms-full.txt has their text (without the lab), for language models.
- A page that would fetch something from another host fails the build.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
ADDED = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
"""Pages of the site that are files elsewhere in the repository."""
DECISIONS = "lab/decisions/index.md"
LAB = "Lab"
MAX_DESCRIPTION_CHARS = 200
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//([^/\"'\s>]+)[^>]*>")
_CANONICAL = re.compile(r"rel=[\"']?(?:canonical|prev|next)\b")


class Entry(NamedTuple):
    """A page in the navigation."""

    section: str
    title: str
    path: str


def entries(nav: list[Any], section: str = "") -> Iterator[Entry]:
    """List the pages of a navigation under the name of their first level."""
    for item in nav:
        for title, inner in item.items():
            if isinstance(inner, list):
                yield from entries(inner, section or title)
            else:
                yield Entry(section, title, inner)


def source(path: str) -> str:
    """Return the Markdown of a page of the site, with links that lead to pages."""
    if path == DECISIONS:
        return decisions()
    added = ADDED.get(path)
    text = (ROOT / added if added else DOCS / path).read_text("utf-8")
    return relinked(text, f"{'docs/' if not added else ''}{added or path}", path)


def decisions() -> str:
    """Return the page that lists all decisions."""
    pages = sorted((DOCS / "lab" / "decisions").glob("0*.md"))
    lines = [f"- [{page.read_text('utf-8').splitlines()[0].removeprefix('# ')}]({page.name})" for page in pages]
    return "\n".join(
        ["# Decisions", "", "One page for each choice: the question, the options, the figures.", "", *lines, ""]
    )


def relinked(text: str, place: str, path: str, repository: str | None = None) -> str:
    """Rewrite links that are relative to a file of the repository, so that they are relative to its page."""
    kept: list[str] = []

    def leave(fence: re.Match[str]) -> str:
        kept.append(fence[0])
        return f"\0{len(kept) - 1}\0"

    def rewrite(link: re.Match[str]) -> str:
        label, target, anchor = link[1], link[2], link[3] or ""
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
        page = page_of(wanted)
        if page:
            return f"[{label}]({posixpath.relpath(page, posixpath.dirname(path) or '.')}{anchor})"
        if repository:
            return f"[{label}]({repository.rstrip('/')}/blob/main/{wanted}{anchor})"
        return f"`{wanted}`" if wanted.endswith(label.strip("`")) else f"{label} (`{wanted}`)"

    marked = _FENCE.sub(leave, text)
    marked = _LINK.sub(rewrite, marked).replace("](docs/images/", "](images/" if "/" not in path else "](../images/")
    return re.sub("\0(\\d+)\0", lambda mark: kept[int(mark[1])], marked)


def page_of(wanted: str) -> str | None:
    """Return the page of the site that a file of the repository is, if any."""
    for page, name in ADDED.items():
        if wanted == name:
            return page
    if wanted in ("docs/lab/decisions", f"docs/{DECISIONS}"):
        return DECISIONS
    inside = wanted.removeprefix("docs/")
    return inside if wanted.startswith("docs/") and (DOCS / inside).is_file() else None


def llms_txt(nav: list[Any], description: str, read: Callable[[str], str] = source) -> str:
    """Return the list of all pages for language models, see llmstxt.org."""
    lines = ["# Foveate", "", f"> {description}"]
    section = ""
    for entry in entries(nav):
        if entry.section != section:
            section = entry.section
            lines += ["", f"## {'Optional' if section == LAB else section}", ""]
        lines.append(f"- [{entry.title}]({entry.path}): {describe(read(entry.path))}")
    return "\n".join([*lines, ""])


def llms_full(nav: list[Any], read: Callable[[str], str] = source) -> str:
    """Return the text of all pages outside of the lab."""
    pages = (entry for entry in entries(nav) if entry.section != LAB)
    return "\n".join(f"<!-- {entry.path} -->\n\n{read(entry.path).strip()}\n" for entry in pages)


def describe(text: str) -> str:
    """Return the first sentence of a page."""
    body = re.sub(r"<!--.*?-->", "", _FENCE.sub("", text), flags=re.DOTALL)
    paragraphs = (re.sub(r"^(?:- |\d+\. )", "", paragraph.strip()) for paragraph in body.split("\n\n"))
    first = next((p for p in paragraphs if p and p[0] not in "#|!<"), "")
    words = re.sub(r"\s+", " ", _LINK.sub(r"\1", first)).replace("**", "")
    sentence = re.split(r"(?<=[.!?:]) (?=[A-Z`])", words, maxsplit=1)[0].rstrip(":")
    return sentence[:MAX_DESCRIPTION_CHARS]


def foreign_hosts(html: str) -> set[str]:
    """Return the hosts that a page would load something from."""
    return {tag[1] for tag in _FETCHED.finditer(html) if not _CANONICAL.search(tag[0])}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are no files of docs/."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - the functions above need no mkdocs

    for path in (*ADDED, DECISIONS):
        files.append(File.generated(config, path, content=source(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Rewrite what leads out of docs/."""
    path = page.file.src_uri
    if path in ADDED or path == DECISIONS:
        return markdown
    return relinked(markdown, f"docs/{path}", path, config.repo_url)


def on_post_build(config: Any) -> None:
    """Write what language models read, and check that the site stands alone."""
    from mkdocs.exceptions import PluginError  # noqa: PLC0415

    site = Path(config.site_dir)
    nav = config.nav
    (site / "llms.txt").write_text(llms_txt(nav, config.site_description), "utf-8")
    (site / "llms-full.txt").write_text(llms_full(nav), "utf-8")
    for entry in entries(nav):
        (site / entry.path).write_text(source(entry.path), "utf-8")
    for page in sorted(site.rglob("*.html")):
        hosts = foreign_hosts(page.read_text("utf-8"))
        if hosts:
            raise PluginError(f"{page.relative_to(site)} loads from {', '.join(sorted(hosts))}")
