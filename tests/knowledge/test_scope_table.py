"""Every scope x every session x two tenants: what is learned, found and shown stays in its scope."""

from __future__ import annotations

import asyncio
import re
from itertools import count
from pathlib import Path

from foveate import Foveate
from foveate.knowledge.run import learn
from support.engine import settings, with_store

EXACT = settings(recall={"deadline_seconds": None, "knowledge_items": 10})
SESSIONS = {  # label and scope of each session
    "plain": (None, None),
    "shop-1": ("shop", None),
    "shop-2": ("shop", None),
    "other": ("other", None),
    "anna": ("shop", "user:anna"),
    "bob": (None, "user:bob"),
    "org": ("other", "org:x"),
}
MEMBERS = {  # whose turns a scope has
    "session:plain": {"plain"},
    "project:": {"plain", "bob"},
    "project:shop": {"shop-1", "shop-2", "anna"},
    "project:other": {"other", "org"},
    "user:anna": {"anna"},
    "user:bob": {"bob"},
    "org:x": {"org"},
}
SEEN = {  # whose words a session may be shown
    "plain": {"plain"},
    "shop-1": {"shop-1", "shop-2", "anna"},
    "shop-2": {"shop-1", "shop-2", "anna"},
    "other": {"other", "org"},
    "anna": {"shop-1", "shop-2", "anna"},
    "bob": {"bob"},
    "org": {"other", "org"},
}
TENANTS = ("acme", "rival")
PROMPT = "Which codeword do the deploys of the shop need?"
_WORD = re.compile(r"zebra\d+")


async def tell(fov: Foveate, words: dict[str, tuple[str, str]]) -> None:
    """Let each session of each tenant state a rule with a word of its own."""
    numbers = count(1)
    for tenant in TENANTS:
        for name, (label, scope) in SESSIONS.items():
            word = f"zebra{next(numbers)}"
            words[word] = (tenant, name)
            session = await fov.tenant(tenant).session(name, channel=label, scope=scope)
            said = f"Always deploy the shop with the codeword {word}."
            await session.record([{"role": "user", "content": said}, {"role": "assistant", "content": "Noted."}])


def test_nothing_leaves_its_scope_or_its_tenant(tmp_path: Path) -> None:
    words: dict[str, tuple[str, str]] = {}

    def owners(text: str) -> set[tuple[str, str]]:
        return {words[word] for word in _WORD.findall(text)}

    async def job(fov: Foveate) -> None:
        await tell(fov, words)
        for tenant in TENANTS:
            view = fov.tenant(tenant)
            for scope, members in MEMBERS.items():
                await learn(view, scope)
                items = await view.knowledge.list(scope=scope)
                learned = {owner for item in items for owner in owners(f"{item.title} {item.text}")}
                assert learned == {(tenant, name) for name in members}, scope
                assert {source.rpartition("/")[0] for item in items for source in item.sources} == members
                found = await view.memory(scope).search("the codeword zebra", 100)
                assert {owner for hit in found for owner in owners(hit.text)} == learned, scope
            for item in await view.knowledge.list():
                await view.knowledge.approve(item.id)
        await fov.settle()
        shown = 0
        for tenant in TENANTS:
            view = fov.tenant(tenant)
            by_scope = {scope: await view.knowledge.list(scope=scope, kind="lesson") for scope in MEMBERS}
            for name, seen in SEEN.items():
                session = await view.session(name)
                allowed = {(tenant, each) for each in seen}
                text = (await session.context(PROMPT)).text
                assert (tenant, name) in owners(text) <= allowed, (name, owners(text) - allowed)
                shown += len(owners(text)) > 1
                for items in by_scope.values():
                    for item in items:
                        read = await session.call_tool("get_turn", {"turn_id": item.id})
                        assert owners(read) <= allowed, (name, item.scope)
        assert shown >= 2 * len(TENANTS), "the table shows something"

    asyncio.run(with_store(tmp_path / "chat.db", job, EXACT))
