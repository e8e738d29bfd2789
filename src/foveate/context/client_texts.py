"""Fits what a client's request has besides the conversation: instructions, and files that it sends with each prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from foveate.additions import ClientTexts, Instruction
from foveate.context.cut import cut_text
from foveate.context.pins import PinText, write_pin
from foveate.context.tags import tag_document
from foveate.tokens import Counter

INSTRUCTIONS_SHARE: Final = 0.75
"""Maximum share of the room. Claude Code's instructions need .45 of what its system prompt and tools leave of 26,000
tokens."""
MAX_SHARE: Final = 0.9
"""Maximum share of the room for all texts; the rest is for the conversation."""
FRAMING_TOKENS: Final = 16
"""Reserve for the tags around a text."""
_LONGEST_ID: Final = "P-10000"


@dataclass(frozen=True, slots=True)
class FittedTexts:
    """The texts that fit."""

    instructions: tuple[Instruction, ...] = ()
    document: str = ""
    """What the client sends anew with each prompt, in its tag."""
    tokens: int = 0
    """Maximum base tokens of both."""


def fit_client_texts(client: ClientTexts, room_tokens: int, counter: Counter) -> FittedTexts:
    """Choose the instructions that fit, the first ones first; other texts are cut to the rest.

    An instruction that does not fit stays in its turn.
    """
    if not client.instructions and not client.renewed:
        return FittedTexts()
    room = max(0, room_tokens)
    sizes: dict[str, int] = {}
    for one in client.instructions:
        size = counter.stable_base(write_pin(PinText(_LONGEST_ID, one.text)))
        sizes[one.key] = max(size, sizes.get(one.key, 0))
    tokens = 0
    fitting = set()
    for key, size in sizes.items():
        if tokens + size <= room * INSTRUCTIONS_SHARE:
            fitting.add(key)
            tokens += size
    document = ""
    if client.renewed:
        total = counter.base(client.renewed)
        cut = cut_text(client.renewed, int(room * MAX_SHARE) - tokens - FRAMING_TOKENS, counter.base, total)
        document = tag_document("client-texts", cut)
        tokens += counter.base(document)
    return FittedTexts(tuple(one for one in client.instructions if one.key in fitting), document, tokens)
