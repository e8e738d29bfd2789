"""Reads a turn for compression: its clauses, their speakers, and their facts with weights."""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from foveate.compress import tools
from foveate.compress.clauses import Clause, ClauseKind, cut_text
from foveate.compress.cues import bare, estimate_tokens
from foveate.compress.facts import Facts, find_facts, names_error
from foveate.compress.lexicon import ERRORS, common_words
from foveate.compress.worth import Floats, WorthModel, chances, load_worth
from foveate.compress.worth.features import Passage
from foveate.turn import Attachment, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from foveate.words.grammar import QUESTION_MARKS

MAX_CANDIDATES = 6_000
"""Limit of the clauses of a turn that are read one by one, except those of the last message."""
NOTED_ERRORS, NOTED_CHARS, NOTED_WORTH = 2, 120, 2.0
"""Error lines of an output in the note of a call, the characters of each, and the weight of facts that each must
add."""
MAX_LABEL_CHARS = 30

USER, FINAL, NARRATION, REASONING, TOOL, OUTPUT, OTHER = 1.3, 0.9, 0.45, 0.3, 0.6, 0.12, 0.5
"""Factors of a fact by its speaker: the user, the assistant's final answer, the assistant while working, and so on."""
CAPTION = 0.1
"""Factor of a fact in the description of an image or a file."""
LEAST_TOLD, TOLD = 0.15, 2.0
"""Factor of the facts of a clause that no reader keeps, and the addition for the mean chance that one keeps its words.
Together they are at most 1."""
FIRST_BOOST = 1.2
"""Factor of the user's first clause and first question: what the turn is about."""

LABEL = re.compile(r"\A([^\W\d_][\w.'’-]{0,29}(?: [^\W\d_][\w.'’-]{0,29})?):\s{1,9}(?=\S)")
_SPEECH = re.compile(
    r"[!?]|\b(?:I|you|we|me|my|your|our|it|he|she|they|that|this|these|those|ich|du|wir|je|tu|nous|yo|tú)\b",
    re.IGNORECASE,
)
"""Signs that a text was spoken by somebody, and is not an entry such as `Deadline: 5 May`."""
_BRACKETS = {"[": "]", "<": ">", "{": "}"}
_EMPHASIS = re.compile(r"\*\*(\S(?:[^*\n]*\S)?)\*\*|(?<!\w)__(\S(?:[^_\n]*\S)?)__(?!\w)")
_MARKED_NAME = re.compile(r"(?<![\w`])`(?=[^`]*(?:[\d_./()]|[a-z][A-Z]))([\w./()-]+)`(?![\w`])")
_CAPTION = re.compile(
    r"(!\[[^\]\n]{0,300}\]\([^)\s]{1,500}\)"
    r"|[\[<](?:[\w-]{1,20} ){0,2}(?:images?|photos?|pictures?|gif|video|audio|voice|sticker|media|file|document"
    r"|attachment|attached|screenshot|bild|foto|imagen|pièce)\b[^\]>\n]{0,500}[\]>])",
    re.IGNORECASE,
)
"""A description of an image or a file that was sent with a message."""


@dataclass(slots=True)
class Candidate:
    """A clause that a rendition may include."""

    place: int
    message: int
    speaker: str
    kind: ClauseKind
    text: str
    facts: Facts
    factor: float
    label: str
    """`Maria: ` if a message begins with its speaker's name."""
    tokens: int
    """Approximate tokens of its text."""
    scores: Floats | None = None
    """What the model of worth says of each word; None of lines of output beside what was said."""
    chance: float = 1.0
    """Mean chance that a reader keeps its words; 1 for lines of output beside what was said."""

    @property
    def who(self) -> str:
        """The speaker of its mark: calls are the assistant's."""
        return "assistant" if self.speaker == "call" else self.speaker

    @property
    def told(self) -> float:
        """The part of its facts that a reader keeps."""
        return min(1.0, LEAST_TOLD + TOLD * self.chance)

    @property
    def is_whole(self) -> bool:
        """The clause is used whole or not at all."""
        return self.kind in ("code", "row") or self.speaker == "call"

    @property
    def speech(self) -> tuple[int, str]:
        """The message and the speaker that it names: each is named once in a row."""
        return self.message, self.label

    def written(self, text: str, before: str = "") -> str:  # noqa: ARG002 - `tiny.py` names what comes before
        """Return kept words of the clause; a caption in its brackets."""
        if self.kind != "caption" or self.text[:1] not in _BRACKETS or not text:
            return text
        return f"{self.text[0]}{text.strip('[]<>{}')}{_BRACKETS[self.text[0]]}"

    @property
    def worth(self) -> float:
        return self.factor * sum(self.facts.values())


