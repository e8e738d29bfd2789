"""The annotated turns and sentences that compression is measured on say what they claim to."""

from __future__ import annotations

from pathlib import Path

import pytest

from annotations import (
    SHARED,
    Fact,
    Negation,
    check_negations,
    check_turns,
    flipped,
    kept_share,
    load_annotations,
    load_negations,
    load_turns,
)

here = pytest.mark.skipif(
    not (SHARED / "transcripts").is_dir(), reason="the transcripts in ../shared/data are not here"
)


def negation(name: str) -> Negation:
    (found,) = (item for item in load_negations() if item.id == name)
    return found


def test_thirty_turns_are_annotated_at_least_half_of_them_from_real_transcripts() -> None:
    places = [annotation.turn for annotation in load_annotations()]
    assert len(places) == len(set(places)) == 30
    assert sum(not place.is_own for place in places) >= 15


def test_facts_of_the_own_turns_are_stated_in_them_and_nowhere_else(tmp_path: Path) -> None:
    annotated = load_turns(tmp_path)
    assert annotated.turns
    assert not any(annotation.turn.is_own for annotation in annotated.absent)
    assert list(check_turns(annotated.turns)) == []


@here
def test_facts_of_all_turns_are_stated_in_them_and_nowhere_else() -> None:
    annotated = load_turns()
    assert annotated.absent == ()
    assert list(check_turns(annotated.turns)) == []


@here
def test_the_whole_turn_keeps_every_fact_and_nothing_keeps_none() -> None:
    for turn in load_turns().turns:
        assert kept_share(turn.facts, turn.text) == 1
        assert kept_share(turn.facts, "") == 0


def test_fifty_sentences_are_whole_in_their_text_and_flipped_without_their_negation() -> None:
    negations = load_negations()
    assert len({item.id for item in negations}) == 50
    assert {item.language for item in negations} == {"en", "de", "fr", "es", "zh", "ja", "ru"}
    assert list(check_negations(negations)) == []


def test_kept_share_goes_by_weight() -> None:
    facts = [Fact("port 8443", "port", 3), Fact("Ingrid", "who", 1)]
    assert kept_share(facts, "They use PORT 8443.") == 0.75


def test_a_negation_in_another_sentence_saves_nothing() -> None:
    never = negation("ledger-restart")
    assert flipped(never, "Restart the ledger service. Never mind the mail relay.")
    assert flipped(never, "never on Sunday\nrestart ledger service")
    assert not flipped(never, "Never restart the ledger service. The mail relay can be bounced.")


def test_another_unit_is_another_meaning() -> None:
    timeout = negation("unit-ms")
    assert flipped(timeout, "The lock timeout on the payment table is 5 s.")
    assert not flipped(timeout, "lock timeout payment table: 5 ms")


def test_leaving_a_sentence_out_flips_nothing() -> None:
    assert not any(flipped(item, item.text.replace(item.sentence, "")) for item in load_negations())
