"""The compressor without a model: it keeps the words with the most worth, in order; nothing is reworded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

import numpy as np

from foveate.compress.choose import FIXED_COST, MIN_LEFT_TOKENS
from foveate.compress.cues import estimate_tokens
from foveate.compress.cut import BRIEF, PHRASES
from foveate.compress.excerpts import Excerpts, find_excerpts, with_lines
from foveate.compress.guard import GuardSource, Shares, check
from foveate.compress.marks import cut_line, escape_inline, marked, one_line
from foveate.compress.rank import COURTESY_CHANCE, Ranking, Source, rank, sentence
from foveate.compress.reader import Candidate, TurnReading, read_turn
from foveate.compress.settings import CompressSettings
from foveate.compress.smooth import smooth_messages
from foveate.compress.tiny import TINY_MARGIN, Line, line_of, tiny_line
from foveate.compress.worth import WorthModel, load_worth
from foveate.renditions import NOTHING, TINY_TOKENS, Count, Level, Refusal, Renditions, Unit, shape_level
from foveate.text import turn_text
from foveate.turn import Message

RETRY_SHARE = 1.3
"""Factor by which the room grows when a rendition that lost too much is made once more."""
EXCERPT_SHARE: Final = 0.7
"""Share of C for lines of output, in a turn that is nothing else."""
LEAST_EXCERPT_TOKENS = 12
UNIT_TOKENS, ASSISTANT_UNIT_TOKENS = 100, 40
"""Total tokens of the units that a turn provides for eras: with a prompt, and without one."""
MAX_UNIT_TOKENS = 32
PHRASE_TOKENS = 24
"""Maximum tokens of a unit that is a whole clause, or consecutive parts of one."""
CUT = 0.6
"""Factor for a unit of words from all over a clause."""
UNIT_LEVEL = 8
"""The lowest level (`foveate.compress.rank`) of the words of a unit: most articles and auxiliaries are below it."""
SHORT_TOKENS = 25
"""A turn of fewer tokens keeps all its words in its compressed form."""
BRIEF_SHARE: Final = 0.7
"""Maximum share of a turn for its brief form."""
SAMPLE_CHARS = 40_000
"""Characters of a turn from which the ratio of real to estimated tokens is computed."""
_SIZES = (25, 60, 150, 400, 1_000, 4_000, 20_000)
_SHARES = (0.85, 0.55, 0.42, 0.39, 0.35, 0.31, 0.28)
"""Maximum share of C for turns of these raw tokens; larger ones get the last."""


MEDIUM_SHARE: Final = 0.35
MOST_SHARE: Final = 0.9
"""Maximum share of a turn for C."""


def compressed_share(raw_tokens: int, medium_share: float = MEDIUM_SHARE) -> float:
    """Return the share for C: the longer a turn, the smaller; `medium_share` for one of 1,000 tokens."""
    return min(MOST_SHARE, float(np.interp(raw_tokens, _SIZES, _SHARES)) * medium_share / MEDIUM_SHARE)


@dataclass(frozen=True, slots=True)
class _Made:
    text: str
    tokens: int
    is_fallback: bool


@dataclass(slots=True)
class LocalCompressor:
    """Cuts S, C and T from one ranking of a turn's words."""

    shares: Shares = field(default_factory=Shares)
    """The guard's thresholds for each level."""
    share: float | None = None
    """Share of a turn for C; by default the longer the turn, the smaller (`compressed_share`)."""
    medium_share: float = MEDIUM_SHARE
    """Share of C for a turn of 1,000 tokens, if `share` is not set."""
    tiny_tokens: int = TINY_TOKENS
    """Maximum tokens of T."""
    worth_model: str = ""
    """File of the model of worth; by default the one in the package."""
    name: str = "local"
    version: int = 11

    @classmethod
    def of(cls, settings: CompressSettings) -> LocalCompressor:
        """Return the compressor with the targets and thresholds of the settings."""
        return cls(
            Shares(settings.compressed_facts, settings.tiny_facts),
            medium_share=settings.compressed_share,
            tiny_tokens=settings.tiny_tokens,
            worth_model=settings.worth_model,
        )

    def compress(self, turn: int, messages: Sequence[Message], count: Count) -> Renditions:
        count = cache(count)
        raw = turn_text(tuple(messages))
        raw_tokens = count(raw)
        scale = _scale(raw, raw_tokens, count)
        worth = load_worth(self.worth_model)
        reading = read_turn(messages, worth)
        if not reading.candidates:
            return Renditions(_smooth(messages, worth, raw, raw_tokens, count)[0], NOTHING, NOTHING, ())
        smoothed, above = _smooth(messages, worth, raw, raw_tokens, count)
        said = reading.without_output()
        job = _Job(_source(reading), self.shares, count)
        spoken = job if said is reading else replace(job, source=_source(said))
        phrases, brief = rank(
            [Source(one.text, one.is_whole, one.scores) for one in said.candidates],
            PHRASES,
            BRIEF,
        )
        share = self.share or compressed_share(raw_tokens, self.medium_share)
        excerpts = find_excerpts([message for message in messages if message.kind != "display"])

        def compress(extra: float) -> Line:
            if raw_tokens < SHORT_TOKENS:
                told = texts = {place: candidate.text for place, candidate in enumerate(said.candidates)}
            else:
                room = min(above, round(raw_tokens * share * extra))
                spoken_room = round(room * (1 - EXCERPT_SHARE * min(1.0, excerpts.chars / max(1, len(raw)))))
                texts = phrases.fit(spoken_room, count, lambda texts: _written(said.candidates, texts), fill=True)
                spoken_tokens = count(_written(said.candidates, texts))
                told = _with_excerpts(said.candidates, dict(texts), excerpts, room, count=count, scale=scale)
                left = room - count(_written(said.candidates, told)) + spoken_tokens
                texts = phrases.fit(left, count, lambda texts: _written(said.candidates, texts), fill=True)
                told = _with_excerpts(said.candidates, dict(texts), excerpts, room, count=count, scale=scale)
            return line_of(said.candidates, texts, _written(said.candidates, told))

        compressed = spoken.make("C", compress, fallback=lambda: smoothed.strip().removeprefix("[user] "), above=above)
        line = one_line(compressed.text)
        limit = min(self.tiny_tokens - TINY_MARGIN, compressed.tokens)

        def shrink(extra: float) -> Line:
            return tiny_line(said, phrases, raw_tokens, above=limit, extra=extra, count=count)

        tiny = job.make("T", shrink, fallback=lambda: cut_line(line, limit, count), above=compressed.tokens)
        levels: tuple[tuple[Level, _Made], ...] = ("C", compressed), ("T", tiny)
        # A short turn that is shown as it is lost nothing: its level is no failure.
        is_short = raw_tokens < SHORT_TOKENS
        whole = {level for level, made in levels if is_short and one_line(made.text) == line}
        return Renditions(
            smoothed,
            compressed.text,
            tiny.text,
            _units(turn, said, phrases, scale) or _unit_of(turn, said, tiny.text),
            tuple(refusal for refusal in job.refusals if refusal.level not in whole),
            is_complete={level for level, made in levels if made.is_fallback} <= whole,
            brief=spoken.brief(said, brief, round(raw_tokens * BRIEF_SHARE)),
        )


