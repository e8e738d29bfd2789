"""Writes T: one line with what was asked and what came of it.

Both consist of whole phrases: of the last answer those that readers keep, of the prompt those of the most worth. The
prompt has at most three fifths of the room if both are long.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from foveate.compress.guard import Pair, keeps_cues
from foveate.compress.marks import cut_line, escape_inline, one_line
from foveate.compress.rank import Ranking
from foveate.compress.reader import Candidate, TurnReading
from foveate.compress.worth import TINY, chances
from foveate.renditions import TINY_TOKENS, Count

TINY_MARGIN = 2
"""Tokens reserved below TINY_TOKENS for the space and the newline around a line."""
MAX_TOKENS = TINY_TOKENS - TINY_MARGIN
MIN_TOKENS = 6
SHARE = 0.45
"""Share of a short turn for T; a long one has TINY_TOKENS."""
DENSITY, LEAST, MOST = 0.3, 0.7, 1.3
"""The weight of facts per token in ordinary talk, and the range of the factor by which a turn's own changes its
room."""
ASSISTANT_TOKENS = 30
"""Maximum tokens of T for an assistant's turn without a prompt."""
LARGE_TOKENS, SHARE_OF_LARGE = 1_000, 0.05
USER_PART = 0.6
"""Maximum share of the prompt in a line if both it and the answer are long."""
LEAD, LEAST_LEAD = 0.1, 0.03
"""Addition to the chance of an answer's first clause: readers kept it in 79 % of 264 answers, the likeliest in 64 %.
A clause of less than the least chance is an opening such as `Here is what I found`."""
TIGHT = 0.75
"""Share of the room for a phrase whose real tokens, with the mark before it, exceeded the estimate."""
FREE_TOKENS = 12
"""Room that phrases left from which words of further clauses of the prompt are added."""
NOTE_TOKENS, MARK_TOKENS = 6, 3
"""Tokens of a note on tool calls, and of a mark."""


@dataclass(frozen=True, slots=True)
class Line:
    """A rendition and the clauses it was made of."""

    text: str
    pairs: tuple[Pair, ...] | None = ()
    """The clauses with their kept words; None if that is no longer known."""


def line_of(candidates: Sequence[Candidate], texts: Mapping[int, str], text: str) -> Line:
    """Return a text with the clauses that it was made of."""
    return Line(text, tuple(Pair(candidates[place].text, kept) for place, kept in texts.items()))


def tiny_tokens(raw_tokens: int, *, has_user: bool, density: float = DENSITY) -> int:
    """Return the room of a tiny rendition; a short turn gets the more, the more facts it has per token."""
    most = MAX_TOKENS if has_user else ASSISTANT_TOKENS
    if raw_tokens >= LARGE_TOKENS:
        most = min(most, int(raw_tokens * SHARE_OF_LARGE))
    told = min(max(density / DENSITY, LEAST), MOST)
    return max(MIN_TOKENS, min(most, round(raw_tokens * SHARE * told)))


def tiny_line(
    reading: TurnReading, ranking: Ranking, raw_tokens: int, *, above: int, extra: float, count: Count
) -> Line:
    """Write one line of at most `above` tokens: what was asked, then the outcome."""
    candidates = reading.candidates
    spoken = {
        place for place, one in enumerate(candidates) if one.speaker in ("user", "assistant") and one.kind != "code"
    }
    spoken = spoken or set(range(len(candidates)))
    weight = sum(sum(candidates[place].facts.values()) * candidates[place].told for place in spoken)
    room = tiny_tokens(raw_tokens, has_user=reading.has_user, density=weight / max(1, raw_tokens))
    room = min(above, round(room * extra) + count(candidates[0].label))
    asked = {place for place in spoken if candidates[place].speaker == "user"}
    answered = spoken - asked
    calls = reading.tool_calls if room >= 5 * NOTE_TOKENS else 0
    draft = _Draft(candidates, ranking, count, f" {{{calls} tool{'s' if calls > 1 else ''} called}}" if calls else "")
    prompt = sum(candidates[place].tokens for place in asked)
    part = max(room * (1 - USER_PART), room - prompt - MARK_TOKENS) if asked else room
    if answered and part > MIN_TOKENS:
        draft.add_outcome(answered, round(part))
    if asked:
        draft.add_request(asked, room)
    if not draft.texts:
        return Line(cut_line(_on_one_line(candidates, ranking.clauses(room)), above, count), None)
    return line_of(candidates, dict(sorted(draft.texts.items())), draft.write({}))


