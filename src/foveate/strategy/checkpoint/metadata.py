"""Finds the metadata of tier 5: the digests of written files, the outcome of test runs, and owners."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from foveate.compress.clauses import cut_text
from foveate.compress.exchange import ToolExchange, read_exchange
from foveate.compress.tools import tests
from foveate.strategy.build import SourceTurn
from foveate.turn import ToolCall

DIGEST_CHARS = 8
MAX_TESTS = 3
"""Newest test runs that are kept, one per command."""
MAX_OWNERS = 20
MAX_OWNER_CHARS = 120

_CONTENTS = ("content", "contents", "file_text", "text")
"""Arguments with the whole content of a file."""
_READS = re.compile(r"(?i)read|view|list|search|grep|open|cat")
_OWNER = re.compile(
    r"\b(?:owner|assignee|maintainer)s?(?: of [^.;:]{1,40})?(?::| is| are) [@A-Z]"
    r"|\b[A-Z]\w+ (?:owns|maintains|is responsible for|is in charge of|is assigned to)\b"
    r"|\b(?:assigned|handed over) to [@A-Z]\w"
)


@dataclass(slots=True)
class Metadata:
    """What tier 5 adds to the lists of a checkpoint."""

    digests: dict[str, str] = field(default_factory=dict)
    """First digits of the SHA-256 of files whose whole content was written, by path; empty once they were edited."""
    tests: dict[str, str] = field(default_factory=dict)
    """The last outcome of each test command."""
    owners: list[str] = field(default_factory=list)
    """Clauses that name who is responsible for something, verbatim."""


def find_metadata(turns: Sequence[SourceTurn]) -> Metadata:
    """Find the metadata in the assistant's words and calls."""
    found = Metadata()
    for turn in turns:
        calls: dict[str | None, ToolCall] = {}
        for message in turn.messages:
            calls |= {call.id: call for call in message.tool_calls}
            for result in message.tool_results:
                if call := calls.pop(result.call_id, None):
                    _read(found, read_exchange(call, result))
            if message.role == "assistant" and message.kind == "message":
                found.owners += _owners(message.text)
    found.tests = dict(list(found.tests.items())[-MAX_TESTS:])
    found.owners = list(dict.fromkeys(found.owners))[-MAX_OWNERS:]
    return found


def _read(found: Metadata, exchange: ToolExchange) -> None:
    if tests.recognises(exchange):
        command = exchange.command.strip() or exchange.tool
        found.tests.pop(command, None)
        found.tests[command] = tests.outcome(exchange)
    elif exchange.path and not exchange.failed:
        content = next((text for key in _CONTENTS if isinstance(text := exchange.arguments.get(key), str)), None)
        if content is not None:
            digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
            found.digests[exchange.path] = digest[:DIGEST_CHARS]
        elif not _READS.search(exchange.tool):  # an edit of a part, after which the digest is unknown
            found.digests.pop(exchange.path, None)


def _owners(text: str) -> Iterator[str]:
    for clause in cut_text(text):
        if clause.kind != "code" and len(clause.text) <= MAX_OWNER_CHARS and _OWNER.search(clause.text):
            yield clause.text
