"""What a reader would paste exists and runs: commands, install lines, make targets and programs of all pages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from foveate.cli import NESTED, cli
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
