"""Search results as text for a model: dated lines of whole sentences, within `MAX_ANSWER_CHARS`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from foveate.compress.orders import has_standing_order
from foveate.context.tags import escape_tags
from foveate.recall.replies import NAME_AT_START
from foveate.recall.search import Hit
from foveate.recall.words import gist, snippet, telling_words

MAX_ANSWER_CHARS = 8_000
"""Maximum length of all results on a page, about 2,000 tokens."""
HIT_CHARS = 480
"""Maximum length of a hit's words; less if a page has many,"""
LEAST_CHARS = 100
"""but never less than this."""
NEIGHBOUR_SHARE = 0.5
"""Length of the question or the reply that completes a hit, as a share of its own."""
LINE_CHARS = 220
"""Maximum length of a line in a list by time."""
HEAD_CHARS = 60
"""About the length of the turn, the date and the speaker of a line."""
LEAST_COPIED = 0.85
"""Two passages that share this much of their words, and all numbers, are copies."""
MAX_ALSO = 5
"""Maximum number of copies that are named."""
RANKED_ORDERS = 60
"""Of the best hits, those among which standing orders come first."""


@dataclass(frozen=True, slots=True)
class FoundTurn:
    """A hit, and the addresses of the turns that say the same."""

    hit: Hit
    also: tuple[str, ...] = ()


def distinct(hits: Iterable[Hit], own_session: str | None = None) -> list[FoundTurn]:
    """Merge hits that say nearly the same into the best of them. Turns of other sessions are named with theirs."""
    found: list[FoundTurn] = []
    known: list[tuple[str, frozenset[str]]] = []
    for hit in hits:
        words = frozenset(telling_words(hit.text))
        copied = next((place for place, said in enumerate(known) if _are_copies(said, (hit.role, words))), None)
        if copied is None:
            found.append(FoundTurn(hit))
            known.append((hit.role, words))
        else:
            found[copied] = replace(found[copied], also=(*found[copied].also, address(hit, own_session)))
    return found


def orders_first(found: Sequence[FoundTurn]) -> list[FoundTurn]:
    """Put standing orders of the user first that have a word of the query: they hold when their subject comes up."""
    head, tail = found[:RANKED_ORDERS], found[RANKED_ORDERS:]
    return [*sorted(head, key=lambda each: not _is_order(each.hit)), *tail]


def hit_lines(found: Sequence[FoundTurn], query: str, page_turns: int, own_session: str | None = None) -> str:
    """Write hits with their dates, the words around the match as whole sentences, and what completes them."""
    most = max(LEAST_CHARS, min(HIT_CHARS, int(MAX_ANSWER_CHARS / page_turns / (1 + NEIGHBOUR_SHARE)) - HEAD_CHARS))
    lines: list[str] = []
    for each in found:
        hit = each.hit
        lines.append(f"{head(hit, own_session)}: {snippet(hit.text, query, most)}")
        for name, text in (("question", hit.question), ("reply", hit.reply)):
            if text:
                lines.append(f"  {name}: {snippet(text, query, int(most * NEIGHBOUR_SHARE))}")
        if each.also:
            more = " and more" if len(each.also) > MAX_ALSO else ""
            lines.append(f"  also {', '.join(each.also[:MAX_ALSO])}{more}")
    return escape_tags("".join(f"{line}\n" for line in lines))


def list_lines(hits: Sequence[Hit], query: str, page_turns: int, own_session: str | None = None) -> str:
    """Write one dated line per turn: what was stated first, with its numbers."""
    most = max(LEAST_CHARS, min(LINE_CHARS, MAX_ANSWER_CHARS // page_turns - HEAD_CHARS))
    return escape_tags("".join(f"{head(hit, own_session)}: {gist(hit.text, query, most)}\n" for hit in hits))


def head(hit: Hit, own_session: str | None = None) -> str:
    """Write the turn, the date and the speaker, if it has one, of a hit: `T-32 · 29 January 2023 · user`."""
    who = f"{hit.role} {hit.tool}" if hit.tool else hit.role
    told = f"{address(hit, own_session)} · {hit.day}"
    return " ".join((f"{told} · {who}" if who else told).split())


def address(hit: Hit, own_session: str | None = None) -> str:
    """The turn as the history tools name it: `T-12`, of another session `SESSION/T-12`; None: all are of one."""
    return hit.turn_id if own_session in (None, hit.session_id) else f"{hit.session_id}/{hit.turn_id}"


def _is_order(hit: Hit) -> bool:
    said = NAME_AT_START.sub("", hit.text, count=1) if NAME_AT_START.match(hit.text) else hit.text
    return hit.role == "user" and hit.keyword > 0 and has_standing_order(said)


def _are_copies(one: tuple[str, frozenset[str]], other: tuple[str, frozenset[str]]) -> bool:
    (role, words), (other_role, other_words) = one, other
    shared, every = words & other_words, words | other_words
    if role != other_role or not every or len(shared) < LEAST_COPIED * len(every):
        return False
    return not any(any(map(str.isdigit, word)) for word in every - shared)
