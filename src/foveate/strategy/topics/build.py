"""Makes the artefacts of the topics strategy: summaries of topics and bulks, truncated messages, and the detection of
where a topic begins.

Summaries are made from the clauses of the original turns, never from another summary.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from foveate.compress.eras import era_text, roll_up
from foveate.compress.facts import Facts, find_facts
from foveate.compress.guard import CLAIMS, GuardSource, check
from foveate.compress.lexicon import DECISIONS, ERRORS, OUTCOMES, stem, word_weight
from foveate.compress.marks import cut_line, escape_inline, one_line
from foveate.compress.model.checks import SourceWords, made_up, visible, wrong_in
from foveate.compress.model.clauses import clauses_schema, words_of
from foveate.compress.model.request import SPEAKERS, closed_object
from foveate.models.prompts import prompt_text
from foveate.plan import Artefact
from foveate.renditions import Unit
from foveate.strategy.build import Material, SourceTurn, made_of, made_short
from foveate.strategy.clause_summary import ClauseWording, JudgedClauses
from foveate.strategy.topics.phrases import Phrases, find_phrase, load_phrases
from foveate.strategy.topics.subjects import SCALE, Gist
from foveate.text import compact_json, message_text
from foveate.turn import Json, Message, Part, Reasoning, Text, ToolCall, ToolResult

TRUNCATED = "… [truncated]"
TITLE_WORDS = 4
MIN_TITLE_WEIGHT = 0.4
"""Minimum weight of a word in a title; common words make no title."""
USER_WORDS = 2.0
"""Factor for the user's words."""
MAX_TITLE_TOKENS = 48
MAX_TITLE_CHARS = 80
BULK_TITLE_WORDS = 2
"""Number of title words of each topic in a bulk."""
MAX_UNITS = 4_000
"""Limit of the clauses of all turns that are compared with each other; the best of each turn."""
MIN_UNITS = 4
READ_CHARS = 2_000
"""Characters of a prompt, and of an answer, by which its subject is detected."""
MIN_WORD_WEIGHT = 0.25
_SUBJECT_KINDS = "wni/e!"
_UNTITLED = DECISIONS | OUTCOMES | ERRORS | {"topic", "topics", "subject"}
_MARKED = re.compile(r"^\[[^\]\n]{1,40}\]|\{[^}]*\}?")
"""Marks of the speakers, and of a tool call."""
_TITLE_WORD = re.compile(
    r"(?<![\w#/.-])[^\W\d_][\w./-]{2,30}\w(?![\w/])|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,6}"
)


def make_topic(material: Material) -> Artefact:
    """Make the summary of a topic: its title, and the most informative clauses."""
    title = _title(material.turns, TITLE_WORDS)
    return _summary(material, f"Topic: {title}" if title else "Topic", title)


def make_bulk(material: Material) -> Artefact:
    """Make one summary of several topics."""
    ranges = _ranges(material.wanted.data.get("topics"))
    titles = [
        _title([turn for turn in material.turns if first <= turn.number <= last], BULK_TITLE_WORDS)
        for first, last in ranges
    ]
    title = "; ".join(filter(None, titles))
    return _summary(material, f"{len(ranges) or 1} topics: {title}" if title else "Topics", title)


def make_boundary(material: Material) -> Artefact:
    """Detect whether a turn ends the topic before it, and make the gists of the turn and of the turn before."""
    data = material.wanted.data
    last = material.wanted.last
    asked = _asked(next((turn for turn in material.turns if turn.number == last), None))
    before = "\n".join(_exchanged(turn) for turn in material.turns if turn.number == last - 1)
    prompt, exchange = gists([asked, before])
    kept: dict[str, Json] = {
        "phrase": find_phrase(asked, _phrases(data)),
        "asked": prompt.as_json(),
        "before": exchange.as_json(),
    }
    return made_of(material.wanted, data=kept)


