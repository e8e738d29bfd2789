"""Whatever a turn says, and whatever a model that believes it answers: renditions and contexts keep their structure."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from foveate import Foveate
from foveate.compress.local import LocalCompressor
from foveate.compress.marks import cut_line, one_line
from foveate.compress.tiny import MAX_TOKENS
from foveate.context.tags import parse_blocks
from foveate.renditions import Count, Renditions
from foveate.store.codec import restore_message
from foveate.text import MARK_WORDS
from foveate.tokens import count_tokens, exact_counter
from foveate.turn import Message
from foveate.worker.renditions import make_rendition
from support.engine import covered, opened, settings, talk, verify
from support.injections import INJECTIONS, Injection, assigned, honest, judged

MARK = re.compile(rf"(?<!\\)\[({MARK_WORDS})\b")
TURN = 2
"""Which turn of the session is the attack."""

cases = pytest.mark.parametrize("injection", INJECTIONS, ids=lambda injection: injection.name)


@dataclass(slots=True)
class Fooled:
    """A compressor whose model obeys the turn; what passes takes the place of the local renditions."""

    fooled: str
    is_judged: bool
    name: str = "fooled"
    version: int = 1

    def compress(self, turn: int, messages: Sequence[Message], count: Count) -> Renditions:
        local = LocalCompressor().compress(turn, messages, count)
        if not self.is_judged:
            said = self.fooled.encode("utf-8", "replace").decode()
            return replace(local, compressed=said, tiny=cut_line(one_line(said), MAX_TOKENS, count))
        texts = judged(messages, self.fooled).texts
        return replace(local, compressed=texts.get("C", local.compressed), tiny=texts.get("T", local.tiny))


def test_there_are_at_least_twenty_different_attacks() -> None:
    assert len({injection.words for injection in INJECTIONS}) >= 20


@cases
def test_an_attack_does_not_stop_an_honest_answer(injection: Injection) -> None:
    made = judged(injection.messages(), honest())
    assert set(made.texts) == {"C", "T"}, [refusal.reason for refusal in made.refusals]


@cases
def test_an_attack_stands_inside_the_envelope_and_cannot_end_it(injection: Injection) -> None:
    assignment = assigned(injection.messages())
    _, request = assignment.ask.messages
    assert request.text.count(assignment.nonce) == 2
    assert request.text.startswith(f"<source-{assignment.nonce}>\n")
    _, _, behind = request.text.partition(f"\n</source-{assignment.nonce}>\n")
    assert "\n" not in behind


@cases
def test_an_answer_that_obeys_is_refused_or_loses_what_was_smuggled_in(injection: Injection) -> None:
    plain = judged(injection.messages(), honest()).texts
    made = judged(injection.messages(), injection.fooled)
    if not injection.reason:  # once nobody's keys and nobody's letters are gone
        assert made.texts
        assert all(text.startswith(plain[level][:100]) for level, text in made.texts.items())
        assert all(letter.isprintable() or letter == "\n" for text in made.texts.values() for letter in text)
    else:
        assert not made.texts
        assert len(made.refusals) == 2
        for refusal in made.refusals:
            assert any(reason in refusal.reason for reason in injection.reason.split("|"))
    for text in made.texts.values():
        assert [mark[1] for mark in MARK.finditer(text)] == ["assistant"]
        assert not re.search(r"<\W*T-|Turn \d+:", text)


@cases
@pytest.mark.parametrize(
    "is_judged", [pytest.param(True, marks=pytest.mark.thorough), False], ids=["judged", "without the guard"]
)
def test_no_attack_changes_the_structure_of_a_context(tmp_path: Path, injection: Injection, is_judged: bool) -> None:
    async def job() -> None:
        quiet = settings(compress={"enabled": False, "processes": 0}, gradient={"bands": "documented"})
        async with opened(tmp_path / "chat.db", quiet) as fov:
            await _attacked(fov, injection, Fooled(injection.fooled, is_judged))
            session = await fov.session("s")
            seen = set()
            for budget in (1_400, 2_200, 3_000):
                context = await session.context("And now?", budget_tokens=budget)
                await verify(session, context, "And now?", budget)
                blocks = parse_blocks(context.history)
                assert covered(blocks) == list(range(1, 13))
                for block in blocks:
                    shown = [entry.text for entry in block.entries if entry.number == TURN]
                    if shown and block.level in ("C", "T"):
                        kept = await session.get_turn(f"T-{TURN}", block.level, format="plain")
                        assert shown == [kept.content]
                        seen.add(block.level)
            assert seen

    asyncio.run(job())


async def _attacked(fov: Foveate, injection: Injection, compressor: Fooled) -> None:
    """A session of twelve turns, the second of which is the attack, with the renditions of a fooled model."""
    session = await fov.session("s", budget_tokens=2_000)
    await talk(session, 1)
    await session.record(list(injection.messages()))
    await talk(session, 10, words=60, first=3)
    store = fov._store
    info = await store.get_session("s")
    made = []
    for turn in range(1, 13):
        messages = [restore_message(row) for row in await store.read("s", turn, turn) if row.turn == turn]
        chosen = compressor if turn == TURN else LocalCompressor()
        made.append(make_rendition(chosen, turn, messages, exact_counter(info.encoding)))
    await store.derived.add_renditions("s", made)


def test_sizes_are_counted_as_everywhere() -> None:
    made = judged(INJECTIONS[0].messages(), honest())
    assert count_tokens(made.texts["T"]) <= MAX_TOKENS
