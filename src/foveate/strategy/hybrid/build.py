"""Makes the short forms of a turn's messages, one by one: tool results by their kind, words by their best clauses.

A short message keeps its speaker's mark, and its end names the turn with the full text: `(short T-5)`. Its tool calls
stay with it, so that no result is without its call. Nothing in it can be mistaken for a mark, a tag or another message.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from foveate.compress.choose import Choice, best_that_fit
from foveate.compress.cues import bare, estimate_tokens
from foveate.compress.cut import PHRASES
from foveate.compress.exchange import bare_name
from foveate.compress.guard import GuardSource, Pair, check
from foveate.compress.lines import brief_path
from foveate.compress.marks import cut_line, one_line
from foveate.compress.rank import Ranking, Source, rank
from foveate.compress.reader import Candidate, read_turn
from foveate.compress.tools import smooth_call, summarise_call
from foveate.compress.urgency import urgency
from foveate.errors import contained
from foveate.plan import Artefact
from foveate.renditions import Count
from foveate.strategy.build import SHORT as SHORT_KEY
from foveate.strategy.build import Material, made_of, short_message
from foveate.strategy.hybrid.tracker import FileChange, FileRead, ToolUse, Tracker
from foveate.text import compact_json, message_text, part_text, several, turn_text
from foveate.turn import Attachment, Json, Message, Part, Text, ToolCall, ToolResult, turn_id
from foveate.words import content_words

DEFAULT_TOKENS: Mapping[str, int] = {
    "user": 50,
    "assistant": 200,
    "injection": 50,
    "read": 150,
    "write": 50,
    "edit": 40,
    "other": 60,
}
CALL_TOKENS = 40
"""Maximum tokens of the arguments of one call in a short message."""
CALLS_SHARE = 0.6
"""Maximum share of all calls together in a short message's tokens."""
LEAST_WORDS_TOKENS = 6
MAX_CUTS = 3
"""Limit of the cuts of words that take more tokens next to a mark than alone."""
MAX_SOURCE_CHARS = 60_000
"""Characters that are read at either end of a longer message."""
MAX_NAMED_TOOLS = 6
LEFT_OUT = "left out: get_turn has them"
"""The end of the note that stands for messages that are left out."""
AGENT_KEY = "agent"
"""The key in an artefact's data of the positions that the compression agent worded."""
_ENDINGS = ".;, "
_DEFINED = re.compile(r" \([^()]*\)$")
_BACKSLASH = "\\"
_log = logging.getLogger(__name__)


def make_short(material: Material) -> Artefact:
    """Shorten the messages of the last turn of the material, by position; the turns before it are only read."""
    wanted = material.wanted
    own = material.turns[-1] if material.turns and material.turns[-1].number == wanted.last else None
    messages = own.messages if own else ()
    if wanted.data.get("system"):
        kept = tuple(message for message in messages if _is_system(message))
        return made_of(wanted, turn_text(kept).rstrip("\n"))
    tracker = Tracker(summaries=material.file_summaries, about=_subject(messages))
    for turn in material.turns[:-1] if own else ():
        for position, message in enumerate(turn.messages):
            tracker.follow(turn.number, position, message, curate=False)
    writer = Shortener(wanted.last, material.count, limits_of(wanted.data))
    first, last = _range(wanted.data.get("positions"), len(messages))
    texts: dict[int, str] = {}
    for position, message in enumerate(messages):
        seen = tracker.follow(wanted.last, position, message, curate=first <= position <= last)
        if first <= position <= last and message.kind != "display" and not _is_system(message):
            with contained(_log, "message %s of %s could not be shortened; it is cut", position, turn_id(wanted.last)):
                texts[position] = writer.message(message, seen, tracker)
            if position not in texts:
                texts[position] = material.cut(message_text(message), writer.limit(message))
    texts |= _overrides(material, messages, writer)
    return made_of(wanted, data={SHORT_KEY: {str(place): text for place, text in sorted(texts.items())}})


def _subject(messages: Sequence[Message]) -> frozenset[str]:
    """Return the words of the turn's prompt and answer."""
    said = (message.text for message in messages if message.kind == "message" and message.role in ("user", "assistant"))
    return content_words("\n".join(text[:MAX_SOURCE_CHARS] for text in said))


