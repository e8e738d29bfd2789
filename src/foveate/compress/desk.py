"""The four tools of the compression agent, and the checks on what it proposes. Pure: nothing is kept here.

    get_compression_metadata · compress_tool_result · compress_conversation_segment · verify_compression_target

A proposal is refused, with a reason that the agent is told, if it touches a protected message, saves nothing, is too
long, or says something that its source does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from foveate.compress import Count
from foveate.compress.guard import Source, check
from foveate.compress.inline import one_line
from foveate.compress.reading import read_turn
from foveate.compress.short import Shortener
from foveate.compress.tools._lines import brief
from foveate.compress.tracker import Tracker, to_json
from foveate.text import several
from foveate.turn import Json, Message, Text, turn_id, turn_number

Place = tuple[int, int]

PAGE_MESSAGES = 40
TEXT_CHARS = 1_200
"""Of a message, as the agent is shown it."""
MAX_SEGMENT = 60
WORTH_TOKENS = 24
KNOWN_FILES = 20


class Refused(ValueError):
    """A proposal that is not taken; says why."""


@dataclass(slots=True)
class Desk:
    """The messages that the agent may work on, and what it has come to so far."""

    turns: Mapping[int, Sequence[Message]]
    """By number; whole, so that a message's place is its position."""
    sizes: Mapping[Place, int]
    """What each message takes now."""
    protected: frozenset[Place]
    tokens: int
    """What the whole history takes,"""
    target_tokens: int
    """and should."""
    shortener: Callable[[int], Shortener]
    local: Callable[[int], Mapping[int, str]]
    """The short messages of a turn as they are made without an agent."""
    count: Count
    tracker: Tracker = field(default_factory=Tracker)
    accepted: dict[Place, str] = field(default_factory=dict)
    refusals: int = 0

    @property
    def is_target_reached(self) -> bool:
        return self.tokens <= self.target_tokens

    def answer(self, name: str, arguments: Json) -> str:
        """What the agent is told; a mistake is explained to it."""
        tools: Mapping[str, Callable[[Mapping[str, Any]], Json]] = {
            "get_compression_metadata": self._metadata,
            "compress_tool_result": self._tool_result,
            "compress_conversation_segment": self._segment,
            "verify_compression_target": self._verify,
        }
        try:
            if name not in tools:
                raise Refused(f"there is no tool {brief(name, 40)!r}; there are {', '.join(tools)}")
            if not isinstance(arguments, Mapping):
                raise Refused("arguments are one JSON object")
            return json.dumps(tools[name](arguments), ensure_ascii=False)
        except Refused as refused:
            self.refusals += 1
            return json.dumps({"refused": str(refused)}, ensure_ascii=False)

    def _verify(self, _: Mapping[str, Any]) -> Json:
        return {"tokens": self.tokens, "target_tokens": self.target_tokens, "reached": self.is_target_reached}

    def _metadata(self, arguments: Mapping[str, Any]) -> Json:
        after = _place_of(arguments.get("after"))
        rest = [place for place in sorted(self.sizes) if place > after and self._may(place)]
        page = rest[:PAGE_MESSAGES]
        kept = to_json(self.tracker)
        known: dict[str, Json] = {name: list(found)[-KNOWN_FILES:] for name, found in kept.items()}  # type: ignore[arg-type]
        return {
            "tokens": self.tokens,
            "target_tokens": self.target_tokens,
            "messages": [self._described(place) for place in page],
            "next": f"{turn_id(page[-1][0])}/{page[-1][1]}" if len(rest) > len(page) else None,
            "known": known,
        }

    def _described(self, place: Place) -> Json:
        message = self.turns[place[0]][place[1]]
        described: dict[str, Json] = {
            "turn": turn_id(place[0]),
            "position": place[1],
            "speaker": "tool" if message.tool_results else message.role,
            "tokens": self.sizes[place],
        }
        if message.tool_results:
            described["result"] = brief(self.local(place[0]).get(place[1], ""), TEXT_CHARS // 4)
        else:
            described["text"] = brief(message.text, TEXT_CHARS)
            described["calls"] = [call.name for call in message.tool_calls][:8]
        return described

    def _tool_result(self, arguments: Mapping[str, Any]) -> Json:
        place = self._given(arguments, "position")
        message = self._message(place)
        if not message.tool_results:
            raise Refused("that is no tool result; compress_conversation_segment is for words")
        text = self.local(place[0]).get(place[1])
        if text is None:
            raise Refused("nothing shorter is known of it")
        return self._take({place: text})

    def _segment(self, arguments: Mapping[str, Any]) -> Json:
        first, last = self._given(arguments, "first"), self._given(arguments, "last")
        summary = arguments.get("summary")
        if not isinstance(summary, str) or not summary.strip():
            raise Refused("summary is the text that says what these messages say")
        if not first <= last or last[1] - first[1] >= MAX_SEGMENT:
            raise Refused(f"a segment is of 1 to {MAX_SEGMENT} messages of one turn, first before last")
        places = [(first[0], position) for position in range(first[1], last[1] + 1)]
        words = [place for place in places if not self._message(place).tool_results]
        speakers = {self._message(place).role for place in words}
        if len(speakers) != 1:
            raise Refused("a summary speaks for one speaker: the user, or the assistant")
        self._check(summary, [self._message(place) for place in words])
        texts = {place: text for place in places if (text := self.local(place[0]).get(place[1])) is not None}
        shortener = self.shortener(first[0])
        texts |= {place: shortener.worded(self._message(place), "") for place in words[1:]}
        texts[words[0]] = shortener.worded(self._message(words[0]), one_line(summary))
        return self._take(texts)

    def _check(self, summary: str, messages: Sequence[Message]) -> None:
        """Only what the messages say, in no more tokens than they may take."""
        limits = self.shortener(1).limits
        limit = limits["user" if messages[0].role == "user" else "assistant"]
        tokens = self.count(summary)
        if tokens > limit:
            raise Refused(f"the summary takes {tokens} tokens; {limit} are allowed")
        # Calls stay beside the words, so a summary need not speak of them.
        reading = read_turn([replace(message, parts=(Text(message.text),), original=None) for message in messages])
        source = Source(reading.facts, [candidate.text for candidate in reading.candidates])
        verdict = check("T", source, summary, tokens=tokens, above_tokens=limit, written_by_model=True)
        if not verdict.ok:
            lost = f"; it lost {', '.join(fact[2:] for fact in verdict.lost[:5])}" if verdict.lost else ""
            raise Refused(f"{verdict.reason}{lost}")

    def _take(self, texts: Mapping[Place, str]) -> Json:
        before = sum(self.sizes[place] for place in texts)
        saved = {
            place: text for place, text in texts.items() if self.count(text) < self.sizes[place] or not text.strip()
        }
        after = before - sum(self.sizes[place] - (self.count(text) if text else 0) for place, text in saved.items())
        if not saved or after >= before:
            raise Refused("that saves nothing")
        self.accepted |= saved
        self.sizes = {**self.sizes, **{place: self.count(text) if text else 0 for place, text in saved.items()}}
        self.tokens -= before - after
        return {"saved_tokens": before - after, "short": several(len(saved), "message"), **self._verify({})}  # type: ignore[dict-item]

    def _given(self, arguments: Mapping[str, Any], key: str) -> Place:
        turn = arguments.get("turn")
        number = turn_number(turn) if isinstance(turn, str | int) and not isinstance(turn, bool) else None
        position = arguments.get(key)
        if number is None or not isinstance(position, int) or isinstance(position, bool):
            raise Refused(f'turn is an id such as "T-3", {key} a position from 0')
        return number, position

    def _message(self, place: Place) -> Message:
        where = f"{turn_id(place[0])} message {place[1]}"
        if place in self.protected:
            raise Refused(f"{where} is protected")
        messages = self.turns.get(place[0], ())
        if not 0 <= place[1] < len(messages) or place not in self.sizes:
            raise Refused(f"there is no message {where} that may be made short")
        if place in self.accepted:
            raise Refused(f"{where} is short already")
        return messages[place[1]]

    def _may(self, place: Place) -> bool:
        return self.sizes[place] > WORTH_TOKENS and place not in self.protected and place not in self.accepted


def _place_of(text: object) -> Place:
    turn, _, position = str(text or "").partition("/")
    number = turn_number(turn)
    return (number, int(position)) if number and position.isdecimal() else (0, -1)


def tool_definitions() -> tuple[Mapping[str, Json], ...]:
    """The four tools, as OpenAI has them."""
    turn: Json = {"type": "string", "description": "The turn's id, as in T-3."}
    integer: Json = {"type": "integer"}
    return (
        _tool(
            "get_compression_metadata",
            "Messages that may be made short, oldest first, and what is known of files and todos.",
            {"after": {"type": "string", "description": "`next` of the page before; leave out for the first."}},
            (),
        ),
        _tool(
            "compress_tool_result",
            "Make a tool result short by what is known of it.",
            {"turn": turn, "position": integer},
            ("turn", "position"),
        ),
        _tool(
            "compress_conversation_segment",
            "Put a summary in place of the words of one speaker in one turn; tool results between become short too.",
            {"turn": turn, "first": integer, "last": integer, "summary": {"type": "string"}},
            ("turn", "first", "last", "summary"),
        ),
        _tool("verify_compression_target", "How many tokens the history takes now, and the target.", {}, ()),
    )


def _tool(name: str, description: str, properties: Mapping[str, Json], required: Sequence[str]) -> Mapping[str, Json]:
    parameters: Json = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
