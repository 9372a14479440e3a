"""The diff of two texts shows their first difference, however long they are."""

from hypothesis import given, settings
from hypothesis import strategies as st
from turnwise.agents.reexecution.compare import MAX_LINE_CHARS, MAX_LINES, text_diff


def test_equal_texts_have_no_diff() -> None:
    assert text_diff("one\ntwo", "one\ntwo") == ""


def test_a_changed_line_is_shown_with_its_neighbors() -> None:
    stored = "\n".join(f"line {number}" for number in range(9))
    assert text_diff(stored, stored.replace("line 5", "line five")).splitlines() == [
        "--- stored",
        "+++ now",
        "@@ from line 4 @@",
        " line 3",
        " line 4",
        "-line 5",
        "+line five",
        " line 6",
        " line 7",
    ]


def test_a_difference_late_in_a_long_line_is_visible() -> None:
    long = "word " * 100_000
    diff = text_diff(f"{long}red{long}", f"{long}blue{long}")
    removed, added = diff.splitlines()[3:5]
    assert "red" in removed
    assert "blue" in added
    assert len(removed) <= MAX_LINE_CHARS + 3


def test_a_long_text_is_cut() -> None:
    lines = [f"line {number}" for number in range(1000)]
    diff = text_diff("\n".join(lines), "\n".join(f"{line} changed" for line in lines))
    assert len(diff.splitlines()) <= 2 * MAX_LINES + 4
    assert diff.endswith("… 960 more lines")


def test_a_difference_in_line_ends_is_named() -> None:
    assert text_diff("a\nb", "a\r\nb\n") == "the texts differ only in the white space at the end of lines"


@settings(max_examples=50)
@given(st.text(), st.text())
def test_different_texts_have_a_diff(one: str, other: str) -> None:
    assert bool(text_diff(one, other)) == (one != other)
