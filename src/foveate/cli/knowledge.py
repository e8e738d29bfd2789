"""`foveate knowledge`: review what was learned from past conversations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from foveate.cli.ui.answers import Answer, Cells, each, listing, store_group
from foveate.cli.ui.options import read_utf8, stacked
from foveate.cli.ui.terminal import Column, line, moment, print_diff, print_exactly, shorten, to_copy
from foveate.errors import InputError
from foveate.text import amount, several

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.knowledge.markdown import MarkdownImport
    from foveate.session.knowledge import (
        KnowledgeItem,
        KnowledgeKind,
        KnowledgeNews,
        KnowledgeState,
        RejectedProposal,
        StateFilter,
    )
    from foveate.sync import Foveate

KINDS = ("topic", "profile", "lesson", "reference", "recommendation")
STATES = ("proposed", "approved", "pinned", "retired")
STYLES = {"proposed": "yellow", "approved": "green", "pinned": "cyan", "retired": "dim"}
CELLS: Cells[KnowledgeItem] = {
    Column("id"): lambda item: item.id,
    Column("kind"): lambda item: item.kind,
    Column("state"): lambda item: line((item.state, STYLES[item.state])),
    Column("scope", "cut", expendable=2): lambda item: item.scope,
    Column("title", "cut"): lambda item: item.title,
    Column("sources", "number", expendable=1): lambda item: str(len(item.sources)),
    Column("uses", "number", expendable=4): lambda item: str(item.uses or ""),
    Column("last seen", expendable=3): lambda item: moment(item.last_seen),
}
MAX_NEWS = 10
"""Items listed of each kind of news, so that it fits on one screen."""
NEWS_CHARS = 90
EMPTY = "No knowledge yet. 'foveate knowledge learn' makes it from past conversations."


filter_options = stacked(
    click.option("--scope", metavar="SCOPE", help="E.g. project:shop, user:anna, org:acme or session:ID."),
    click.option("--kind", type=click.Choice(KINDS), help="Only items of this kind."),
    click.option("--state", type=click.Choice((*STATES, "all")), help="Default: all except retired."),
)
decision_options = stacked(
    click.argument("item_ids", metavar="ITEM...", nargs=-1, required=True),
    click.option("--reason", default="", help="Why; stored with the previous version."),
)


@store_group(
    "knowledge",
    "What was learned since yesterday; list, show, approve, edit, pin, reject items.",
    invoke_without_command=True,
)
def command(fov: Foveate) -> Answer:
    """Show what was learned since yesterday, and review what was learned from past conversations, with its sources.

    A change is stored as a new version. An item is named by its id or a unique prefix of it.

    \b
    foveate knowledge
    foveate knowledge list --scope project:shop
    foveate knowledge show k-1a2b
    foveate knowledge reject k-1a2b
    foveate knowledge export -o knowledge.md
    """
    news = fov.knowledge.news()
    return Answer(news, partial(_print_news, news))


@command.command(name="list")
@filter_options
def list_(fov: Foveate, *, scope: str | None, kind: KnowledgeKind | None, state: StateFilter | None) -> Answer:
    """List the items, sorted by scope, kind and id; retired ones only with --state.

    \b
    foveate knowledge list
    foveate knowledge list --scope project:shop --kind lesson --state proposed
    """
    return listing(fov.knowledge.list(scope=scope, kind=kind, state=state), CELLS, empty=EMPTY)


@command.command()
@click.argument("item_id", metavar="ITEM")
@click.option("--versions", is_flag=True, help="All versions, with what changed between them.")
def show(fov: Foveate, *, item_id: str, versions: bool) -> Answer:
    """Show an item with its source turns.

    \b
    foveate knowledge show k-1a2b
    foveate knowledge show k-1a2b --versions
    """
    found = fov.knowledge.versions(item_id)
    earlier = fov.knowledge.earlier(item_id)
    if versions:
        return Answer(found, lambda out: _print_versions(out, found))
    return Answer(found[-1], lambda out: _print_item(out, found[-1], earlier))


@command.command()
@decision_options
def approve(fov: Foveate, *, item_ids: tuple[str, ...], reason: str) -> Answer:
    """Approve items, including retired ones.

    \b
    foveate knowledge approve k-1a2b k-3c4d
    """
    return _decide(fov, item_ids, "approved", reason)


@command.command()
@decision_options
def pin(fov: Foveate, *, item_ids: tuple[str, ...], reason: str) -> Answer:
    """Approve items so that no run changes them.

    \b
    foveate knowledge pin k-1a2b
    """
    return _decide(fov, item_ids, "pinned", reason)


@command.command()
@decision_options
def retire(fov: Foveate, *, item_ids: tuple[str, ...], reason: str) -> Answer:
    """Retire items: they are no longer used. Their versions are kept; 'approve' restores them.

    \b
    foveate knowledge retire k-1a2b --reason "we moved to tox"
    """
    return _decide(fov, item_ids, "retired", reason)


@command.command()
@decision_options
def reject(fov: Foveate, *, item_ids: tuple[str, ...], reason: str) -> Answer:
    """Reject items, like 'retire': no run learns what they say again.

    \b
    foveate knowledge reject k-1a2b --reason "that was a joke"
    """
    return _decide(fov, item_ids, "retired", reason or "rejected")


@command.command()
@click.option("--scope", metavar="SCOPE", help="E.g. project:shop, user:anna, org:acme or session:ID.")
def rejected(fov: Foveate, *, scope: str | None) -> Answer:
    """List what a model proposed and was not stored, with the reasons: its source turns do not prove it.

    \b
    foveate knowledge rejected --scope project:shop
    """
    found = fov.knowledge.rejected(scope=scope)
    return Answer(found, each(found, _print_rejected) if found else "No proposal of a model was rejected.")


@command.command()
@click.argument("item_id", metavar="ITEM")
@click.option("--text", help="The new text.")
@click.option(
    "--file", type=click.File("r", encoding="utf-8"), help="Read the new text from a file; - is standard input."
)
@click.option("--title", help="The new title.")
@click.option("--reason", default="", help="Why; stored with the previous version.")
def edit(
    fov: Foveate, *, item_id: str, text: str | None, file: TextIO | None, title: str | None, reason: str
) -> Answer:
    """Change an item's text or title, in $EDITOR or by options. Editing approves a proposed item.

    \b
    foveate knowledge edit k-1a2b
    foveate knowledge edit k-1a2b --text "Run the tests with make." --reason "shorter"
    """
    if text is not None and file is not None:
        raise click.UsageError("give --text or --file, not both")
    given = read_utf8(file) if file else text
    before = fov.knowledge.get(item_id)
    if given is None and title is None:
        after = _edit_in_editor(fov, before, reason)
    else:
        after = fov.knowledge.edit(before.id, text=given, title=title, version=before.version, reason=reason)
    is_same = after.version == before.version
    return Answer(after, "Nothing changed." if is_same else lambda out: _print_change(out, before, after))


@command.command()
@filter_options
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
def export(
    fov: Foveate,
    *,
    scope: str | None,
    kind: KnowledgeKind | None,
    state: StateFilter | None,
    output: Path | None,
) -> Answer:
    """Write items as Markdown, to review or edit them and to keep them in version control.

    \b
    foveate knowledge export --scope project:shop -o knowledge.md
    """
    from foveate.knowledge.markdown import write_markdown
    from foveate.tools.files import resolved, write_atomically

    found = fov.knowledge.list(scope=scope, kind=kind, state=state)
    text = write_markdown(found)
    if output is None:
        return Answer({"items": found, "markdown": text}, lambda _: print_exactly(text))
    path = output.expanduser()
    write_atomically(resolved(path, str(path)), text.encode(), str(path))
    size = len(text.encode())
    message = f"Wrote {output} ({several(len(found), 'item')}, {amount(size)}B)."
    return Answer({"output": str(output), "items": len(found), "bytes": size}, message)


@command.command(name="import", create=True)
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--scope", default="project:", metavar="SCOPE", help="Scope of new items without one. Default: project:")
@click.option("--dry-run", is_flag=True, help="Only report what would change.")
def import_(fov: Foveate, *, file: TextIO, scope: str, dry_run: bool) -> Answer:
    """Import an edited Markdown export. What changed becomes a new version; a heading without an id is a new item.

    If one line is wrong, nothing is imported.

    \b
    foveate knowledge import knowledge.md --dry-run
    foveate knowledge import knowledge.md
    """
    from foveate.knowledge.markdown import entry_ids, plan_import, read_markdown

    text = read_utf8(file)
    try:
        entries = read_markdown(text)
        plan = plan_import(entries, fov.knowledge.histories(entry_ids(entries, scope=scope)), scope=scope)
    except InputError as error:
        raise InputError(f"{file.name}: {error}; nothing was imported") from error
    items = [] if dry_run else fov.knowledge.save(plan.drafts)
    counts = {"new": plan.new, "changed": len(plan.drafts) - plan.new, "unchanged": plan.unchanged}
    value = {"dry_run": dry_run, **counts, "changes": plan.drafts, "items": items}
    return Answer(value, partial(_print_import, plan, "Would import" if dry_run else "Imported"))


def _decide(fov: Foveate, item_ids: Sequence[str], state: KnowledgeState, reason: str) -> Answer:
    from foveate.session.knowledge import KnowledgeDraft

    items = fov.knowledge.save(
        [KnowledgeDraft(id=item_id, state=state, reason=reason or state) for item_id in item_ids]
    )
    return Answer(items, each(items, _print_state))


def _edit_in_editor(fov: Foveate, before: KnowledgeItem, reason: str) -> KnowledgeItem:
    """Open an item as Markdown in an editor; a text that can't be imported is kept in its file."""
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