def make_truncated(material: Material) -> Artefact:
    """Truncate and mark the messages of a turn that are longer than allowed."""
    given = material.wanted.data.get("max_chars")
    most = given if isinstance(given, int) else READ_CHARS
    texts: dict[int, str] = {}
    for turn in material.turns:
        for position, message in enumerate(turn.messages):
            if message.kind != "display" and _length(message) > most:
                texts[position] = message_text(truncate(message, most))
    return made_short(material.wanted, texts)


def gists(texts: Sequence[str]) -> list[Gist]:
    """Return the gist of each text."""
    from foveate.recall.embed.static import embed  # noqa: PLC0415 - numpy loads only if it is needed

    rows = embed(texts)
    return [
        Gist(tuple(round(float(number) * SCALE) for number in row) if row.any() else (), _words(text))
        for text, row in zip(texts, rows, strict=True)
    ]


def truncate(message: Message, max_chars: int) -> Message:
    """Truncate the message's text to this number of characters, with a mark where it was cut."""
    left = max_chars
    parts: list[Part] = []
    for part in message.parts:
        words = _said(part)
        if len(words) > left:
            parts.append(_replaced(part, f"{words[:left].rstrip()}{TRUNCATED}"))
            left = 0
        else:
            parts.append(part)
            left -= len(words)
    return replace(message, parts=tuple(parts), original=None)


def _replaced(part: Part, words: str) -> Part:
    match part:
        case Text() | Reasoning():
            return replace(part, text=words)
        case ToolCall():
            return replace(part, arguments=words)
        case ToolResult():
            others = (one for one in part.content if not isinstance(one, Text))
            return replace(part, content=(Text(words), *others))
    return part


def _length(message: Message) -> int:
    return sum(len(_said(part)) for part in message.parts)


def _said(part: Part) -> str:
    """Return the words of a part that can be cut."""
    match part:
        case Text(text) | Reasoning(text):
            return text
        case ToolResult():
            return "\n".join(one.text for one in part.content if isinstance(one, Text))
        case ToolCall():
            return compact_json(part.arguments)
    return ""


def _summary(material: Material, heading: str, title: str, chosen: Sequence[Unit] | None = None) -> Artefact:
    """Write a heading and the best clauses of the turns, or the chosen ones, within the tokens; the guard's verdict is
    stored with it."""
    count, room = material.count, material.wanted.tokens
    head = cut_line(escape_inline(heading), min(room, MAX_TITLE_TOKENS), count)
    units = _units(material.turns)
    left = room - count(head) - 1
    best = roll_up(units, left, count) if chosen is None else chosen
    text = era_text(best, left, count) if left > 0 else ""
    body = f"{head}\n{text}" if text else head
    facts: Facts = {}
    for unit in units:
        for key in unit.facts:
            facts[key] = max(facts.get(key, 0.0), unit.worth / max(1, len(unit.facts)))
    clauses = [unit.text for unit in units]
    verdict = check("T", GuardSource(facts, clauses), text or head, tokens=count(body), above_tokens=room)
    data: dict[str, Json] = {"title": title, "kept_share": round(verdict.kept_share, 3)}
    if not verdict.ok:
        data["refused"] = verdict.reason
    return made_of(material.wanted, body if count(body) <= room else cut_line(one_line(body), room, count), data)


