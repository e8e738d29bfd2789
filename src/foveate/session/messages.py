"""What each message of a `hybrid` session became in a context, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from foveate.errors import InputError
from foveate.history.sizes import Infos
from foveate.session.context import given_settings
from foveate.session.values import Context
from foveate.settings import make_strategy
from foveate.strategy.hybrid.report import MessageReport, message_reports
from foveate.strategy.hybrid.state import HybridState
from foveate.worker.artefacts import unpack_made

if TYPE_CHECKING:
    from foveate.session import Session
    from foveate.strategy.hybrid import Hybrid

__all__ = ["MessageReport", "report_messages"]

STRATEGY = "hybrid"
MAX_TURNS = 2_000
"""Newest turns whose messages are reported; the strategy shows older ones by a sentence or in an era."""


async def report_messages(session: Session, context: Context) -> list[MessageReport]:
    """Report on each message of a context, oldest first."""
    info = await session.refresh()
    if context.planned.strategy != STRATEGY:
        raise InputError(
            f"{session.id} uses {context.planned.strategy}, which shortens turns, not messages; its levels are in "
            f"`context.segments`. A report of messages needs the {STRATEGY} strategy"
        )
    engine = session.engine
    settings = engine.shared.settings
    given = given_settings(engine.row, settings) if info.strategy == STRATEGY else None
    strategy = cast("Hybrid", make_strategy(STRATEGY, settings, given))
    last, first = engine.row.last_turn, max(1, engine.row.last_turn - MAX_TURNS + 1)
    infos = await Infos().renewed(engine.store, engine.stored_id, last_turn=last, is_open=engine.row.is_open)
    if first < infos.first:
        infos = await infos.reaching(engine.store, engine.stored_id, first)
    kept = await engine.contexts.driver.state(STRATEGY)
    is_live = context.budget_tokens == info.budget_tokens and info.strategy == STRATEGY
    state = HybridState.from_json(kept) if kept and is_live else HybridState()
    made = {row.name: unpack_made(row) for row in await engine.store.artefacts.made(engine.stored_id, STRATEGY)}
    return message_reports(strategy, infos.between(first, last), context.planned.rows, state, made)
