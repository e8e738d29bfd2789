"""The compressor that needs no model: what carries facts is kept, the rest is left out, nothing is rewritten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from foveate.compress import TINY_TOKENS, Count, Level, Refusal, Renditions, Unit
from foveate.compress.choose import Choice, best_first
from foveate.compress.guard import Shares, Source, check
from foveate.compress.inline import escape_inline, marked, one_line
from foveate.compress.reading import Candidate, Reading, read_turn
from foveate.compress.smooth import smooth_messages
from foveate.compress.telegraph import estimate_tokens, headline, squeeze, telegraph
from foveate.text import turn_text
from foveate.turn import Message

NOTHING = "…"
"""Stands for a turn in which nobody said anything."""
MIN_TINY_TOKENS = 6
TINY_SHARE = 0.4
"""Of a short turn; from 125 tokens on the limit is TINY_TOKENS."""
TINY_MARGIN = 2
"""Left free below TINY_TOKENS for the space and the newline around a line."""
ASSISTANT_TINY_TOKENS = 30
"""The most that an assistant's words take in a tiny rendition."""
TINY_SHARE_OF_LARGE, LARGE_TOKENS = 0.05, 1_000
RETRY_SHARE = 1.3
"""A rendition that lost too much is made once more with so much more room."""
UNIT_TOKENS, ASSISTANT_UNIT_TOKENS = 80, 40
"""What a turn offers to eras, in all."""
MAX_UNIT_TOKENS = 32
SHORT_TOKENS = 25
"""A turn of fewer tokens keeps all its words in its compressed form."""
_SHARES = ((60, 0.42), (200, 0.38), (1_000, 0.35), (4_000, 0.31), (20_000, 0.28))
"""Size of a turn in raw tokens, and what share of it the compressed form may take; larger ones get the last."""


def compressed_share(raw_tokens: int) -> float:
    """The longer a turn, the harder it is squeezed."""
    below_tokens, below_share = 0, _SHARES[0][1]
    for tokens, share in _SHARES:
        if raw_tokens <= tokens:
            part = (raw_tokens - below_tokens) / (tokens - below_tokens)
            return below_share + part * (share - below_share)
        below_tokens, below_share = tokens, share
    return below_share


def tiny_tokens(raw_tokens: int, *, has_user: bool) -> int:
    """The room of a tiny rendition."""
    most = TINY_TOKENS - TINY_MARGIN if has_user else ASSISTANT_TINY_TOKENS
    if raw_tokens >= LARGE_TOKENS:
        most = min(most, int(raw_tokens * TINY_SHARE_OF_LARGE))
    return max(MIN_TINY_TOKENS, min(most, round(raw_tokens * TINY_SHARE)))


@dataclass(slots=True)
class _Sizes:
    raw: int
    scale: float
    """Tokens for each that `estimate_tokens` says."""


@dataclass(slots=True)
class LocalCompressor:
    """Chooses clauses by uncovered facts per token."""

    shares: Shares = field(default_factory=Shares)
    """What the guard asks of each level."""
    share: float | None = None
    """What share of a turn C may take; by default the longer the turn, the less (`compressed_share`)."""
    name: str = "local"
    version: int = 1

    def compress(self, turn: int, messages: Sequence[Message], count: Count) -> Renditions:
        raw = turn_text(tuple(messages))
        sizes = _Sizes(count(raw), 1.0)
        sizes.scale = sizes.raw / max(1, estimate_tokens(raw[:100_000])) if len(raw) <= 100_000 else 1.0
        reading = read_turn(messages)
        source = Source(reading.facts, [candidate.text for candidate in reading.candidates])
        refusals: list[Refusal] = []
        smoothed, smoothed_tokens = _smooth(messages, raw, sizes.raw, count)
        compressed, compressed_tokens = self._level(
            "C", source, smoothed.strip() or NOTHING, smoothed_tokens, count, refusals,
            lambda extra: _compress(reading, sizes, count, extra * (self.share or compressed_share(sizes.raw))),
        )  # fmt: skip
        cut = cut_line(one_line(compressed), min(TINY_TOKENS - TINY_MARGIN, compressed_tokens), count)
        tiny, _ = self._level(
            "T", source, cut, compressed_tokens, count, refusals, lambda extra: _tiny(reading, sizes, count, extra)
        )
        return Renditions(
            smoothed,
            compressed,
            tiny,
            _units(turn, reading, sizes),
            tuple(refusals),
            is_complete=not any(refusal.level == "C" and refusal.text == compressed for refusal in refusals),
        )

    def _level(
        self, level: Level, source: Source, fallback: str, above_tokens: int, count: Count,
        refusals: list[Refusal], make: Callable[[float], str],
    ) -> tuple[str, int]:  # fmt: skip
        """A rendition that the guard lets pass, tried twice; else the fallback."""
        for extra in (1.0, RETRY_SHARE):
            text = make(extra)
            tokens = count(text)
            verdict = check(level, source, text, tokens=tokens, above_tokens=above_tokens, shares=self.shares)
            if verdict.ok:
                return text, tokens
            refusals.append(Refusal(level, verdict.reason, verdict.kept_share, verdict.lost, text))
        return fallback, count(fallback)


