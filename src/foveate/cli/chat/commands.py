"""The slash commands of `foveate chat`, one small function each."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from foveate.cli.chat.room import Leave, Room
from foveate.cli.ui.answers import print_values
from foveate.cli.ui.options import read_tokens
from foveate.cli.ui.terminal import line, timeline_width, to_copy
from foveate.errors import InputError, PinLocked
from foveate.renditions import LEVELS, Level
from foveate.turn import turn_id, turn_number

FORCE = "--force"
OLD_FORCE = "--even-if-locked"
SOME_RESULTS = 10
MIN_SIMILARITY = 0.7
"""Similarity from which a mistyped name is suggested as a command."""


@dataclass(frozen=True, slots=True)
class Command:
    usage: str
    """The arguments, as /help shows them."""
    help: str
    run: Callable[[Room, str], Awaitable[None]]


async def run(room: Room, text: str) -> None:
    """Run the command of a line that begins with a slash."""
    name, rest = [*text[1:].split(maxsplit=1), "", ""][:2]
    command = COMMANDS.get(name.lower())
    if command is None:
        near = difflib.get_close_matches(name.lower(), COMMANDS, n=1, cutoff=MIN_SIMILARITY)
        suggestion = f"did you mean /{near[0]}?" if near else "/help lists them."
        raise InputError(f"there is no command /{name}; {suggestion} (//{name} sends it to the model)")
    await command.run(room, rest.strip())


def _words(text: str, name: str, most: int = 1) -> list[str]:
    """Split a command's arguments as a shell does."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"/{name} {text}: a quote is not closed; put a backslash before it") from error
    if len(words) > most:
        raise InputError(f"usage: /{name} {COMMANDS[name].usage}; quote arguments with spaces")
    return words


def _word(text: str, name: str) -> str:
    """Return a command's only argument, or an empty string."""
    return next(iter(_words(text, name)), "")


async def _help(room: Room, _: str) -> None:
    width = max(len(f"/{name} {command.usage}") for name, command in COMMANDS.items())
    for name, command in COMMANDS.items():
        room.notes.print(line((f"  /{name} {command.usage}".ljust(width + 4), "bold"), command.help))
    room.notes.print(
        line(
            "\nA line that ends in \\ continues on the next; ",
            ('"""', "bold"),
            " begins and ends a text of several lines; // sends a slash. Ctrl-C stops an answer, Ctrl-D quits.",
        )
    )


async def _context(room: Room, _: str) -> None:
    from foveate.cli.ui.picture import draw

    context = await room.chat.context()
    picture = await room.session.picture(context, columns=timeline_width(room.notes.width))
    draw(room.notes, context, picture, one_off=False, call=to_copy("context", room.session.id))


async def _pin(room: Room, text: str) -> None:
    if not text:
        raise InputError("no text to pin, e.g. /pin Answer in French.")
    made = await room.session.pin(text)
    room.notes.print(line(f"Pinned as {made.id}; included in every context. /unpin {made.id} removes it."))


async def _pins(room: Room, _: str) -> None:
    from foveate.cli.pin import CELLS

    if pins := await room.session.pins():
        print_values(room.notes, CELLS, pins)
    else:
        room.notes.print("No pins. /pin TEXT makes one.")


async def _unpin(room: Room, text: str) -> None:
    words = [word for word in _words(text, "unpin", most=2) if word not in (FORCE, OLD_FORCE)]
    if len(words) != 1:
        raise InputError(f"name the pin, e.g. /unpin P-1 (or /unpin P-1 {FORCE})")
    try:
        await room.session.unpin(words[0], even_if_locked=FORCE in text or OLD_FORCE in text)
    except PinLocked as error:
        raise InputError(f"{error}; /unpin {words[0]} {FORCE} removes it") from error
    room.notes.print(line(f"Removed {words[0]}."))


async def _levels(room: Room, text: str) -> None:
    from foveate.cli.levels import print_levels

    turn = await _turn(room, _word(text, "levels"))
    raw = await room.session.get_turn(turn, "R", format="plain")
    others = [await room.session.get_turn(turn, level, "plain") for level in raw.available_levels if level != "R"]
    print_levels(room.notes, [raw, *others], full=False)
    if not others:
        room.notes.print(line(("The other levels are made in the background, once the turn has ended.", "dim")))


async def _show(room: Room, text: str) -> None:
    from foveate.cli.show import print_turn

    words = _words(text, "show", most=2)
    if len(words) == 1 and words[0].upper() in LEVELS:
        words.insert(0, "")
    turn = await _turn(room, words[0] if words else "")
    if len(words) > 1:
        content = await room.session.get_turn(turn, cast(Level, words[1].upper()), format="plain")
        room.notes.print(line((f"{content.turn_id}-{content.level}, {content.tokens:,} tokens", "dim")))
        room.notes.print(line(content.content.rstrip("\n")))
    else:
        print_turn(room.notes, await room.session.load_turn(turn), full=False)


async def _search(room: Room, words: str) -> None:
    from foveate.cli.search import print_found

    if not words:
        raise InputError("no words to search for, e.g. /search storage port")
    print_found(room.notes, await room.session.search(words, SOME_RESULTS), words)


async def _board(room: Room, text: str) -> None:
    from foveate.cli.board import print_board

    action, _, name = text.partition(" ")
    if action and (action not in ("save", "dismiss") or not name.strip()):
        raise InputError("usage: /board, /board save NAME or /board dismiss NAME")
    if action:
        board = await room.session.board()
        names = [entry.name for entry in board.retrieved] + [note.key for note in board.notes]
        if name.strip() not in names:
            raise InputError(f"{name.strip()} is not on the board; available: {', '.join(names) or 'nothing'}")
        await (room.session.save if action == "save" else room.session.dismiss)(name.strip())
    print_board(room.notes, await room.session.board(), room.session.info.turns)