def _print_state(out: Console, item: KnowledgeItem) -> None:
    out.print(line((item.state, STYLES[item.state]), f" {item.id}  {item.title}"), soft_wrap=True)


def _print_import(plan: MarkdownImport, what: str, out: Console) -> None:
    for draft in plan.drafts:
        fields = [name for name in ("title", "text", "state", "technologies") if getattr(draft, name) is not None]
        summary = ", ".join(fields) if draft.id else draft.title or ""
        out.print(line((f"{draft.id or 'new':<12} ", "bold"), summary), soft_wrap=True)
    changed = len(plan.drafts) - plan.new
    out.print(line(f"{what}: {plan.new} new, {changed} changed, {plan.unchanged} unchanged."))


def _print_change(out: Console, before: KnowledgeItem, after: KnowledgeItem) -> None:
    from foveate.knowledge.markdown import difference

    print_diff(out, difference(before, after))
    out.print(line(f"{after.id} is now version {after.version} ({after.state})."))


def _print_news(news: KnowledgeNews, out: Console) -> None:
    """Print what was learned, on one screen."""
    signs = (("+", "green", news.new), ("~", "yellow", news.changed), ("-", "dim", news.replaced))
    for sign, style, items in signs:
        for item in items[:MAX_NEWS]:
            name = item.form or item.kind
            out.print(line((f"{sign} ", style), (item.id, "bold"), f"  {name}: {shorten(item.title, NEWS_CHARS)}"))
        if len(items) > MAX_NEWS:
            out.print(line((f"{sign} … {len(items) - MAX_NEWS:,} more: foveate knowledge list", style)))
    counts = f"{len(news.new):,} new, {len(news.changed):,} changed, {len(news.replaced):,} replaced"
    run = f"last run {moment(news.last_run.started)}" if news.last_run else "no run yet: 'foveate knowledge learn'"
    out.print(line((f"Since {moment(news.since)}: {counts}. {news.waiting:,} to review; {run}.", "dim")))


