"""The site of the docs: every page is in its navigation once, its links and anchors exist, and models can read it."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
import unicodedata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from support.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
PARTS = ["Start", "Guides", "Concepts", "Reference", "Lab"]
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_ANCHORED = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#:\s]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def load_hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / ".ci" / "docs_site.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_site"] = module
    spec.loader.exec_module(module)
    return module


site = load_hook()


def anchors(text: str) -> set[str]:
    """The ids of the headings, as mkdocs and code hosts make them."""
    headings = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in _HEADING.findall(_FENCE.sub("", text)))
    plain = (unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode() for title in headings)
    made = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in plain}
    return made | set(re.findall(r'id="([^"]+)"', text))


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [entry.path for entry in site.entries(CONFIG["nav"])]
    assert len(listed) == len(set(listed))
    decisions = {f"lab/decisions/{page.name}" for page in (DOCS / "lab" / "decisions").glob("0*.md")}
    pages = {str(page.relative_to(DOCS)) for page in PAGES} | {*site.ADDED, site.DECISIONS}
    assert pages - decisions - set(listed) == set(), "give it a place in the nav of mkdocs.yml"
    assert set(listed) - pages == set()


def test_the_navigation_has_four_parts_and_at_most_31_pages_apart_from_the_lab() -> None:
    assert [next(iter(part)) for part in CONFIG["nav"]] == PARTS
    shown = [page for part in CONFIG["nav"][:-1] for pages in part.values() for page in pages]
    main = [title for page in shown for title, inner in page.items() if isinstance(inner, str)]
    assert 20 <= len(main) <= 28, "other pages are in a section of their part"
    pages = [entry for entry in site.entries(CONFIG["nav"]) if entry.section != site.LAB]
    assert len(pages) <= 31, "add a section to a page that exists"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_anchors_of_links_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    for target, anchor in _ANCHORED.findall(_FENCE.sub("", text)):
        there = (page.parent / target).read_text("utf-8") if target else text
        assert anchor in anchors(there), f"{target}#{anchor}"


def test_models_get_a_list_of_all_pages_with_a_sentence_on_each() -> None:
    text = site.llms_txt(CONFIG["nav"], CONFIG["site_description"])
    assert text.startswith("# Foveate\n\n> Endless LLM conversations in a fixed token budget.")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [*PARTS[:-1], "Optional"]
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(lines) == len(list(site.entries(CONFIG["nav"])))
    assert [line for line in lines if not re.fullmatch(r"- \[.+?\]\([\w/.-]+\.md\): .{20,}", line)] == []


def test_models_get_the_text_of_all_pages_outside_of_the_lab() -> None:
    text = site.llms_full(CONFIG["nav"])
    assert "<!-- concepts/gradient.md -->\n\n# The gradient\n" in text
    assert "<!-- index.md -->\n\n# Foveate\n" in text
    assert "<!-- lab/" not in text


def test_the_readme_becomes_the_home_page_with_links_that_lead_to_pages() -> None:
    home = site.source("index.md")
    assert "](docs/" not in home
    targets = re.findall(r"\]\(([\w./-]+)", _FENCE.sub("", home))
    existing = {*site.ADDED, site.DECISIONS}
    assert [target for target in targets if target not in existing and not (DOCS / target).exists()] == []


def test_a_link_out_of_the_docs_is_its_path_or_leads_to_the_repository() -> None:
    text = "See [the file](../../deploy/compose.yaml), not\n```\n[this](../../deploy/x)\n```\n"
    alone = site.relinked(text, "docs/guides/deployment.md", "guides/deployment.md")
    assert alone == "See the file (`deploy/compose.yaml`), not\n```\n[this](../../deploy/x)\n```\n"
    hosted = site.relinked(text, "docs/guides/deployment.md", "guides/deployment.md", "https://example.com/f/")
    assert "[the file](https://example.com/f/blob/main/deploy/compose.yaml)" in hosted


@pytest.mark.parametrize(
    ("html", "hosts"),
    [
        ('<script src="https://cdn.example/x.js"></script>', {"cdn.example"}),
        ("<link rel=stylesheet href=//fonts.example/css>", {"fonts.example"}),
        ('<a href="https://elsewhere.example/">a link is not loaded</a><img src="images/x.svg">', set()),
    ],
)
def test_a_page_that_loads_from_another_host_is_found(html: str, hosts: set[str]) -> None:
    assert site.foreign_hosts(html) == hosts


def test_the_site_is_built_strictly_with_a_pinned_version() -> None:
    assert CONFIG["strict"] is True
    assert CONFIG["theme"]["font"] is False
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (needed,) = project["optional-dependencies"]["docs"]
    name = re.split(r"[<>=]", needed)[0]
    assert f"\n{name}==" in (ROOT / "constraints.txt").read_text("utf-8")
