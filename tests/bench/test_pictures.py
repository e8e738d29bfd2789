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


@pytest.mark.parametrize("name", diagrams.DIAGRAMS)
def test_a_diagram_is_current_and_fetches_nothing(name: str) -> None:
    drawn = (diagrams.IMAGES / f"{name}.svg").read_text("utf-8")
    assert drawn == diagrams.DIAGRAMS[name](), "run `python bench/diagrams.py`"
    assert {element.tag.rpartition("}")[2] for element in ET.fromstring(drawn).iter()}.isdisjoint(
        {"script", "image", "foreignObject"}
    )
    assert drawn.count("://") == 1, "the name space alone"
