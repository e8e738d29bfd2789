"""Endless LLM conversations in a fixed token budget. Nothing is lost.

The journey of a turn, and where to look:

    turn         a prompt and its answer: frozen values       formats/    import from providers and transcripts, export
    tokens       counts tokens                                store/      raw turns, durable and permanent
    compress/    smoothed, compressed, tiny, eras             worker/     compresses and indexes in the background
    strategy/    chooses the level of each turn               history/    writes out the chosen plan
    recall/      finds older turns that match a prompt        context/    what a model sees: tags, pins, board
    session/     one conversation: record, context, get_turn, tools
    client       the store and its sessions; sync is the blocking version

    async with foveate.open("chat.db") as fov:
        session = await fov.session("support-42")
        turn = await session.record([{"role": "user", "content": "Hello"}])

`import foveate` loads nothing; each name is loaded when it is first used.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if sys.version_info < (3, 11):  # noqa: UP036 - of a checkout, no installer checks it
    raise ImportError("Foveate needs Python 3.11 or later; this is Python " + sys.version.partition(" ")[0])

if TYPE_CHECKING:
    from foveate import errors as errors
    from foveate.adapters.wrap import wrap as wrap
    from foveate.client import Foveate as Foveate
    from foveate.client import open as open
    from foveate.context.context import Context as Context
    from foveate.errors import FoveateError as FoveateError
    from foveate.events import Event as Event
    from foveate.importer import ImportReport as ImportReport
    from foveate.recall.search import Hit as Hit
    from foveate.session import Session as Session
    from foveate.session.exchange import Exchange as Exchange
    from foveate.session.values import Pin as Pin
    from foveate.session.values import RecordedTurn as RecordedTurn
    from foveate.session.values import SessionInfo as SessionInfo
    from foveate.session.values import SessionStats as SessionStats
    from foveate.session.values import TurnContent as TurnContent
    from foveate.session.values import TurnOutline as TurnOutline
    from foveate.settings import Settings as Settings
    from foveate.settings import load_settings as load_settings
    from foveate.turn import Attachment as Attachment
    from foveate.turn import Message as Message
    from foveate.turn import Opaque as Opaque
    from foveate.turn import Reasoning as Reasoning
    from foveate.turn import Text as Text
    from foveate.turn import ToolCall as ToolCall
    from foveate.turn import ToolResult as ToolResult
    from foveate.turn import Turn as Turn
    from foveate.turn import Usage as Usage

__version__ = "0.1.0"

_HOMES = {
    "session.values": ("Pin", "RecordedTurn", "SessionInfo", "SessionStats", "TurnContent", "TurnOutline"),
    "adapters.wrap": ("wrap",),
    "client": ("Foveate", "open"),
    "context.context": ("Context",),
    "errors": ("FoveateError",),
    "events": ("Event",),
    "importer": ("ImportReport",),
    "recall.search": ("Hit",),
    "session": ("Session",),
    "session.exchange": ("Exchange",),
    "settings": ("Settings", "load_settings"),
    "turn": ("Attachment", "Message", "Opaque", "Reasoning", "Text", "ToolCall", "ToolResult", "Turn", "Usage"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", "errors", *sorted(_HOME_OF)]  # noqa: PLE0604 - built from the table above


def _load(name: str) -> object:
    if name == "errors":
        return import_module("foveate.errors")
    if name not in _HOME_OF:
        from foveate.plugins import renamed  # noqa: PLC0415 - only needed for old and unknown names

        return renamed(__name__, name, {"Recorded": "foveate:RecordedTurn"})
    try:
        value = getattr(import_module(f"foveate.{_HOME_OF[name]}"), name)
    except ModuleNotFoundError as error:
        if name != "wrap":
            raise
        needed = "pip install 'foveate[openai]' or 'foveate[anthropic]'"
        raise ImportError(f"foveate.wrap: {error.name} is missing: {needed}", name=error.name) from error
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # else checkers would accept every name
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted(__all__)
