"""Turns to learn from, and models that answer with knowledge of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from foveate.knowledge.gather import Chunk, Gathered, LearnedTurn, ToolOutcome
from foveate.recall.scopes import Scope
from foveate.store.knowledge import KnowledgeSource
from foveate.tokens import count_tokens

NONCE = "q7Zt40bKxw91"
SCOPE = Scope("project", "shop")


def learned(user: str, assistant: str = "", *tools: ToolOutcome, turn: int = 1, session: str = "s") -> LearnedTurn:
    compressed = "\n".join(part for part in (user, f"[assistant] {assistant}" if assistant else "") if part)
    return LearnedTurn(
        source=KnowledgeSource(session, turn),
        at_us=turn * 1_000_000,
        user=user,
        assistant=assistant,
        tools=tools,
        compressed=compressed,
        tiny=compressed[:80],
        smoothed="",
    )


def failed(text: str) -> ToolOutcome:
    return ToolOutcome(name="exec", arguments='{"command":"make"}', is_error=True, text=text)


def returned(text: str) -> ToolOutcome:
    return ToolOutcome(name="fetch_url", arguments='{"url":"https://example.com"}', is_error=False, text=text)


def gathered(turns: Sequence[LearnedTurn], scope: Scope = SCOPE) -> Gathered:
    return Gathered(tenant="", scope=scope, turns=tuple(turns), watermark="w")


def chunk(turns: Sequence[LearnedTurn]) -> Chunk:
    texts = tuple(turn.compressed for turn in turns)
    return Chunk(tuple(turns), texts, sum(map(count_tokens, texts)))


def said(**lists: object) -> str:
    """An answer with these lists, the others being empty."""
    return json.dumps({"lessons": [], "references": [], "profile": [], "recommendations": [], **lists})


def lesson(text: str, turns: Sequence[object] = (1,), *, title: str = "", **more: object) -> dict[str, object]:
    values = {"title": title, "text": text, "turns": list(turns), "keywords": [], "technologies": [], "weight": 0.5}
    return {**values, **more}


BACKUP = (
    "The nightly backup of db-7 collides with the import of 19 GB, which runs until 03:50. From now on never schedule "
    "a backup of db-7 before 04:00."
)
MOVED = (
    "The backup of db-7 failed with BackupError because the import held the lock. Moving it to 04:10 in "
    "ops/cron/db-7.toml resolved the failure."
)
RULE = "Never schedule a backup of db-7 before 04:00."
REPORT = (
    "The nightly backup of db-7 failed with BackupError because the import held the lock. Moving it to 04:10 in "
    "ops/cron/db-7.toml resolved the failure."
)


def backup_turns() -> list[LearnedTurn]:
    """Two turns that teach something, and one that does not."""
    return [
        learned("Hello, are you there?", "Yes.", turn=1),
        learned(BACKUP, MOVED, turn=2),
        learned("Thanks, the backup of db-7 ran at 04:10.", "Good.", turn=3),
    ]