def _units(turns: Sequence[SourceTurn]) -> list[Unit]:
    most = max(MIN_UNITS, MAX_UNITS // max(1, len(turns)))
    return [unit for turn in turns for unit in turn.units[:most]]


def _title(turns: Sequence[SourceTurn], words: int) -> str:
    """Return the words with the most weight, in the order of their first use; frequent words count more."""
    weights: dict[str, float] = {}
    names: dict[str, str] = {}
    times: Counter[str] = Counter()
    for turn in turns:
        for unit in turn.units:
            by_user = 1.0 if unit.text.startswith("[") else USER_WORDS
            for word in _title_words(unit.text):
                root = stem(word.casefold())
                names.setdefault(root, word)
                times[root] += 1
                weights[root] = weights.get(root, 0.0) + by_user * word_weight(word.casefold())
    heaviest = sorted(weights, key=lambda root: (-weights[root] * times[root], root))[:words]
    return ", ".join(name for root, name in names.items() if root in heaviest)[:MAX_TITLE_CHARS]


def _title_words(text: str) -> Iterator[str]:
    """Yield the words of a clause that may be used in a title, each once."""
    seen: set[str] = set()
    for word in _TITLE_WORD.findall(_MARKED.sub(" ", text)):
        plain = word.casefold()
        if plain not in seen and word_weight(plain) >= MIN_TITLE_WEIGHT and plain not in _UNTITLED:
            seen.add(plain)
            yield word


def _asked(turn: SourceTurn | None) -> str:
    """Return the user's first words in a turn."""
    said = [message.text for message in turn.messages if _is_prompt(message)] if turn else []
    return "\n".join(said)[:READ_CHARS]


def _exchanged(turn: SourceTurn) -> str:
    """Return the user's words, and the last answer."""
    answers = [message.text for message in turn.messages if message.role == "assistant" and message.kind == "message"]
    answered = "\n".join(text for text in answers if text.strip())
    return f"{_asked(turn)}\n{answered[-READ_CHARS:]}"


def _is_prompt(message: Message) -> bool:
    return message.role == "user" and message.kind == "message"


def _words(text: str) -> dict[int, float]:
    """Return the weights of the informative words of a text, each by a number."""
    found: dict[int, float] = {}
    for key, weight in find_facts(text).items():
        if key[0] in _SUBJECT_KINDS and weight > MIN_WORD_WEIGHT:
            number = zlib.crc32(key[2:].encode()) & 0xFFFF
            found[number] = max(found.get(number, 0.0), min(weight, 1.25))
    return found


def _phrases(data: Mapping[str, Json]) -> Phrases:
    languages, own = data.get("languages"), data.get("phrases")
    return load_phrases(
        tuple(map(str, languages)) if isinstance(languages, list | tuple) else None,
        tuple(map(str, own)) if isinstance(own, list | tuple) else (),
    )


def _ranges(given: Json) -> list[tuple[int, int]]:
    pairs = given if isinstance(given, list | tuple) else ()
    return [(int(pair[0]), int(pair[1])) for pair in pairs if isinstance(pair, list | tuple)]


class TopicWording(ClauseWording):
    """A topic, or several together, with a title and clauses worded by a model."""

    schema: ClassVar[Mapping[str, Json]] = closed_object(
        {"title": {"type": "string"}, "clauses": clauses_schema(SPEAKERS)}
    )
    clauses_key = "clauses"

    @property
    def prompt(self) -> str:
        return prompt_text("summary/topics").strip()

    def put_together(self, judged: JudgedClauses, material: Material, before: Artefact) -> Artefact:
        title = _model_title(judged.answer.get("title"), judged.notes, judged.nonce) or str(
            before.data.get("title", "")
        )
        count = len(_ranges(material.wanted.data.get("topics")))
        head = "Topic" if material.wanted.kind == "topic" else f"{count or 1} topics"
        return _summary(material, f"{head}: {title}" if title else head, title, judged.kept)


def _model_title(given: object, notes: Sequence[Unit], nonce: str) -> str:
    """Return a model's title if it consists of words of the notes; else an empty text."""
    title = one_line(visible(given)).rstrip(".;, ") if isinstance(given, str) else ""
    if not title or len(title) > MAX_TITLE_CHARS:
        return ""
    words = [words_of(unit) for unit in notes]
    known: Facts = find_facts("\n".join(words))
    forms = {key[2:] for key in known}
    is_wrong = (
        any(key[0] in CLAIMS and key[2:] not in forms for key in find_facts(title))
        or wrong_in(title, SourceWords("\n".join(words), GuardSource(known, words), 0, known), nonce)
        or made_up(title, known)
    )
    return "" if is_wrong else title


WORDING = TopicWording()
