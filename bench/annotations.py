"""What a good rendition of 60 turns must still say, and sentences that it must not turn into their opposite.

Run from the project's root: python bench/annotations.py [--data ../shared/data]

`data/facts.json` names turns and, for each, patterns that match where a fact is stated; `data/negations.json` has
sentences in whole turns, each with the claim that is left when its negation or condition is lost (`core`) and with
what shows that it was not (`keeper`). `data/turns_dev.toml` and `data/turns_held_out.toml` have 15 short, dense turns
each; the second file is for measuring only. `data/turns_chatty.toml` has 13 chatty ones, three of them in German,
French and Spanish. Run as a program, it checks that all of them say what they should.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import msgspec

from foveate import formats
from foveate.formats import TranscriptMessage
from foveate.text import turn_text
from foveate.tokens import count_tokens
from foveate.turn import Message, Text
from support.turns import split_turns

HERE = Path(__file__).parent / "data"
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
OWN = "own_turns.json"

# Languages without spaces end a sentence without one; what stands between semicolons may come from two sentences.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。\uff01\uff1f])|[\n;\uff1b]+")


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something to know later: it is kept where the pattern matches."""

    pattern: str
    note: str
    weight: Literal[1, 2, 3]
    tiny: bool = False
    """Even one sentence should say it: what was asked, or what came of it."""


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a turn is: in `own_turns.json` here, or in a file of the shared data."""

    source: str
    session: str
    number: int

    @property
    def is_own(self) -> bool:
        return self.source == OWN

    @property
    def origin(self) -> str:
        """Turns of one origin speak of the same things, so that a pattern may match in several of them."""
        return self.session if self.is_own else "/".join(self.source.split("/")[:2])

    def __str__(self) -> str:
        return f"{self.source} {self.session} T-{self.number}"


class Annotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    turn: Place
    kind: str
    facts: tuple[Fact, ...]


class Negation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence whose meaning hangs on a few words, inside the text of a turn."""

    id: str
    kind: str
    language: str
    role: Literal["user", "assistant"]
    text: str
    sentence: str
    core: str
    keeper: str
    drop: tuple[str, ...]
    """Without these words the sentence says the opposite, or what holds only on a condition."""
    faithful: str
    """A shorter version that says the same."""

    @property
    def reversed(self) -> str:
        """The sentence with its meaning flipped."""
        shorter = self.sentence
        for words in self.drop:
            shorter = shorter.replace(words, "")
        return shorter


@dataclass(frozen=True, slots=True)
class AnnotatedTurn:
    """A turn that was found, with what is to be known of it."""

    place: Place
    kind: str
    messages: tuple[Message, ...]
    facts: tuple[Fact, ...]

    @property
    def text(self) -> str:
        return turn_text(self.messages)

    @property
    def tiny_facts(self) -> tuple[Fact, ...]:
        return tuple(fact for fact in self.facts if fact.tiny)


@dataclass(frozen=True, slots=True)
class Annotated:
    """All turns that are here, and the annotations whose transcripts are not."""

    turns: tuple[AnnotatedTurn, ...]
    absent: tuple[Annotation, ...]


NEAR_CHARS = 170
"""All keys of a fact must be found within this many characters of a rendition, or the fact counts as lost."""
Split = Literal["dev", "held_out", "chatty", "chatty_fresh"]


@dataclass(frozen=True, slots=True)
class DenseFact:
    """Something a dense turn says: kept where all keys are found close together."""

    keys: tuple[str, ...]
    weight: int
    tiny: bool
    """Wanted even in one sentence."""
    binding: bool
    """An instruction or a prohibition."""

    def kept(self, text: str, *, near: bool = True) -> bool:
        """Whether the text has all keys, close together unless `near` is false."""
        found = [[match.span() for match in _compiled(key).finditer(text)] for key in self.keys]
        if not near or not all(found):
            return all(found)
        starts = sorted(start for spans in found for start, _ in spans)
        return any(
            all(any(start <= first and last <= start + NEAR_CHARS for first, last in spans) for spans in found)
            for start in starts
        )


