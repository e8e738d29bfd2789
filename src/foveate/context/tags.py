"""Tags: ids and levels around the texts of turns, so that a model can request a turn by name.

    <T-183-R>                     one turn, raw (or S): its text on separate lines
    <T-183-C> Fixed the lock.     one turn, compressed (or T): its text after the tag
    <T-101-through-160-C>         a range, with a line `Turn 101: …` for each turn
    <T-12-step-3-R>               one step of a turn in progress
    <T-12-steps-3-through-40-C>   a range of its steps, with `Step 3: …`
    <T-1-through-900-E>           an era: a summary of a range
    <T-5-U>                       the user's words of a turn, verbatim, without the rest
    <T-5-M>                       a turn message by message, some of them short
    <T-1-through-40-A>            an artefact that replaces a range: a checkpoint, a topic
    [4 May 2023]                  the date of what follows: before the label or the text of an entry

Escaping adds a backslash after the `<` of text that looks like a tag or an escaped tag, including look-alikes with
invisible characters, other hyphens, styled letters or letters of another alphabet (`foveate.context.lookalikes`). A
line that begins like a label (`Turn 12:` among turns, `Step 3:` among steps) or like a date gets a backslash before it.
Parsing removes one. So no content can open, close or forge a turn, and `parse_blocks` returns exactly what
`write_block` was given.

Texts are joined where token counts add up: the content of a tag begins after `>` and a space, or on a new line without
white space or a slash, and ends with a newline.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple

from foveate.context.dates import DATE, MARK, MARK_START
from foveate.context.lookalikes import OPENERS, SOFT_HYPHEN, lookalikes
from foveate.plan import Block, ShownLevel

Section = Literal["memory", "board", "goals", "epic", "tasks", "client-texts"]
"""A part of a context that is neither turns nor pins."""

OWN_LINES: tuple[ShownLevel, ...] = ("R", "S", "U", "M", "E", "A")
"""Levels whose text begins on a new line; other texts follow a tag or label and a space."""
MARKED: tuple[ShownLevel, ...] = ("R", "S", "U", "M")
"""Levels whose text consists of lines with speaker marks and ends in a newline."""
SUMS: tuple[ShownLevel, ...] = ("E", "A")
"""Levels of a single text for a range of turns."""

_SECTIONS = ("board", "memory", "goals", "epic", "tasks", "client-texts")


@cache
def _tag_patterns(*, is_ascii: bool) -> _TagPatterns:
    """Compile the patterns for texts that are ASCII or not, at the first one that may contain a tag.

    Characters that look like those of a tag count as the same, and invisible ones are ignored: a model reads
    `<T\u200b-7-R>` or a tag in full-width letters like the real one. No character is in two classes that follow each
    other, so a search takes linear time.
    """
    alike = lookalikes(is_ascii=is_ascii)
    invisible, dashes = f"{alike.unseen}{SOFT_HYPHEN}", alike.hyphens
    unseen, blank = f"[{invisible}]*", rf"[\s{invisible}]*"

    def spelled(word: str) -> str:
        return unseen.join(f"[{dashes if letter == '-' else alike.letters[letter]}]" for letter in word)

    hyphen = f"[{alike.unseen}]*[{dashes}]"
    pin = rf"{spelled('p')}{hyphen}[{invisible}{dashes}]*\d"
    names = "|".join([spelled("t") + hyphen, pin, *(rf"{spelled(name)}{unseen}(?!\w)" for name in _SECTIONS)])
    tag = rf"{blank}(?:[{alike.slashes}]{blank})?(?:{names})"
    like = rf"\\*{tag}"
    return _TagPatterns(
        bare=re.compile(f"[{OPENERS}]{tag}"),
        forged=re.compile(f"([{OPENERS}])({like})"),
        escaped=re.compile(rf"([{OPENERS}])\\({like})"),
    )


class _TagPatterns(NamedTuple):
    bare: re.Pattern[str]
    forged: re.Pattern[str]
    escaped: re.Pattern[str]


def _patterns_for(text: str) -> _TagPatterns:
    return _tag_patterns(is_ascii=text.isascii())


def _may_hold_a_tag(text: str) -> bool:
    return "<" in text or not (text.isascii() or _OPENER.search(text) is None)


_OPENER = re.compile(f"[{OPENERS}]")

# The start of the text, or the position after anything that `str.splitlines` splits at.
_WITHIN_A_LINE = r"[^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"
_LINE_START = f"(?<!{_WITHIN_A_LINE})"


def _label_patterns(word: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    like_a_label = rf"\\*[ \t]*{word}[ \t]+\d+[ \t]*:"
    forged = re.compile(rf"{_LINE_START}({like_a_label})", re.IGNORECASE)
    # The backslash comes first in the pattern: it is found many times faster than the start of a line.
    return forged, re.compile(rf"\\(?<!{_WITHIN_A_LINE}\\)({like_a_label})", re.IGNORECASE)


def _label_finder(word: str) -> Callable[[str], bool]:
    """Return a fast check whether a text may contain a label: checking each line takes a second for 30 MB."""
    like_a_label = re.compile(rf"{word}[ \t]+\d+[ \t]*:", re.IGNORECASE)
    return lambda text: word.casefold() in text.casefold() and like_a_label.search(text) is not None


_FORGED_DATE = re.compile(rf"{_LINE_START}(\\*[ \t]*{MARK_START})", re.IGNORECASE)
_ESCAPED_DATE = re.compile(rf"\\(?<!{_WITHIN_A_LINE}\\)(\\*[ \t]*{MARK_START})", re.IGNORECASE)
_LIKE_A_DATE = re.compile(MARK_START, re.IGNORECASE)
_TURN_LABELS = _label_patterns("Turn")
_STEP_LABELS = _label_patterns("Step")
_may_hold_a_turn_label = _label_finder("Turn")
_may_hold_a_step_label = _label_finder("Step")

# Counts don't add up where a line begins with white space or a slash. A newline follows the text of an era.
_BAD_START = re.compile(r"\A(\\*[\s/])")
_ESCAPED_START = re.compile(r"\A\\(\\*[\s/])")
_BAD_ERA_START = re.compile(r"\A(\\*(?:[\s/]|\Z))")
_ESCAPED_ERA_START = re.compile(r"\A\\(\\*(?:[\s/]|\Z))")

_OPENING = re.compile(
    r"<(T-([1-9]\d*)(?:-through-([1-9]\d*)|-step-([1-9]\d*)|-steps-([1-9]\d*)-through-([1-9]\d*))?-([RSCTUMEA]))>"
)
_TURN_LABEL = re.compile(rf"^(?:\[({DATE})\]\n)?Turn ([1-9]\d*):([ \n])", re.MULTILINE)
_STEP_LABEL = re.compile(rf"^(?:\[({DATE})\]\n)?Step ([1-9]\d*):([ \n])", re.MULTILINE)


class TagsBroken(ValueError):
    """A text is not a sequence of blocks; the message has the position."""


@dataclass(frozen=True, slots=True)
class TagEntry:
    """The unescaped text of one turn, step or era. At R and S it is empty or ends in a newline."""

    number: int
    """The number of the turn or step; of an era, its first turn."""
    text: str
    tokens: int | None = field(default=None, compare=False)
    """Tokens of the escaped text, if known."""
    date: str = ""
    """The date that is shown before it (`foveate.context.dates`)."""
    is_removed: bool = field(default=False, compare=False)
    """The turn was pruned; the text is a note."""


@dataclass(frozen=True, slots=True)
class TagBlock:
    """The content between an opening and a closing tag."""

    first: int
    last: int
    level: ShownLevel
    entries: tuple[TagEntry, ...]
    first_step: int = 0
    last_step: int = 0
    is_range: bool = False

    def __post_init__(self) -> None:
        low, high = (self.first_step, self.last_step) if self.first_step else (self.first, self.last)
        numbers = [entry.number for entry in self.entries]
        assert 1 <= low <= high, f"a block from {low} to {high}"
        assert not self.first_step or self.first == self.last, "steps are of one turn"
        assert self.is_range or len(numbers) == 1, "several entries are a range"
        assert self.is_range or low == high or self.level in SUMS, "a block of one turn is not a range"
        assert not (self.is_range and self.level in SUMS), "a sum has one text"
        assert all(low <= number <= high for number in numbers), f"{numbers} are not between {low} and {high}"
        assert all(one < two for one, two in itertools.pairwise(numbers)), "entries are in order"

    @property
    def tag(self) -> str:
        """The name inside its tags."""
        if self.first_step and self.is_range:
            return f"T-{self.first}-steps-{self.first_step}-through-{self.last_step}-{self.level}"
        if self.first_step:
            return f"T-{self.first}-step-{self.first_step}-{self.level}"
        if self.is_range or self.level in SUMS:
            return f"T-{self.first}-through-{self.last}-{self.level}"
        return f"T-{self.first}-{self.level}"


def block_of(row: Block, entries: Iterable[TagEntry]) -> TagBlock:
    """Make the block of a plan's row from its texts."""
    return TagBlock(
        row.first,
        row.last,
        row.level,
        tuple(entries),
        first_step=row.first_step,
        last_step=row.last_step,
        is_range=row.is_range,
    )


