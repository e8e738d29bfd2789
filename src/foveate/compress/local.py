"""The compressor that needs no model: what carries facts is kept, the rest is left out, nothing is rewritten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from foveate.compress.choose import MIN_LEFT_TOKENS, Choice, best_first, best_that_fit
from foveate.compress.guard import GuardSource, Pair, Shares, check
from foveate.compress.marks import cut_line, escape_inline, marked, one_line
from foveate.compress.reader import Candidate, TurnReading, read_turn
from foveate.compress.settings import CompressSettings
from foveate.compress.smooth import smooth_messages
from foveate.compress.telegraph import estimate_tokens, headline, is_courtesy, squeeze
from foveate.renditions import NOTHING, TINY_TOKENS, Count, Level, Refusal, Renditions, Unit, shape_level
from foveate.text import turn_text
from foveate.turn import Message

RETRY_SHARE = 1.3
"""Factor by which the room grows when a rendition that lost too much is made once more."""
AGAIN = 0.3
"""What a fact counts that a chosen clause has already: an answer often decides in the words of the question."""
UNIT_TOKENS, ASSISTANT_UNIT_TOKENS = 100, 40
"""What a turn offers to eras, in all."""
MAX_UNIT_TOKENS = 32
SHORT_TOKENS = 25
"""A turn of fewer tokens keeps all its words in its compressed form."""
SAMPLE_CHARS = 40_000
"""Characters of a turn from which the ratio of real to estimated tokens is taken."""
_SHARES = ((25, 0.85), (60, 0.55), (150, 0.42), (400, 0.37), (1_000, 0.35), (4_000, 0.31), (20_000, 0.28))
"""Size of a turn in raw tokens, and what share of it the compressed form may take; larger ones get the last."""


MEDIUM_SHARE: Final = dict(_SHARES)[1_000]
MOST_SHARE: Final = 0.9
"""C never takes more of a turn."""


def compressed_share(raw_tokens: int, medium_share: float = MEDIUM_SHARE) -> float:
    """The longer a turn, the harder it is squeezed; one of 1,000 tokens to `medium_share`."""
    return min(MOST_SHARE, _usual_share(raw_tokens) * medium_share / MEDIUM_SHARE)


def _usual_share(raw_tokens: int) -> float:
    below_tokens, below_share = 0, _SHARES[0][1]
    for tokens, share in _SHARES:
        if raw_tokens <= tokens:
            part = (raw_tokens - below_tokens) / (tokens - below_tokens)
            return below_share + part * (share - below_share)
        below_tokens, below_share = tokens, share
    return below_share


@dataclass(frozen=True, slots=True)
class _Made:
    text: str
    tokens: int
    is_fallback: bool


@dataclass(slots=True)
class LocalCompressor:
    """Chooses clauses by uncovered facts per token."""

    shares: Shares = field(default_factory=Shares)
    """What the guard asks of each level."""
    share: float | None = None
    """What share of a turn C may take; by default the longer the turn, the less (`compressed_share`)."""
    medium_share: float = MEDIUM_SHARE
    """What C may take of a turn of 1,000 tokens, where `share` is not given."""
    tiny_tokens: int = TINY_TOKENS
    """The most that T takes."""
    name: str = "local"
    version: int = 2

    @classmethod
    def of(cls, settings: CompressSettings) -> LocalCompressor:
        """The compressor with the targets and thresholds of the settings."""
        return cls(
            Shares(settings.compressed_facts, settings.tiny_facts),
            medium_share=settings.compressed_share,
            tiny_tokens=settings.tiny_tokens,
        )

    def compress(self, turn: int, messages: Sequence[Message], count: Count) -> Renditions:
        raw = turn_text(tuple(messages))
        raw_tokens = count(raw)
        scale = _scale(raw, raw_tokens, count)
        reading = read_turn(messages)
        if not reading.candidates:
            return Renditions(_smooth(messages, raw, raw_tokens, count)[0], NOTHING, NOTHING, ())
        smoothed, above = _smooth(messages, raw, raw_tokens, count)
        share = self.share or compressed_share(raw_tokens, self.medium_share)
        said = reading.without_output()
        job = _Job(_source(reading), self.shares, count)

        def compress(extra: float) -> TinyLine:
            room = min(above, round(raw_tokens * share * extra))
            return _compress(said, raw_tokens, room, scale=scale, count=count)

        compressed = replace(job, source=_source(said)).make(
            "C", compress, fallback=lambda: smoothed.strip().removeprefix("[user] "), above=above
        )
        line = one_line(compressed.text)

        def shrink(extra: float) -> TinyLine:
            above = min(compressed.tokens, limit)
            return tiny_line(reading, raw_tokens, above=above, extra=extra, scale=scale, count=count)

        limit = self.tiny_tokens - TINY_MARGIN
        most = min(limit, compressed.tokens)
        tiny = job.make("T", shrink, fallback=lambda: cut_line(line, most, count), above=compressed.tokens)
        return Renditions(
            smoothed,
            compressed.text,
            tiny.text,
            _units(turn, reading, scale),
            tuple(job.refusals),
            is_complete=not (compressed.is_fallback or tiny.is_fallback),
        )


@dataclass(slots=True)
class _Job:
    """The levels of one turn, each tried twice before the guard, then replaced."""

    source: GuardSource
    shares: Shares
    count: Count
    refusals: list[Refusal] = field(default_factory=list)

    def make(
        self, level: Level, make: Callable[[float], TinyLine], *, fallback: Callable[[], str], above: int
    ) -> _Made:
        for extra in (1.0, RETRY_SHARE):
            line = make(extra)
            text = shape_level(level, line.text)
            tokens = self.count(text)
            verdict = check(
                level, self.source, text, tokens=tokens, above_tokens=above, shares=self.shares, pairs=line.pairs
            )
            if verdict.ok:
                return _Made(text, tokens, is_fallback=False)
            refusal = Refusal(level, verdict.reason, verdict.kept_share, verdict.lost, text)
            if self.refusals and self.refusals[-1].text == text:
                break
            self.refusals.append(refusal)
        text = shape_level(level, fallback())
        return _Made(text, self.count(text), is_fallback=True)


def _source(reading: TurnReading) -> GuardSource:
    return GuardSource(reading.facts, [clause.text for clause in reading.candidates])


def _scale(raw: str, raw_tokens: int, count: Count) -> float:
    """Tokens for each that `estimate_tokens` says."""
    sample = raw[:SAMPLE_CHARS]
    tokens = raw_tokens if len(sample) == len(raw) else count(sample)
    return max(0.5, tokens / max(1, estimate_tokens(sample)))


def _smooth(messages: Sequence[Message], raw: str, raw_tokens: int, count: Count) -> tuple[str, int]:
    smoothed = smooth_messages(messages)
    tokens = count(smoothed)
    return (smoothed, tokens) if smoothed.strip() and tokens <= raw_tokens else (raw, raw_tokens)


def _compress(reading: TurnReading, raw_tokens: int, room: int, *, scale: float, count: Count) -> TinyLine:
    candidates = reading.candidates
    if raw_tokens < SHORT_TOKENS:
        return TinyLine(_render(candidates, [candidate.text for candidate in candidates]))
    texts = [headline(candidate.text) if candidate.speaker == "user" else candidate.short for candidate in candidates]
    chosen = _choose(candidates, texts, room, scale)
    while True:
        places = sorted(chosen)
        text = _render([candidates[place] for place in places], [texts[place] for place in places])
        over = float(count(text) - room)
        if over <= 0 or len(chosen) <= 1:
            return TinyLine(text, tuple(Pair(candidates[place].text, texts[place]) for place in places))
        while over > 0 and len(chosen) > 1:
            over -= estimate_tokens(texts[chosen.pop()]) * scale


def _choose(candidates: Sequence[Candidate], texts: Sequence[str], room: float, scale: float) -> list[int]:
    """Places of the best candidates that fit together, best first; at least one."""
    choices = as_choices(candidates, [estimate_tokens(text) * scale for text in texts])
    return best_that_fit(choices, room, again=AGAIN) or [0]


def as_choices(candidates: Sequence[Candidate], tokens: Sequence[float]) -> list[Choice]:
    return [
        Choice(
            candidate.message,
            cost,
            tuple((key, weight * candidate.factor) for key, weight in candidate.facts.items()),
        )
        for candidate, cost in zip(candidates, tokens, strict=True)
    ]


def _render(candidates: Sequence[Candidate], texts: Sequence[str]) -> str:
    """Chosen clauses in order; each speaker on lines of his own, a mark before all but the user who begins."""
    lines: list[str] = []
    speaker, message = "user", -1
    for candidate, text in zip(candidates, texts, strict=True):
        said = escape_inline(text)
        who = candidate.who
        if candidate.label and candidate.message != message:
            said = f"{escape_inline(candidate.label)}{said}"
        if who != speaker:
            lines.append(f"[{who}] {said}")
        elif lines and candidate.kind == "prose" and candidate.message == message:
            lines[-1] += f" {said}"
        else:
            lines.append(said)
        speaker, message = who, candidate.message
    return "\n".join(lines).strip() or NOTHING


def _units(turn: int, reading: TurnReading, scale: float) -> tuple[Unit, ...]:
    """What eras may take, best first."""
    candidates = [candidate for candidate in reading.candidates if candidate.kind != "code"] or reading.candidates[:20]
    choices = as_choices(candidates, [min(MAX_UNIT_TOKENS, clause.short_tokens * scale) for clause in candidates])
    left = float(UNIT_TOKENS if reading.has_user else ASSISTANT_UNIT_TOKENS)
    units: list[Unit] = []
    for place in best_first(choices, again=AGAIN):
        candidate = candidates[place]
        text = squeeze(candidate.short, MAX_UNIT_TOKENS, scale).rstrip(".;, ")
        if not text:
            continue
        said = one_line(marked(candidate.who, escape_inline(f"{candidate.label}{text}")))
        units.append(Unit(turn, said, round(candidate.worth, 3), frozenset(candidate.facts)))
        left -= choices[place].tokens + 1
        if left < MIN_LEFT_TOKENS:
            break
    return tuple(units)


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
"""The question and the beginning of the answer count more here than elsewhere."""
NOTE_TOKENS, MARK_TOKENS = 6, 3
ATTEMPTS, STEP_TOKENS = 5, 3
"""A line that came out too long is made again, each time with fewer tokens; the last time without the note on tools."""


@dataclass(frozen=True, slots=True)
class TinyLine:
    """A rendition and the clauses it was made of."""

    text: str
    pairs: tuple[Pair, ...] | None = ()
    """None if it is no longer known which words are from which clause."""


def tiny_tokens(raw_tokens: int, *, has_user: bool, density: float = DENSITY) -> int:
    """The room of a tiny rendition; a short turn gets more of it the more facts it has per token."""
    most = MAX_TOKENS if has_user else ASSISTANT_TOKENS
    if raw_tokens >= LARGE_TOKENS:
        most = min(most, int(raw_tokens * SHARE_OF_LARGE))
    told = min(max(density / DENSITY, LEAST), MOST)
    return max(MIN_TOKENS, min(most, round(raw_tokens * SHARE * told)))


def tiny_line(
    reading: TurnReading, raw_tokens: int, *, above: int, extra: float, scale: float, count: Count
) -> TinyLine:
    """One line of at most TINY_TOKENS that is no longer than the level above."""
    spoken = [candidate for candidate in reading.candidates if candidate.speaker in ("user", "assistant")]
    candidates = [candidate for candidate in spoken if candidate.kind != "code"] or spoken or reading.candidates
    if not candidates:
        return TinyLine(NOTHING)
    told = sum(sum(candidate.facts.values()) for candidate in candidates if not is_courtesy(candidate.text))
    room = tiny_tokens(raw_tokens, has_user=reading.has_user, density=told / max(1, raw_tokens))
    room += round(estimate_tokens(candidates[0].label) * scale)
    most = min(above, MAX_TOKENS if raw_tokens < LARGE_TOKENS else room)
    room = min(most, round(room * extra))
    line = TinyLine(NOTHING)
    for attempt in range(ATTEMPTS):
        note = _tools_note(reading.tool_calls) if attempt < ATTEMPTS - 1 else ""
        line = _line(candidates, room - STEP_TOKENS * attempt, scale, note)
        if count(line.text) <= room:
            return line
    # A clause that can't be squeezed further may take more than its share, but never more than the level.
    cut = cut_line(line.text, most, count)
    return line if cut == line.text else TinyLine(cut, None)


def _tools_note(calls: int) -> str:
    return f" {{{calls} tool{'s' if calls > 1 else ''} called}}" if calls else ""


def _line(candidates: Sequence[Candidate], room: int, scale: float, note: str) -> TinyLine:
    user = [candidate for candidate in candidates if candidate.speaker == "user"]
    others = [candidate for candidate in candidates if candidate.speaker != "user"]
    tail = note if room >= 5 * NOTE_TOKENS else ""
    room -= NOTE_TOKENS if tail else 0
    if not others:
        asked = _part(user, room, scale)
        return TinyLine(one_line(asked.text) + tail, asked.pairs)
    mark = others[-1].who
    if not user:
        came = _part(others, room - MARK_TOKENS, scale)
        return TinyLine(one_line(marked(mark, came.text)) + tail, came.pairs)
    wanted = sum(candidate.short_tokens for candidate in user) * scale
    offered = sum(candidate.short_tokens for candidate in others) * scale
    asked = _part(user, round(min(wanted, max(room * USER_PART, room - MARK_TOKENS - offered))), scale)
    left = room - round(estimate_tokens(asked.text) * scale) - MARK_TOKENS
    if left < MIN_TOKENS:
        return TinyLine(one_line(asked.text) + tail, asked.pairs)
    came = _part(others, left, scale)
    return TinyLine(
        one_line(f"{asked.text} {marked(mark, came.text)}") + tail, (*(asked.pairs or ()), *(came.pairs or ()))
    )


def _part(candidates: Sequence[Candidate], room: int, scale: float) -> TinyLine:
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
    return TinyLine(
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
