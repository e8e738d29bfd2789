"""Where the newest messages alone are too large: what may be is left out, and the oldest of them are cut."""

from __future__ import annotations

from dataclasses import replace

from foveate.strategy import Overheads
from foveate.strategy._hybrid_book import Place
from foveate.strategy._hybrid_messages import Protection, Section, speaker_of
from foveate.strategy._hybrid_rows import Draft

HIDDEN_TOKENS = 40
"""What says that messages are left out takes no more."""
LEAST_CUT_TOKENS = 48
"""A message is not cut to less than this, besides the note that says so."""
MIN_HIDDEN = 2


class Tightening:
    """Makes a draft smaller, one thing after the other, until it fits."""

    def __init__(self, draft: Draft, protection: Protection, overheads: Overheads) -> None:
        self.draft = draft
        self._protection = protection
        self._firm = frozenset(protection.firm)
        self._overheads = overheads

    def hide(self, over_tokens: int) -> int:
        """Leave out short messages, oldest first; what is still too much."""
        for section in self.draft.sections:
            if over_tokens <= 0:
                break
            over_tokens -= self._hide_step(section) if section.step else self._hide_run(section)
        return over_tokens

    def cut(self, over_tokens: int) -> int:
        """Cut protected messages, oldest first; what is still too much."""
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

    def _hide_step(self, section: Section) -> int:
        """Name a step only, if those before it are, too, and it has no protected message."""
        if section.step != self.draft.hidden_steps + 1 or any(place in self._firm for place, _ in section.places()):
            return 0
        first = self._overheads.range + self._overheads.cut_note if section.step == 2 else 0  # noqa: PLR2004
        self.draft.hidden_steps = section.step
        return self.draft.tokens(section) + self._overheads.line - first

    def _hide_run(self, section: Section) -> int:
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

    def _cut_prompt(self, section: Section, over_tokens: int) -> int:
        """The first step of a turn at work, as a whole."""
        if self.draft.prompt_tokens is not None:
            return 0
        kept = max(LEAST_CUT_TOKENS + self._overheads.cut_note, section.tokens - over_tokens)
        self.draft.prompt_tokens = kept
        return section.tokens - kept

    def _cut_message(self, section: Section, place: Place, kept_tokens: int) -> None:
        known = self.draft.variants.get((section.turn, section.step))
        source = known or (section.source if section.source and not section.step else section.own_source())
        self.draft.variants[section.turn, section.step] = replace(source, cuts=(*source.cuts, (place[1], kept_tokens)))
        self.draft.short[place] = kept_tokens
