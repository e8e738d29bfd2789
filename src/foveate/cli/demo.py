"""`foveate demo`: record and compress a sample conversation, and show its live context."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foveate.cli.ui.answers import Answer, store_command
from foveate.cli.ui.options import DEFAULT_STORE
from foveate.cli.ui.terminal import Column, line, print_pairs, print_table, timeline_width, to_copy
from foveate.text import amount

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

    from foveate.demo import DemoConversation, PlantedFact
    from foveate.replay.replay import ReplayReport
    from foveate.session.picture import Picture
    from foveate.session.values import Context, SessionStats
    from foveate.sync import Foveate, Session

COLUMNS = (Column("mentioned once", "fold"), Column("in"), Column("asked later", "cut"), Column("shown as"))
DEMO_STORE = DEFAULT_STORE.with_name("demo.db")
FACTS_SHOWN = 6
BUDGET_TOKENS = 16_000
REPLAYED_TURNS = 300
RECORD_KEY = "demo-42-300"
"""Prefix of the idempotency keys: recording the same turns again adds nothing."""
AROUND_CHARS = 140


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The recorded conversation, its context, and which facts were found again."""

    session_id: str
    conversation: DemoConversation
    stats: SessionStats
    context: Context
    picture: Picture
    kept: dict[str, bool]
    """Whether each fact can be read back from its turn, by fact id."""
    found_again: str
    """The raw turn of a fact that is missing from the context."""
    replayed: ReplayReport | None

    @property
    def in_context(self) -> list[PlantedFact]:
        return [fact for fact in self.conversation.facts if fact.needle in self.context.text]


@store_command("demo", "Record a sample conversation and show its live context.", create=True, store=DEMO_STORE)
@click.option("--turns", default=300, show_default=True, type=click.IntRange(1, 300), help="Number of turns to record.")
@click.option("--session", "session_id", default="demo", show_default=True, metavar="ID", help="The session's id.")
@click.option("--replay/--no-replay", default=True, help="Also replay it, to measure what stays cached.")
def command(fov: Foveate, progress: Progress, *, turns: int, session_id: str, replay: bool, store_path: Path) -> Answer:
    """Record a conversation of 300 turns in a session of 16,000 tokens, compress it, and show its live context.

    The conversation is made up, with planted facts, decisions, tool calls and errors. It has a store of its own, so
    that searches in yours don't find it, unless $FOVEATE_DB names yours. Running it again adds nothing.

    \b
    foveate demo
    foveate --db ~/.foveate/demo.db context demo                   the live context again
    foveate --db ~/.foveate/demo.db context demo --budget 8000     a preview
    foveate --db ~/.foveate/demo.db sessions levels demo T-87
    """
    from foveate.demo import load_conversation

    conversation = load_conversation(turns)
    session = fov.session(session_id, title=conversation.title, platform="demo", budget_tokens=BUDGET_TOKENS)
    _record(progress, fov, session, conversation, RECORD_KEY)
    context = session.context()
    lost = _lost_fact(conversation, context)
    shown = DemoResult(
        session_id=session_id,
        conversation=conversation,
        stats=session.stats(),
        context=context,
        picture=session.picture(context, columns=timeline_width()),
        kept={fact.id: fact.needle in _raw(session, fact) for fact in conversation.facts},
        found_again=_raw(session, lost) if lost else "",
        replayed=_replay(progress, conversation) if replay else None,
    )
    return Answer(_as_json(shown), lambda out: _show(out, shown, store_path), 0 if all(shown.kept.values()) else 1)


def _record(progress: Progress, fov: Foveate, session: Session, conversation: DemoConversation, key: str) -> None:
    task = progress.add_task("recording", total=len(conversation.turns))
    for number, turn in enumerate(conversation.turns, 1):
        session.record(turn, key=f"{key}-{number}")
        progress.advance(task)
    task = progress.add_task("compressing", total=session.stats().pending)
    fov.settle(session_id=session.id, progress=partial(progress.advance, task))


def _replay(progress: Progress, conversation: DemoConversation) -> ReplayReport:
    """Replay the conversation, model call by model call."""
    import asyncio

    from foveate.replay.replay import replay
    from foveate.replay.script import prepare

    turns = conversation.turns[:REPLAYED_TURNS]
    task = progress.add_task("replaying", total=2 * len(turns))

    async def play() -> ReplayReport:
        advance = partial(progress.advance, task)
        return await replay(await prepare(turns, progress=advance), budget_tokens=BUDGET_TOKENS, progress=advance)

    return asyncio.run(play())


def _raw(session: Session, fact: PlantedFact) -> str:
    return session.get_turn(fact.turn, "R", format="plain").content


def _lost_fact(conversation: DemoConversation, context: Context) -> PlantedFact | None:
    """Return a fact that is missing from the context, preferably not one of the first turn."""
    lost = [fact for fact in conversation.facts if fact.needle not in context.text]
    return next((fact for fact in lost if fact.turn > 1), lost[0] if lost else None)


def _level_of(context: Context, turn: int) -> str:
    from foveate.session.picture import cells_of

    return next((cell.level for cell in cells_of(context.segments) if cell.first <= turn <= cell.last), "")


