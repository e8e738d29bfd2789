"""Short messages worded by a model: one request for the long messages of a turn, and the checks of its answer.

A message whose new words do not pass keeps the words that rules chose.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from foveate.compress.guard import check
from foveate.compress.marks import one_line
from foveate.compress.model.answer import load_object
from foveate.compress.model.checks import made_up, read_original, visible, wrong_in
from foveate.compress.model.request import OTHER_TOKENIZERS, SHAPE_TOKENS, closed_object, request, source_text
from foveate.models import Answer, Ask
from foveate.models.prompts import prompt_text
from foveate.models.settings import ModelsSettings
from foveate.plan import Artefact
from foveate.strategy.build import SHORT as SHORT_KEY
from foveate.strategy.build import ArtefactAssignment, Material, WordingReport, short_texts
from foveate.strategy.hybrid.build import AGENT_KEY, Shortener, limits_of
from foveate.turn import Json, Message, Text

MAX_MESSAGES = 24
"""Maximum number of messages in one request; of more, the longest."""
WORDS_SHARE = 0.6
"""Words per token that a model is asked for: fewer than fit, because models count badly."""
SIGN_TOKENS = 12
"""Approximate tokens of a message's mark and sign."""
_SCHEMA: Mapping[str, Json] = closed_object(
    {
        "messages": {
            "type": "array",
            "items": closed_object({"message": {"type": "integer"}, "text": {"type": "string"}}),
        }
    }
)


class ShortWording:
    """Requests short forms of the user's and the assistant's messages of one turn."""

    def request(self, material: Material, *, nonce: str, settings: ModelsSettings) -> ArtefactAssignment | None:
        long = _long_messages(material)
        if not long:
            return None
        limits, count = limits_of(material.wanted.data), material.count
        room = settings.max_source_tokens // len(long)
        shown = [f"{number}. {source_text([_words(message)], room, count)}" for number, message in long.items()]
        asked = request("".join(shown), _asked_words(long.values(), limits), nonce=nonce)
        prompt = prompt_text("summary/hybrid").strip()
        answer_tokens = sum(limits[message.role] for message in long.values())
        limit = math.ceil(answer_tokens * OTHER_TOKENIZERS) + SHAPE_TOKENS * len(long)
        messages = (Message("system", (Text(prompt),)), Message("user", (Text(asked),)))
        ask = Ask.shaped("roll-up", messages, _SCHEMA, max_output_tokens=limit, count=count)
        return ArtefactAssignment(ask, nonce)

    def judge(
        self, assignment: ArtefactAssignment, answer: Answer, material: Material, before: Artefact
    ) -> WordingReport:
        loaded, problem = load_object(answer)
        if loaded is None:
            return WordingReport(reason=problem)
        long, texts = _long_messages(material), short_texts(before)
        by_agent: Any = before.data.get(AGENT_KEY) or ()
        shortener = Shortener(material.wanted.last, material.count, limits_of(material.wanted.data))
        worded: dict[int, str] = {}
        for number, words in _answered(loaded.get("messages")):
            position = number - 1
            if number in long and position in texts and position not in by_agent and position not in worded:
                text = _judged(shortener, long[number], words, assignment.nonce)
                worded |= {position: text} if text else {}
        if not worded:
            return WordingReport(reason="no message of it passed")
        kept: dict[str, Json] = {str(position): text for position, text in sorted({**texts, **worded}.items())}
        data = {**before.data, SHORT_KEY: kept, "model": answer.message.model or ""}
        return WordingReport(replace(before, data=data))


def _long_messages(material: Material) -> dict[int, Message]:
    """Return the messages that exceed their limit, by number: their position from 1."""
    wanted = material.wanted
    data: Mapping[str, Any] = wanted.data
    own = material.turns[-1] if material.turns and material.turns[-1].number == wanted.last else None
    if own is None or data.get("system"):
        return {}
    limits, count = limits_of(data), material.count
    first, last = data.get("positions") or (0, len(own.messages) - 1)
    hidden_first, hidden_last = data.get("hidden") or (0, -1)
    cuts = data.get("cuts") or {}
    sizes = {
        position: count(message.text)
        for position, message in enumerate(own.messages)
        if first <= position <= last
        and not hidden_first <= position <= hidden_last
        and str(position) not in cuts
        and message.kind == "message"
        and message.role in ("user", "assistant")
        and not message.tool_results
    }
    long = [position for position, tokens in sizes.items() if tokens > limits[own.messages[position].role]]
    chosen = sorted(sorted(long, key=lambda position: -sizes[position])[:MAX_MESSAGES])
    return {position + 1: own.messages[position] for position in chosen}


def _words(message: Message) -> Message:
    """Return the message without its calls and attachments, which stay as they are."""
    return replace(message, parts=(Text(message.text),), original=None)


def _asked_words(messages: Iterable[Message], limits: Mapping[str, int]) -> str:
    """Write the limits in words: `26 words for each message of the user and 112 words for each message of the
    assistant`."""
    roles = {message.role for message in messages}
    return " and ".join(
        f"{max(8, int((limits[role] - SIGN_TOKENS) * WORDS_SHARE))} words for each message of the {role}"
        for role in ("user", "assistant")
        if role in roles
    )


def _answered(listed: object) -> Iterator[tuple[int, str]]:
    for item in listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ():
        number, text = (item.get("message"), item.get("text")) if isinstance(item, Mapping) else (None, None)
        if type(number) is int and isinstance(text, str):
            yield number, one_line(visible(text))


def _judged(shortener: Shortener, message: Message, words: str, nonce: str) -> str:
    """Write the short message with a model's words; empty if they are wrong, too few or too many."""
    original = read_original([_words(message)])
    limit = shortener.limits[message.role]
    if not words or wrong_in(words, original, nonce) or made_up(words, original.source.facts):
        return ""
    tokens = shortener.count(words)
    if not check("T", original.source, words, tokens=tokens, above_tokens=limit, written_by_model=True).ok:
        return ""
    text = shortener.worded(message, words)
    # Words that had to be cut next to the mark, the sign and the calls are no better than those that rules chose.
    return text if words in text and shortener.count(text) <= limit else ""


WORDING = ShortWording()