def escape_tags(text: str) -> str:
    return _patterns_for(text).forged.sub(r"\1\\\2", text) if _may_hold_a_tag(text) else text


def unescape_tags(text: str) -> str:
    return _patterns_for(text).escaped.sub(r"\1\2", text) if _may_hold_a_tag(text) else text


def escape_text(text: str, level: ShownLevel, *, in_steps: bool = False) -> str:
    """Escape a text for a block of this level, so that nothing in it looks like a tag or the label of an entry."""
    escaped = escape_tags(text)
    if (_may_hold_a_step_label if in_steps else _may_hold_a_turn_label)(escaped):
        forged, _ = _STEP_LABELS if in_steps else _TURN_LABELS
        escaped = forged.sub(r"\\\1", escaped)
    if may_hold_a_date(escaped):
        escaped = _FORGED_DATE.sub(r"\\\1", escaped)
    if level in SUMS:
        return _BAD_ERA_START.sub(r"\\\1", escaped)
    return _BAD_START.sub(r"\\\1", escaped) if level in MARKED else escaped


def unescape_text(text: str, level: ShownLevel, *, in_steps: bool = False) -> str:
    if "\\" not in text:
        return text
    _, escaped = _STEP_LABELS if in_steps else _TURN_LABELS
    start = _ESCAPED_ERA_START if level in SUMS else _ESCAPED_START
    started = start.sub(r"\1", text) if level in OWN_LINES else text
    dated = _ESCAPED_DATE.sub(r"\1", started) if may_hold_a_date(started) else started
    return unescape_tags(escaped.sub(r"\1", dated))


