"""The blocks of a hybrid context: turns as they were, turns with short messages, and what stands before them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from foveate.strategy import Overheads, Row, Wanted
from foveate.strategy._hybrid_book import Place
from foveate.strategy._hybrid_messages import Section, Source

SystemKey = tuple[int, int]


@dataclass(slots=True)
class Draft:
    """What is shown how, so far."""

    sections: Sequence[Section]
    short: dict[Place, int] = field(default_factory=dict)
    """What each message takes that is not shown as it was."""
    variants: dict[tuple[int, int], Source] = field(default_factory=dict)
    """Other short forms than the usual ones, by turn and step."""
    hidden_steps: int = 1
    """Steps behind the first, up to this one, are only named."""
    prompt_tokens: int | None = None
    """The first step of a turn at work is cut to this."""
    cut: tuple[Place, ...] = ()

    def source(self, section: Section) -> Source | None:
        return self.variants.get((section.turn, section.step), section.source)

    def tokens(self, section: Section) -> int:
        return sum(self.short.get(place, message.tokens) for place, message in section.places())

    def positions(self, section: Section) -> tuple[int, ...]:
        return tuple(message.position for place, message in section.places() if place in self.short)


@dataclass(frozen=True, slots=True)
class Layout:
    """The rows in their order, and what they need made."""

    rows: tuple[Row, ...]
    wants: tuple[Wanted, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)


def draft_rows(draft: Draft, names: Mapping[Source, str], overheads: Overheads) -> list[Row]:
    """A row for each turn, or for each run of steps; `names` has what was made of each source."""
    rows: list[Row] = []
    for source, group in groupby(draft.sections, key=lambda section: (section.turn, draft.source(section))):
        own = list(group)
        if not own[0].step:
            rows += [_turn_row(draft, section, names, overheads) for section in own]
        else:
            rows += _step_rows(draft, own, names.get(source[1], "") if source[1] else "", overheads)
    return rows


def _turn_row(draft: Draft, section: Section, names: Mapping[Source, str], overheads: Overheads) -> Row:
    short = draft.positions(section)
    source = draft.source(section)
    tokens = draft.tokens(section) + overheads.tag
    if not short or source is None:
        return Row(section.turn, section.turn, "R", tokens)
    return Row(section.turn, section.turn, "M", tokens, artefact=names[source], short=short)


def _step_rows(draft: Draft, steps: Sequence[Section], name: str, overheads: Overheads) -> Iterable[Row]:
    """Steps of one source: those between the first and the last with a short message stand in one block."""
    turn = steps[0].turn
    shown = [step for step in steps if step.step == 1 or step.step > draft.hidden_steps]
    marked = [index for index, step in enumerate(shown) if draft.positions(step)]
    first, last = (marked[0], marked[-1]) if marked else (len(shown), len(shown))
    for index, step in enumerate(shown):
        if index == first:
            block = shown[first : last + 1]
            tokens = sum(map(draft.tokens, block))
            tokens += overheads.tag if len(block) == 1 else overheads.range + len(block) * overheads.line
            short = tuple(position for one in block for position in draft.positions(one))
            ends = block[0].step, block[-1].step
            yield Row(turn, turn, "M", tokens, *ends, is_range=len(block) > 1, artefact=name, short=short)
        elif not first < index <= last:
            is_cut = step.step == 1 and draft.prompt_tokens is not None
            tokens = (draft.prompt_tokens or 0) if is_cut else step.tokens
            yield Row(turn, turn, "R", tokens + overheads.tag, step.step, step.step, is_cut=is_cut)


def system_wanted(turn: int) -> Wanted:
    """A turn's system messages, word for word."""
    return Wanted(f"system-{turn}", "short", turn, turn, data={"system": True})


def system_rows(systems: Sequence[SystemKey], overheads: Overheads) -> list[Row]:
    """System messages of turns that are not shown themselves."""
    return [
        Row(turn, turn, "A", tokens + overheads.range + 1, artefact=system_wanted(turn).name)
        for turn, tokens in systems
    ]