def _print_rejected(out: Console, each: RejectedProposal) -> None:
    out.print(
        line((each.kind, "bold"), f" {each.title}", (f"  {each.scope}, {moment(each.at)}", "dim")), soft_wrap=True
    )
    if each.text and each.text != each.title:
        out.print(line(f"    {shorten(each.text, 300)}"), soft_wrap=True)
    out.print(line((f"    {each.reason}", "yellow")), soft_wrap=True)


def _print_item(out: Console, item: KnowledgeItem, earlier: Sequence[KnowledgeItem] = ()) -> None:
    out.print(line((item.title, "bold")), soft_wrap=True)
    facts = f" · {item.kind} · {item.scope} · {item.id}@{item.version} by {item.maker}"
    out.print(line((item.state, STYLES[item.state]), (facts, "dim")), soft_wrap=True)
    weights = f"weight {item.weight:.2f} · confidence {item.confidence:.2f}"
    numbers = f"{weights} · shown {several(item.uses, 'time')}, helped {several(item.helped, 'time')}"
    out.print(line((numbers, "dim")), soft_wrap=True)
    if item.said_on:
        said = f"said {several(item.times_said, 'time')}: {', '.join(item.said_on)}"
        out.print(line((said, "dim")), soft_wrap=True)
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
    for other in item.contradicts:
        out.print(line((f"Contradicted on the same day: {other}", "yellow")), soft_wrap=True)
    for before in earlier:
        out.print(line((f"Earlier ({moment(before.last_seen)}): {before.text}  {before.id}", "dim")), soft_wrap=True)
    if item.superseded_by:
        out.print(line((f"Replaced by {item.superseded_by}: {item.reason}", "yellow")), soft_wrap=True)


def _print_versions(out: Console, found: Sequence[KnowledgeItem]) -> None:
    from foveate.knowledge.markdown import difference, write_item

    for place, item in enumerate(found):
        if place:
            out.print()
        why = f": {found[place - 1].reason}" if place and found[place - 1].reason else ""
        heading = f"{item.id}@{item.version}  {moment(item.created)}  {item.state} by {item.maker}{why}"
        out.print(line((heading, "bold")), soft_wrap=True)
        if place:
            print_diff(out, difference(found[place - 1], item)[2:])
        else:
            out.print(line(write_item(item).rstrip()), soft_wrap=True)
    if found[-1].superseded_by:
        out.print(line((f"Replaced by {found[-1].superseded_by}: {found[-1].reason}", "yellow")), soft_wrap=True)
