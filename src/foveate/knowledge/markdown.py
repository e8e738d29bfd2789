"""Knowledge as a Markdown file that people review, edit and keep in version control.

## Run the tests with make
<!-- k-1a2b3c4d5e@2 -->
- scope: project:shop
- kind: lesson
- state: approved
- sources: chat/T-12

The text, up to the next heading of this level.

The comment contains the id and the exported version. A heading without it is a new item. A line of a text that
looks like such a heading or a comment is escaped with a backslash, so that a text can't pretend to be another item.
An import updates title, text, state and technologies of existing items; their sources are shown, but not imported.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from foveate.errors import InputError
from foveate.session.knowledge import (
    WRITABLE,
    KnowledgeDraft,
    KnowledgeItem,
    KnowledgeKind,
    check_scope,
    clean_labels,
    clean_text,
    clean_title,
    written_id,
)
from foveate.session.record import printable_text
from foveate.store.knowledge import KNOWLEDGE_KINDS, KNOWLEDGE_STATES

HEAD = "# Knowledge\n"
MAX_FILE_CHARS = 20_000_000
MAX_ENTRIES = 10_000
SHOWN_CHARS = 80
REASON = "imported from Markdown"
_HEADING = re.compile(r"##(?:[ \t]+(.*))?", re.DOTALL)
_ID = re.compile(r"<!-- ((?:[a-z0-9][a-z0-9._-]{0,63}:)?[kt]-[0-9a-z]{1,64})@([0-9]{1,9}) -->")
_FIELD = re.compile(r"- ([a-z]+):(.*)", re.DOTALL)
_LIKE_OURS = re.compile(r"(?:##(?:[ \t]|$)|<!--)")
_ESCAPED = re.compile(r"\\+(?:##(?:[ \t]|$)|<!--)")
_FIXED = ("scope", "kind", "topics", "keywords")
"""Fields that an import can't change."""
_FIELDS = ("scope", "kind", "state", "technologies", "topics", "keywords", "sources")
T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownEntry:
    """An item as written in a file."""

    line: int
    """Line number of its heading, from 1."""
    title: str
    text: str
    id: str | None
    version: int
    fields: Mapping[str, str]
    lines: Mapping[str, int]
    """Line numbers of the fields and of the `id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownImport:
    """The changes of an import."""

    drafts: Sequence[KnowledgeDraft]
    new: int
    unchanged: int


def write_markdown(items: Iterable[KnowledgeItem]) -> str:
    """Write the items as a file, ordered by scope, kind and id; the same items give the same bytes."""
    ordered = sorted(items, key=lambda item: (item.scope, KNOWLEDGE_KINDS.index(item.kind), item.id))
    return "\n".join([HEAD, *(write_item(item) for item in ordered)])


def write_item(item: KnowledgeItem) -> str:
    """Write one item, from its heading to the end of its text."""
    fields = _fields_of(item)
    lines = [f"## {_title(item.title)}".rstrip(), f"<!-- {item.id}@{item.version} -->"]
    lines += [f"- {name}: {fields[name]}" for name in _FIELDS if fields[name]]
    body = [_escape(line) for line in _normal(item.text)]
    return "\n".join([*lines, "", *body, ""] if body else [*lines, ""])


def difference(before: KnowledgeItem, after: KnowledgeItem) -> list[str]:
    """Return the lines of a unified diff between two versions of an item."""
    old, new = (
        [line for line in _lines(write_item(item).rstrip()) if not _ID.fullmatch(line)] for item in (before, after)
    )
    names = (f"{before.id}@{before.version}", f"{after.id}@{after.version}")
    return list(difflib.unified_diff(old, new, *names, lineterm=""))


def read_markdown(text: str) -> list[MarkdownEntry]:
    """Parse the entries of a file; raise `InputError` with the line of an error."""
    if len(text) > MAX_FILE_CHARS:
        raise InputError(f"the file has {len(text):,} characters; up to {MAX_FILE_CHARS:,} can be imported")
    entries: list[MarkdownEntry] = []
    seen: dict[str, int] = {}
    for block in _blocks(text):
        entry = _read(block)
        if entry.id is not None and entry.id in seen:
            _fail(entry.lines["id"], f"the id {entry.id} is in line {seen[entry.id]} already")
        if entry.id is not None:
            seen[entry.id] = entry.lines["id"]
        entries.append(entry)
        if len(entries) > MAX_ENTRIES:
            raise InputError(f"the file has more than {MAX_ENTRIES:,} items; import it in parts")
    return entries


def plan_import(
    entries: Sequence[MarkdownEntry], known: Mapping[str, Sequence[KnowledgeItem]], *, scope: str = "project:"
) -> MarkdownImport:
    """Return the new items and the changes that a person made. `known` has all versions of the items named by the
    entries.

    `scope` is the default of new items. Raise `InputError` with the line of an error; nothing is changed then.
    """
    drafts: list[KnowledgeDraft] = []
    written: dict[str, int] = {}
    new = 0
    for entry in entries:
        if entry.id is not None:
            changed = _changed(entry, entry.id, known)
            drafts += [changed] if changed else []
            continue
        draft = _new(entry, scope)
        made = _id_of(draft)
        if made in written:
            _fail(entry.line, f"the same new item is in line {written[made]} already")
        written[made] = entry.line
        if made not in known:
            new += 1
        elif not known[made][-1].superseded_by and _is_in(draft, known[made][-1]):
            continue  # already imported
        drafts.append(draft)
    return MarkdownImport(drafts=tuple(drafts), new=new, unchanged=len(entries) - len(drafts))


def entry_ids(entries: Iterable[MarkdownEntry], *, scope: str = "project:") -> list[str]:
    """List the ids in a file, including those of its new items."""
    return [_id_of(_new(entry, scope)) if entry.id is None else entry.id for entry in entries]


@dataclass(slots=True)
class _Block:
    """The lines of an entry."""

    number: int
    heading: str
    lines: list[str] = field(default_factory=list)


def _blocks(text: str) -> Iterator[_Block]:
    block: _Block | None = None
    for number, line in enumerate(_lines(text.removeprefix("\ufeff")), 1):
        found = _HEADING.fullmatch(line)
        if found:
            if block:
                yield block
            block = _Block(number, (found[1] or "").strip())
        elif block:
            block.lines.append(line)
        elif line.strip() and not line.startswith("# "):
            _fail(number, f"expected a heading such as '## Title', not {line[:SHOWN_CHARS]!r}")
    if block:
        yield block


def _read(block: _Block) -> MarkdownEntry:
    """Parse an entry: the comment and the fields are directly below the heading; the text begins after an empty
    line."""
    item_id, version = None, 0
    fields: dict[str, str] = {}
    numbers: dict[str, int] = {}
    end = next((place for place, line in enumerate(block.lines) if not line.strip()), len(block.lines))
    for number, line in enumerate(block.lines[:end], block.number + 1):
        is_first = number == block.number + 1
        if is_first and line.startswith("<!--"):
            found = _ID.fullmatch(line.rstrip())
            if not found:
                _fail(number, f"{line[:SHOWN_CHARS]!r} has no id; ids look like <!-- k-1a2b3c4d5e@1 -->")
            item_id, version, numbers["id"] = found[1], int(found[2]), number
            continue
        named = _FIELD.fullmatch(line)
        if not named or named[1] not in _FIELDS:
            known = ", ".join(_FIELDS)
            _fail(number, f"expected '- name: value' ({known}) or an empty line, not {line[:SHOWN_CHARS]!r}")
        if named[1] in fields:
            _fail(number, f"{named[1]} is in line {numbers[named[1]]} already")
        fields[named[1]], numbers[named[1]] = named[2].strip(), number
    body = block.lines[end:]
    for number, line in enumerate(body, block.number + 1 + end):
        if _ID.fullmatch(line.rstrip()):
            _fail(number, "an id belongs directly below a heading; a text that has such a line needs \\ before it")
    return MarkdownEntry(
        line=block.number,
        title=block.heading,
        text="\n".join(_unescape(line) for line in _trimmed(body)),
        id=item_id,
        version=version,
        fields=fields,
        lines=numbers,
    )


def _id_of(new: KnowledgeDraft) -> str:
    return written_id(new.scope or "", new.kind or "", new.title or "")


def _new(entry: MarkdownEntry, scope: str) -> KnowledgeDraft:
    kind: KnowledgeKind = _choice(entry, "kind", WRITABLE, WRITABLE[0])
    for name in ("topics", "keywords"):
        if name in entry.fields:
            _fail(entry.lines[name], f"a new item has no {name}; runs find them")
    place = entry.lines.get("scope", entry.line)
    return KnowledgeDraft(
        scope=_checked(place, lambda: check_scope(entry.fields.get("scope", scope))),
        kind=kind,
        state=_choice(entry, "state", KNOWLEDGE_STATES, None),
        title=_checked(entry.line, lambda: clean_title(entry.title)),
        text=_checked(entry.line, lambda: clean_text(entry.text)),
        technologies=_technologies(entry),
        sources=_names(entry.fields.get("sources", "")),
        reason=REASON,
    )


def _changed(entry: MarkdownEntry, item_id: str, known: Mapping[str, Sequence[KnowledgeItem]]) -> KnowledgeDraft | None:
    """Return the change that a person made to the exported version; None if there is none."""
    number = entry.lines["id"]
    versions = known.get(item_id)
    if not versions:
        _fail(number, f"there is no item {item_id} here; without the comment it is imported as a new one")
    base = next((item for item in versions if item.version == entry.version), None)
    if base is None:
        _fail(number, f"{item_id} has no version {entry.version}; export it again")
    _check_fixed(entry, base)
    state = _choice(entry, "state", KNOWLEDGE_STATES, base.state)
    technologies = _technologies(entry) if "technologies" in entry.fields else base.technologies
    title = None if entry.title == _title(base.title) else _checked(entry.line, lambda: clean_title(entry.title))
    is_same_text = entry.text == "\n".join(_normal(base.text))
    text = None if is_same_text else _checked(entry.line, lambda: clean_text(entry.text))
    draft = KnowledgeDraft(
        id=item_id,
        version=versions[-1].version,
        state=None if state == base.state else state,
        title=title,
        text=text,
        technologies=None if _joined(technologies) == _joined(base.technologies) else technologies,
        reason=REASON,
    )
    if _is_in(draft, base) or _is_in(draft, versions[-1]):
        return None
    if versions[-1] is not base or base.superseded_by:
        now = versions[-1].superseded_by or f"{item_id}@{versions[-1].version}"
        _fail(number, f"{item_id} has changed since version {entry.version} was exported, to {now}; export it again")
    return draft


def _check_fixed(entry: MarkdownEntry, base: KnowledgeItem) -> None:
    shown = _fields_of(base)
    for name in _FIXED:
        if name in entry.fields and entry.fields[name] != shown[name]:
            _fail(entry.lines[name], f"the {name} of an item can't be changed; it was {shown[name]!r}")


def _is_in(draft: KnowledgeDraft, item: KnowledgeItem) -> bool:
    """Return whether an item already has all changes of a draft."""
    return (
        draft.state in (None, item.state)
        and draft.title in (None, item.title)
        and draft.text in (None, item.text)
        and (draft.technologies is None or tuple(draft.technologies) == item.technologies)
    )


def _fields_of(item: KnowledgeItem) -> dict[str, str]:
    """Return the fields as written in a file."""
    return {
        "scope": _title(item.scope),
        "kind": item.kind,
        "state": item.state,
        "technologies": _joined(item.technologies),
        "topics": _joined(item.topics),
        "keywords": _joined(word for word, _ in item.keywords),
        "sources": _joined(item.sources),
    }


def _choice(entry: MarkdownEntry, name: str, known: Sequence[T], default: D) -> T | D:
    value = entry.fields.get(name)
    if value is None:
        return default
    found = next((each for each in known if each == value), None)
    if found is None:
        shown = ", ".join(map(str, known))
        _fail(entry.lines[name], f"no {name} {value[:SHOWN_CHARS]!r}; available: {shown}")
    return found


def _technologies(entry: MarkdownEntry) -> tuple[str, ...]:
    names = _names(entry.fields.get("technologies", ""))
    return _checked(entry.lines.get("technologies", entry.line), lambda: clean_labels(names))


def _checked(number: int, make: Callable[[], T]) -> T:
    try:
        return make()
    except InputError as error:
        _fail(number, str(error))


def _fail(number: int, problem: str) -> NoReturn:
    raise InputError(f"line {number}: {problem}")


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def _joined(names: Iterable[str]) -> str:
    return ", ".join(map(_title, names))


def _title(text: str) -> str:
    return " ".join(printable_text(text).split())


def _normal(text: str) -> list[str]:
    """Return the lines of a text as written in a file."""
    return _trimmed(_lines(printable_text(text)))


def _lines(text: str) -> list[str]:
    """Split a text at common line ends only; other separators are part of a line."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Remove empty lines at both ends, and trailing spaces."""
    kept = [place for place, line in enumerate(lines) if line.strip()]
    if not kept:
        return []
    found = list(lines[kept[0] : kept[-1] + 1])
    found[-1] = found[-1].rstrip()
    return found


def _escape(line: str) -> str:
    return f"\\{line}" if _LIKE_OURS.match(line) or _ESCAPED.match(line) else line


def _unescape(line: str) -> str:
    return line[1:] if _ESCAPED.match(line) else line
