"""A long chat with the real local model in a window that it would overflow many times over.

Run from the project's root: python bench/local_chat.py [--turns 60] [--kill-at 30] [--json] [--directory DIR]

A child process chats through `foveate.agents.chat.Chat`, 1,200 tokens a prompt in a window of 2,048. It is killed with
SIGKILL in the middle of an answer and resumed; the server outlives it. In the end every turn is read back and compared
with what was said, and what the server took from its cache is compared with what Foveate had predicted.
The model is tiny and its answers are poor: only how it is asked is looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

import foveate
from foveate.agents.chat import AnswerPiece, AnswerSummary, Chat
from foveate.models.local import serve
from foveate.settings import Settings, load_settings
from foveate.text import turn_text
from foveate.turn import Message, Text

WINDOW_TOKENS = 2_048
PIECES_BEFORE_KILL = 3
MOST_APART = 0.05
"""Of the predicted and the reported share of prompts that came from the cache."""
SESSION = "harbour"
CHILD_LIMIT_SECONDS = 1_800

THINGS = ("berth", "crane", "quay", "tide table", "pilot", "tug", "mooring line", "winch", "buoy", "ferry", "lock gate")
QUESTIONS = (
    "What should we look at first?",
    "Who has to be told?",
    "Is that safe in strong wind?",
    "Say it in five words.",
    "What could go wrong?",
    "Why does that matter?",
    "What comes next?",
)


class Broken(AssertionError):
    """What must never happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A prompt, its answer, and what that took, as the child tells it once both are kept."""

    turn: int
    prompt: str
    answer: str
    prompt_tokens: int
    predicted_cached_tokens: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    seconds: float
    is_resumed: bool


@dataclass(frozen=True, slots=True)
class Shares:
    """The part of some prompts that came from the server's cache."""

    predicted: float
    reported: float

    @property
    def gap(self) -> float:
        return abs(self.predicted - self.reported)


@dataclass(slots=True)
class Chatted:
    """What a run came to."""

    turns: int = 0
    resumed_turns: list[int] = field(default_factory=list)
    """Those whose answer was cut off by a kill."""
    rebuilds: int = 0
    """Prompts smaller than the one before: the budget was full, and older turns went to lower levels."""
    failed_calls: int = 0
    largest_counted_tokens: int = 0
    largest_input_tokens: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    predicted_share: float = 0.0
    reported_share: float = 0.0
    steady_gap: float = 0.0
    """Predicted less reported where turns that were resumed are left out: their process did not know of the cache."""
    largest_gap: float = 0.0
    """Between the two shares of a single turn, resumed ones left out."""
    start_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def gap(self) -> float:
        return Shares(self.predicted_share, self.reported_share).gap


def script(turn: int) -> str:
    """What the user says in a turn: short, and not the same twice."""
    thing, question = THINGS[turn % len(THINGS)], QUESTIONS[turn % len(QUESTIONS)]
    return f"At {turn % 24:02}:{turn * 7 % 60:02} {thing} {turn * 37 % 101} goes to dock {turn * 13 % 29}. {question}"


@dataclass(frozen=True, slots=True)
class Limits:
    """What the chat has to get along with."""

    turns: int = 60
    budget_tokens: int = 1_200
    max_output_tokens: int = 40


def chat(url: str, limits: Limits, *, kills: Sequence[int], directory: Path) -> Chatted:
    """Chat so many turns, kill in the answers of these, and raise `Broken` at the first sign of damage."""
    began = time.monotonic()
    path = directory / "local-chat.db"
    said: dict[int, Said] = {}
    for kill_at in [*sorted(kills), 0]:
        for one in _run_child(path, f"smollm2@{url}", limits, kill_at=kill_at):
            if one.turn in said:
                raise Broken(f"turn {one.turn} was answered twice")
            said[one.turn] = one
    if sorted(said) != list(range(1, limits.turns + 1)):
        raise Broken(f"of {limits.turns} turns these were answered: {sorted(said)}")
    done = _summary(list(said.values()))
    if done.largest_counted_tokens > limits.budget_tokens:
        raise Broken(f"a prompt has {done.largest_counted_tokens:,} tokens of {limits.budget_tokens:,}")
    done.failed_calls = asyncio.run(_verify(path, said))
    done.seconds = time.monotonic() - began
    return done


