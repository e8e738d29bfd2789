"""Provider formats of the gateway: read requests, write upstream bodies, rewrite answers.

Pure functions of bytes and JSON; one file per format.
"""

from __future__ import annotations

from typing import Final

from foveate.server.gateway.wires.anthropic import AnthropicWire
from foveate.server.gateway.wires.gemini import GeminiWire
from foveate.server.gateway.wires.openai import OpenAIWire
from foveate.server.gateway.wires.openai_responses import OpenAIResponsesWire
from foveate.server.gateway.wires.wire import ClientRequest, OwnCall, UpstreamAnswer, Wire

__all__ = [
    "WIRES",
    "AnthropicWire",
    "ClientRequest",
    "OpenAIWire",
    "OwnCall",
    "UpstreamAnswer",
    "Wire",
]

_WIRES: Final[tuple[Wire, ...]] = (AnthropicWire(), OpenAIWire(), OpenAIResponsesWire(), GeminiWire())
WIRES: Final[dict[str, Wire]] = {wire.format: wire for wire in _WIRES}
"""The wires by the name of their format."""