def _smooth(messages: Sequence[Message], raw: str, raw_tokens: int, count: Count) -> tuple[str, int]:
    smoothed = smooth_messages(messages)
    tokens = count(smoothed)
    return (smoothed, tokens) if smoothed.strip() and tokens <= raw_tokens else (raw, raw_tokens)


def _compress(reading: Reading, sizes: _Sizes, count: Count, share: float) -> str:
    candidates = reading.candidates
    if not candidates:
        return NOTHING
    if sizes.raw < SHORT_TOKENS:
        return _render(candidates, [candidate.text for candidate in candidates])
    budget = max(MIN_TINY_TOKENS, round(sizes.raw * share))
    texts = [_short(candidate) for candidate in candidates]
    chosen = _choose(candidates, texts, budget, sizes.scale)
    while True:
        places = sorted(chosen)
        text = _render([candidates[place] for place in places], [texts[place] for place in places])
        over = count(text) - budget
        if over <= 0 or len(chosen) <= 1:
            break
        while over > 0 and len(chosen) > 1:
            over -= estimate_tokens(texts[chosen.pop()]) * sizes.scale
    return text


def _short(candidate: Candidate) -> str:
    if candidate.kind in ("code", "row") or candidate.speaker == "call":
        return candidate.text
    return headline(candidate.text) if candidate.speaker == "user" else telegraph(candidate.text)


def _choose(candidates: Sequence[Candidate], texts: Sequence[str], budget: float, scale: float) -> list[int]:
    """Places of the best candidates that fit together, best first; at least one."""
    chosen: list[int] = []
    left = float(budget)
    for place in best_first(_choices(candidates, texts, scale)):
        cost = estimate_tokens(texts[place]) * scale + 1
        if cost <= left:
            chosen.append(place)
            left -= cost
        if left < MIN_TINY_TOKENS:
            break
    return chosen or [0]


def _choices(candidates: Sequence[Candidate], texts: Sequence[str], scale: float) -> list[Choice]:
    return [
        Choice(
            candidate.message,
            estimate_tokens(text) * scale,
            tuple((key, weight * candidate.factor) for key, weight in candidate.facts.items()),
        )
        for candidate, text in zip(candidates, texts, strict=True)
    ]


def _render(candidates: Sequence[Candidate], texts: Sequence[str]) -> str:
    """Chosen clauses in order; each speaker on lines of his own, a mark before all but the user who begins."""
    lines: list[str] = []
    speaker, message = "user", -1
    for candidate, text in zip(candidates, texts, strict=True):
        said = escape_inline(text)
        who = "assistant" if candidate.speaker == "call" else candidate.speaker
        if candidate.label and candidate.message != message:
            said = f"{escape_inline(candidate.label)}{said}"
        if who != speaker or not lines:
            lines.append(marked(who, said) if lines or who != "user" else said)
            if who == "user" and len(lines) > 1:
                lines[-1] = f"[user] {said}"
        elif candidate.kind == "prose" and candidate.message == message:
            lines[-1] += f" {said}"
        else:
            lines.append(said)
        speaker, message = who, candidate.message
    return "\n".join(lines).strip() or NOTHING


