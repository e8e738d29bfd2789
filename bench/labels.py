"""Check the labels in `bench/data/labels`: which words of a message or turn a careful reader keeps, at three lengths.

    python bench/labels.py
    python bench/labels.py --agreement

Prints how many there are by language and kind, and the mean share of words that each length keeps. `--agreement`
compares the words that two readers keep of the same 60 texts, and those that the built-in compressor keeps.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from statistics import fmean, harmonic_mean

from foveate.compress.local import LocalCompressor
from foveate.tokens import count_tokens
from foveate.turn import Message, Text, ToolCall, ToolResult

FOLDER = Path(__file__).parent / "data" / "labels"
TRAINING, SET_APART = FOLDER / "kept_words.jsonl", FOLDER / "set_apart.jsonl"
SECOND = FOLDER / "second_reader.jsonl"
"""What another reader, who saw none of the labels, keeps of 60 of these texts."""
LENGTHS = ("text", "s", "c", "t")
"""A label's texts, each with words of the one before it only, in their order."""

_MARK = re.compile(r"^\[(user|assistant|result|call)(?: ([^\]]+))?\] ?", re.MULTILINE)
_ANSWERS = ("answer", "antwort", "respuesta", "réponse")
_NOTE = re.compile(r"^\[[^\]]*\]|\[assistant\]|\{\d+ tools? called\}", re.MULTILINE)
_WORD = re.compile(r"\S+")
_MARKS = ".,;:!?\u2026()[]{}\"'\u201c\u201d\u201e\u00ab\u00bb*_`|-\u2013\u2014>#"


@dataclass(frozen=True, slots=True)
class Label:
    """A message or turn, and what is kept of it: about .70 (`s`) and .38 (`c`) of its words, and one sentence (`t`)."""

    id: str
    lang: str
    kind: str
    text: str
    s: str
    c: str
    t: str


def read_labels(path: Path) -> Iterator[Label]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield Label(**json.loads(line))


def words_of(text: str) -> list[str]:
    """Return the words without punctuation around them."""
    return [word for found in _WORD.findall(text) if (word := found.strip(_MARKS))]


def is_within(short: Sequence[str], long: Sequence[str]) -> bool:
    """Whether the words of one text stand in the other, in their order."""
    rest = iter(long)
    return all(word in rest for word in short)


def faults(label: Label) -> list[str]:
    """Return what is wrong with a label."""
    texts = [words_of(getattr(label, name)) for name in LENGTHS]
    pairs = zip(LENGTHS, LENGTHS[1:], texts, texts[1:], strict=False)
    return [
        f"{short} has words that {long} has not, or in another order"
        for long, short, whole, kept in pairs
        if not is_within(kept, whole)
    ]


def as_messages(text: str, kind: str) -> list[Message]:
    """Return the messages of a label's text."""
    marks = list(_MARK.finditer(text))
    if not marks or marks[0].start():
        return [Message("assistant" if any(word in kind.lower() for word in _ANSWERS) else "user", (Text(text),))]
    messages: list[Message] = []
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    for number, (mark, end) in enumerate(zip(marks, ends, strict=True)):
        said = text[mark.end() : end].strip()
        match mark[1]:
            case "call":
                call = ToolCall(mark[2] or "tool", {"command": said}, f"call-{number}")
                messages.append(Message("assistant", (call,)))
            case "result":
                calls = messages[-1].tool_calls if messages else ()
                result = ToolResult(calls[0].id if calls else None, (Text(said),))
                messages.append(Message("tool", (result,)))
            case role:
                messages.append(Message("user" if role == "user" else "assistant", (Text(said),)))
    return messages


def shared(text: str, other: str) -> tuple[float, float]:
    """Return the share of each text's words that the other one has, in the same order."""
    own, others = ([word.lower() for word in words_of(_NOTE.sub(" ", one))] for one in (text, other))
    same = sum(block.size for block in SequenceMatcher(None, own, others, autojunk=False).get_matching_blocks())
    return same / max(1, len(own)), same / max(1, len(others))


def agreement_table() -> None:
    labels = {label.id: label for path in (TRAINING, SET_APART) for label in read_labels(path)}
    seconds = [json.loads(line) for line in SECOND.read_text("utf-8").splitlines()]
    compressor = LocalCompressor()
    made = {
        one["id"]: compressor.compress(1, as_messages(labels[one["id"]].text, labels[one["id"]].kind), count_tokens)
        for one in seconds
    }
    print("| length | second reader and label | compressor and label | compressor and second reader |")
    print("| --- | --- | --- | --- |")
    for name, level in (("s", "smoothed"), ("c", "compressed"), ("t", "tiny")):
        pairs = [
            [(one[name], getattr(labels[one["id"]], name)) for one in seconds],
            [(getattr(made[one["id"]], level), getattr(labels[one["id"]], name)) for one in seconds],
            [(getattr(made[one["id"]], level), one[name]) for one in seconds],
        ]
        cells = []
        for column in pairs:
            shares = [shared(text, other) for text, other in column]
            first, second = fmean(share for share, _ in shares), fmean(share for _, share in shares)
            cells.append(f"{harmonic_mean((first, second)):.2f} ({first:.2f} / {second:.2f})")
        print(f"| {name.upper()} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agreement", action="store_true", help="only how far two readers and the compressor agree")
    if parser.parse_args().agreement:
        agreement_table()
        return
    for path in (TRAINING, SET_APART):
        labels = list(read_labels(path))
        print(f"{path.name}: {len(labels)} labels")
        for (lang, kind), count in sorted(Counter((label.lang, label.kind) for label in labels).items()):
            print(f"  {count:4} {lang} {kind}")
        for name in ("s", "c", "t"):
            shares = [len(words_of(getattr(label, name))) / len(words_of(label.text)) for label in labels]
            print(f"  {name}: {fmean(shares):.2f} of the words")
        for label in labels:
            for fault in faults(label):
                print(f"  {label.id}: {fault}")


if __name__ == "__main__":
    main()