def limits_of(data: Mapping[str, Json]) -> dict[str, int]:
    """Return the maximum tokens of short messages, by kind."""
    given: Any = data.get("tokens")
    return {**DEFAULT_TOKENS, **({name: int(tokens) for name, tokens in given.items()} if given else {})}


@dataclass(frozen=True, slots=True)
class Shortener:
    """Writes the short messages of one turn."""

    turn: int
    count: Count
    limits: Mapping[str, int]

    @property
    def sign(self) -> str:
        """The sign that a message is short, with the turn that has the full text."""
        return f"(short {turn_id(self.turn)})"

    def message(self, message: Message, seen: Sequence[ToolUse], tracker: Tracker) -> str:
        """Write the short form of any message."""
        if message.tool_results:
            return self._results(message, seen, tracker)
        if message.role == "assistant" and message.kind == "message":
            return self.assistant(message)
        return self._said(message, self.limit(message))

    def limit(self, message: Message) -> int:
        """Return the maximum tokens of a message; of one with tool results, for each of them."""
        if message.tool_results:
            return self.limits["other"]
        kind = "injection" if message.kind == "injection" else message.role
        return self.limits[kind if kind in self.limits else "user"]

    def assistant(self, message: Message, words: str | None = None) -> str:
        """Write words and calls within the limit; `words` replace those that would be chosen."""
        limit = self.limits["assistant"]
        calls = message.tool_calls
        room = int(limit * CALLS_SHARE) // max(1, len(calls))
        shown: list[Part] = [replace(call, arguments=self._arguments(call, min(CALL_TOKENS, room))) for call in calls]
        if calls and self.count(short_message(replace(message, parts=tuple(shown)), part_text)) > limit * CALLS_SHARE:
            named = Counter(call.name for call in calls)
            listed = ", ".join(f"{name} x{times}" for name, times in named.most_common(MAX_NAMED_TOOLS))
            return self._said(message, limit, words=f"({several(len(calls), 'call')}: {listed}) {message.text}")
        if words is None and not message.text.strip():
            return self._signed(message, shown)
        return self._said(message, limit, words=words, behind=shown)

    def worded(self, message: Message, words: str) -> str:
        """Write the message with these words in place of its own; empty if there are neither words nor calls."""
        if not words and not message.tool_calls:
            return ""
        if message.role != "assistant":
            return self._said(message, self.limits["user"], words=words)
        silent = replace(message, parts=message.tool_calls)
        return self.assistant(message, words) if words else self.assistant(silent)

    def _arguments(self, call: ToolCall, most_tokens: int) -> str:
        room = most_tokens - self.count(part_text(call, ""))
        return cut_line(one_line(smooth_call(call)), max(room, LEAST_WORDS_TOKENS), self.count)

    def _signed(self, message: Message, parts: Sequence[Part]) -> str:
        """Write calls alone, the sign after the last one; an empty message stays as it is."""
        if not parts:
            return message_text(replace(message, original=None))
        *others, last = parts
        signed = replace(last, arguments=f"{last.arguments} {self.sign}") if isinstance(last, ToolCall) else last
        return short_message(replace(message, parts=(*others, signed)), part_text)

    def _said(self, message: Message, limit: int, *, words: str | None = None, behind: Sequence[Part] = ()) -> str:
        """Write the best clauses, the sign, and the text after it, within the limit."""
        attached = [_named(part) for part in message.parts if isinstance(part, Attachment)]
        frame = short_message(replace(message, parts=(Text(self.sign), *attached[:3], *behind)), part_text)
        room = limit - self.count(frame)
        text = message.text if words is None else words
        kept = summarise(message, text, max(room, LEAST_WORDS_TOKENS), self.count)

        def write(words: str) -> str:
            said = one_line(f"{words} {self.sign}")
            return short_message(replace(message, parts=(Text(said), *attached[:3], *behind)), part_text)

        return self._within(limit, kept, write)

    def _within(self, limit: int, words: str, write: Callable[[str], str]) -> str:
        """Write as many of the words as the limit allows: token counts may differ where texts meet."""
        text = write(words)
        for _ in range(MAX_CUTS):
            over = self.count(text) - limit
            if over <= 0 or not words:
                break
            words = cut_line(words, max(0, self.count(words) - over - 1), self.count)
            text = write(words)
        return text

    def _results(self, message: Message, seen: Sequence[ToolUse], tracker: Tracker) -> str:
        """Write each result by its kind, with the user's words next to them shortened."""
        parts: list[Part] = []
        notes = iter(seen)
        last = max(place for place, part in enumerate(message.parts) if isinstance(part, ToolResult))
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                known = next(notes)
                named = replace(part, name=part.name or known.call.name)
                words = self._result(named, known, tracker, is_last=place == last)
                parts.append(replace(named, content=(Text(words),)))
            elif isinstance(part, Text) and part.text.strip():
                parts.append(Text(summarise(message, part.text, self.limits["user"], self.count)))
            elif isinstance(part, Attachment):
                parts.append(_named(part))
        return short_message(replace(message, parts=tuple(parts)), part_text)

    def _result(self, result: ToolResult, seen: ToolUse, tracker: Tracker, *, is_last: bool) -> str:
        known = seen.file
        if isinstance(known, FileRead):
            words, kind = _read_words(known, tracker), "read"
        elif isinstance(known, FileChange):
            words, kind = _change_words(known), "write" if known.change in ("written", "created") else "edit"
        else:
            words, kind = _outcome(seen.call, result), "other"
        mark = part_text(replace(result, content=(Text(""),)))
        sign = f" {self.sign}" if is_last else ""
        limit = self.limits[kind]
        room = limit - self.count(f"{mark}{sign}")
        kept = cut_line(one_line(words), max(room, LEAST_WORDS_TOKENS), self.count)
        return self._within(limit, kept, lambda said: f"{mark}{said}{sign}").removeprefix(mark)


