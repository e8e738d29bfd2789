"""The guard rejects what lost or invented too much, with a reason."""

from __future__ import annotations

import pytest

from foveate.compress.clauses import sentences
from foveate.compress.facts import find_facts
from foveate.compress.guard import GuardSource, Pair, Shares, Verdict, check

TEXT = (
    "The ledger runs on fin-04 and the batch takes 40 minutes. Never restart the ledger service during a batch. "
    "If the disk is full, stop the importer. Marisol repaired 17 postings by hand in src/ledger/fix.py."
)


def source(text: str = TEXT) -> GuardSource:
    return GuardSource(find_facts(text), sentences(text))


def judge(rendition: str, *, level: str = "T", tokens: int = 10, above: int = 50, model: bool = False) -> Verdict:
    assert level in ("C", "T")
    return check(
        "T" if level == "T" else "C", source(), rendition, tokens=tokens, above_tokens=above, written_by_model=model
    )


def test_a_faithful_rendition_passes() -> None:
    verdict = judge("Never restart ledger service during batch; Marisol repaired 17 postings in src/ledger/fix.py")
    assert verdict.ok, verdict.reason
    assert 0.25 <= verdict.kept_share <= 1


@pytest.mark.parametrize("rendition", ["", "  \n"])
def test_an_empty_rendition_is_refused(rendition: str) -> None:
    assert judge(rendition).reason == "it is empty"


def test_a_rendition_larger_than_the_level_above_is_refused() -> None:
    assert "more than the 50" in judge(TEXT, tokens=60).reason


def test_a_rendition_that_lost_most_facts_is_refused_and_the_heaviest_are_named() -> None:
    verdict = judge("The ledger runs.", level="C")
    assert "weighted facts" in verdict.reason
    assert "/:src/ledger/fix.py" in verdict.lost


@pytest.mark.parametrize("rendition", ["Restart the ledger service during a batch.", "Stop the importer."])
def test_a_clause_that_lost_its_negation_or_condition_is_refused(rendition: str) -> None:
    kept = f"{rendition} Marisol repaired 17 postings by hand in src/ledger/fix.py. Ledger on fin-04, 40 minutes."
    assert "lost its negation or condition" in judge(kept, level="C").reason


def test_a_number_without_its_unit_is_refused() -> None:
    assert "lost a unit: 40" in judge("Batch takes 40; 17 postings in src/ledger/fix.py").reason


@pytest.mark.parametrize("invented", ["on fin-05", "99 postings", "in src/other/file.py"])
def test_a_model_may_not_make_up_numbers_and_identifiers(invented: str) -> None:
    text = f"Marisol repaired 17 postings in src/ledger/fix.py, ledger fin-04 {invented}"
    assert "which the turn has not" in judge(text, model=True).reason
    assert judge(text.removesuffix(invented), model=True).ok


@pytest.mark.parametrize("mark", ["[user] hello", "<T-9-R>", "Turn 12: hello"])
def test_a_model_may_not_set_marks_or_tags(mark: str) -> None:
    assert "mark or a tag" in judge(f"Marisol repaired 17 postings in src/ledger/fix.py {mark}", model=True).reason


def test_a_known_pair_that_lost_its_negation_is_refused() -> None:
    pairs = [Pair("Never restart it.", "restart it")]
    assert "negation" in check("T", source(), "Marisol 17", tokens=1, above_tokens=9, pairs=pairs).reason


def test_a_line_of_output_is_no_clause_that_lost_a_unit() -> None:
    note = "{read tanks.py: 147 lines}"
    with_lines = "{read tanks.py: 147 lines: 146 total += note | 147 return total}"
    verdict = check(
        "C", GuardSource(find_facts(note), [note]), with_lines, tokens=20, above_tokens=99, pairs=[Pair(note, note)]
    )
    assert verdict.ok


def test_thresholds_are_settings() -> None:
    strict = check("T", source(), "Marisol", tokens=1, above_tokens=9, shares=Shares(tiny=0.99))
    assert not strict.ok
    assert check("T", source(), "Marisol", tokens=1, above_tokens=9, shares=Shares(tiny=0.0)).ok


def test_a_large_tool_output_does_not_make_a_tiny_line_impossible() -> None:
    facts = find_facts(TEXT) | {f"#:{place}": 0.2 for place in range(3_000)}
    verdict = check("T", GuardSource(facts, []), "Never restart the ledger on fin-04", tokens=9, above_tokens=99)
    assert verdict.kept_share > 0.1
