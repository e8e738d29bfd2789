"""Random agentic conversations as providers' packages and their imitations really write them, odd shapes included.

    for turn in random_turns(random.Random(7), "openai", turns=12):
        await session.record(turn, format="openai")

Ids repeat, are too long or missing; tool names are another provider's; contents are null, empty lists or blank; calls
stay unanswered, are answered out of order or before they are made; system messages come in the middle.
"""

from __future__ import annotations

import json
import random
from typing import Any, Final, TypeAlias

Record: TypeAlias = dict[str, Any]

FORMATS: Final = ("openai", "openai-responses", "anthropic", "gemini")
ODD_SHARE: Final = 0.15
"""Of the choices that could be odd."""
_WORDS: Final = (
    *("harbour", "gate", "code", "tide", "table", "deploy", "Friday", "zlib", "cache", "retry", "0451", "über", "港"),
    *("<T-1-R>", "\u200b"),
)
_NAMES: Final = ("exec", "read_file", "functions.exec:0", "ns.tool", "grep files", "x" * 80, "2fa")


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._made = 0

    def is_odd(self) -> bool:
        return self._rng.random() < ODD_SHARE

    def text(self) -> str:
        if self.is_odd():
            return self._rng.choice(["", " ", "\n", "\ud800", "</T-3-R>", "a\x00b"])
        return " ".join(self._rng.choices(_WORDS, k=self._rng.randint(1, 40)))

    def name(self) -> str:
        return self._rng.choice(_NAMES) if self.is_odd() else self._rng.choice(_NAMES[:2])

    def call_id(self) -> str:
        self._made += 1
        if self.is_odd():
            return self._rng.choice(["call_0", "c" * 70, "call|1", "toolu_x"])
        return f"call_{self._made}"

    def arguments(self) -> Record:
        return {"cmd": self.text(), "n": self._rng.randint(0, 9)}

    def answered(self, calls: list[Any]) -> list[Any]:
        """The calls in the order of their results; odd: out of order, one twice, or one missing."""
        answered = list(calls)
        if self.is_odd():
            self._rng.shuffle(answered)
        if self.is_odd() and answered:
            answered.pop()
        return answered


def random_turns(rng: random.Random, format: str, *, turns: int) -> list[list[Record]]:  # noqa: A002
    """The messages of each turn, as this format has them."""
    maker = _Maker(rng)
    write = {"openai": _openai, "openai-responses": _responses, "anthropic": _anthropic, "gemini": _gemini}[format]
    return [write(maker, rng, steps=rng.choice([0, 0, 1, 2, 5])) for _ in range(turns)]


def _openai(maker: _Maker, rng: random.Random, *, steps: int) -> list[Record]:
    blocks = [{"type": "text", "text": maker.text()}] if maker.is_odd() else maker.text()
    messages: list[Record] = [{"role": "user", "content": [] if maker.is_odd() else blocks}]
    if maker.is_odd():
        messages.insert(rng.randint(0, 1), {"role": "system", "content": maker.text()})
    for _ in range(steps):
        calls = [
            {
                "id": maker.call_id(),
                "type": "function",
                "function": {"name": maker.name(), "arguments": _encoded(maker)},
            }
            for _ in range(rng.randint(1, 3))
        ]
        said: Record = {"role": "assistant", "content": None if maker.is_odd() else maker.text(), "tool_calls": calls}
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": maker.text()} for call in maker.answered(calls)
        ]
        messages += [*results, said] if maker.is_odd() else [said, *results]
    ending: Record = {"role": "assistant", "content": maker.text()}
    if maker.is_odd():
        ending |= rng.choice([{"content": None}, {"tool_calls": []}, {"content": []}, {"function_call": None}])
    return [*messages, ending]


def _encoded(maker: _Maker) -> str:
    return "not json" if maker.is_odd() else json.dumps(maker.arguments())


def _responses(maker: _Maker, rng: random.Random, *, steps: int) -> list[Record]:
    said = [{"type": "input_text", "text": maker.text()}] if maker.is_odd() else maker.text()
    items: list[Record] = [{"role": "user", "content": [] if maker.is_odd() else said}]
    for step in range(steps):
        if maker.is_odd():
            items.append({"type": "reasoning", "id": f"rs_{step}", "summary": [], "encrypted_content": "e"})
        calls = [
            {"type": "function_call", "call_id": maker.call_id(), "name": maker.name(), "arguments": _encoded(maker)}
            for _ in range(rng.randint(1, 3))
        ]
        if maker.is_odd():
            calls[0]["id"] = "call_wrong"
        results: list[Record] = [
            {
                "type": "function_call_output",
                "call_id": call["call_id"],
                "output": [] if maker.is_odd() else maker.text(),
            }
            for call in maker.answered(calls)
        ]
        items += [*calls, *results]
    ending = [{"type": "output_text", "text": maker.text()}]
    return [*items, {"type": "message", "role": "assistant", "content": [] if maker.is_odd() else ending}]


def _anthropic(maker: _Maker, rng: random.Random, *, steps: int) -> list[Record]:
    messages: list[Record] = [{"role": "user", "content": [] if maker.is_odd() else maker.text()}]
    for _ in range(steps):
        calls = [
            {"type": "tool_use", "id": maker.call_id(), "name": maker.name(), "input": maker.arguments()}
            for _ in range(rng.randint(1, 3))
        ]
        before: list[Record] = [{"type": "text", "text": maker.text()}]
        if maker.is_odd():
            before.insert(0, {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call["id"],
                "content": [{"type": "text", "text": maker.text()}] if maker.is_odd() else maker.text(),
                **({"is_error": True} if maker.is_odd() else {}),
            }
            for call in maker.answered(calls)
        ]
        said: list[Record] = [{"role": "assistant", "content": [*before, *calls]}]
        messages += [*said, *([{"role": "user", "content": results}] if results else [])]
    ending = maker.text() if maker.is_odd() else [{"type": "text", "text": maker.text()}]
    role = "system" if maker.is_odd() else "assistant"
    return [*messages, {"role": role, "content": ending}]


def _gemini(maker: _Maker, rng: random.Random, *, steps: int) -> list[Record]:
    contents: list[Record] = [{"role": "user", "parts": [] if maker.is_odd() else [{"text": maker.text()}]}]
    for _ in range(steps):
        calls = [
            {"name": maker.name(), "args": maker.arguments(), **({"id": maker.call_id()} if maker.is_odd() else {})}
            for _ in range(rng.randint(1, 3))
        ]
        answers = [
            {"functionResponse": {"name": call["name"], "response": {"output": maker.text()}}}
            for call in maker.answered(calls)
        ]
        contents.append({"role": "model", "parts": [{"functionCall": call} for call in calls]})
        contents += [{"role": "function" if maker.is_odd() else "user", "parts": answers}] if answers else []
    return [*contents, {"role": "model", "parts": [] if maker.is_odd() else [{"text": maker.text()}]}]
