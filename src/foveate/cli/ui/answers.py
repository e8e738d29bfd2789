"""Commands that return an answer: one place opens the store, adds `--db` and `--json`, and prints the result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from foveate.cli.ui.options import json_option, opened, refuse_options_before, store_file, store_option
from foveate.cli.ui.terminal import Column, console, line, print_json, print_table, progress_bar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

V = TypeVar("V")
Cells: TypeAlias = "Mapping[Column, Callable[[V], str | Text]]"
"""The columns of a table, each with the function that makes its cell from a value."""
SHARED = ("fov", "session", "session_id", "progress", "store_path", "as_json")
"""Arguments that are passed only to a function that has parameters of these names."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found: a value for programs, and what people read."""

    value: object
    """Printed with `--json`."""
    shown: str | Callable[[Console], object]
    """A sentence, or a function that prints; it runs only if the text is printed, after the store is closed."""
    exit_code: int = 0

    def print(self, *, as_json: bool) -> None:
        if as_json:
            print_json(self.value)
        elif callable(self.shown):
            self.shown(console())
        else:
            console().print(line(self.shown), soft_wrap=True)
        if self.exit_code:
            raise click.exceptions.Exit(self.exit_code)


def listing(found: Sequence[V], cells: Cells[V], *, empty: str = "") -> Answer:
    """Values as a table; if there are none, this sentence instead."""
    return Answer(found, empty if empty and not found else lambda out: print_values(out, cells, found))


def each(found: Iterable[V], show: Callable[[Console, V], object]) -> Callable[[Console], None]:
    """A function that prints one value after the other."""

    def print_all(out: Console) -> None:
        for value in found:
            show(out, value)

    return print_all


def print_values(out: Console, cells: Cells[V], found: Sequence[V]) -> None:
    print_table(out, tuple(cells), [[cell(value) for cell in cells.values()] for value in found])


class StoreCommand(click.Command):
    """A command whose function returns an `Answer`, or None if it has printed everything itself.

    The names of the function's parameters say what it gets besides its own options: `fov` the open store, `session`
    the session that the argument SESSION names, `progress` a progress bar that is hidden with --json, and `store_path`,
    `session_id` and `as_json` the values of these options. An async function gets the async store. Only commands with
    `create=True` make a store that does not exist.
    """

    def __init__(
        self, name: str | None, *, callback: Callable[..., Any], create: bool = False, **attributes: Any
    ) -> None:
        runner = _Runner(callback, create=create)
        super().__init__(name, callback=runner, **attributes)
        runner.add_parameters(self)


class StoreGroup(click.Group):
    """A group of such commands; with `invoke_without_command` it is one itself."""

    command_class = StoreCommand

    def __init__(self, name: str | None = None, *, callback: Callable[..., Any], **attributes: Any) -> None:
        runner = _Runner(callback) if attributes.get("invoke_without_command") else None
        super().__init__(name, callback=runner or callback, **attributes)
        if runner:
            runner.add_parameters(self)


def store_command(name: str, short_help: str, *, create: bool = False) -> Callable[[Callable[..., Any]], StoreCommand]:
    return click.command(name, cls=StoreCommand, short_help=short_help, create=create)


def store_group(name: str, short_help: str, **attributes: Any) -> Callable[[Callable[..., Any]], StoreGroup]:
    return click.group(name, cls=StoreGroup, short_help=short_help, **attributes)


class _Runner:
    """Calls a command's function with what it asks for, and prints its answer."""

    def __init__(self, function: Callable[..., Any], *, create: bool = False) -> None:
        self._function = function
        self._wanted = inspect.signature(function).parameters.keys()
        self._create = create

    def add_parameters(self, command: click.Command) -> None:
        """SESSION first, `--db` and `--json` last, as far as they are used."""
        if "session" in self._wanted:
            command.params.insert(0, click.Argument(["session_id"], metavar="SESSION"))
        if self._wanted & {"fov", "session", "store_path"}:
            store_option(command)
        json_option(command)

    def __call__(self, **given: Any) -> None:
        context = click.get_current_context()
        if context.invoked_subcommand:
            refuse_options_before(context, context.invoked_subcommand)
            return
        if inspect.iscoroutinefunction(self._function):
            import asyncio

            answer = asyncio.run(self._awaited(given))
        else:
            answer = self._returned(given)
        if answer is not None:
            answer.print(as_json=given["as_json"])

    def _returned(self, given: dict[str, Any]) -> Answer | None:
        with ExitStack() as stack:
            if self._wanted & {"fov", "session"}:
                given["fov"] = fov = stack.enter_context(opened(given["store_path"], create=self._create))
                given["session"] = fov.find_session(given["session_id"]) if "session" in self._wanted else None
            answer: Answer | None = self._function(**self._asked(given, stack))
            return answer

    async def _awaited(self, given: dict[str, Any]) -> Answer | None:
        import foveate

        async with foveate.open(store_file(given["store_path"], create=self._create)) as fov:
            given["fov"] = fov
            given["session"] = await fov.find_session(given["session_id"]) if "session" in self._wanted else None
            with ExitStack() as stack:
                answer: Answer | None = await self._function(**self._asked(given, stack))
                return answer

    def _asked(self, given: dict[str, Any], stack: ExitStack) -> dict[str, Any]:
        """The function's own options, and of what all commands share that which it has parameters for."""
        if "progress" in self._wanted:
            given["progress"] = stack.enter_context(progress_bar(shown=not given["as_json"]))
        return {name: value for name, value in given.items() if name in self._wanted or name not in SHARED}
