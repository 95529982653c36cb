"""docs/results.md: what has figures is made anew, what has none stays."""

import report

PAGE = """# Results

## Accuracy

old accuracy

## Accuracy of int8

old int8

| a | b |

## Something else

kept by nobody
"""


def test_sections_without_figures_stay(monkeypatch):
    monkeypatch.setattr(report, "load", lambda group: {})
    assert report.results_page("") == []
    lines = report.results_page(PAGE)
    assert lines == ["", "## Accuracy", "", "old accuracy", "", "## Accuracy of int8", "", "old int8", "", "| a | b |"]


def test_figures_replace_a_section(monkeypatch):
    sizes = {"batch 1": {"error": 2e-6, "spread": 1e-6}, "batch 3": {"error": 3e-6, "spread": 1e-7}}
    figures = {"accuracy": {"own_unet": sizes}}
    monkeypatch.setattr(report, "load", lambda group: figures.get(group, {}))
    text = "\n".join(report.results_page(PAGE))
    assert "old accuracy" not in text and "old int8" in text
    assert "| own_unet | batch 1; batch 3 | 3.0e-06 | 1.0e-06 |" in text
    assert f"1 of {len(report.EVERY)} models are within 1e-04, {len(report.EVERY) - 1} have no figures" in text
