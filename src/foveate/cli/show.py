"""`foveate show`: print a turn, a range of turns, or a session's outline."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import click

from foveate.additions import as_typed, typed_only
from foveate.cli.ui.answers import Answer, each, store_command
from foveate.cli.ui.terminal import (
    Column,
    cut_middle,
    line,
    moment,
    print_exactly,
    print_json,
    print_table,
    shorten,
    to_copy,
)
from foveate.errors import TurnNotFound
from foveate.text import amount, compact_json, several, turn_text
from foveate.turn import Attachment, Opaque, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from rich.console import Console

    from foveate.session.values import TurnOutline
    from foveate.sync import Session
    from foveate.turn import Json, Message, Part, Turn

COLUMNS = (
    Column("turn"),
    Column("when", expendable=1),
    Column("tokens", "number"),
    Column("calls", "number"),
    Column("prompt", "cut"),
)
LIST_LIMIT = 30
MAX_PROMPT_CHARS = 200
MAX_RECORD_CHARS = 100
MAX_NAME_CHARS = 40
STYLES = {"user": "bold cyan", "assistant": "bold green", "system": "dim", "developer": "dim", "tool": "magenta"}


@store_command("show", "Read a turn, a range, or a session's outline.")
@click.argument("first", metavar="[TURN]", required=False)
@click.argument("last", metavar="[LAST]", required=False)
@click.option("--plain", is_flag=True, help="Print only the text, as a model would get it.")
@click.option("--messages", "format_name", metavar="FORMAT", help="Print messages: openai, anthropic, gemini, …")
@click.option(
    "--message", "position", type=click.IntRange(min=0), metavar="N", help="Only message N of the turn, from 0."
)
@click.option("--topic", metavar="TOPIC", help="Only the turns of a topic, given by id, title or keyword.")
@click.option("--full", is_flag=True, help="Don't cut long tool output.")
def command(
    session: Session,
    *,
    session_id: str,
    first: str | None,
    last: str | None,
    plain: bool,
    format_name: str | None,
    position: int | None,
    topic: str | None,
    full: bool,
    as_json: bool,
) -> Answer:
    """Read a session: its outline, one turn, or a range of turns.

    \b
    foveate show demo                              outline of the newest turns
    foveate show demo T-7                          one turn
    foveate show demo T-7 T-9 --plain
    foveate show demo T-7 --messages anthropic     ready to send
    foveate show demo T-7 --message 3              one message, as it was recorded
    foveate show demo --topic backups              all turns on a topic that 'foveate knowledge learn' found
    """
    if first is None and not (plain or format_name or topic):
        return _outline(session, as_json=as_json)
    if topic:
        turns = _on_topic(session, topic, first)
    elif last is None and first is not None:
        turns = [session.load_turn(first)]
    else:
        turns = session.load_turns(first or 1, last)
    if first is not None and not turns:
        raise TurnNotFound(session_id, f"{first} to {last}", session.info.turns)
    if position is not None:
        turns = [_only(turns, position)]
    if format_name:
        from foveate.session.export import render_turns

        messages = render_turns(format_name, turns)
        return Answer(messages, lambda _: print_json(messages))
    if plain:
        texts = {turn.id: turn_text(turn.messages) for turn in turns}
        value = [{"turn_id": turn_id, "text": text} for turn_id, text in texts.items()]
        return Answer(value, each(texts.values(), lambda _, text: print_exactly(text)))
    return Answer(turns, each(turns, partial(print_turn, full=full)))


def _on_topic(session: Session, topic: str, first: str | None) -> list[Turn]:
    if first is not None:
        raise click.UsageError("--topic applies to a whole session: foveate show SESSION --topic TOPIC")
    found = session.get_turns_by_topic(topic, "R")
    if not found.is_exact:
        rest = "these turns were found by a search" if found else "a search for it finds nothing"
        click.echo(f"no topic {topic!r} was learned; {rest}", err=True)
    return [session.load_turn(content.turn_id) for content in found]


def _only(turns: list[Turn], position: int) -> Turn:
    """Return the only turn, reduced to one message."""
    from dataclasses import replace

    if len(turns) != 1:
        raise click.UsageError("--message applies to a single turn: foveate show SESSION T-7 --message 3")
    (turn,) = turns
    if position >= len(turn.messages):
        raise click.UsageError(f"{turn.id} has messages 0 to {len(turn.messages) - 1}; there is no {position}")
    return replace(turn, messages=turn.messages[position : position + 1])


def _outline(session: Session, *, as_json: bool) -> Answer:
    info = session.info
    turns = session.outline(1 if as_json else max(1, info.turns - LIST_LIMIT + 1))
    rows = []
    for turn in () if as_json else turns:
        prompt = _removal(turn) or _prompt(session.load_turn(turn.number))
        rows.append((turn.id, moment(turn.started_at), amount(turn.tokens), str(turn.tool_calls or ""), prompt))

    def show(out: Console) -> None:
        out.print(line((info.title or info.id, "bold"), f"  {several(info.turns, 'turn')}, counted by {info.counter}"))
        if rows:
            print_table(out, COLUMNS, rows)
        if info.turns > LIST_LIMIT:
            others = f"'{to_copy('show', info.id, 'T-1', 'T-20')}' reads others"
            out.print(line((f"the newest {LIST_LIMIT} of {info.turns}; {others}", "dim")))

    return Answer({"session": info, "turns": turns}, show)


def _removal(turn: TurnOutline) -> str:
    if turn.is_pruned and turn.erased_at:
        return f"(erased on {turn.erased_at:%Y-%m-%d})"
    return "(pruned)" if turn.is_pruned else ""


def _prompt(turn: Turn) -> str:
    opening = next((message for message in turn.messages if message.opens_turn), turn.messages[0])
    return shorten(as_typed(typed_only(opening.text)), MAX_PROMPT_CHARS)


def print_turn(out: Console, turn: Turn, *, full: bool) -> None:
    from rich.rule import Rule

    out.print(Rule(f"{turn.id}  {moment(turn.at)}  {several(turn.tokens, 'token')}", align="left", style="dim"))
    hidden: list[str] = []
    for message in turn.messages:
        if not _has_text(message):
            hidden.append(_record_name(message))
        elif message.kind == "display":
            text = shorten(message.text, MAX_RECORD_CHARS)
            out.print(line((f"  ({_record_name(message)}) {text}", "dim")))
        else:
            _show_message(out, message, full=full)
    if hidden:
        kinds = ", ".join(dict.fromkeys(hidden))
        note = f"{several(len(hidden), 'record')} without text not shown: {kinds}; 'foveate show --json' shows all"
        out.print(line((f"  ({note})", "dim")))


def _has_text(message: Message) -> bool:
    """Report whether a message has anything to read; display records count only if they have text."""
    if message.kind == "display":
        return bool(message.text.strip())
    return any(map(_is_readable, message.parts))


def _is_readable(part: Part) -> bool:
    """Report whether a part is readable; encrypted reasoning and empty text are not."""
    return bool(part.text.strip()) if isinstance(part, Text | Reasoning) else True


def _record_name(message: Message) -> str:
    """Return the record's type (`ai-title`, `turn_duration`), or the role of an empty message."""
    if message.kind != "display":
        return f"reasoning of the {message.role}" if message.parts else f"empty {message.role}"
    if message.original is None or not isinstance(message.original.data, Mapping):
        return message.role
    data = message.original.data
    name = _string(data.get("payload"), "type") or _string(data, "subtype") or _string(data, "type")
    return shorten(name or message.original.format, MAX_NAME_CHARS)


