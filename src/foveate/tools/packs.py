"""Packs: named lists of tools. The user's packs are in the settings (`tools.packs`) and may include other packs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from foveate.context.tools import HISTORY_TOOLS
from foveate.errors import InputError
from foveate.tools import registry
from foveate.tools.cabinet import CABINET_TOOLS

PACKS: Final[Mapping[str, Sequence[str]]] = {
    "core-codex": (
        "read_file", "list_dir", "grep", "file_search", "apply_patch", "exec", "update_plan", "view_image",
        "write_from_cabinet",
    ),
    "anthropic-standard": ("read_file", "write_file", "edit_file", "exec", "grep", "write_from_cabinet"),
    "file-ops": ("read_file", "list_dir", "grep", "file_search", "apply_patch", "write_file", "edit_file",
                 "view_image", "write_from_cabinet"),
    "research": ("read_file", "list_dir", "grep", "file_search", "view_image", "web_search", "fetch_url"),
    "agents": ("call_agent", "spawn_agent", "wait_agent", "cancel_agent"),
}  # fmt: skip


def pack_names(own: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the names of all packs, including the user's."""
    return tuple(sorted({*PACKS, *own, "all"}))


def tools_of(pack: str, own: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the sorted names of a pack's tools, including history tools and `read_cabinet`.

    `InputError` for an unknown pack or tool, or a cycle.
    """
    return tuple(sorted({*HISTORY_TOOLS, *CABINET_TOOLS, *_expand(pack, own, ())}))


def _expand(pack: str, own: Mapping[str, Sequence[str]], above: tuple[str, ...]) -> set[str]:
    if pack in above:
        raise InputError(f"the pack {pack!r} includes itself: {' → '.join((*above, pack))}")
    if pack == "all":
        return set(registry.usable_names())
    members = own.get(pack) or PACKS.get(pack)
    if members is None:
        raise InputError(f"there is no pack {pack!r}; available: {', '.join(pack_names(own))}")
    found: set[str] = set()
    for member in members:
        if member in own or member in PACKS or member == "all":
            found |= _expand(member, own, (*above, pack))
        else:
            found.add(registry.find(member).name)
    return found