def _tiny(reading: Reading, sizes: _Sizes, count: Count, extra: float) -> str:
    """What was asked and what came of it, in a line."""
    spoken = [candidate for candidate in reading.candidates if candidate.speaker in ("user", "assistant")]
    spoken = [candidate for candidate in spoken if candidate.kind != "code"] or spoken
    candidates = spoken or reading.candidates
    if not candidates:
        return NOTHING
    has_user = any(candidate.speaker == "user" for candidate in candidates)
    room = tiny_tokens(sizes.raw, has_user=has_user)
    most = TINY_TOKENS - TINY_MARGIN
    room = min(most, round(room * extra)) if sizes.raw < LARGE_TOKENS else room
    tools = _tools_note(reading.tool_calls)
    for attempt in range(4):
        text = _tiny_line(candidates, room - 2 * attempt, sizes.scale, tools)
        if count(text) <= room:
            return text
    return cut_line(text, room, count)


def _tools_note(calls: int) -> str:
    return f" {{{calls} tool{'s' if calls > 1 else ''} called}}" if calls else ""


def _tiny_line(candidates: Sequence[Candidate], room: int, scale: float, tools: str) -> str:
    user = [candidate for candidate in candidates if candidate.speaker == "user"]
    others = [candidate for candidate in candidates if candidate.speaker != "user"]
    tail = tools if room >= 30 else ""  # noqa: PLR2004
    room -= 6 if tail else 0
    if not user or not others:
        text = _tiny_part(user or others, room - (3 if others else 0), scale)
        return one_line((text if user else marked(_who(others[0]), text)) + tail)
    for_user = _part_tokens(user, scale)
    for_user = round(min(for_user, max(room * 0.6, room - 3 - _part_tokens(others, scale))))
    asked = _tiny_part(user, for_user, scale)
    left = room - round(estimate_tokens(asked) * scale) - 3
    came = _tiny_part(others, left, scale) if left >= MIN_TINY_TOKENS else ""
    return one_line(f"{asked} {marked(_who(others[0]), came)}" if came else asked) + tail


def _who(candidate: Candidate) -> str:
    return "assistant" if candidate.speaker == "call" else candidate.speaker


def _part_tokens(candidates: Sequence[Candidate], scale: float) -> float:
    return sum(estimate_tokens(telegraph(candidate.text)) for candidate in candidates) * scale


def _tiny_part(candidates: Sequence[Candidate], room: int, scale: float) -> str:
    """The best clauses in few words; one that does not fit whole is squeezed into what is left."""
    label = candidates[0].label
    left = room - estimate_tokens(label) * scale
    texts = [telegraph(candidate.text) for candidate in candidates]
    parts: dict[int, str] = {}
    for place in best_first(_choices(candidates, texts, scale)):
        text = texts[place]
        if estimate_tokens(text) * scale + 1 > left:
            text = squeeze(text, int(left - 1), scale) if left >= MIN_TINY_TOKENS or not parts else ""
        if text:
            parts[place] = text
            left -= estimate_tokens(text) * scale + 1
        if left < MIN_TINY_TOKENS:
            break
    said = "; ".join(parts[place].rstrip(".;, ") for place in sorted(parts))
    return escape_inline(f"{label}{said or texts[0]}")


def _units(turn: int, reading: Reading, sizes: _Sizes) -> tuple[Unit, ...]:
    """What eras may take, best first."""
    candidates = [candidate for candidate in reading.candidates if candidate.kind != "code"] or reading.candidates[:20]
    texts = [squeeze(candidate.text, MAX_UNIT_TOKENS, sizes.scale) for candidate in candidates]
    left = float(UNIT_TOKENS if reading.has_user else ASSISTANT_UNIT_TOKENS)
    units: list[Unit] = []
    for place in best_first(_choices(candidates, texts, sizes.scale)):
        candidate, text = candidates[place], texts[place].rstrip(".;, ")
        if not text:
            continue
        said = one_line(marked(_who(candidate), escape_inline(f"{candidate.label}{text}")))
        units.append(Unit(turn, said, round(candidate.worth, 3), frozenset(candidate.facts)))
        left -= estimate_tokens(text) * sizes.scale + 1
        if left < MIN_TINY_TOKENS:
            break
    return tuple(units)


def cut_line(text: str, max_tokens: int, count: Count) -> str:
    """The longest beginning of a line that fits, an ellipsis behind it where it was cut."""
    if count(text) <= max_tokens:
        return text
    low, high = 0, min(len(text), max_tokens * 12)
    while low < high:
        middle = (low + high + 1) // 2
        fits = count(f"{text[:middle].rstrip()}…") <= max_tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    return f"{text[:low].rstrip()}…"


__all__ = ["LocalCompressor", "compressed_share", "cut_line", "replace", "tiny_tokens"]