def _string(data: Json, key: str) -> str:
    value = data.get(key) if isinstance(data, Mapping) else None
    return value if isinstance(value, str) else ""


def _show_message(out: Console, message: Message, *, full: bool) -> None:
    if message.role != "tool":
        note = " (injected)" if message.kind == "injection" else ""
        out.print(line((f"{message.name or message.role}{note}", STYLES[message.role])))
    for part in filter(_is_readable, message.parts):
        _show_part(out, part, full=full)
    out.print()


def _show_part(out: Console, part: Part, *, full: bool) -> None:
    from rich.padding import Padding

    match part:
        case Text(text):
            out.print(line(as_typed(text)))
        case Reasoning(text):
            out.print(line((text, "italic dim")))
        case ToolCall(name, arguments):
            out.print(
                line(("→ ", "magenta"), (name, "bold magenta"), f" {cut_middle(compact_json(arguments), full=full)}")
            )
        case ToolResult(name=name, content=content, is_error=is_error, exit_code=code):
            outcome = f" exit {code}" if code is not None else (" error" if is_error else "")
            out.print(line((f"← {name or 'result'}{outcome}", "red" if is_error or code else "magenta")))
            for inner in content:
                text = inner.text if isinstance(inner, Text) else _reference(inner, full=full)
                out.print(Padding(line((cut_middle(text, full=full), "dim")), (0, 0, 0, 2)))
        case Attachment() | Opaque():
            out.print(line((_reference(part, full=full), "yellow")))


def _reference(part: Attachment | Opaque, *, full: bool) -> str:
    """Return a placeholder for content that a terminal can't show."""
    if isinstance(part, Attachment):
        return f"[{part.media}: {shorten(part.name or part.uri or part.file_id or 'inline', MAX_PROMPT_CHARS)}]"
    data = compact_json(part.data)
    return f"[{_string(part.data, 'type') or part.format}] {data if full else shorten(data, MAX_PROMPT_CHARS)}"
