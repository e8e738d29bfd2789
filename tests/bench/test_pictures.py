"""The pictures that programs draw are current."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

import diagrams
import plot_budget


def test_the_plot_shows_the_figures_of_the_benchmarks_page() -> None:
    page = plot_budget.BENCHMARKS.read_text("utf-8")
    assert plot_budget.PICTURE.read_text("utf-8") == plot_budget.draw(page), "run `python bench/plot_budget.py`"
    assert plot_budget.by_budget(page, "| questions | budget | FACT fresh", 4)["locomo-dev"].keys() == {
        4000,
        8000,
        16000,
    }
    assert [row[1] for row in plot_budget.answers(page)] == [
        "newest",
        "live",
        "live+tools",
        "whole",
        "newest",
        "live",
        "live+tools",
    ]


def short(*cells: str) -> str:
    """Figures as the README writes them: `.93 / .96`, rounded half up."""
    return " / ".join(f"{plot_budget.number(cell) + 1e-9:.2f}".lstrip("0") for cell in cells)


def test_the_readme_has_the_figures_of_the_benchmarks_page() -> None:
    page = plot_budget.BENCHMARKS.read_text("utf-8")
    readme = (plot_budget.DOCS.parent / "README.md").read_text("utf-8")
    scores = {(name, condition): str(score) for name, condition, score, _ in plot_budget.answers(page)}
    found = {
        header: {(row[0], row[1]): row for row in plot_budget.rows(page, header)}
        for header in ("| questions | budget |", "| working set | budget |", "| budget in use | budget |")
    }
    questions, used, room = found.values()
    locomo, beam = "locomo-dev", "beam-100k-dev"
    ends = (questions[locomo, budget][4].split()[0].lstrip("0") for budget in ("4,000", "8,000"))
    working = [used["pi", budget] for budget in ("16,000", "32,000")]
    whole, newest = (short(scores[locomo, condition]) for condition in ("whole", "newest"))
    others = f"(whole history, 20,000 tokens: {whole}; newest 4,000: {newest})"
    for figure in (
        f"{short(scores[locomo, 'live'], scores[locomo, 'live+tools'])} {others}",
        f"{short(scores[beam, 'live'], scores[beam, 'live+tools'])} (newest 8,000: {short(scores[beam, 'newest'])})",
        " / ".join(ends),
        short(*(questions[beam, budget][4] for budget in ("8,000", "16,000"))),
        f"{short(*(row[2] for row in working))} (newest tokens: {short(*(row[3] for row in working))})",
        short(*(room[locomo, budget][7] for budget in ("4,000", "8,000"))),
    ):
        assert f"| {figure} |" in readme


@pytest.mark.parametrize("name", diagrams.DIAGRAMS)
def test_a_diagram_is_current_and_fetches_nothing(name: str) -> None:
    drawn = (diagrams.IMAGES / f"{name}.svg").read_text("utf-8")
    assert drawn == diagrams.DIAGRAMS[name](), "run `python bench/diagrams.py`"
    assert {element.tag.rpartition("}")[2] for element in ET.fromstring(drawn).iter()}.isdisjoint(
        {"script", "image", "foreignObject"}
    )
    assert drawn.count("://") == 1, "the name space alone"
