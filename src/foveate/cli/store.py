"""`foveate store`: maintain the database: finish compression, copy it, remove old content."""

from __future__ import annotations

from foveate.cli.ui.answers import store_group


@store_group("store", "Compress, copy and prune the store.")
def command() -> None:
    """Maintain the store. 'foveate doctor' verifies it, 'foveate stats' shows its size.

    \b
    foveate store compress                      finish what the background has not compressed yet
    foveate store copy chat.db postgresql://…   copy all sessions
    foveate store prune --older-than 90d        preview of what would be removed
    """
