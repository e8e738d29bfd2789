"""The blocks of a hybrid context: turns in full, turns with short messages, and the blocks before them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from foveate.plan import ArtefactSpec, Block, Overheads
from foveate.strategy.hybrid.messages import Protection, ShortSource, TurnSection, speaker_of
from foveate.strategy.hybrid.state import Place

SystemKey = tuple[int, int]


@dataclass(slots=True)
class HybridDraft:
    """The blocks chosen so far."""

    sections: Sequence[TurnSection]
    short: dict[Place, int] = field(default_factory=dict)
    """Tokens of each shortened message."""
    variants: dict[tuple[int, int], ShortSource] = field(default_factory=dict)
    """Short forms other than the default ones, by turn and step."""
    hidden_steps: int = 1
    """Steps after the first, up to this one, are only named."""
    prompt_tokens: int | None = None
    """Tokens that the first step of a turn in progress is cut to."""
    cut: tuple[Place, ...] = ()

    def source(self, section: TurnSection) -> ShortSource | None:
        return self.variants.get((section.turn, section.step), section.source)

    def tokens(self, section: TurnSection) -> int:
        return sum(self.short.get(place, message.tokens) for place, message in section.places())

    def positions(self, section: TurnSection) -> tuple[int, ...]:
        return tuple(message.position for place, message in section.places() if place in self.short)


@dataclass(frozen=True, slots=True)
class HybridLayout:
    """The rows in order, and the artefacts they need."""

    rows: tuple[Block, ...]
    wants: tuple[ArtefactSpec, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)


def draft_rows(draft: HybridDraft, names: Mapping[ShortSource, str], overheads: Overheads) -> list[Block]:
    """Return a row for each turn, or for each run of steps; `names` has the artefact of each source."""
    rows: list[Block] = []
    for source, group in groupby(draft.sections, key=lambda section: (section.turn, draft.source(section))):
        own = list(group)
        if not own[0].step:
            rows += [_turn_row(draft, section, names, overheads) for section in own]
        else:
            rows += _step_rows(draft, own, names.get(source[1], "") if source[1] else "", overheads)
    return rows


def _turn_row(
    draft: HybridDraft, section: TurnSection, names: Mapping[ShortSource, str], overheads: Overheads
) -> Block:
    short = draft.positions(section)
    source = draft.source(section)
    tokens = draft.tokens(section) + overheads.tag
    if not short or source is None:
        return Block(section.turn, section.turn, "R", tokens)
    return Block(section.turn, section.turn, "M", tokens, artefact=names[source], short=short)


def _step_rows(draft: HybridDraft, steps: Sequence[TurnSection], name: str, overheads: Overheads) -> Iterable[Block]:
    """Return the rows of steps with one source: those between the first and the last with a short message share a
    block."""
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
            yield Block(turn, turn, "M", tokens, *ends, is_range=len(block) > 1, artefact=name, short=short)
        elif not first < index <= last:
            is_cut = step.step == 1 and draft.prompt_tokens is not None
            tokens = (draft.prompt_tokens or 0) if is_cut else step.tokens
            yield Block(turn, turn, "R", tokens + overheads.tag, step.step, step.step, is_cut=is_cut)


def system_wanted(turn: int) -> ArtefactSpec:
    """Request a turn's system messages, verbatim."""
    return ArtefactSpec(f"system-{turn}", "short", turn, turn, data={"system": True})


def system_rows(systems: Sequence[SystemKey], overheads: Overheads) -> list[Block]:
    """Return rows for the system messages of turns that are not shown themselves."""
    return [
        Block(turn, turn, "A", tokens + overheads.range + 1, artefact=system_wanted(turn).name)
        for turn, tokens in systems
    ]


HIDDEN_TOKENS = 40
"""Maximum tokens of the note that messages are left out."""
LEAST_CUT_TOKENS = 48
"""Minimum tokens of a cut message, without its note."""
MIN_HIDDEN = 2


class TightLayout:
    """Shrinks a draft step by step until it fits."""

    def __init__(self, draft: HybridDraft, protection: Protection, overheads: Overheads) -> None:
        self.draft = draft
        self._protection = protection
        self._firm = frozenset(protection.firm)
        self._overheads = overheads

    def hide(self, over_tokens: int) -> int:
        """Leave out short messages, oldest first; return the tokens still in excess."""
        for section in self.draft.sections:
            if over_tokens <= 0:
                break
            over_tokens -= self._hide_step(section) if section.step else self._hide_run(section)
        return over_tokens

    def cut(self, over_tokens: int) -> int:
        """Cut protected messages, oldest first; return the tokens still in excess."""
        least = LEAST_CUT_TOKENS + self._overheads.cut_note
        sections = {place: section for section in self.draft.sections for place, _ in section.places()}
        sizes = {place: message.tokens for section in self.draft.sections for place, message in section.places()}
        for place in self._protection.firm:
            if over_tokens <= 0:
                break
            section = sections.get(place)
            if section is None or sizes[place] <= least:
                continue
            kept = max(least, sizes[place] - over_tokens)
            over_tokens -= self._cut_prompt(section, over_tokens) if section.step == 1 else sizes[place] - kept
            if section.step != 1:
                self._cut_message(section, place, kept)
            self.draft.cut = (*self.draft.cut, place)
        return over_tokens

    def _hide_step(self, section: TurnSection) -> int:
        """Reduce a step to its name if those before it are reduced too and it has no protected message."""
        if section.step != self.draft.hidden_steps + 1 or any(place in self._firm for place, _ in section.places()):
            return 0
        first = self._overheads.range + self._overheads.cut_note if section.step == 2 else 0  # noqa: PLR2004
        self.draft.hidden_steps = section.step
        return self.draft.tokens(section) + self._overheads.line - first

    def _hide_run(self, section: TurnSection) -> int:
        """Leave out the longest run of messages that are neither protected nor the system's."""
        if section.source is None or not section.source.is_whole:
            return 0
        best: list[Place] = []
        run: list[Place] = []
        for place, message in section.places():
            speaker = speaker_of(message)
            is_loose = speaker == "tool" and not run
            if place in self._firm or speaker == "system" or is_loose:
                run = []
            elif message.tokens:
                run = [*run, place]
            best = max(best, run, key=len)
        if len(best) < MIN_HIDDEN:
            return 0
        sizes = {place: message.tokens for place, message in section.places()}
        before = sum(self.draft.short.get(place, sizes[place]) for place in best)
        if before <= HIDDEN_TOKENS:
            return 0
        self.draft.short |= dict.fromkeys(best, 0)
        self.draft.short[best[0]] = HIDDEN_TOKENS
        source = replace(section.source, hidden=(best[0][1], best[-1][1]))
        self.draft.variants[section.turn, section.step] = source
        return before - HIDDEN_TOKENS

    def _cut_prompt(self, section: TurnSection, over_tokens: int) -> int:
        """Cut the first step of a turn in progress as a whole."""
        if self.draft.prompt_tokens is not None:
            return 0
        kept = max(LEAST_CUT_TOKENS + self._overheads.cut_note, section.tokens - over_tokens)
        self.draft.prompt_tokens = kept
        return section.tokens - kept

    def _cut_message(self, section: TurnSection, place: Place, kept_tokens: int) -> None:
        known = self.draft.variants.get((section.turn, section.step))
        source = known or (section.source if section.source and not section.step else section.own_source())
        self.draft.variants[section.turn, section.step] = replace(source, cuts=(*source.cuts, (place[1], kept_tokens)))
        self.draft.short[place] = kept_tokens