def may_hold_a_date(text: str) -> bool:
    """Return whether a text has something that looks like a date before a turn."""
    return "[" in text and _LIKE_A_DATE.search(text) is not None


def content_text(text: str, level: ShownLevel, *, in_steps: bool = False) -> str:
    """Return a text as it is written between tags or after a label; its tokens and theirs add up."""
    escaped = escape_text(text, level, in_steps=in_steps)
    if level in MARKED:
        assert not text or text.endswith("\n"), "text with marks ends in a newline"
        return escaped
    return f"{escaped}\n" if level in SUMS else f" {escaped}\n"


def opening_text(block: TagBlock) -> str:
    """Return the opening tag, up to where the content begins."""
    return f"<{block.tag}>\n" if block.is_range or block.level in OWN_LINES else f"<{block.tag}>"


def closing_text(block: TagBlock) -> str:
    return f"</{block.tag}>\n"


def label_text(number: int, level: ShownLevel, *, in_steps: bool = False) -> str:
    return f"{'Step' if in_steps else 'Turn'} {number}:{chr(10) if level in MARKED else ''}"


def date_text(date: str, level: ShownLevel, *, is_range: bool) -> str:
    """Return a date as it is written before a label or a text; empty without one."""
    if not date:
        return ""
    return f"[{date}]\n" if is_range or level in OWN_LINES else f" [{date}]"


