"""One level of an answer before the guard, and our marks around what passes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from foveate.compress import Count, Level
from foveate.compress.facts import find_facts
from foveate.compress.guard import Shares, Source, check
from foveate.compress.inline import escape_inline, marked, one_line
from foveate.compress.model_answers import Said
from foveate.compress.model_checks import Original, made_up, said_by_another, wrong_in
from foveate.compress.model_source import find_passages, with_passages
from foveate.compress.smooth import smooth_messages
from foveate.compress.units import cut_text
from foveate.turn import Message

MAX_NAMED = 12
"""So many missing facts are named to a model."""
PASSING_SHARE = 0.5
"""Of the passages of a turn at least so many must pass, or S stays as rules made it."""

_EXACT = "i#@/unqe"
"""Kinds of facts that are named first, since they can be copied."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """A level's text if it passes; else the reason why not."""

    text: str = ""
    reason: str = ""
    kept_share: float = 0.0
    lost: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Lost facts as the turn spells them."""

    @property
    def complaint(self) -> str:
        """For the model."""
        return f"{self.reason}. Missing: {' | '.join(self.missing)}" if self.missing else self.reason


def rule_on(
    level: Level, said: Said, original: Original, count: Count, *, room: int, nonce: str, shares: Shares | None
) -> Ruling:
    """C or T: put together if both its parts say what they may, in their room."""
    text = _together(level, said, original.tool_calls)
    if level == "T" and count(text) > room:
        text = _together(level, said, 0)
    bare, tokens = "\n".join(said.parts), count(text)
    reason = wrong_in(bare, original, nonce) or _wrong_speaker(said, original)
    if not reason and tokens > room:
        reason = f"it takes {tokens} tokens, more than the {room} it may"
    if reason:
        return Ruling(text, reason)
    verdict = check(
        level,
        original.source,
        bare,
        tokens=tokens,
        above_tokens=room,
        shares=shares,
        written_by_model=True,
    )
    missing = () if verdict.ok else spelled(verdict.lost, original.text)
    return Ruling(text, verdict.reason, verdict.kept_share, verdict.lost, missing)


def _together(level: Level, said: Said, tool_calls: int) -> str:
    """The parts behind our marks; whatever looks like one inside them is escaped."""
    user, assistant = (escape_inline(part) for part in (said.user, said.assistant))
    parts = [part for part in (user, marked("assistant", assistant) if assistant else "") if part]
    if level != "T":
        return "\n".join(parts)
    note = f" {{{tool_calls} tool{'s' if tool_calls > 1 else ''} called}}" if tool_calls else ""
    return one_line(" ".join(parts)) + note if parts else ""


def _wrong_speaker(said: Said, original: Original) -> str:
    if said.user and not original.has_user:
        return 'it has words for "user", who said nothing'
    alien = said_by_another(said.user, original.user)
    if alien:
        return f'"user" has what the user did not say: {alien[:120]}'
    invented = made_up(said.assistant, original.source.facts)
    return f"it says what the turn does not: {invented[:120]}" if invented else ""


def rule_on_passages(
    texts: Mapping[int, str],
    messages: Sequence[Message],
    original: Original,
    count: Count,
    *,
    room: int,
    nonce: str,
) -> Ruling:
    """S: each passage compared with its own words; one that fails stays as rules smooth it, and so do all others."""
    passages = find_passages(messages, count)
    kept: list[str | None] = []
    worst = Ruling()
    for number, passage in enumerate(passages, 1):
        text = texts.get(number, "")
        own = replace(original, text=passage.text)
        source = Source(find_facts(passage.text), [clause.text for clause in cut_text(passage.text)])
        verdict = check("S", source, text, tokens=count(text), above_tokens=count(passage.text), written_by_model=True)
        reason = wrong_in(text, own, nonce) or verdict.reason
        kept.append(None if reason else text)
        if reason and not worst.reason:
            said = f"passage {number}: {reason}"
            worst = Ruling(text, said, verdict.kept_share, verdict.lost, spelled(verdict.lost, passage.text))
    passed = sum(text is not None for text in kept)
    if not passages or passed < PASSING_SHARE * len(passages):
        return worst if worst.reason else Ruling(reason="there is nothing to smooth")
    smoothed = smooth_messages(with_passages(messages, passages, kept))
    if count(smoothed) > room:
        return Ruling(smoothed, f"it takes {count(smoothed)} tokens, more than the {room} it may")
    return Ruling(smoothed)


def spelled(lost: Sequence[str], text: str) -> tuple[str, ...]:
    """Lost facts as the text has them, those that can be copied first."""
    ranked = sorted(lost, key=lambda key: key[0] not in _EXACT)
    found: list[str] = []
    for key in ranked:
        if key[0] in "-?":  # what bears on a word is named with the word, where that is lost
            continue
        number = re.match(r"[-+~$€£]?\d[\d.,]*", key[2:]) if key[0] == "#" else None
        unit = r"(?:\s?\w+)?" if number and number.end() < len(key) - 2 else ""
        pattern = rf"{re.escape(number[0])}(?!\w){unit}" if number else rf"{re.escape(key[2:])}[\w/.-]*"
        match = re.search(rf"(?<!\w){pattern}", text, re.IGNORECASE)
        word = one_line(match[0]).rstrip(".,;:") if match else ""
        if word and not any(word in other for other in found):
            found.append(word)
        if len(found) == MAX_NAMED:
            break
    return tuple(found)
