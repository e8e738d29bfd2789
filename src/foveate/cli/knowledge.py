"""`foveate knowledge`: what past conversations teach, for people to read and decide on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from foveate.cli.ui.options import json_option, opened, store_option
from foveate.cli.ui.terminal import Column, console, line, moment, print_exactly, print_json, print_listing, to_copy
from foveate.errors import InputError
from foveate.text import amount, several

if TYPE_CHECKING:
    from rich.text import Text

    from foveate.session.knowledge import KnowledgeItem, KnowledgeState

F = TypeVar("F", bound=Callable[..., Any])

COLUMNS = (
    Column("id"),
    Column("kind"),
    Column("state"),
    Column("scope", "cut", expendable=2),
    Column("title", "cut"),
    Column("sources", "number", expendable=1),
    Column("uses", "number", expendable=4),
    Column("last seen", expendable=3),
)
KINDS = ("topic", "profile", "lesson", "reference", "recommendation")
STATES = ("proposed", "approved", "pinned", "retired")
STYLES = {"proposed": "yellow", "approved": "green", "pinned": "cyan", "retired": "dim"}
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
EMPTY = "No knowledge here. 'foveate learn' makes it from past conversations."


def filter_options(function: F) -> F:
    """`--scope`, `--kind` and `--state`."""
    for option in (
        click.option("--state", type=click.Choice((*STATES, "all")), help="Default: all but retired."),
        click.option("--kind", type=click.Choice(KINDS), help="Only items of this kind."),
        click.option("--scope", metavar="SCOPE", help="E.g. project:shop, user:anna, org:acme or session:ID."),
    ):
        function = option(function)
    return function


def decision_options(function: F) -> F:
    """What the commands that decide on items have in common."""
    for option in (
        json_option,
        store_option,
        click.option("--reason", default="", help="Why; kept with the version before."),
        click.argument("item_ids", metavar="ITEM...", nargs=-1, required=True),
    ):
        function = option(function)
    return function


@click.group(name="knowledge", short_help="What past conversations teach: list, show, approve, edit, pin, retire.")
def command() -> None:
    """Topics, lessons, references and a profile, learned from past conversations, each with its source turns.

    A change is a new version; nothing is edited. An item is named by its id or a unique beginning of it.

    \b
    foveate knowledge list --scope project:shop
    foveate knowledge show k-1a2b
    foveate knowledge approve k-1a2b k-3c4d
    foveate knowledge export -o knowledge.md
    """


@command.command(name="list")
@filter_options
@store_option
@json_option
def list_(*, scope: str | None, kind: str | None, state: str | None, store_path: Path, as_json: bool) -> None:
    """List the items by scope, kind and id; retired ones only with --state.

    \b
    foveate knowledge list
    foveate knowledge list --scope project:shop --kind lesson --state proposed
    """
    with opened(store_path) as fov:
        found = fov.knowledge.list(scope=scope, kind=kind, state=state)  # type: ignore[arg-type]
    print_listing(found, COLUMNS, _row, as_json=as_json, empty=EMPTY)


@command.command()
@click.argument("item_id", metavar="ITEM")
@click.option("--versions", is_flag=True, help="All versions, with what changed between them.")
@store_option
@json_option
def show(*, item_id: str, versions: bool, store_path: Path, as_json: bool) -> None:
    """Show an item with its source turns.

    \b
    foveate knowledge show k-1a2b
    foveate knowledge show k-1a2b --versions
    """
    with opened(store_path) as fov:
        found = fov.knowledge.versions(item_id)
    if as_json:
        print_json(found if versions else found[-1])
    elif versions:
        _print_versions(found)
    else:
        _print_item(found[-1])


@command.command()
@decision_options
def approve(*, item_ids: tuple[str, ...], reason: str, store_path: Path, as_json: bool) -> None:
    """Approve items, also ones that were retired.

    \b
    foveate knowledge approve k-1a2b k-3c4d
    """
    _decide(item_ids, "approved", reason, store_path, as_json=as_json)


@command.command()
@decision_options
def pin(*, item_ids: tuple[str, ...], reason: str, store_path: Path, as_json: bool) -> None:
    """Approve items so that no run changes them.

    \b
    foveate knowledge pin k-1a2b
    """
    _decide(item_ids, "pinned", reason, store_path, as_json=as_json)


@command.command()
@decision_options
def retire(*, item_ids: tuple[str, ...], reason: str, store_path: Path, as_json: bool) -> None:
    """Take items out of use. Their versions stay; 'approve' brings them back.

    \b
    foveate knowledge retire k-1a2b --reason "we moved to tox"
    """
    _decide(item_ids, "retired", reason, store_path, as_json=as_json)


@command.command()
@click.argument("item_id", metavar="ITEM")
@click.option("--text", help="The new text.")
@click.option(
    "--file", type=click.File("r", encoding="utf-8"), help="Read the new text from a file; - is standard input."
)
@click.option("--title", help="The new title.")
@click.option("--reason", default="", help="Why; kept with the version before.")
@store_option
@json_option
def edit(
    *,
    item_id: str,
    text: str | None,
    file: TextIO | None,
    title: str | None,
    reason: str,
    store_path: Path,
    as_json: bool,
) -> None:
    """Change what an item says, in $EDITOR or by options. A proposed item is approved by it.

    \b
    foveate knowledge edit k-1a2b
    foveate knowledge edit k-1a2b --text "Run the tests with make." --reason "shorter"
    """
    from foveate.knowledge.markdown import difference

    if text is not None and file is not None:
        raise click.UsageError("give --text or --file, not both")
    given = _read(file) if file else text
    with opened(store_path) as fov:
        before = fov.knowledge.get(item_id)
        if given is None and title is None:
            after = _edit_in_editor(fov, before, reason)
        else:
            after = fov.knowledge.edit(before.id, text=given, title=title, version=before.version, reason=reason)
    if as_json:
        print_json(after)
    elif after.version == before.version:
        click.echo("Nothing changed.")
    else:
        _print_diff(difference(before, after))
        click.echo(f"{after.id} has version {after.version} now ({after.state}).")


@command.command()
@filter_options
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
@store_option
@json_option
def export(
    *, scope: str | None, kind: str | None, state: str | None, output: Path | None, store_path: Path, as_json: bool
) -> None:
    """Write items as Markdown, to review or edit them and to keep them in version control.

    \b
    foveate knowledge export --scope project:shop -o knowledge.md
    """
    from foveate.knowledge.markdown import write_markdown
    from foveate.tools.files import resolved, write_atomically

    with opened(store_path) as fov:
        found = fov.knowledge.list(scope=scope, kind=kind, state=state)  # type: ignore[arg-type]
    text = write_markdown(found)
    if output is None:
        if as_json:
            print_json({"items": found, "markdown": text})
        else:
            print_exactly(text)
        return
    path = output.expanduser()
    write_atomically(resolved(path, str(path)), text.encode(), str(path))
    if as_json:
        print_json({"output": str(output), "items": len(found), "bytes": len(text.encode())})
    else:
        click.echo(f"Wrote {output} ({several(len(found), 'item')}, {amount(len(text.encode()))}B).")


@command.command(name="import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--scope", default="project:", metavar="SCOPE", help="Of new items that name none. Default: project:")
@click.option("--dry-run", is_flag=True, help="Only report what would change.")
@store_option
@json_option
def import_(*, file: TextIO, scope: str, dry_run: bool, store_path: Path, as_json: bool) -> None:
    """Import an edited Markdown export. What changed becomes a new version; a heading without an id is a new item.

    If one line is wrong, nothing is imported.

    \b
    foveate knowledge import knowledge.md --dry-run
    foveate knowledge import knowledge.md
    """
    from foveate.knowledge.markdown import entry_ids, plan_import, read_markdown

    text = _read(file)
    with opened(store_path, create=True) as fov:
        try:
            entries = read_markdown(text)
            plan = plan_import(entries, fov.knowledge.histories(entry_ids(entries, scope=scope)), scope=scope)
        except InputError as error:
            raise InputError(f"{file.name}: {error}; nothing was imported") from error
        items = [] if dry_run else fov.knowledge.save(plan.drafts)
    changed = len(plan.drafts) - plan.new
    if as_json:
        counts = {"new": plan.new, "changed": changed, "unchanged": plan.unchanged}
        print_json({"dry_run": dry_run, **counts, "changes": plan.drafts, "items": items})
        return
    out = console()
    for draft in plan.drafts:
        fields = [name for name in ("title", "text", "state", "technologies") if getattr(draft, name) is not None]
        said = ", ".join(fields) if draft.id else draft.title or ""
        out.print(line((f"{draft.id or 'new':<12} ", "bold"), said), soft_wrap=True)
    what = "Would import" if dry_run else "Imported"
    click.echo(f"{what}: {plan.new} new, {changed} changed, {plan.unchanged} unchanged.")


def _decide(item_ids: Sequence[str], state: KnowledgeState, reason: str, store_path: Path, *, as_json: bool) -> None:
    from foveate.session.knowledge import KnowledgeDraft

    drafts = [KnowledgeDraft(id=item_id, state=state, reason=reason or state) for item_id in item_ids]
    with opened(store_path) as fov:
        items = fov.knowledge.save(drafts)
    if as_json:
        print_json(items)
        return
    for item in items:
        console().print(line((item.state, STYLES[item.state]), f" {item.id}  {item.title}"), soft_wrap=True)


def _edit_in_editor(fov: Any, before: KnowledgeItem, reason: str) -> KnowledgeItem:
    """Let a person edit an item as Markdown; a text that can't be imported is kept in its file."""
    import os
    import sys
    import tempfile
    from dataclasses import replace

    from foveate.knowledge.markdown import plan_import, read_markdown, write_item

    if not (sys.stdin.isatty() or os.environ.get("EDITOR") or os.environ.get("VISUAL")):
        raise click.UsageError("there is no terminal for an editor; give --text, --file or --title")
    with tempfile.NamedTemporaryFile(prefix="foveate-knowledge-", suffix=".md", delete=False) as file:
        file.write(write_item(before).encode())
    path = Path(file.name)
    click.edit(filename=file.name)
    try:
        entries = read_markdown(path.read_bytes().decode())
        if [entry.id for entry in entries] != [before.id]:
            raise InputError(f"expected one item with the id {before.id}; keep its heading and comment")
        plan = plan_import(entries, {before.id: fov.knowledge.versions(before.id)})
        items = fov.knowledge.save([replace(draft, reason=reason or "edited") for draft in plan.drafts])
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"{error}; your text is kept in {path}, nothing was changed") from error
    path.unlink()
    return items[0] if items else before


