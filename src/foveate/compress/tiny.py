"""A turn in one line: what was asked, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence

from foveate.compress import TINY_TOKENS, Count
from foveate.compress.choose import Choice, best_first
from foveate.compress.inline import escape_inline, marked, one_line
from foveate.compress.reading import Candidate, Reading
from foveate.compress.telegraph import estimate_tokens, squeeze

TINY_MARGIN = 2
"""Left free below TINY_TOKENS for the space and the newline around a line."""
MIN_TOKENS = 6
SHARE = 0.42
"""Of a short turn; a long one has TINY_TOKENS."""
ASSISTANT_TOKENS = 30
"""The most that an assistant's turn without a prompt takes."""
LARGE_TOKENS, SHARE_OF_LARGE = 1_000, 0.05
USER_PART = 0.6
"""What the prompt may take of a line if both it and the answer are long."""
NOTE_TOKENS, MARK_TOKENS = 6, 3
ATTEMPTS = 4


def tiny_tokens(raw_tokens: int, *, has_user: bool) -> int:
    """The room of a tiny rendition."""
    most = TINY_TOKENS - TINY_MARGIN if has_user else ASSISTANT_TOKENS
    if raw_tokens >= LARGE_TOKENS:
        most = min(most, int(raw_tokens * SHARE_OF_LARGE))
    return max(MIN_TOKENS, min(most, round(raw_tokens * SHARE)))


def tiny_line(reading: Reading, raw_tokens: int, *, above: int, extra: float, scale: float, count: Count) -> str:
    """One line of at most TINY_TOKENS that is no longer than the level above."""
    spoken = [candidate for candidate in reading.candidates if candidate.speaker in ("user", "assistant")]
    candidates = [candidate for candidate in spoken if candidate.kind != "code"] or spoken or reading.candidates
    if not candidates:
        return "…"
    room = tiny_tokens(raw_tokens, has_user=any(candidate.speaker == "user" for candidate in candidates))
    if raw_tokens < LARGE_TOKENS:
        room = min(TINY_TOKENS - TINY_MARGIN, round(room * extra))
    room = min(room, above)
    text = ""
    for attempt in range(ATTEMPTS):
        text = _line(candidates, room - 2 * attempt, scale, _tools_note(reading.tool_calls))
        if count(text) <= room:
            break
    return text


def _tools_note(calls: int) -> str:
    return f" {{{calls} tool{'s' if calls > 1 else ''} called}}" if calls else ""


def _line(candidates: Sequence[Candidate], room: int, scale: float, note: str) -> str:
    user = [candidate for candidate in candidates if candidate.speaker == "user"]
    others = [candidate for candidate in candidates if candidate.speaker != "user"]
    tail = note if room >= 5 * NOTE_TOKENS else ""
    room -= NOTE_TOKENS if tail else 0
    if not others:
        return one_line(_part(user, room, scale)) + tail
    mark = others[-1].who
    if not user:
        return one_line(marked(mark, _part(others, room - MARK_TOKENS, scale))) + tail
    wanted = sum(candidate.short_tokens for candidate in user) * scale
    offered = sum(candidate.short_tokens for candidate in others) * scale
    asked = _part(user, round(min(wanted, max(room * USER_PART, room - MARK_TOKENS - offered))), scale)
    left = room - round(estimate_tokens(asked) * scale) - MARK_TOKENS
    came = _part(others, left, scale) if left >= MIN_TOKENS else ""
    return one_line(f"{asked} {marked(mark, came)}" if came else asked) + tail


def _part(candidates: Sequence[Candidate], room: int, scale: float) -> str:
    """The best clauses in few words; one that does not fit whole is squeezed into what is left."""
    label = candidates[0].label
    left = room - estimate_tokens(label) * scale
    choices = [
        Choice(
            0, candidate.short_tokens * scale, tuple((key, w * candidate.factor) for key, w in candidate.facts.items())
        )
        for candidate in candidates
    ]
    parts: dict[int, str] = {}
    for place in best_first(choices):
        text = candidates[place].short
        if choices[place].tokens + 1 > left:
            text = squeeze(text, int(left - 1), scale) if left >= MIN_TOKENS or not parts else ""
        if text:
            parts[place] = text
            left -= estimate_tokens(text) * scale + 1
        if left < MIN_TOKENS:
            break
    said = "; ".join(parts[place].rstrip(".;, ") for place in sorted(parts))
    return escape_inline(f"{label}{said or candidates[0].short}")
