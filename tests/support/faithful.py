"""What an honest model would answer when it is asked to compress a turn, made by rules: for scripts and benchmarks.

    model = Scripted(lambda ask: Says(faithful_answer(ask)))

It reads the request as a model does, the envelope and nothing else, and answers in the shape that the schema asks for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from foveate.compress.local import LocalCompressor
from foveate.compress.model.request import NAMES
from foveate.compress.smooth import smooth_prose
from foveate.models import Ask
from foveate.text import MARK_WORDS, unescape_marks
from foveate.tokens import O200K
from foveate.turn import Json, Message, Part, Reasoning, Text, ToolCall, ToolResult

_ENVELOPE = re.compile(r"<source-(\w+)>\n(.*?)\n</source-\1>", re.DOTALL)
_LINE_MARK = re.compile(rf"^\[((?:{MARK_WORDS})\b[^\]\n]*)\] ?", re.MULTILINE)
_MARK = re.compile(rf"(?<!\\)\[((?:{MARK_WORDS})\b[^\]\n]*)\] ?")
_TOOLS_NOTE = re.compile(r"\s*\{\d+ tools? called\}$")
_PASSAGE = re.compile(r"^(\[(?:user|assistant|reasoning)\b[^\]\n]*\] )\((\d+)\) ", re.MULTILINE)
_NOTE_IN = re.compile(r"\{[a-z][^{}\n\"\\]*\}")
_NOTE = re.compile(r"\{[^{}\n]*\}")


def faithful_answer(ask: Ask) -> str:
    """The JSON text of the answer; `{}` for a request that has no turn in it."""
    envelope = next((found for message in ask.messages if (found := _ENVELOPE.search(message.text))), None)
    if envelope is None or ask.schema is None:
        return "{}"
    wanted = ask.schema.get("properties")
    names = wanted if isinstance(wanted, Mapping) else {}
    before = next((message.text for message in ask.messages if message.role == "assistant"), "")
    refused = _arguments(_NOTE_IN.sub("", before))  # most likely for a note on a tool
    if isinstance(refused, Mapping):
        return json.dumps({name: value for name, value in refused.items() if name in names}, ensure_ascii=False)
    source = envelope[2]
    plain = _PASSAGE.sub(r"\1", source)
    made = LocalCompressor().compress(1, read_source(plain), O200K.base)
    every: dict[str, Json] = {
        NAMES["S"]: _passages(source),
        NAMES["C"]: _parts(made.compressed, plain),
        NAMES["T"]: _parts(made.tiny, plain),
    }
    return json.dumps({name: value for name, value in every.items() if name in names}, ensure_ascii=False)


def read_source(source: str) -> list[Message]:
    """The messages that a source's marks tell of."""
    marks = list(_LINE_MARK.finditer(source))
    ends = [*(mark.start() for mark in marks[1:]), len(source)]
    return [
        _message(mark[1], unescape_marks(source[mark.end() : end].rstrip("\n")), place)
        for place, (mark, end) in enumerate(zip(marks, ends, strict=True))
    ]


def _message(mark: str, text: str, place: int) -> Message:
    word, _, rest = mark.partition(" ")
    parts: dict[str, tuple[Part, ...]] = {
        "reasoning": (Reasoning(text),),
        "call": (ToolCall(rest or "tool", _arguments(text), f"c{place}"),),
        "result": (ToolResult(f"c{place - 1}", (Text(text),), name=rest.split(" ")[0] or None),),
    }
    if word in ("user", "system", "assistant"):
        return Message("user" if word == "user" else "assistant" if word == "assistant" else "system", (Text(text),))
    role = "tool" if word == "result" else "assistant"
    return Message(role, parts.get(word, (Text(text),)))  # type: ignore[arg-type]


def _arguments(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found


def _parts(text: str, source: str) -> Json:
    """The words of a rendition by who says them, the user's and everybody else's.

    Rules count lines and changes by themselves, which a model may not: such notes are left out, and repeated ones.
    """
    seen: set[str] = set()

    def once(note: re.Match[str]) -> str:
        is_new = note[0] not in seen and all(number in source for number in re.findall(r"\d+", note[0]))
        seen.add(note[0])
        return note[0] if is_new else ""

    said: dict[str, list[str]] = {"user": [], "assistant": []}
    who, start = "user", 0
    text = _NOTE.sub(once, _TOOLS_NOTE.sub("", text))
    for mark in [*_MARK.finditer(text), None]:
        words = text[start : mark.start() if mark else len(text)].strip()
        if words:
            said[who].append(words)
        if mark:
            who, start = "user" if mark[1].split(" ")[0] == "user" else "assistant", mark.end()
    return {speaker: "\n".join(words) for speaker, words in said.items()}


def _passages(source: str) -> Json:
    marks = [mark.start() for mark in _LINE_MARK.finditer(source)]
    found: list[Json] = []
    for passage in _PASSAGE.finditer(source):
        end = next((mark for mark in marks if mark > passage.start()), len(source))
        words = smooth_prose(unescape_marks(source[passage.end() : end].rstrip("\n")))
        found.append({"passage": int(passage[2]), "text": words})
    return found