def _outcome(call: ToolCall, result: ToolResult) -> str:
    """Return the outcome of a call without its arguments, which are shown before it: `exit 1, 3 failed: test_login`."""
    said = summarise_call(call, result).removeprefix("{").removesuffix("}")
    said = said.removeprefix(bare_name(call.name)).lstrip()
    asked = one_line(compact_json(call.arguments).replace(_BACKSLASH, ""))[:MAX_SOURCE_CHARS]
    end = said.rfind(": ")
    while end > 0:
        if said[:end].rstrip("…").replace(_BACKSLASH, "") in asked:
            return said[end + 2 :]
        end = said.rfind(": ", 0, end)
    return said


def _read_words(read: FileRead, tracker: Tracker) -> str:
    """Describe a file that was read: `src/jwt.py: 212 lines, sha256 3fa9c21b. Signs tokens. Sections: Token 12-80, sign
    81-120`."""
    where = f" from {read.first_line}" if read.first_line > 1 else ""
    said = [f"{brief_path(read.path)}: {several(read.lines, 'line')}{where}, sha256 {read.digest}"]
    if read.summary:
        said.append(read.summary.rstrip(_ENDINGS))
    if read.sections:
        shown = (f"{section.name} {section.first}-{section.last}" for section in read.sections)
        said.append(f"Sections: {', '.join(shown)}")
    changed = next((change for change in reversed(tracker.changes) if change.path == read.path), None)
    if changed:
        said.append(f"{changed.change} before in {turn_id(changed.turn)}")
    return ". ".join(said)


def _change_words(change: FileChange) -> str:
    """Describe a change: `Modified src/jwt.py: lines 12-18 at 2026-11-15 10:02Z; todo: check the signature`."""
    when = f" at {change.at:%Y-%m-%d %H:%MZ}" if change.at else ""
    todo = f"; todo: {change.todo}" if change.todo else ""
    # The definition is in the call before it.
    size = _DEFINED.sub("", change.lines)
    lines = f": {size}" if size else ""
    return f"{change.change.capitalize()} {brief_path(change.path)}{lines}{when}{todo}"


