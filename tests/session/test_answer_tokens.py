"""An answer with signed thinking is stored with the hash of the request it was made for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foveate import sync

SIGNED: dict[str, Any] = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "Which port was it?", "signature": "c2lnbmVk"},
        {"type": "text", "text": "8443."},
    ],
}
TOKENS = 8_000


def _prefix(session: sync.Session) -> str | None:
    """The prefix that the session's last message is bound to."""
    return session.load_turns()[-1].messages[-1].prefix


def test_sessions_of_the_same_name_in_two_tenants_do_not_share_what_they_asked(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        acme, other = (fov.tenant(name).session("chat", budget_tokens=TOKENS) for name in ("acme", "other"))
        acme.record({"role": "user", "content": "Which port does the gateway use?"})
        asked = acme.context()
        other.record({"role": "user", "content": "A question of somebody else."})
        other.context()
        acme.record(SIGNED, format="anthropic")
        assert _prefix(acme) == asked.token


def test_a_token_says_which_context_an_answer_was_made_for(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("chat", budget_tokens=TOKENS)
        chat.record({"role": "user", "content": "Which port does the gateway use?"})
        first = chat.context(system="Be brief.")
        second = chat.context(system="Be kind.")
        assert first.token != second.token
        chat.record(SIGNED, format="anthropic", context=first.token)
        assert _prefix(chat) == first.token


def test_a_context_itself_can_be_given_in_place_of_its_token(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("chat", budget_tokens=TOKENS)
        chat.record({"role": "user", "content": "Which port does the gateway use?"})
        first = chat.context(system="Be brief.")
        chat.context(system="Be kind.")
        chat.record(SIGNED, format="anthropic", context=first)
        assert _prefix(chat) == first.token


def test_without_a_token_the_last_context_counts_once(tmp_path: Path) -> None:
    with sync.open(tmp_path / "chat.db") as fov:
        chat = fov.session("chat", budget_tokens=TOKENS)
        chat.record({"role": "user", "content": "Which port does the gateway use?"})
        asked = chat.context()
        chat.record(SIGNED, format="anthropic")
        assert _prefix(chat) == asked.token
        chat.record([{"role": "user", "content": "And now?"}, SIGNED], format="anthropic")
        assert _prefix(chat) is None