@dataclass(slots=True)
class TurnReading:
    """The clauses and facts of a turn."""

    candidates: list[Candidate] = field(default_factory=list)
    tool_calls: int = 0
    facts: Facts = field(default_factory=dict)
    """The largest weight of each fact."""

    @property
    def has_user(self) -> bool:
        return any(candidate.speaker == "user" for candidate in self.candidates)

    def without_output(self) -> TurnReading:
        """Return the reading without lines of tool output; the notes of the calls have their outcome."""
        said = [candidate for candidate in self.candidates if candidate.speaker != "tool"]
        is_other = 0 < len(said) < len(self.candidates)
        return TurnReading(said, self.tool_calls, _heaviest(said)) if is_other else self


def _heaviest(candidates: Iterable[Candidate]) -> Facts:
    """Return the largest weight of each fact."""
    facts: Facts = {}
    for candidate in candidates:
        for key, weight in candidate.facts.items():
            worth = weight * candidate.factor
            if worth > facts.get(key, 0.0):
                facts[key] = worth
    return facts


def read_turn(messages: Sequence[Message], worth: WorthModel | None = None) -> TurnReading:
    """Read the clauses of a turn in order. Display-only messages are skipped.

    `worth` is the model that scores their words, by default the one in the package.
    """
    reading = TurnReading()
    shown = [message for message in messages if message.kind != "display"]
    results: dict[str | None, ToolResult] = {
        result.call_id: result for message in shown for result in message.tool_results if result.call_id
    }
    last = max((place for place, message in enumerate(shown) if _speaks(message)), default=-1)
    for place, message in enumerate(shown):
        if len(reading.candidates) >= MAX_CANDIDATES and place < last:
            reading.tool_calls += len(message.tool_calls)
            continue
        _read_message(reading, message, place=place, is_last=place == last, results=results)
    asked = [one for one in reading.candidates if one.speaker == "user"]
    questions = [one for one in asked if one.text.endswith(QUESTION_MARKS)]
    for place in {one.place for one in (*asked[:1], *questions[:1])}:
        reading.candidates[place].factor *= FIRST_BOOST
    _weigh(reading.without_output().candidates, worth or load_worth())
    reading.facts = _heaviest(reading.candidates)
    return reading


def passages_of(candidates: Sequence[Candidate]) -> list[Passage]:
    """Return clauses as the model of worth sees them."""
    final = max((one.message for one in candidates if one.speaker == "assistant"), default=-1)
    return [
        Passage(
            one.text.split(" "),
            "narration" if one.speaker == "assistant" and one.message != final else one.speaker,
            one.kind,
            one.message,
        )
        for one in candidates
    ]


def _weigh(candidates: Sequence[Candidate], worth: WorthModel) -> None:
    """Score the words of the clauses; facts of a clause that no reader keeps, such as a courtesy, weigh less."""
    if not candidates:
        return
    scores = worth.score(passages_of(candidates))
    kept = [0.0, *np.cumsum(chances(scores), dtype=np.float64).tolist()]
    last = 0
    for one in candidates:
        first, last = last, last + one.text.count(" ") + 1
        one.scores = scores[first:last]
        one.chance = (kept[last] - kept[first]) / (last - first)
        one.factor *= one.told


def plain(text: str) -> str:
    """Return the text on one line, without marks of emphasis and unneeded marks of code."""
    text = " ".join(text.split())
    if "**" in text or "__" in text:
        text = _EMPHASIS.sub(lambda found: found[1] or found[2], text)
    return _MARKED_NAME.sub(r"\1", text) if "`" in text else text


def _speaks(message: Message) -> bool:
    return message.role == "assistant" and bool(message.text.strip())


@dataclass(frozen=True, slots=True)
class _Said:
    """A clause with its speaker."""

    clause: Clause
    speaker: str
    factor: float
    label: str = ""


def _read_message(
    reading: TurnReading,
    message: Message,
    *,
    place: int,
    is_last: bool,
    results: dict[str | None, ToolResult],
) -> None:
    reading.tool_calls += len(message.tool_calls)
    for part in message.parts:
        for said in _said(message, part, is_last=is_last, results=results):
            reading.candidates.append(_candidate(said, len(reading.candidates), place))