def write_block(block: TagBlock) -> str:
    """Write a block: escaped, in its tags, ending in a newline."""
    steps = bool(block.first_step)
    pieces = [opening_text(block)]
    for entry in block.entries:
        pieces.append(date_text(entry.date, block.level, is_range=block.is_range))
        if block.is_range:
            pieces.append(label_text(entry.number, block.level, in_steps=steps))
        pieces.append(content_text(entry.text, block.level, in_steps=steps))
    pieces.append(closing_text(block))
    return "".join(pieces)


def tag_turn(number: int, level: ShownLevel, text: str) -> str:
    """Write the text of one turn in its tag."""
    return write_block(TagBlock(number, number, level, (TagEntry(number, text),)))


def tag_section(name: Section, text: str) -> str:
    """Write a section, whose blocks and lines are escaped already, in its tag; empty without text."""
    assert not text or text.endswith("\n"), "a section's text ends in a newline"
    return f"<{name}>\n{text}</{name}>\n" if text else ""


def tag_document(name: Section, text: str) -> str:
    """Write a document of a session, escaped, in its tag; empty if it has no visible character."""
    if not text.strip():
        return ""
    escaped = _BAD_START.sub(r"\\\1", escape_tags(text))
    return tag_section(name, escaped if escaped.endswith("\n") else f"{escaped}\n")


def parse_blocks(text: str) -> list[TagBlock]:
    """Parse the blocks of a text, with unescaped contents; `TagsBroken` if there is anything else in it."""
    blocks: list[TagBlock] = []
    position = 0
    while position < len(text):
        opening = _OPENING.match(text, position)
        if opening is None:
            raise TagsBroken(f"no opening tag at character {position}: {text[position : position + 40]!r}")
        closing = f"</{opening[1]}>\n"
        end = text.find(f"\n{closing}", opening.end() - 1)
        # The closing tag of an empty turn shares its newline with the opening one.
        if end < 0:
            raise TagsBroken(f"<{opening[1]}> at character {position} is not closed")
        blocks.append(_parse_block(opening, text[opening.end() : end + 1]))
        position = end + 1 + len(closing)
    return blocks


def _parse_block(opening: re.Match[str], inner: str) -> TagBlock:
    tag, first, last, step, first_step, last_step, letter = opening.groups()
    level: ShownLevel = letter  # type: ignore[assignment]
    steps = (int(step), int(step)) if step else (int(first_step or 0), int(last_step or 0))
    is_range = bool(first_step) or (bool(last) and level not in SUMS)
    low, high = int(first), int(last or first)
    if _may_hold_a_tag(inner) and _patterns_for(inner).bare.search(inner) is not None:
        raise TagsBroken(f"<{tag}> has a tag inside")
    if is_range:
        entries = _parse_range(inner, level, in_steps=bool(first_step), tag=tag)
    else:
        content = inner[1:] if inner[:1] == (" " if level not in OWN_LINES else "\n") else None
        if content is None:
            raise TagsBroken(f"<{tag}> is not followed by its text")
        dated = MARK.match(content)
        text = _parse_content(content[dated.end() if dated else 0 :], level, in_steps=bool(step))
        entries = (TagEntry(steps[0] or low, text, date=dated[1] if dated else ""),)
    try:
        return TagBlock(low, high, level, entries, first_step=steps[0], last_step=steps[1], is_range=is_range)
    except AssertionError as error:
        raise TagsBroken(f"<{tag}>: {error}") from error


def _parse_range(inner: str, level: ShownLevel, *, in_steps: bool, tag: str) -> tuple[TagEntry, ...]:
    labels = list((_STEP_LABEL if in_steps else _TURN_LABEL).finditer(inner, 1))
    space = "\n" if level in MARKED else " "
    starts = [label.start() for label in labels]
    if inner[:1] != "\n" or (starts[0] if starts else len(inner)) != 1 or any(label[3] != space for label in labels):
        raise TagsBroken(f"<{tag}> does not begin with the label of its first entry")
    entries = []
    for label, end in zip(labels, [*starts[1:], len(inner)], strict=True):
        content = _parse_content(inner[label.end() : end], level, in_steps=in_steps)
        entries.append(TagEntry(int(label[2]), content, date=label[1] or ""))
    return tuple(entries)


def _parse_content(content: str, level: ShownLevel, *, in_steps: bool) -> str:
    return unescape_text(content if level in MARKED else content[:-1], level, in_steps=in_steps)