def summarise(message: Message, text: str, max_tokens: int, count: Count) -> str:
    """Choose the most informative words, in order; cut the text if none fit."""
    whole = one_line(text)
    if count(whole) <= max_tokens:
        return whole
    source = text if len(text) <= 2 * MAX_SOURCE_CHARS else f"{text[:MAX_SOURCE_CHARS]}\n{text[-MAX_SOURCE_CHARS:]}"
    reading = read_turn([replace(message, parts=(Text(source),), original=None)])
    # A sentence that is repeated is said once.
    candidates = list(
        {one_line(candidate.text).casefold(): candidate for candidate in reversed(reading.candidates)}.values()
    )
    candidates.reverse()

    def write(texts: Mapping[int, str]) -> str:
        return "; ".join(text.rstrip(_ENDINGS) for _, text in sorted(texts.items()))

    (ranking,) = rank([Source(one.text, is_whole=one.is_whole, scores=one.scores) for one in candidates], PHRASES)
    chosen = _sentences(candidates, ranking, max_tokens, count, write) or ranking.fit(max_tokens, count, write)
    if chosen:
        pairs = [Pair(candidates[place].text, kept) for place, kept in chosen.items()]
        clauses = GuardSource(reading.facts, [candidate.text for candidate in candidates])
        verdict = check("T", clauses, write(chosen), tokens=0, above_tokens=0, shares=None, pairs=pairs)
        if verdict.ok or "weighted facts" in verdict.reason:
            return write(chosen)
    return cut_line(whole, max_tokens, count)


def _sentences(
    candidates: Sequence[Candidate],
    ranking: Ranking,
    max_tokens: int,
    count: Count,
    write: Callable[[Mapping[int, str]], str],
) -> dict[int, str]:
    """Choose whole sentences, or parts of them that have their subject and verb, by information per token.

    A second pass fills the remaining room with parts of sentences that were too long.
    """
    source = "\n".join(candidate.text for candidate in candidates)
    scale = count(source) / max(1.0, sum(candidate.tokens for candidate in candidates))
    chosen: dict[int, str] = {}
    for _ in range(2):
        room = max_tokens - (count(write(chosen)) if chosen else 0)
        places = [place for place in range(len(candidates)) if place not in chosen]
        texts = [_sentence(candidates[place], ranking, place, room / scale) for place in places]
        choices = [_choice(candidates[place], text) for place, text in zip(places, texts, strict=True)]
        best = [at for at in best_that_fit(choices, room / scale) if texts[at]]
        while best and count(write({**chosen, **{places[at]: texts[at] for at in best}})) > max_tokens:
            best.pop()
        chosen |= {places[at]: texts[at] for at in best}
    return dict(sorted(chosen.items()))


def _sentence(candidate: Candidate, ranking: Ranking, place: int, max_tokens: float) -> str:
    if candidate.is_whole:
        return candidate.text if candidate.tokens <= max_tokens else ""
    return ranking.phrase(place, max_tokens)


def _choice(candidate: Candidate, text: str) -> Choice:
    """Weigh a part of a sentence by its share; an order or a prohibition counts more."""
    words = text.split()
    factor = urgency(words, [bare(word) for word in words]) if words else 0.0
    tokens = estimate_tokens(text)
    share = min(1.0, tokens / max(1, candidate.tokens)) * factor * candidate.factor
    return Choice(0, tokens, tuple((key, weight * share) for key, weight in candidate.facts.items()))


def _overrides(material: Material, messages: Sequence[Message], writer: Shortener) -> dict[int, str]:
    """Return the messages that are left out, with one note for all of them, and the messages that are cut."""
    texts: dict[int, str] = {}
    data: Any = material.wanted.data
    if hidden := data.get("hidden"):
        first, last = int(hidden[0]), int(hidden[1])
        left_out = sum(message.kind != "display" for message in messages[first : last + 1])
        texts |= dict.fromkeys(range(first, min(last, len(messages) - 1) + 1), "")
        note = f"({several(left_out, 'message')} {LEFT_OUT}) {writer.sign}"
        texts[first] = f"[system] {note}\n"
    for position, tokens in (data.get("cuts") or {}).items():
        place = int(position)
        if place < len(messages):
            texts[place] = material.cut(message_text(messages[place]), int(tokens))
    return texts


def _range(positions: Any, count: int) -> tuple[int, int]:
    return (int(positions[0]), int(positions[1])) if positions else (0, count - 1)


def _named(part: Attachment) -> Attachment:
    """Reduce an attachment to its name; an address may be as long as the content."""
    uri = part.uri if part.uri and len(part.uri) <= 80 else None  # noqa: PLR2004
    return replace(part, uri=uri, data=None, name=brief_path(part.name) if part.name else None)


def _is_system(message: Message) -> bool:
    return message.role in ("system", "developer") and message.kind == "message"
