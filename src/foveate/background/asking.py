"""What is worked out around a model's call, in whatever process: a turn's request, and what passes of an answer."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foveate.background.making import without_recalled
from foveate.compress import Level
from foveate.compress.model import Assignment, Group, assign, is_worth_asking, judge
from foveate.context.costs import content_tokens
from foveate.drafts import restore_message
from foveate.models import Answer
from foveate.settings import ModelsSettings
from foveate.store import MessageRow
from foveate.text import encodable
from foveate.tokens import EncodingName, exact_counter
from foveate.turn import Message

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Original:
    """A turn as it came."""

    turn: int
    rows: Sequence[MessageRow]
    encoding: EncodingName

    def messages(self) -> list[Message]:
        return without_recalled([restore_message(row) for row in self.rows])


@dataclass(frozen=True, slots=True)
class Passed:
    """A level that the guard let pass."""

    text: str
    tokens: int
    """Of the text alone, which the level below is measured by."""
    shown_tokens: int
    """As `content_tokens` counts them."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """What an answer is worth."""

    passed: Mapping[Level, Passed]
    refusals: int
    is_garbled: bool
    """Nothing of it could be read; another time it may be better. What was read and refused would come again."""
    again: Assignment | None = None


def write_request(
    group: Group, original: Original, nonce: str, settings: ModelsSettings, source: str | None
) -> Assignment | None:
    """What a model is asked for one turn; None if it is not worth asking."""
    messages = original.messages()
    count = exact_counter(original.encoding).base
    if not is_worth_asking(messages, count, group.levels):
        return None
    if source is not None and count(source) > settings.max_source_tokens:
        source = None  # the original can be shortened by what it is made of
    assignment = assign(group, original.turn, messages, count, nonce=nonce, settings=settings, source=source)
    return assignment if assignment.levels else None


def weigh(assignment: Assignment, answer: Answer, original: Original, above: Mapping[Level, int]) -> Weighed:
    """What may stand of an answer. One that can't even be judged is worth nothing, and not asked about again."""
    counter = exact_counter(original.encoding)
    try:
        judged = judge(assignment, answer, original.messages(), counter.base, above=above)
    except Exception:  # noqa: BLE001 - the worker's boundary: whatever a model says must not stop the rest
        _log.warning("an answer of %s could not be judged", answer.message.model, exc_info=True)
        return Weighed({}, len(assignment.levels), is_garbled=True)
    passed: dict[Level, Passed] = {}
    for level, said in judged.texts.items():
        text = encodable(said)
        passed[level] = Passed(text, counter.base(text), content_tokens(text, level, counter))
    is_garbled = not passed and not any(refusal.text for refusal in judged.refusals)
    return Weighed(passed, len(judged.refusals), is_garbled, judged.again)