def _said(message: Message, part: Part, *, is_last: bool, results: dict[str | None, ToolResult]) -> Iterator[_Said]:
    speaker, factor = _speaker(message), _factor(message, is_last=is_last)
    match part:
        case Text(text):
            for label, words in _speeches(text, is_answer=speaker == "assistant"):
                for number, piece in enumerate(_CAPTION.split(words)):
                    clauses = [Clause("caption", piece)] if number % 2 else cut_text(piece)
                    yield from (_Said(clause, speaker, factor, label) for clause in clauses)
        case Reasoning(text):
            for clause in cut_text(text):
                yield _Said(clause, "reasoning", REASONING)
        case ToolCall():
            yield from _called(part, results.get(part.id))
        case ToolResult() if part.call_id is None:
            yield from _called(ToolCall(part.name or "tool", {}), part)
        case Attachment() | Opaque():
            yield _Said(Clause("caption", _stand_in(part)), speaker, factor)


def _called(call: ToolCall, result: ToolResult | None) -> Iterator[_Said]:
    """Yield a note in braces with the outcome of the call, errors included, then the most informative lines."""
    lines = tools.key_lines(call, result)
    note = tools.summarise_call(call, result).removesuffix("}")
    more = "; ".join(" ".join(line.split())[:NOTED_CHARS].rstrip("}") for line in _errors(lines, note))
    yield _Said(Clause("item", f"{note}; {more}}}" if more else f"{note}}}"), "call", TOOL)
    for line in lines:
        yield _Said(Clause("code", line), "tool", OUTPUT)


def _errors(lines: Sequence[str], note: str) -> list[str]:
    """Return the lines that name an error and add most to the note, in their order."""
    known = find_facts(note).keys()
    worth: dict[str, float] = {}
    for line in lines:
        if names_error(line) or not ERRORS.isdisjoint(map(bare, line.split())):
            worth[line] = sum(weight for key, weight in find_facts(line).items() if key not in known)
    best = sorted(worth, key=lambda line: -worth[line])[:NOTED_ERRORS]
    return [line for line in worth if line in best and worth[line] >= NOTED_WORTH]


def _candidate(said: _Said, place: int, message: int) -> Candidate:
    kind = said.clause.kind
    text = said.clause.text if kind == "code" else plain(said.clause.text)
    return Candidate(
        place=place,
        message=message,
        speaker=said.speaker,
        kind=kind,
        text=text,
        facts=find_facts(text),
        factor=said.factor * (CAPTION if kind == "caption" else 1.0),
        label=said.label,
        tokens=estimate_tokens(text),
    )


def _speaker(message: Message) -> str:
    if message.kind == "injection":
        return "injected"
    return {"developer": "system"}.get(message.role, message.role)


def _factor(message: Message, *, is_last: bool) -> float:
    if message.kind == "injection":
        return OTHER
    if message.role == "user":
        return USER
    if message.role == "assistant":
        return FINAL if is_last and not message.tool_calls else NARRATION
    return OUTPUT if message.role == "tool" else OTHER


def _speeches(text: str, *, is_answer: bool) -> Iterator[tuple[str, str]]:
    """Yield each speaker's name with the words: one, or one for each line that begins with a name in a chat."""
    label, said = split_label(text, is_answer=is_answer)
    lines = said.split("\n") if label else [said]
    words = lines[:1]
    for line in lines[1:]:
        other, rest = split_label(line, is_answer=is_answer)
        if other:
            yield label, "\n".join(words)
            label, words = other, []
        words.append(rest)
    yield label, "\n".join(words)


def split_label(text: str, *, is_answer: bool = False) -> tuple[str, str]:
    """Split off the speaker's name that chats put before the words: `Maria: hello`.

    A single common word such as `Tim` is a name too if what follows reads as speech; in an assistant's answer it is a
    heading.
    """
    match = LABEL.match(text)
    if match is None or match.end() > MAX_LABEL_CHARS:
        return "", text
    said = text[match.end() :]
    words = match[1].split()
    known = [word for word in words if word.casefold() in common_words()]
    is_spoken = len(words) == 1 and not is_answer and said[0].isupper() and _SPEECH.search(said) is not None
    if not all(word[0].isupper() for word in words) or (known and not is_spoken):
        return "", text
    return f"{match[1]}: ", said


def _stand_in(part: Attachment | Opaque) -> str:
    if isinstance(part, Opaque):
        return f"{{{part.format}}}"
    known = part.name or part.uri or part.file_id or part.media_type or ""
    return f"{{{part.media}: {known[:120]}}}" if known else f"{{{part.media}}}"