def _read(file: TextIO) -> str:
    try:
        return file.read()
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file.name} is not UTF-8 text: {error.reason}") from error


def _row(item: KnowledgeItem) -> tuple[str | Text, ...]:
    return (
        item.id,
        item.kind,
        line((item.state, STYLES[item.state])),
        item.scope,
        item.title,
        str(len(item.sources)),
        str(item.uses or ""),
        moment(item.last_seen),
    )


def _print_item(item: KnowledgeItem) -> None:
    out = console()
    out.print(line((item.title, "bold")), soft_wrap=True)
    facts = f" · {item.kind} · {item.scope} · {item.id}@{item.version} by {item.maker}"
    out.print(line((item.state, STYLES[item.state]), (facts, "dim")), soft_wrap=True)
    weights = f"weight {item.weight:.2f} · confidence {item.confidence:.2f}"
    numbers = f"{weights} · shown {several(item.uses, 'time')}, helped {several(item.helped, 'time')}"
    out.print(line((numbers, "dim")), soft_wrap=True)
    for name, values in (
        ("technologies", item.technologies),
        ("keywords", [word for word, _ in item.keywords]),
        ("topics", item.topics),
    ):
        if values:
            out.print(line((f"{name}: ", "dim"), ", ".join(values)), soft_wrap=True)
    if item.text:
        out.print()
        print_exactly(f"{item.text.rstrip()}\n")
    if item.sources:
        out.print()
        out.print(line((f"Learned from {several(len(item.sources), 'turn')}:", "dim")))
    for source in item.sources:
        session_id, _, turn = source.rpartition("/")
        out.print(line(f"  {source}  ", (to_copy("show", session_id, turn), "dim")), soft_wrap=True)
    if item.superseded_by:
        out.print(line((f"Replaced by {item.superseded_by}: {item.reason}", "yellow")), soft_wrap=True)


def _print_versions(found: Sequence[KnowledgeItem]) -> None:
    from foveate.knowledge.markdown import difference, write_item

    out = console()
    for place, item in enumerate(found):
        if place:
            out.print()
        why = f": {found[place - 1].reason}" if place and found[place - 1].reason else ""
        said = f"{item.id}@{item.version}  {moment(item.created)}  {item.state} by {item.maker}{why}"
        out.print(line((said, "bold")), soft_wrap=True)
        if place:
            _print_diff(difference(found[place - 1], item)[2:])
        else:
            out.print(line(write_item(item).rstrip()), soft_wrap=True)
    if found[-1].superseded_by:
        out.print(line((f"Replaced by {found[-1].superseded_by}: {found[-1].reason}", "yellow")), soft_wrap=True)


def _print_diff(lines: Sequence[str]) -> None:
    out = console()
    for each in lines:
        out.print(line((each, DIFF_STYLES.get(each[:1], ""))), soft_wrap=True)