def _run_child(path: Path, model: str, limits: Limits, *, kill_at: int) -> Iterator[Said]:
    """What a child says until it has come to the last turn, or is killed in the answer of `kill_at`."""
    pieces = 0
    with _started(path, model, limits) as child:
        assert child.stdout
        for line in child.stdout:
            event = json.loads(line)
            if event == {"piece_of": kill_at}:
                pieces += 1
                if pieces == PIECES_BEFORE_KILL:
                    return
            elif "turn" in event:
                yield Said(**event)
        if child.wait() or kill_at:
            raise Broken(f"the chat ended by itself, with status {child.returncode}")


@contextmanager
def _started(path: Path, model: str, limits: Limits) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, __file__, "--child", str(path), "--model", model, "--turns", str(limits.turns)]
    command += ["--budget", str(limits.budget_tokens), "--answer", str(limits.max_output_tokens)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def _summary(said: list[Said]) -> Chatted:
    for one in said:
        if one.input_tokens + one.output_tokens > WINDOW_TOKENS:
            raise Broken(f"turn {one.turn} took {one.input_tokens:,} and {one.output_tokens:,} tokens")
    steady = [one for one in said if not one.is_resumed]
    shares, steady_shares = _shares(said), _shares(steady)
    return Chatted(
        turns=len(said),
        resumed_turns=[one.turn for one in said if one.is_resumed],
        rebuilds=sum(after.prompt_tokens < before.prompt_tokens for before, after in pairwise(said)),
        largest_counted_tokens=max(one.prompt_tokens for one in said),
        largest_input_tokens=max(one.input_tokens for one in said),
        input_tokens=sum(one.input_tokens for one in said),
        cached_tokens=sum(one.cached_tokens for one in said),
        output_tokens=sum(one.output_tokens for one in said),
        predicted_share=shares.predicted,
        reported_share=shares.reported,
        steady_gap=steady_shares.predicted - steady_shares.reported,
        largest_gap=max(_shares([one]).gap for one in steady),
    )


def _shares(said: Sequence[Said]) -> Shares:
    counted, reported = sum(one.prompt_tokens for one in said), sum(one.input_tokens for one in said)
    predicted_cached, cached = sum(one.predicted_cached_tokens for one in said), sum(one.cached_tokens for one in said)
    return Shares(predicted_cached / counted, cached / reported)


async def _verify(path: Path, said: dict[int, Said]) -> int:
    """Whether every turn can be read back to the letter; how many calls failed, of those that were told of."""
    async with foveate.open(path, settings=make_settings()) as fov:
        faults = [finding.problem async for finding in fov.check() if finding.problem]
        if faults:
            raise Broken(f"check found {faults}")
        await fov.settle()
        session = await fov.open_session(SESSION)
        if session.info.turns != len(said):
            raise Broken(f"{len(said)} prompts made {session.info.turns} turns")
        for one in said.values():
            expected = turn_text((Message("user", (Text(one.prompt),)), Message("assistant", (Text(one.answer),))))
            kept = await session.get_turn(one.turn, "R", format="plain")
            if kept.content != expected:
                raise Broken(f"{kept.turn_id} reads {kept.content!r}; it was {expected!r}")
            if not (await session.get_turn(one.turn, "T", format="plain")).content:
                raise Broken(f"{kept.turn_id} has no tiny version")
        return sum(row.failed for row in await fov.costs(SESSION))


def make_settings() -> Settings:
    """Turns are compressed by rules: the model is only talked to."""
    return load_settings(environment={}, overrides={"compress": {"processes": 0}})


async def _child(path: Path, model: str, limits: Limits) -> None:
    """Chat from where the session stands to the last turn; tell each piece and each turn."""
    async with foveate.open(path, settings=make_settings()) as fov, asyncio.timeout(CHILD_LIMIT_SECONDS):
        session = await fov.session(SESSION, budget_tokens=limits.budget_tokens, model=model)
        talk = Chat(
            session,
            fov.caller,
            [model],
            max_output_tokens=limits.max_output_tokens,
            window_tokens=WINDOW_TOKENS,
            temperature=0.0,
        )
        if await talk.waiting():
            await _tell(talk, session.info.turns, is_resumed=True)
        for turn in range(session.info.turns + 1, limits.turns + 1):
            await _tell(talk, turn, is_resumed=False)


async def _tell(talk: Chat, turn: int, *, is_resumed: bool) -> None:
    prompt = script(turn)
    async with aclosing(talk.answer() if is_resumed else talk.say(prompt)) as events:
        async for event in events:
            if isinstance(event, AnswerPiece):
                _say({"piece_of": turn})
            elif isinstance(event, AnswerSummary):
                said = Said(
                    turn=turn,
                    prompt=prompt,
                    answer=event.text,
                    prompt_tokens=event.prompt_tokens,
                    predicted_cached_tokens=event.predicted_cached_tokens,
                    input_tokens=event.input_tokens,
                    cached_tokens=event.cached_tokens,
                    output_tokens=event.output_tokens,
                    seconds=event.seconds,
                    is_resumed=is_resumed,
                )
                _say(asdict(said))


def _say(event: dict[str, object]) -> None:
    os.write(sys.stdout.fileno(), f"{json.dumps(event)}\n".encode())


def _print(done: Chatted, limits: Limits) -> None:
    rows = [
        ("turns, all read back to the letter", f"{done.turns:,}"),
        ("killed with SIGKILL and resumed, in turn", ", ".join(map(str, done.resumed_turns)) or "-"),
        ("times the budget was full", f"{done.rebuilds:,}"),
        ("calls that failed", f"{done.failed_calls:,}"),
        (f"largest prompt, counted (budget {limits.budget_tokens:,})", f"{done.largest_counted_tokens:,}"),
        (f"largest prompt, reported (window {WINDOW_TOKENS:,})", f"{done.largest_input_tokens:,}"),
        ("prompt tokens of all calls, reported", f"{done.input_tokens:,}"),
        ("from the server's cache, reported", f"{done.reported_share:.1%}"),
        ("from the server's cache, predicted", f"{done.predicted_share:.1%}"),
        ("predicted too much, resumed turns left out", f"{100 * done.steady_gap:.1f} points"),
        ("largest difference in one turn", f"{100 * done.largest_gap:.1f} points"),
        ("tokens of answers", f"{done.output_tokens:,}"),
        ("server ready after", f"{done.start_seconds:.1f} s"),
        ("whole run", f"{done.seconds:.0f} s"),
    ]
    for label, value in rows:
        print(f"{label:<48} {value:>12}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=Limits().turns)
    parser.add_argument("--budget", type=int, default=Limits().budget_tokens, metavar="TOKENS")
    parser.add_argument("--answer", type=int, default=Limits().max_output_tokens, metavar="TOKENS")
    parser.add_argument("--kill-at", type=int, nargs="*", help="turns in whose answer to kill; the middle if not said")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--directory", type=Path, help="where the file is made; a temporary folder if not said")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--model", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    limits = Limits(options.turns, options.budget, options.answer)
    if options.child:
        asyncio.run(_child(options.child, options.model, limits))
        return
    kills = [max(1, limits.turns // 2)] if options.kill_at is None else options.kill_at
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary, serve(window_tokens=WINDOW_TOKENS) as url:
        start_seconds = time.monotonic() - began
        done = chat(url, limits, kills=kills, directory=options.directory or Path(temporary))
    done.start_seconds = start_seconds
    if options.json:
        print(json.dumps(asdict(done), indent=2))
    else:
        _print(done, limits)
    if done.gap > MOST_APART:
        sys.exit(f"what was predicted and what was reported are {100 * done.gap:.1f} points apart")


if __name__ == "__main__":
    main()