@dataclass(slots=True)
class _Draft:
    """The clauses of a line so far."""

    candidates: Sequence[Candidate]
    ranking: Ranking
    count: Count
    note: str
    texts: dict[int, str] = field(default_factory=dict)

    def write(self, texts: Mapping[int, str]) -> str:
        """Write the line with more clauses."""
        return _on_one_line(self.candidates, dict(sorted({**self.texts, **texts}.items()))) + self.note

    def add_outcome(self, answered: Collection[int], room: int) -> None:
        """Add phrases of the last answer, those that readers keep first."""
        last = max(self.candidates[place].message for place in answered)
        own = [place for place in sorted(answered) if self.candidates[place].message == last]
        told = {place: _chance(self.candidates[place]) for place in own}
        lead = next((place for place in own if told[place] >= LEAST_LEAD), None)
        self._add(sorted(own, key=lambda place: -told[place] - LEAD * (place == lead)), room)
        if not self.texts:
            self.texts |= self.ranking.fit(room, self.count, self.write, among=answered, fill=True)

    def add_request(self, asked: AbstractSet[int], room: int) -> None:
        """Add phrases of the clauses of the prompt with the most facts, and words of others if much room is left.

        Where a phrase would leave no room for another speaker of a chat, words of all are chosen.
        """
        before = dict(self.texts)
        self._add(sorted(asked, key=lambda place: (-self.candidates[place].worth, place)), room)
        speakers = {self.candidates[place].label for place in asked}
        if speakers - {self.candidates[place].label for place in self.texts.keys() & asked}:
            self.texts = before
            self.texts |= self.ranking.fit(room, self.count, self.write, among=asked, fill=True)
        elif room - self.count(self.write({})) >= FREE_TOKENS:
            others = set(asked) - self.texts.keys()
            self.texts |= self.ranking.fit(room, self.count, self.write, among=others, fill=True)

    def _add(self, places: Sequence[int], room: int) -> None:
        """Add whole phrases of clauses, best first, as many as fit; words of the best clause if none does."""
        before = len(self.texts)
        for place in places:
            left = room - self.count(self.write({})) if self.texts else room
            if left < MIN_TOKENS:
                break
            if phrase := self._phrase(place, left, room):
                self.texts[place] = phrase
            elif len(self.texts) == before:
                self.texts |= self.ranking.fit(room, self.count, self.write, among={place}, fill=True)

    def _phrase(self, place: int, left: int, room: int) -> str:
        """Return the best phrase of a clause that fits and has its negations and conditions; empty if none does."""
        source = self.candidates[place].text
        phrases = filter(None, (self.ranking.phrase(place, left * share) for share in (1, TIGHT)))
        fitting = (one for one in phrases if self.count(self.write({place: one})) <= room)
        return next((one for one in fitting if keeps_cues(source, one)), "")


def _chance(candidate: Candidate) -> float:
    return 0.0 if candidate.scores is None else float(chances(candidate.scores, TINY).mean())


def _on_one_line(candidates: Sequence[Candidate], texts: Mapping[int, str]) -> str:
    """Write clauses with semicolons between, and a mark where the speaker changes."""
    line, speaker, speech = "", "user", (-1, "")
    for place, text in texts.items():
        candidate = candidates[place]
        label = candidate.label if candidate.speech != speech else ""
        said = escape_inline(f"{label}{candidate.written(text.rstrip('.;, '), line)}")
        if candidate.who != speaker:
            line += f"{' ' if line else ''}[{candidate.who}] {said}"
        else:
            line += f"; {said}" if line else said
        speaker, speech = candidate.who, candidate.speech
    return one_line(line)