def _with_excerpts(
    candidates: Sequence[Candidate],
    texts: dict[int, str],
    excerpts: Excerpts,
    room: int,
    *,
    count: Count,
    scale: float,
) -> dict[int, str]:
    """Add the best lines of output to the notes of their calls, in the remaining room."""
    written = _written(candidates, texts)
    left = room - count(written)
    calls = [place for place, candidate in enumerate(candidates) if candidate.speaker == "call"]
    if not excerpts.lines or len(calls) != excerpts.calls or left < LEAST_EXCERPT_TOKENS:
        return texts
    found = excerpts.best(written, left, scale)
    for number, lines in found.items():
        if number < len(calls) and calls[number] in texts:
            place = calls[number]
            texts[place] = with_lines(texts[place], lines)
    return texts


@dataclass(slots=True)
class _Job:
    """Makes the levels of one turn: each is tried twice with the guard, then replaced by a fallback."""

    source: GuardSource
    shares: Shares
    count: Count
    refusals: list[Refusal] = field(default_factory=list)

    def make(self, level: Level, make: Callable[[float], Line], *, fallback: Callable[[], str], above: int) -> _Made:
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

    def brief(self, said: TurnReading, ranking: Ranking, room: int) -> str:
        """Return the words with the most worth; empty if none fit or the guard rejects them."""
        texts = ranking.fit(room, self.count, lambda texts: _written(said.candidates, texts))
        line = line_of(said.candidates, texts, _written(said.candidates, texts))
        tokens = self.count(line.text)
        verdict = check(
            "C", self.source, line.text, tokens=tokens, above_tokens=room, shares=self.shares, pairs=line.pairs
        )
        return line.text if texts and verdict.ok else ""


