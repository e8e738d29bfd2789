"""What clients put into a request beside the conversation: reminders, files, examples, a call for a summary.

They come, go and move between two requests, so they are no part of the history that a session is found by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, Literal

Addition = Literal["", "message", "beginning", "summary"]
"""A message that was added, with the reply behind it; one that ends an added beginning; or a client's own summary."""

_REMINDER: Final = "<system-reminder>", "</system-reminder>"
_EDIT_RULES: Final = re.compile(
    r"^[^\S\n]*(?:To suggest changes to a file you MUST return|# \*SEARCH/REPLACE block\* Rules:|# File editing rules:"
    r"|# V4A Diff Format Rules:)",
    re.MULTILINE,
)
"""Of Aider, at the end of the newest prompt."""
_ADDED: Final = (
    "<environment_context>",  # Codex
    "# AGENTS.md instructions for ",
    "I am not sharing any files that you can edit yet.",
    "I am not sharing the full contents of any files with you yet.",
    "I have *added these files to the chat*",
    "Here are summaries of some files present in my git repo",
    "Here are some READ ONLY files, provided for your reference.",
    "I am working with you on code in a git repository.\nHere are summaries of some files",
)
_SUMMARIES: Final = (
    "Another language model started to solve this problem and produced a summary",  # Codex
    "This session is being continued from a previous conversation",  # Claude Code
)
_AIDER_EXAMPLES_END: Final = "I switched to a new code base. Please don't consider the above files"
_ASKS_FOR_SUMMARY: Final = re.compile(
    r"\bsummary of the conversation\b.*<summary>|\bRespond with TEXT ONLY\b.*\bsummary of the conversation\b", re.DOTALL
)
_SUMMARY_SYSTEM: Final = re.compile(r"\bsummari[sz]e\b[^.]{0,40}\bconversation\b", re.IGNORECASE)


def without_reminders(text: str) -> str:
    """The text without what a client adds for the model alone."""
    begin, end = _REMINDER
    kept, place = [], 0
    while (start := text.find(begin, place)) >= 0 and (stop := text.find(end, start)) >= 0:
        kept.append(text[place:start])
        place = stop + len(end)
    said = "".join([*kept, text[place:]])
    if (rules := _EDIT_RULES.search(said, 1)) is None:
        return said
    return said[: said.find("\n", len(said[: rules.start()].rstrip()))]


def addition(text: str) -> Addition:
    """Whether a user's message is one that a client added."""
    said = text.lstrip()
    if said.startswith(_ADDED):
        return "message"
    if said.startswith(_SUMMARIES):
        return "summary"
    return "beginning" if said.startswith(_AIDER_EXAMPLES_END) else ""


def is_compaction(headers: Mapping[str, str]) -> bool:
    """Whether Codex says that it wants a summary of its history."""
    try:
        metadata = json.loads(headers.get("x-codex-turn-metadata", "{}"))
    except ValueError:
        return False
    return isinstance(metadata, dict) and metadata.get("request_kind") == "compaction"


def asks_for_summary(text: str) -> bool:
    """Whether Claude Code asks for a summary of its history: its instruction is in the newest message."""
    return _ASKS_FOR_SUMMARY.search(text) is not None


def is_for_summary(system: str) -> bool:
    """Whether a system prompt makes the model a writer of summaries."""
    return _SUMMARY_SYSTEM.search(system) is not None
