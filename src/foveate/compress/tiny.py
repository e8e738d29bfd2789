"""A turn in one line: what was asked, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foveate.compress import TINY_TOKENS, Count
from foveate.compress.choose import Choice, best_first
from foveate.compress.guard import Pair
from foveate.compress.inline import cut_line, escape_inline, marked, one_line
from foveate.compress.reading import Candidate, Reading
from foveate.compress.telegraph import estimate_tokens, is_courtesy, squeeze

TINY_MARGIN = 2
"""Left free below TINY_TOKENS for the space and the newline around a line."""
MAX_TOKENS = TINY_TOKENS - TINY_MARGIN
MIN_TOKENS = 6
SHARE = 0.45
"""Of a short turn; a long one has TINY_TOKENS."""
DENSITY, LEAST, MOST = 0.3, 0.7, 1.3
"""The weight of facts per token in ordinary talk, and how far a turn's own may change its room."""
ASSISTANT_TOKENS = 30
"""The most that an assistant's turn without a prompt takes."""
LARGE_TOKENS, SHARE_OF_LARGE = 1_000, 0.05
USER_PART = 0.55
"""What the prompt may take of a line if both it and the answer are long."""
FIXED_COST = 4.0
FIRST_BOOST = 1.8
"""What was asked, and what the answer begins with, count more here than elsewhere."""
NOTE_TOKENS, MARK_TOKENS = 6, 3
ATTEMPTS, STEP_TOKENS = 5, 3
"""A line that came out too long is made again with so much less room; the last one does without the note on tools."""


@dataclass(frozen=True, slots=True)
class Line:
    """A rendition and the clauses it was made of."""

    text: str
    pairs: tuple[Pair, ...] | None = ()
    """None where nobody knows any more which words are from which clause."""


def tiny_tokens(raw_tokens: int, *, has_user: bool, density: float = DENSITY) -> int:
    """The room of a tiny rendition; a short turn gets more of it the more it tells per token."""
    most = MAX_TOKENS if has_user else ASSISTANT_TOKENS
    if raw_tokens >= LARGE_TOKENS:
        most = min(most, int(raw_tokens * SHARE_OF_LARGE))
    told = min(max(density / DENSITY, LEAST), MOST)
    return max(MIN_TOKENS, min(most, round(raw_tokens * SHARE * told)))


def tiny_line(reading: Reading, raw_tokens: int, *, above: int, extra: float, scale: float, count: Count) -> Line:
    """One line of at most TINY_TOKENS that is no longer than the level above."""
    spoken = [candidate for candidate in reading.candidates if candidate.speaker in ("user", "assistant")]
    candidates = [candidate for candidate in spoken if candidate.kind != "code"] or spoken or reading.candidates
    if not candidates:
        return Line("…")
    told = sum(sum(candidate.facts.values()) for candidate in candidates if not is_courtesy(candidate.text))
    room = tiny_tokens(raw_tokens, has_user=reading.has_user, density=told / max(1, raw_tokens))
    room += round(estimate_tokens(candidates[0].label) * scale)
    most = min(above, MAX_TOKENS if raw_tokens < LARGE_TOKENS else room)
    room = min(most, round(room * extra))
    line = Line("…")
    for attempt in range(ATTEMPTS):
        note = _tools_note(reading.tool_calls) if attempt < ATTEMPTS - 1 else ""
        line = _line(candidates, room - STEP_TOKENS * attempt, scale, note)
        if count(line.text) <= room:
            return line
    # A clause that can't be squeezed further may take more than its share, but never more than the level.
    cut = cut_line(line.text, most, count)
    return line if cut == line.text else Line(cut, None)


def _tools_note(calls: int) -> str:
    return f" {{{calls} tool{'s' if calls > 1 else ''} called}}" if calls else ""


def _line(candidates: Sequence[Candidate], room: int, scale: float, note: str) -> Line:
    user = [candidate for candidate in candidates if candidate.speaker == "user"]
    others = [candidate for candidate in candidates if candidate.speaker != "user"]
    tail = note if room >= 5 * NOTE_TOKENS else ""
    room -= NOTE_TOKENS if tail else 0
    if not others:
        asked = _part(user, room, scale)
        return Line(one_line(asked.text) + tail, asked.pairs)
    mark = others[-1].who
    if not user:
        came = _part(others, room - MARK_TOKENS, scale)
        return Line(one_line(marked(mark, came.text)) + tail, came.pairs)
    wanted = sum(candidate.short_tokens for candidate in user) * scale
    offered = sum(candidate.short_tokens for candidate in others) * scale
    asked = _part(user, round(min(wanted, max(room * USER_PART, room - MARK_TOKENS - offered))), scale)
    left = room - round(estimate_tokens(asked.text) * scale) - MARK_TOKENS
    if left < MIN_TOKENS:
        return Line(one_line(asked.text) + tail, asked.pairs)
    came = _part(others, left, scale)
    return Line(one_line(f"{asked.text} {marked(mark, came.text)}") + tail, (*(asked.pairs or ()), *(came.pairs or ())))


def _part(candidates: Sequence[Candidate], room: int, scale: float) -> Line:
    """The best clauses in few words; one that does not fit whole is squeezed into what is left."""
    label = candidates[0].label
    left = room - estimate_tokens(label) * scale
    choices = _choices(candidates, scale)
    parts: dict[int, str] = {}
    for place in best_first(choices, fixed=FIXED_COST):
        text = candidates[place].short
        if choices[place].tokens + 1 > left:
            text = squeeze(text, int(left - 1), scale) if left >= MIN_TOKENS or not parts else ""
        if text:
            parts[place] = text
            left -= estimate_tokens(text) * scale + 1
        if left < MIN_TOKENS:
            break
    if not parts:
        place = min(range(len(candidates)), key=lambda place: (candidates[place].short_tokens, place))
        parts[place] = candidates[place].short
    said = "; ".join(parts[place].rstrip(".;, ") for place in sorted(parts))
    return Line(
        escape_inline(f"{label}{said}"), tuple(Pair(candidates[place].text, text) for place, text in parts.items())
    )


def _choices(candidates: Sequence[Candidate], scale: float) -> list[Choice]:
    """As everywhere, but the beginning of a prompt and of an answer count more."""
    last = candidates[-1].message
    first = next(place for place, candidate in enumerate(candidates) if candidate.message == last)
    opening = first if candidates[0].speaker != "user" else 0
    choices: list[Choice] = []
    for place, candidate in enumerate(candidates):
        factor = candidate.factor * (FIRST_BOOST if place == opening else 1.0)
        weights = tuple((key, weight * factor) for key, weight in candidate.facts.items())
        choices.append(Choice(0, candidate.short_tokens * scale, weights))
    return choices