def _source(reading: TurnReading) -> GuardSource:
    return GuardSource(reading.facts, [clause.text for clause in reading.candidates])


def _scale(raw: str, raw_tokens: int, count: Count) -> float:
    """Return the ratio of real tokens to those of `estimate_tokens`."""
    sample = raw[:SAMPLE_CHARS]
    tokens = raw_tokens if len(sample) == len(raw) else count(sample)
    return max(0.5, tokens / max(1, estimate_tokens(sample)))


def _smooth(messages: Sequence[Message], worth: WorthModel, raw: str, raw_tokens: int, count: Count) -> tuple[str, int]:
    smoothed = smooth_messages(messages, worth=worth)
    tokens = count(smoothed)
    return (smoothed, tokens) if smoothed.strip() and tokens <= raw_tokens else (raw, raw_tokens)


def _written(candidates: Sequence[Candidate], texts: Mapping[int, str]) -> str:
    """Write clauses in order as sentences; each speaker on separate lines, with a mark, except a user who begins."""
    lines: list[str] = []
    speaker, speech = "user", (-1, "")
    for place, text in texts.items():
        candidate = candidates[place]
        said = escape_inline(candidate.written(text))
        if candidate.kind == "prose":
            said = sentence(said)
        if candidate.label and candidate.speech != speech:
            said = f"{escape_inline(candidate.label)}{said}"
        if candidate.who != speaker:
            lines.append(f"[{candidate.who}] {said}")
        elif lines and candidate.kind in ("prose", "caption") and candidate.speech == speech:
            lines[-1] += f" {said}"
        else:
            lines.append(said)
        speaker, speech = candidate.who, candidate.speech
    return "\n".join(lines).strip() or NOTHING


def _units(turn: int, reading: TurnReading, ranking: Ranking, scale: float) -> tuple[Unit, ...]:
    """Return the units for eras, best first; a courtesy only if there is nothing else."""
    places = [place for place, one in enumerate(reading.candidates) if one.kind not in ("code", "caption")]
    places = places or list(range(min(20, len(reading.candidates))))
    cut = ranking.clauses(MAX_UNIT_TOKENS / scale, UNIT_LEVEL)
    costs = {place: min(MAX_UNIT_TOKENS, reading.candidates[place].tokens * scale) for place in places}
    left = float(UNIT_TOKENS if reading.has_user else ASSISTANT_UNIT_TOKENS)
    units: list[Unit] = []
    for place in sorted(places, key=lambda place: -reading.candidates[place].worth / (costs[place] + FIXED_COST)):
        candidate = reading.candidates[place]
        phrase = ranking.phrase(place, PHRASE_TOKENS / scale)
        text = (phrase or cut.get(place, "")).rstrip(".;, ")
        if not text or candidate.worth <= 0 or (units and candidate.chance < COURTESY_CHANCE):
            continue
        worth = candidate.worth * (1.0 if phrase else CUT)
        said = one_line(marked(candidate.who, escape_inline(candidate.label + candidate.written(text))))
        units.append(Unit(turn, said, round(worth, 3), frozenset(candidate.facts)))
        left -= costs[place] + 1
        if left < MIN_LEFT_TOKENS:
            break
    return tuple(units)


def _unit_of(turn: int, reading: TurnReading, tiny: str) -> tuple[Unit, ...]:
    """Return the tiny rendition as a unit, if no clause can be cut to the size of one."""
    best = max(reading.candidates, key=lambda candidate: candidate.worth)
    return (Unit(turn, one_line(tiny), round(best.worth, 3), frozenset(best.facts)),) if best.worth > 0 else ()
