"""Prints the events of a run, as text or as JSON lines."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from foveate.agents.chat import AnswerPiece, ChatEvent, Notice, ToolRequest, ToolResponse
from foveate.agents.run import IterationEnd, IterationStart, RunEnd, RunEvent, RunStart, TaskUpdate
from foveate.agents.signals import REASONS, UPDATE
from foveate.cli.chat.flow import LineFlow, dollars, status
from foveate.cli.chat.room import outcome_of
from foveate.cli.ui.terminal import console, line, print_json_line, shorten, to_copy
from foveate.text import amount, compact_json

if TYPE_CHECKING:
    from foveate.agents.tasks import TaskList

CALL_CHARS = 100
STYLES = {"done": "bold green", "question": "bold yellow", "blocked": "bold red", "cap": "bold yellow"}
TITLES = {"done": "Done", "question": "Question", "blocked": "Blocked", "cap": "Limit reached"}


class RunView:
    """Shows the events of one run."""

    def __init__(self, session_id: str, *, as_json: bool) -> None:
        self._session_id = session_id
        self._as_json = as_json
        self._out = out = console()
        self._flow = LineFlow(self._write, lambda: out.width if out.is_terminal else None)
        self._spent_usd = 0.0
        self._tools: list[dict[str, object]] = []

    def introduce(self, model: str, budget_tokens: int) -> None:
        if not self._as_json:
            self._out.print(line((self._session_id, "bold"), f"  {model}, {budget_tokens:,} tokens"), soft_wrap=True)

    def show(self, event: RunEvent) -> None:
        match event:
            case RunStart(iterations, tasks):
                self._began(iterations, tasks)
            case IterationStart(iteration, is_again):
                self._note(f"── {iteration}{' (retry)' if is_again else ''} ──")
            case TaskUpdate(tasks):
                self._show_tasks(tasks)
            case IterationEnd():
                self._iteration_ended(event)
            case RunEnd():
                self._ended(event)
            case _:
                self._answering(event)

    def _answering(self, event: ChatEvent) -> None:
        match event:
            case AnswerPiece(text):
                if not self._as_json:
                    self._flow.add(text)
            case ToolRequest(name, arguments):
                self._tools.append({"name": name, "arguments": arguments})
                self._note(f"→ {name} {shorten(compact_json(arguments), CALL_CHARS)}")
            case ToolResponse(name, tokens):
                if name != UPDATE and name not in REASONS:
                    self._note(f"← {name}: {tokens:,} tokens{outcome_of(event)}")
            case Notice(text):
                self._notice(text)

    def end_line(self) -> None:
        """End an unfinished line."""
        self._flow.end()

    def give_up(self) -> None:
        """Print how to resume after the model could not be called."""
        self._flow.end()
        notes = console(stderr=True)
        notes.print(line((f"Everything so far is kept. To resume: {self._command()}", "dim")), soft_wrap=True)

    def _began(self, iterations: int, tasks: TaskList) -> None:
        if self._as_json:
            return
        if iterations:
            self._note(f"Resuming after {_counted(iterations)}.")
        self._show_tasks(tasks)

    def _iteration_ended(self, event: IterationEnd) -> None:
        answer = event.answer
        self._spent_usd += answer.usd
        tools, self._tools = self._tools, []
        if self._as_json:
            print_json_line({"iteration": event.iteration, **asdict(answer), "usd": answer.usd, "tools": tools})
            return
        self._flow.end()
        self._out.print(status(answer, self._spent_usd, width=self._out.width), no_wrap=True, overflow="ellipsis")

    def _ended(self, event: RunEnd) -> None:
        if self._as_json:
            tasks = [asdict(task) for task in event.tasks.tasks]
            outcome = {name: getattr(event, name) for name in ("reason", "text", "iterations", "tokens", "usd")}
            print_json_line({"session": self._session_id, **outcome, "tasks": tasks})
            return
        self._flow.end()
        self._out.print()
        title = line((TITLES[event.reason], STYLES[event.reason]), f": {event.text}" if event.text else ".")
        self._out.print(title, soft_wrap=True)
        total = len(event.tasks.tasks)
        counted = f"{event.tasks.done_count} of {total} tasks done, " if total else ""
        took = f"{counted}{_counted(event.iterations)}, {amount(event.tokens)} tokens, {dollars(event.usd)}"
        self._out.print(line((took, "dim")), soft_wrap=True)
        self._out.print(line((self._advice(event), "dim")), soft_wrap=True)

    def _advice(self, event: RunEnd) -> str:
        match event.reason:
            case "question":
                return f'To answer and resume: {self._command()} --answer "…"'
            case "blocked":
                return f'Once it is resolved: {self._command()} --answer "what has changed"'
            case "cap":
                return f"To resume: {self._command()}, with a higher limit"
        return f"The log: {to_copy('show', self._session_id, 'T-1')}"

    def _command(self) -> str:
        return to_copy("run", "--session", self._session_id)

    def _show_tasks(self, tasks: TaskList) -> None:
        if self._as_json:
            return
        self._flow.end()
        for entry in tasks.entries:
            if isinstance(entry, str):
                self._out.print(line((f"  {entry}", "dim")), soft_wrap=True)
                continue
            indent = "  " * (1 + entry.depth)
            mark = (f"{indent}✓ ", "green") if entry.is_done else f"{indent}· "
            self._out.print(line(mark, (entry.text, "dim" if entry.is_done else "")), soft_wrap=True)

    def _note(self, text: str) -> None:
        if not self._as_json:
            self._flow.end()
            self._out.print(line((text, "dim")))

    def _notice(self, text: str) -> None:
        """Print a notice; with JSON output, to standard error."""
        self._flow.end()
        out = console(stderr=True) if self._as_json else self._out
        out.print(line((text, "yellow")), soft_wrap=True)

    def _write(self, text: str) -> None:
        self._out.print(line(text), end="", soft_wrap=True)


def _counted(iterations: int) -> str:
    return f"{iterations:,} iteration{'' if iterations == 1 else 's'}"
