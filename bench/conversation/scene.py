"""A turn in the making: a prompt, then what the assistant thought, said and called, before times and ids are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Think:
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    arguments: Mapping[str, str | int]
    output: str
    exit_code: int | None = None
    seconds: float = 0.0
    interrupted: bool = False
    together: bool = False
    """Asked for in the same message as the call before it."""


Step: TypeAlias = Say | Think | Call


@dataclass(slots=True)
class Scene:
    """Every text goes through `fill`, so that a story's names and numbers are the same wherever they are told."""

    fill: Callable[[str], str]
    prompt: str
    steps: list[Step] = field(default_factory=list)
    image: str | None = None

    def think(self, text: str) -> Scene:
        self.steps.append(Think(self.fill(text)))
        return self

    def say(self, text: str) -> Scene:
        self.steps.append(Say(self.fill(text)))
        return self

    def run(
        self, command: str, output: str, *, exit_code: int = 0, seconds: float = 0.4, interrupted: bool = False
    ) -> Scene:
        """A shell command; its output is taken as it is."""
        arguments = {"command": self.fill(command)}
        self.steps.append(Call("exec", arguments, output, exit_code, seconds, interrupted))
        return self

    def call(self, tool: str, output: str, *, together: bool = False, **arguments: str | int) -> Scene:
        """Any other tool, by name; output and arguments are taken as they are."""
        seconds = round(0.02 + len(output) / 90_000, 3)
        self.steps.append(Call(tool, arguments, output, seconds=seconds, together=together))
        return self

    def add_to_prompt(self, text: str) -> None:
        self.prompt = f"{self.prompt}\n\n{text}"

    def add_to_answer(self, text: str) -> None:
        """At the end of the last words of the turn, or as its last words."""
        last = self.steps[-1] if self.steps else None
        if isinstance(last, Say):
            self.steps[-1] = Say(f"{last.text}\n\n{text}")
        else:
            self.steps.append(Say(text))

    @property
    def texts(self) -> list[str]:
        """Everything a reader of the turn could find a word in."""
        found = [self.prompt]
        for step in self.steps:
            if isinstance(step, Call):
                found.extend([step.output, *map(str, step.arguments.values())])
            else:
                found.append(step.text)
        return found
