"""Values as the pages print them, and templates without inline script and style."""

import re
from pathlib import Path

import pytest
from markupsafe import Markup
from turnwise.console.viewer import rendering
from turnwise.console.viewer.charts import CHARTS, charts_of, leading, sections
from turnwise.console.viewer.rendering import (
    number,
    percent,
    points,
    seconds,
    signed,
    url,
    without,
)
from turnwise.console.viewer.visible import visible

FOLDER = Path(rendering.__file__).parent


@pytest.mark.parametrize("path", sorted((FOLDER / "templates").iterdir()), ids=lambda path: path.name)
def test_a_template_has_nothing_inline_and_trusts_no_value(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\sstyle=|\son[a-z]+=|<style|\|\s*safe|autoescape|Markup|javascript:", text)
    assert all(attributes for attributes in re.findall(r"<script([^>]*)>", text))
    assert re.findall(r"<script[^>]*>\s*[^<\s]", text) == []


def test_the_scripts_build_no_markup_from_texts() -> None:
    scripts = "".join(path.read_text() for path in (FOLDER / "static").glob("*.js"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", scripts)


def test_acting_characters_are_printed_as_signs() -> None:
    assert visible("a\x00\x1b[2J\r\nb\tc") == "a␀␛[2J\nb\tc"
    assert visible("\u202egnp\ud83d") == "⟨right-to-left override⟩gnp⟨u+d83d⟩"
    assert visible("a\U000e0068\U000e0069\u180e") == (
        "a⟨tag latin small letter h⟩⟨tag latin small letter i⟩⟨mongolian vowel separator⟩"
    )
    assert visible(None) == "–"
    assert visible(Markup("<b>")) == "<b>"


def test_addresses_are_quoted() -> None:
    assert url("runs", "a/b?c#d", "groups", state=None, after="é&") == "/runs/a%2Fb%3Fc%23d/groups?after=%C3%A9%26"
    assert without({"state": "open", "after": "x", "start": "3"}, "state", "failed") == "?state=failed"
    assert without({"state": "open"}, "state") == ""


def test_numbers_are_short() -> None:
    nan = float("nan")
    assert [number(one) for one in (None, nan, 12, 1234567, -0.30001, 1234.5)] == [
        "–",
        "–",
        "12",
        "1,234,567",
        "−0.3",
        "1,234",
    ]
    assert [signed(one) for one in (0.25, -1, None, nan)] == ["+0.25", "−1", "–", "–"]
    assert (percent(0.805, 1), percent(nan), points(-0.0525)) == ("80.5 %", "–", "−5.2 pp")
    assert [seconds(one) for one in (0.0004, 0.11, 2.345, 200)] == ["< 1 ms", "110 ms", "2.3 s", "3 min"]


def test_a_chart_has_the_lines_that_have_values() -> None:
    found = charts_of(["success", "staleness_max", "reward_part/goal", "other"])
    assert [(one.title, [line.label for line in one.lines]) for one in found] == [
        ("Success", ["training batch"]),
        ("Staleness", ["max"]),
        ("Parts of the return", ["goal"]),
    ]


def test_every_chart_comes_first_or_folds_away_and_the_query_opens_sections() -> None:
    folded = sections(None)
    assert [one.title for one in leading()] == ["Success", "Staleness", "Turns per episode"]
    assert [*leading(), *(chart for one in folded for chart in one.charts)] == list(CHARTS)
    assert [one.name for one in folded if one.is_open] == ["returns", "learning", "components"]
    assert [one.name for one in sections("speed,returns") if one.is_open] == ["returns", "speed"]
    assert [one.name for one in sections("none") if one.is_open] == []
    assert {one.title: one.section for one in CHARTS}["Invalid actions"] == "returns", "their turns are trained on"
