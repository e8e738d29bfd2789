"""The models that a person can choose for a chat: those of the settings, each with what to know before choosing it."""

from __future__ import annotations

from dataclasses import dataclass

from foveate.client import configured_uses
from foveate.errors import ModelUnavailable
from foveate.models import local
from foveate.models.names import models_for, named_hosts, understand
from foveate.models.settings import ModelsSettings
from foveate.models.status import describe_models
from foveate.session import Session
from foveate.session.documents import CHAT_MODEL
from foveate.settings import Settings

TOY = "a toy that invents answers"


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model that can be chosen for a chat."""

    name: str
    note: str = ""
    """Why it may not be the right one: a toy, or a missing key."""
    is_toy: bool = False


def is_toy(name: str) -> bool:
    """Return whether a name stands for the small weights that come as a package, not for a file of the user's."""
    return local.names_bundled_weights(name)


def chat_models(settings: Settings, *, any_purpose: bool) -> tuple[ChatModel, ...]:
    """Return the models for chats, then, with `any_purpose`, the others that write text; toys are last."""
    names = list(models_for("chat", settings.models))
    uses = configured_uses(settings)
    if any_purpose:
        names += [use.model for use in uses if not use.target.makes_vectors]
    problems = {
        target.model: status.problem for target, status in describe_models(uses, settings.models).statuses.items()
    }
    found = [
        ChatModel(name, TOY if is_toy(name) else problems.get(name) or "", is_toy(name))
        for name in dict.fromkeys(names)
    ]
    return tuple(sorted(found, key=lambda model: model.is_toy))


async def remembered_model(session: Session, settings: ModelsSettings, known: tuple[str, ...]) -> str:
    """Return the model that was last chosen for a session; empty if there is none, or it may not be called again.

    An endpoint that no setting names is chosen anew each time: the conversation would be sent there.
    """
    name = await session.documents.get(CHAT_MODEL)
    if not name or name in known:
        return name
    try:
        parsed = understand(name, settings)
    except ModelUnavailable:
        return ""
    is_safe = parsed.kind != "endpoint" or parsed.provider in named_hosts(settings)
    return name if is_safe else ""


async def remember_model(session: Session, name: str) -> None:
    """Store the model that was chosen for a session; an empty name removes it."""
    if await session.documents.get(CHAT_MODEL) != name:
        await session.documents.give(CHAT_MODEL, name)