@dataclass(frozen=True, slots=True)
class Probe:
    """A claim that says something else without the words that limit it."""

    claim: str
    keeper: str

    def flipped(self, text: str) -> bool:
        return any(_matches(self.claim, part) and not _matches(self.keeper, part) for part in sentences(text))


@dataclass(frozen=True, slots=True)
class DenseTurn:
    """A turn of 150 to 400 tokens with all that is to be known of it."""

    id: str
    kind: str
    is_chatty: bool
    messages: tuple[Message, ...]
    facts: tuple[DenseFact, ...]
    probes: tuple[Probe, ...]

    @property
    def text(self) -> str:
        return turn_text(self.messages)


def dense_share(facts: Sequence[DenseFact], text: str, *, near: bool = True) -> float:
    """The weight of the facts that the text states, as a share of the weight of all."""
    return sum(fact.weight for fact in facts if fact.kept(text, near=near)) / sum(fact.weight for fact in facts)


def load_dense(split: Split) -> tuple[DenseTurn, ...]:
    turns = tomllib.loads((HERE / f"turns_{split}.toml").read_text("utf-8"))["turn"]
    return tuple(
        DenseTurn(
            turn["id"],
            turn["kind"],
            turn.get("chatty", False),
            (Message("user", (Text(turn["user"]),)), Message("assistant", (Text(turn["assistant"]),))),
            tuple(map(_dense_fact, turn["facts"])),
            tuple(Probe(*probe.split(" => ")) for probe in turn["probes"]),
        )
        for turn in turns
    )


def _dense_fact(line: str) -> DenseFact:
    head, _, keys = line.partition(": ")
    return DenseFact(tuple(key.strip() for key in keys.split("&")), int(head[0]), "t" in head, "i" in head)


def check_dense(turns: Sequence[DenseTurn]) -> Iterator[str]:
    """Errors in the annotations of dense turns, one line each."""
    for turn in turns:
        if not 150 <= count_tokens(turn.text) <= 420:
            yield f"{turn.id}: {count_tokens(turn.text)} tokens"
        yield from (
            f"{turn.id}: the turn does not state {fact.keys}" for fact in turn.facts if not fact.kept(turn.text)
        )
        yield from (f"{turn.id}: flipped in the turn: {probe}" for probe in turn.probes if probe.flipped(turn.text))


def kept_share(facts: Sequence[Fact], text: str) -> float:
    """The weight of the facts that the text states, as a share of the weight of all."""
    kept = sum(fact.weight for fact in facts if _matches(fact.pattern, text))
    return kept / sum(fact.weight for fact in facts)


def flipped(negation: Negation, text: str) -> bool:
    """Whether some sentence or line of the text states the claim without what negates or limits it."""
    return any(_matches(negation.core, part) and not _matches(negation.keeper, part) for part in sentences(text))


def sentences(text: str) -> Iterator[str]:
    return (part.strip() for part in _SENTENCE_END.split(text) if part.strip())


def load_annotations() -> tuple[Annotation, ...]:
    return msgspec.json.decode((HERE / "facts.json").read_bytes(), type=dict[str, tuple[Annotation, ...]])["turns"]


def load_negations() -> tuple[Negation, ...]:
    return msgspec.json.decode((HERE / "negations.json").read_bytes(), type=dict[str, tuple[Negation, ...]])[
        "negations"
    ]


def load_turns(data: Path = SHARED) -> Annotated:
    """The annotated turns; those of transcripts that are not in the data folder are told apart, not an error."""
    turns: list[AnnotatedTurn] = []
    absent: list[Annotation] = []
    for annotation in load_annotations():
        place = annotation.turn
        if not place.is_own and not (data / place.source).is_file():
            absent.append(annotation)
            continue
        sessions = _own_turns() if place.is_own else _transcript(data / place.source)
        messages = sessions[place.session][place.number - 1]
        turns.append(AnnotatedTurn(place, annotation.kind, messages, annotation.facts))
    return Annotated(tuple(turns), tuple(absent))


