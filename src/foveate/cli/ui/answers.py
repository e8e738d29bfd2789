"""Base of commands that return an answer: opens the store, adds `--db` and `--json`, and prints the result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from foveate.cli.ui.options import DEFAULT_STORE, json_option, opened, refuse_options_before, store_file, store_option
from foveate.cli.ui.terminal import STORE_KEY, Column, console, line, print_json, print_table, progress_bar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

V = TypeVar("V")
Cells: TypeAlias = "Mapping[Column, Callable[[V], str | Text]]"
"""The columns of a table, each with the function that returns its cell for a value."""
SHARED = ("fov", "session", "session_id", "progress", "store_path", "as_json")
"""Arguments that are passed only to functions with parameters of these names."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command: a value for programs, and a text for people."""

    value: object
    """Printed with `--json`."""
    shown: str | Callable[[Console], object]
    """A sentence, or a function that prints, called after the store is closed and not with `--json`."""
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
    """Return an answer that prints values as a table, or the sentence `empty` if there are none."""
    return Answer(found, empty if empty and not found else lambda out: print_values(out, cells, found))


def each(found: Iterable[V], show: Callable[[Console, V], object]) -> Callable[[Console], None]:
    """Return a function that prints the values one after another."""

    def print_all(out: Console) -> None:
        for value in found:
            show(out, value)

    return print_all


def print_values(out: Console, cells: Cells[V], found: Sequence[V]) -> None:
    print_table(out, tuple(cells), [[cell(value) for cell in cells.values()] for value in found])


class StoreCommand(click.Command):
    """A command whose function returns an `Answer`, or None if it has printed everything itself.

    The names of the function's parameters select what it gets in addition to its own options: `fov` the open store,
    `session` the session that the argument SESSION names, `progress` a progress bar that is hidden with --json, and
    `store_path`, `session_id` and `as_json` the values of these options. An async function gets the async store. Only
    commands with `create=True` create a missing store; `store` is another default than `DEFAULT_STORE`.
    """

    def __init__(
        self,
        name: str | None,
        *,
        callback: Callable[..., Any],
        create: bool = False,
        store: Path = DEFAULT_STORE,
        **attributes: Any,
    ) -> None:
        runner = _Runner(callback, create=create)
        super().__init__(name, callback=runner, **attributes)
        runner.add_parameters(self, store)


LoadCommand = Callable[[click.Context, str], click.Command | None]


class StoreGroup(click.Group):
    """A group of store commands; with `invoke_without_command` it is also a store command."""

    command_class = StoreCommand

    def __init__(self, name: str | None = None, *, callback: Callable[..., Any], **attributes: Any) -> None:
        runner = _Runner(callback) if attributes.get("invoke_without_command") else None
        super().__init__(name, callback=runner or callback, **attributes)
        self._nested: tuple[str, ...] = ()
        self._load: LoadCommand = super().get_command
        if runner:
            runner.add_parameters(self)

    def nest(self, names: tuple[str, ...], load: LoadCommand) -> None:
        """Add commands that are loaded when they are used."""
        self._nested, self._load = names, load

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted((*super().list_commands(ctx), *self._nested))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._load(ctx, cmd_name) if cmd_name in self._nested else super().get_command(ctx, cmd_name)


def store_command(
    name: str, short_help: str, *, create: bool = False, store: Path = DEFAULT_STORE
) -> Callable[[Callable[..., Any]], StoreCommand]:
    return click.command(name, cls=StoreCommand, short_help=short_help, create=create, store=store)


def store_group(name: str, short_help: str, **attributes: Any) -> Callable[[Callable[..., Any]], StoreGroup]:
    return click.group(name, cls=StoreGroup, short_help=short_help, **attributes)


def _is_given(context: click.Context) -> bool:
    """Return whether a command's store was named by `--db`, before or after the command."""
    source = context.get_parameter_source("store_path")
    return source is ParameterSource.COMMANDLINE or (source is not None and bool(context.find_root().params.get("db")))


class _Runner:
    """Calls a command's function with the arguments that it has parameters for, and prints its answer."""

    def __init__(self, function: Callable[..., Any], *, create: bool = False) -> None:
        self._function = function
        self._parameters = inspect.signature(function).parameters.keys()
        self._create = create

    def add_parameters(self, command: click.Command, store: Path = DEFAULT_STORE) -> None:
        """Add SESSION as the first parameter, and `--db` and `--json` as the last, if used."""
        if "session" in self._parameters:
            command.params.insert(0, click.Argument(["session_id"], metavar="SESSION"))
        if self._parameters & {"fov", "session", "store_path"}:
            store_option(command, store)
        json_option(command)

    def __call__(self, **values: Any) -> None:
        context = click.get_current_context()
        if _is_given(context):
            context.meta[STORE_KEY] = str(values["store_path"])
        if context.invoked_subcommand:
            refuse_options_before(context, context.invoked_subcommand)
            return
        if inspect.iscoroutinefunction(self._function):
            import asyncio

            answer = asyncio.run(self._call_async(values))
        else:
            answer = self._call(values)
        if answer is not None:
            answer.print(as_json=values["as_json"])

    def _call(self, values: dict[str, Any]) -> Answer | None:
        with ExitStack() as stack:
            if self._parameters & {"fov", "session"}:
                values["fov"] = fov = stack.enter_context(opened(values["store_path"], create=self._create))
                values["session"] = fov.find_session(values["session_id"]) if "session" in self._parameters else None
            answer: Answer | None = self._function(**self._arguments(values, stack))
            return answer

    async def _call_async(self, values: dict[str, Any]) -> Answer | None:
        import foveate

        async with foveate.open(store_file(values["store_path"], create=self._create)) as fov:
            values["fov"] = fov
            values["session"] = await fov.find_session(values["session_id"]) if "session" in self._parameters else None
            with ExitStack() as stack:
                answer: Answer | None = await self._function(**self._arguments(values, stack))
                return answer

    def _arguments(self, values: dict[str, Any], stack: ExitStack) -> dict[str, Any]:
        """Return the function's own options, and the shared arguments that it has parameters for."""
        if "progress" in self._parameters:
            values["progress"] = stack.enter_context(progress_bar(shown=not values["as_json"]))
        return {name: value for name, value in values.items() if name in self._parameters or name not in SHARED}
