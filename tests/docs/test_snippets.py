"""What a reader would paste exists and runs: commands, install lines, make targets and programs of all pages."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from foveate.cli import NESTED, cli
from support.docs_examples import python_examples, run_example
from support.paths import ROOT

DOCS = ROOT / "docs"
HISTORY = {DOCS / "reference" / "command-line.md", ROOT / "CHANGELOG.md"}
"""Generated from the commands themselves; and a record of what was."""
PAGES = [
    page
    for page in (*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")))
    if page not in HISTORY and "decisions" not in page.parts
]
TYPED = {"", "sh", "shell", "console", "text"}
ALIASES = {name for names in NESTED.values() for name in names}
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^ {4}(foveate .*)$", re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`(foveate [^`]+)`(?!`)")
_LOOSE = re.compile(r"…|\.\.\.|^[A-Z][A-Z_]*$")
"""A word that stands for others."""


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    for block in _BLOCK.finditer(page.read_text("utf-8")):
        yield block[2], block[3]


def command_lines(page: Path) -> list[str]:
    """Every `foveate …` of a page: in blocks, at a prompt, and in a sentence."""
    found: list[str] = []
    for language, text in blocks(page):
        if language in TYPED:
            lines = text.replace("\\\n", " ").splitlines()
            prompts = [line.removeprefix("$ ") for line in lines if language in {"", "sh", "shell"} or line[:2] == "$ "]
            found += [line.strip() for line in prompts if line.strip().startswith("foveate ")]
    prose = _BLOCK.sub("", page.read_text("utf-8"))
    found += _INDENTED.findall(prose)
    mentioned = [re.sub(r"\s+", " ", words) for words in _INLINE.findall(prose)]
    return found + [f"{words} …" if words.split()[-1].startswith("--") else words for words in mentioned]


def words_of(line: str) -> list[str]:
    """The words of the first command of a line, with the first of alternatives."""
    words = shlex.split(line.replace("\\|", "|"), comments=True)
    ends = [index for index, word in enumerate(words) if word in {"|", "&", "&&", ";", ">"}]
    return [word.partition("|")[0].strip("[]") for word in words[1 : ends[0] if ends else None]]


def check(words: list[str]) -> None:
    """Raise what the command line would about a command or an option that does not exist."""
    command: click.Command = cli
    context = click.Context(cli, info_name="foveate")
    while True:
        values, rest, _ = command.make_parser(context).parse_args(list(words))
        for parameter in command.params:
            given = values.get(parameter.name or "")
            if isinstance(parameter.type, click.Choice) and isinstance(given, str) and not _LOOSE.search(given):
                parameter.type.convert(given, parameter, context)
        if not isinstance(command, click.Group) or not rest or _LOOSE.search(rest[0]):
            break
        assert not (command is cli and rest[0] in ALIASES), f"{rest[0]} is an old name"
        inner = command.get_command(context, rest[0])
        if inner is None:
            raise click.UsageError(f"no command {rest[0]}")
        command, words = inner, rest[1:]
        context = click.Context(inner, parent=context, info_name=rest[0])
    if not isinstance(command, click.Group) and [word for word in rest if not _LOOSE.search(word)]:
        raise click.UsageError(f"too many arguments: {rest}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    wrong = []
    for line in command_lines(page):
        try:
            check(words_of(line))
        except (click.UsageError, AssertionError, ValueError) as error:
            wrong.append(f"{line}: {getattr(error, 'message', error)}")
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "foveate shwo x",
        "foveate show --bugdet 8k",
        "foveate connect claude --mode gate",
        "foveate levels x",
        "foveate fork",
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        check(words_of(line))


def test_the_pages_have_commands_to_check() -> None:
    assert sum(len(command_lines(page)) for page in PAGES) > 200


EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"])
_EXTRAS = re.compile(r"(?:foveate|'\.|`\.)\[([\w,-]+)\]")
_PUBLISHED = re.compile(r"pip install\s+'?foveate\b")
_MAKE = re.compile(r"(?:^|`)make (?:-\w+ )?((?:\.venv/)?[\w./-]+)", re.MULTILINE)
_TARGET = re.compile(r"^((?:\$\(VENV\)/)?[\w./-]+):", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_extras_and_make_targets_of_a_page_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    named = {extra for names in _EXTRAS.findall(text) for extra in names.split(",")}
    assert named <= EXTRAS
    targets = {name.replace("$(VENV)", ".venv") for name in _TARGET.findall((ROOT / "Makefile").read_text("utf-8"))}
    typed = "\n".join(code for language, code in blocks(page) if language in {"", "sh", "shell"})
    inline = "\n".join(re.findall(r"`(?:make )[^`]+`", _BLOCK.sub("", text)))
    assert set(_MAKE.findall(f"{typed}\n{inline}")) - targets == set()


def test_pages_install_from_the_checkout_until_a_release_is_on_an_index() -> None:
    pages = [page for page in PAGES if _PUBLISHED.search(page.read_text("utf-8"))]
    assert pages == [DOCS / "start" / "quickstart.md"], "the quickstart says what such a message means"


def test_the_package_check_installs_every_extra_that_a_page_names_in_an_empty_environment() -> None:
    named = {
        extra for page in PAGES for names in _EXTRAS.findall(page.read_text("utf-8")) for extra in names.split(",")
    }
    table = (ROOT / ".ci/package").read_text("utf-8").partition("done <<'END'")[2]
    assert named - {"all", "dev"} <= {line.split()[0] for line in table.splitlines() if line.strip()}
    assert "make package EXTRAS=1" in (ROOT / ".github/workflows/test.yml").read_text("utf-8")


RUN_BY = {
    "README.md": "docs/test_docs.py",
    "concepts/checkpoint.md": "strategy/checkpoint/test_checkpoint.py",
    "concepts/hybrid.md": "session/test_context_hybrid.py",
    "concepts/oneshot.md": "docs/test_oneshot.py",
    "concepts/strategies.md": "replay/test_compare.py",
    "concepts/topics.md": "session/test_topics.py",
    "guides/agent-loop.md": "docs/test_agent_loop.py",
    "guides/frameworks.md": "docs/test_adapter_pages.py",
    "guides/plugins.md": "docs/test_tools_page.py",
    "guides/tools.md": "docs/test_tools_page.py",
    "start/quickstart.md": "docs/test_docs.py",
    **dict.fromkeys(
        [f"guides/{page}.md" for page in ("agents", "chat", "models")],
        "docs/test_docs.py",
    ),
}
"""Pages whose programs another test runs, and that test."""
PROGRAMS = {
    "concepts/context.md": r"\d+ \[.*'history'.*\]\n.*8443.*image/png\n",
    "concepts/recall.md": r"yesterday T-1 .*Grand Hotel.*\nT-1 user The storage port is 9000, see src/store.py.\n",
    "concepts/store.md": "",
    "guides/knowledge.md": r"1 person The shop listens on 8443. it moved\n2 person The shop listens on 8444. \n",
    "reference/settings.md": r"\[\]\n",
}
"""Pages whose programs run here, and what they print."""
FRAGMENTS = {"guides/deployment.md": "needs a server", "reference/library.md": "signatures, written from the code"}


def test_every_program_of_a_page_is_run_by_a_test() -> None:
    names = {
        "README.md": ROOT / "README.md",
        **{str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md"))},
    }
    assert {name for name, page in names.items() if python_examples(page)} == {*RUN_BY, *PROGRAMS, *FRAGMENTS}
    for name, test in RUN_BY.items():
        text = (ROOT / "tests" / test).read_text("utf-8")
        assert Path(name).stem in text, f"{test} doesn't name {name}"


@pytest.mark.parametrize(("page", "printed"), PROGRAMS.items())
def test_the_programs_of_a_page_run(page: str, printed: str, tmp_path: Path) -> None:
    shown = "".join(run_example(example, tmp_path) for example in python_examples(DOCS / page))
    assert re.fullmatch(printed, shown, re.DOTALL), shown


def test_a_fragment_is_python() -> None:
    for example in python_examples(DOCS / "guides" / "deployment.md"):
        compile(example, "deployment.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
