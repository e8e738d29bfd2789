"""Sessions of several tenants and scopes, each with a secret of its own, and which secrets each view may see."""

from __future__ import annotations

from dataclasses import dataclass, replace

from foveate import Foveate, Session
from foveate.store.knowledge import NewKnowledge
from support.stores.knowledge import item

QUESTION = "Which code opens the harbour gate?"
ROW = "The harbour gate opens with the code {0}."
TALK = "We talked about the weather and the sea, and nothing else of note, number {0}."


@dataclass(frozen=True, slots=True)
class Placed:
    """A session: its tenant, id, scope, project and secret."""

    tenant: str
    id: str
    scope: str | None
    channel: str | None
    secret: str


SESSIONS = (
    Placed("", "anna-1", "user:anna", None, "KA-101"),
    Placed("", "anna-2", "user:anna", "shop", "KA-202"),
    Placed("", "bert-1", "user:bert", "shop", "KB-303"),
    Placed("", "plain", None, None, "KP-404"),
    Placed("", "staff", "org:harbour", None, "KO-505"),
    Placed("acme", "anna-1", "user:anna", "shop", "KX-606"),
    Placed("acme", "anna-3", "user:anna", None, "KX-707"),
    Placed("other", "anna-1", "user:anna", None, "KY-808"),
)
MAY_SEE: dict[tuple[str, str], set[str]] = {
    ("", "user:anna"): {"KA-101", "KA-202"},
    ("", "user:bert"): {"KB-303"},
    ("", "project:shop"): {"KA-202", "KB-303"},
    ("", "project:"): {"KA-101", "KP-404", "KO-505"},
    ("", "org:harbour"): {"KO-505"},
    ("", "session:plain"): {"KP-404"},
    ("", "session:acme:anna-1"): set(),
    ("acme", "user:anna"): {"KX-606", "KX-707"},
    ("acme", "project:shop"): {"KX-606"},
    ("acme", "org:harbour"): set(),
    ("other", "user:anna"): {"KY-808"},
    ("other", "session:plain"): set(),
}
"""By tenant and scope."""


LESSONS = {place: f"LS-{number:03}" for number, place in enumerate(MAY_SEE, 900)}
"""The secret of the lesson of each tenant and scope."""


def lessons() -> dict[str, list[NewKnowledge]]:
    """By tenant, a lesson for each scope."""
    made: dict[str, list[NewKnowledge]] = {}
    for (tenant, scope), secret in LESSONS.items():
        plain = replace(item(f"k-{secret.lower()}", scope=scope), title="Harbour gate", state="approved", keywords=())
        made.setdefault(tenant, []).append(replace(plain, text=ROW.format(secret)))
    return made


def view(fov: Foveate, tenant: str) -> Foveate:
    return fov.tenant(tenant) if tenant else fov


async def fill(fov: Foveate) -> None:
    """Record each secret, with some talk behind it."""
    for placed in SESSIONS:
        session = await view(fov, placed.tenant).session(placed.id, scope=placed.scope, channel=placed.channel)
        await session.record([{"role": "user", "content": ROW.format(placed.secret)}])
        for number in range(4):
            await session.record([{"role": "user", "content": TALK.format(number)}])
    await fov.settle()


async def asking(fov: Foveate, tenant: str, scope: str) -> Session:
    """A new session of a tenant, opened with a scope."""
    return await view(fov, tenant).session("asking", scope=scope, budget_tokens=4_000)


def secrets_in(text: str) -> set[str]:
    return {secret for secret in (*(placed.secret for placed in SESSIONS), *LESSONS.values()) if secret in text}