def check_turns(turns: Sequence[AnnotatedTurn]) -> Iterator[str]:
    """What is wrong with the annotated facts, one line each."""
    texts = {turn.place: turn.text for turn in turns}
    for turn in turns:
        if not 4 <= len(turn.facts) <= 12:
            yield f"{turn.place}: {len(turn.facts)} facts, not 4 to 12"
        if not 1 <= len(turn.tiny_facts) <= 3:
            yield f"{turn.place}: {len(turn.tiny_facts)} facts for one sentence, not 1 to 3"
        for fact in turn.facts:
            if not _matches(fact.pattern, texts[turn.place]):
                yield f"{turn.place}: the turn itself does not state {fact.note!r}"
            for place, text in texts.items():
                if place.origin != turn.place.origin and _matches(fact.pattern, text):
                    yield f"{turn.place}: the pattern of {fact.note!r} is too loose: it also matches in {place}"


def check_negations(negations: Sequence[Negation]) -> Iterator[str]:
    """What is wrong with the negated sentences, one line each."""
    for negation in negations:
        wrong = {
            "its sentence is not in its text": negation.sentence not in negation.text,
            "its sentence does not make the claim": not _matches(negation.core, negation.sentence),
            "its sentence is more than one": len(list(sentences(negation.sentence))) != 1,
            "its text counts as flipped": flipped(negation, negation.text),
            "its faithful version counts as flipped": flipped(negation, negation.faithful),
            "its words to drop are not there": any(words not in negation.sentence for words in negation.drop),
            "without these words it does not count as flipped": not flipped(negation, negation.reversed),
        }
        yield from (f"{negation.id}: {fault}" for fault, holds in wrong.items() if holds)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _matches(pattern: str, text: str) -> bool:
    return _compiled(pattern).search(text) is not None


@cache
def _own_turns() -> dict[str, list[tuple[Message, ...]]]:
    """Each of them a session of one turn."""
    own = msgspec.json.decode((HERE / OWN).read_bytes())["turns"]
    return {turn["id"]: _grouped(formats.parse_messages(turn["messages"], "openai")) for turn in own}


@cache
def _transcript(path: Path) -> dict[str, list[tuple[Message, ...]]]:
    """The turns of each session, numbered as importing the file would number them."""
    sessions: dict[str, list[Message]] = {}
    with path.open("rb") as stream:
        name = formats.detect_transcript(stream.read(formats.HEAD_BYTES), path.name)
        stream.seek(0)
        for item in formats.load_transcript(name).read(stream, path.name):
            if isinstance(item, TranscriptMessage):
                sessions.setdefault(item.session, []).append(item.message)
    return {session: _grouped(messages) for session, messages in sessions.items()}


def _grouped(messages: Iterable[Message]) -> list[tuple[Message, ...]]:
    return [tuple(group) for group in split_turns(messages)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED, help="the folder with transcripts/")
    arguments = parser.parse_args()
    annotated, negations = load_turns(arguments.data), load_negations()
    print("| turn | kind | tokens | facts | weight | in one sentence |\n| --- | --- | --- | --- | --- | --- |")
    for turn in annotated.turns:
        weight = sum(fact.weight for fact in turn.facts)
        counts = f"{count_tokens(turn.text)} | {len(turn.facts)} | {weight} | {len(turn.tiny_facts)}"
        print(f"| {turn.place} | {turn.kind} | {counts} |")
    for annotation in annotated.absent:
        print(f"skipped {annotation.turn}: its transcript is not in {arguments.data}")
    languages = Counter(negation.language for negation in negations)
    print(f"\n{len(annotated.turns)} turns, {sum(len(turn.facts) for turn in annotated.turns)} facts")
    print(f"{len(negations)} negations: " + ", ".join(f"{count} {name}" for name, count in languages.items()))
    dense = [turn for split in ("dev", "held_out", "chatty", "chatty_fresh") for turn in load_dense(split)]
    print(f"{len(dense)} dense turns, {sum(len(turn.facts) for turn in dense)} facts")
    faults = [*check_dense(dense), *check_turns(annotated.turns), *check_negations(negations)]
    sys.exit("\n".join(faults) if faults else None)


if __name__ == "__main__":
    main()