def _as_json(shown: DemoResult) -> dict[str, object]:
    from foveate.session.picture import bands_of

    return {
        "session": shown.session_id,
        "stats": shown.stats,
        "facts": len(shown.kept),
        "facts_kept": sum(shown.kept.values()),
        "facts_in_context": len(shown.in_context),
        "context_tokens": shown.context.tokens,
        "budget_tokens": shown.context.budget_tokens,
        "bands": bands_of(shown.context),
        "cached_share": shown.replayed and round(shown.replayed.cached_share, 4),
        "price": shown.replayed and round(shown.replayed.price, 4),
        "overruns": shown.replayed and shown.replayed.overruns,
    }


def _show(out: Console, shown: DemoResult, store_path: Path) -> None:
    from foveate.cli.ui.picture import draw

    stats = shown.stats
    out.print(line(("\n" + shown.conversation.title, "bold")))
    out.print(
        f"{stats.turns} turns, {stats.messages:,} messages, {stats.tool_calls} tool calls, "
        f"{amount(stats.tokens)} tokens, all kept; the live context at its own {BUDGET_TOKENS:,}:\n"
    )
    call = to_copy("context", shown.session_id)
    draw(out, shown.context, shown.picture, one_off=False, call=call)
    out.print()
    _show_facts(out, shown)
    _show_found(out, shown)
    _show_figures(out, shown)
    foveate = "foveate" if store_path == DEFAULT_STORE else f"foveate --db {store_path}"
    fact = shown.conversation.facts[0]
    calls = {
        f"{foveate} context {shown.session_id} --budget 8000": "a preview at half the budget",
        f"{foveate} sessions levels {shown.session_id} T-{fact.turn}": "a turn at its levels",
        f"{foveate} doctor": "verify every byte",
        "foveate connect claude": "the same for your coding agent",
        "foveate serve --upstream URL": "the same for any client, by changing its base URL",
    }
    width = max(map(len, calls)) + 2
    for call, note in calls.items():
        out.print(line((f"  {call:<{width}}", "bold"), (note, "dim")), soft_wrap=True)


def _show_facts(out: Console, shown: DemoResult) -> None:
    facts = shown.conversation.facts
    step = max(1, len(facts) // FACTS_SHOWN)
    rows: list[tuple[str | Text, ...]] = []
    for fact in facts[::step][:FACTS_SHOWN]:
        level = _level_of(shown.context, fact.turn)
        there = fact.needle in shown.context.text
        shown_as = line((f" {level} ", _style(level)), ("  in view", "green") if there else ("  get_turn", "dim"))
        rows.append((fact.answer, f"T-{fact.turn}", fact.question, shown_as))
    print_table(out, COLUMNS, rows)


def _show_found(out: Console, shown: DemoResult) -> None:
    fact = _lost_fact(shown.conversation, shown.context)
    if fact is None:
        return
    level = _level_of(shown.context, fact.turn)
    tag = next(part for part in shown.context.segments if part.last and (part.first or 0) <= fact.turn <= part.last)
    name = "an era" if level == "E" else "one line" if level == "T" else "a shortened text"
    opening = tag.text.partition(">")[0] + ">"
    rows = [
        ("asked", line(fact.question)),
        ("it sees", line((opening, _style(level)), f" in which T-{fact.turn} is part of {name}")),
        ("it calls", line((f'get_turn("T-{fact.turn}", "R")', "bold"))),
        ("it reads", line(*_around(shown.found_again, fact.needle))),
    ]
    out.print()
    print_pairs(out, rows)
    out.print()


def _around(text: str, needle: str) -> list[str | tuple[str, str]]:
    """Return the text around a needle, with the needle highlighted."""
    before, found, after = " ".join(text.split()).partition(needle)
    if not found:
        return [before[: 2 * AROUND_CHARS]]
    head = before if len(before) <= AROUND_CHARS else "…" + before[-AROUND_CHARS:].partition(" ")[2]
    tail = after if len(after) <= AROUND_CHARS else after[:AROUND_CHARS].rpartition(" ")[0] + "…"
    return [head, (found, "bold black on color(221)"), tail]


def _show_figures(out: Console, shown: DemoResult) -> None:
    total, kept = len(shown.kept), sum(shown.kept.values())
    times = shown.stats.tokens / max(1, shown.context.tokens)
    figures = [
        ("kept", f"{kept} of {total} planted facts read back verbatim."),
        ("in view", f"{len(shown.in_context)} of {total} are in the context itself; the others are one call away."),
        ("size", f"{shown.stats.tokens:,} tokens → {shown.context.tokens:,} ({times:.0f} times smaller)"),
    ]
    if shown.replayed:
        calls = f"{len(shown.replayed.calls):,} model calls at this budget"
        cached = f"{shown.replayed.cached_share:.0%} of all prompts cached"
        figures.append(("replayed", f"{calls}: {cached}, {shown.replayed.price:.2f} of the price."))
    print_pairs(out, figures)
    out.print()


def _style(level: str) -> str:
    from foveate.cli.ui.picture import STYLES

    return next((style for name, style in STYLES.items() if name == level), "")