async def _fork(room: Room, text: str) -> None:
    parent = room.session
    forked = await parent.fork(_word(text, "fork") or await room.new_id(f"{parent.id}-fork"))
    await room.enter(forked.id, room.chat.models[0])
    room.notes.print(
        line((forked.id, "bold"), f" shares everything so far; {parent.id} stays unchanged. You are now in the fork.")
    )


async def _budget(room: Room, text: str) -> None:
    info = room.session.info
    if not text:
        room.notes.print(line(f"The budget is {info.budget_tokens:,} tokens. /budget N changes it."))
        return
    tokens = read_tokens(text)
    await room.enter(info.id, room.chat.models[0], budget_tokens=tokens)
    context = await room.chat.context()
    room.notes.print(line(f"The budget is now {tokens:,} tokens, {context.tokens:,} of them in use."))


async def _model(room: Room, text: str) -> None:
    name = _word(text, "model")
    if not name:
        room.notes.print(line(f"The model is {room.chat.models[0]}. /model NAME changes it."))
        return
    await room.enter(room.session.id, name)
    info = room.session.info
    room.notes.print(line((name, "bold"), f" answers from now on; its tokens are counted as {info.counter}."))


async def _tools(room: Room, text: str) -> None:
    from foveate.agents.toolboxes import read_packs

    if text:
        await room.switch_packs(() if text == "none" else read_packs(text))
    toolbox = room.chat.toolbox
    if toolbox is None:
        history = "can read and search old turns" if room.chat.has_tools else "has no tools"
        room.notes.print(line(f"The model {history}. /tools PACK adds tools, e.g. /tools core-codex."))
        return
    for tool in toolbox.tools.values():
        asks = {"never": "", "ask": " (asks first)", "always": " (asks each time)"}[tool.approval]
        room.notes.print(line((f"  {tool.name}", "bold"), (asks, "yellow"), f"  {tool.description}"), soft_wrap=True)
    roots = ", ".join(map(str, toolbox.workspace.roots))
    room.notes.print(line((f"Confined to {roots}. /tools none removes them.", "dim")), soft_wrap=True)


async def _goal(room: Room, text: str) -> None:
    action, _, rest = text.partition(" ")
    goals = room.session.goals
    if action == "done" and rest.strip():
        goal = await goals.done(rest.strip())
        room.notes.print(line(f"{goal.id} is done."))
    elif text:
        goal = await goals.add(text)
        room.notes.print(line((goal.id, "bold"), f" added. /goal done {goal.id} marks it as done."))
        if not room.session.shows_goals:
            room.notes.print(line((f"{room.session.info.strategy} does not show goals to the model.", "yellow")))
    elif found := await goals.list():
        for goal in found:
            room.notes.print(line((goal.id, "bold"), f" {goal.title} ({goal.status})"))
    else:
        room.notes.print("No goals. /goal TITLE adds one.")


async def _seal(room: Room, _: str) -> None:
    topic = await room.session.topics.seal_current_topic()
    room.notes.print(line(("Sealed ", "green"), (topic.id, "bold"), f" {topic.first} to {topic.last}: {topic.summary}"))


async def _cost(room: Room, _: str) -> None:
    from foveate.cli.stats import Bill, print_bill

    fov = room.fov
    print_bill(room.notes, Bill(await fov.costs(), room.session.id, await fov.providers(), fov.settings.models))


async def _retry(room: Room, _: str) -> None:
    await room.show(room.chat.answer())


async def _quit(_room: Room, _: str) -> None:
    raise Leave


async def _turn(room: Room, text: str) -> str:
    """Return the named turn, or the newest."""
    if text:
        number = turn_number(text)
        return turn_id(number) if number else text
    turns = (await room.session.refresh()).turns
    if not turns:
        raise InputError("there are no turns yet")
    return turn_id(turns)


COMMANDS: dict[str, Command] = {
    "help": Command("", "this list", _help),
    "context": Command("", "what the model sees: which turns at which level, and their tokens", _context),
    "pin": Command("TEXT", "include a rule or fact in every context, verbatim", _pin),
    "pins": Command("", "list the pins", _pins),
    "unpin": Command("P-n [--force]", "remove a pin; --force if it is locked", _unpin),
    "show": Command("[T-n] [R|S|C|T]", "read a turn, by default the newest; optionally at a level", _show),
    "levels": Command("[T-n]", "a turn at its four levels, with their sizes", _levels),
    "search": Command("WORDS", "find turns by their words", _search),
    "board": Command("[save|dismiss NAME]", "what the model retrieved and still sees", _board),
    "fork": Command("[NAME]", "continue in a copy from here; this session stays unchanged", _fork),
    "budget": Command("[N]", "limit of a prompt in tokens, e.g. 8k", _budget),
    "model": Command("[NAME]", "the model that answers, e.g. openai:gpt-5-mini or local", _model),
    "tools": Command("[PACK|none]", "the model's tools, e.g. /tools core-codex for those of a pack", _tools),
    "goal": Command("[TITLE|done G-n]", "list the goals, add one, or mark one as done", _goal),
    "seal": Command("", "end the current topic (strategy topics)", _seal),
    "cost": Command("", "model calls of this session and their cost", _cost),
    "retry": Command("", "ask again for a prompt that has no answer", _retry),
    "quit": Command("", "quit; everything is kept", _quit),
}
