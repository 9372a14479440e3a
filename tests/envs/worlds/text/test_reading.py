"""The rule by which numbers and names are read from a sentence of a language model."""

from fractions import Fraction

import pytest
from turnwise.envs.worlds.text.reading import MAX_CHARS, names, numbers, plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42", [42]),
        ("My guess is 42.", [42]),
        ("MY GUESS: **42**!", [42]),
        ("```\n42\n```", [42]),
        ("```text\n42```", [42]),
        ("It is 42, so 42", [42]),
        ("$42", [42]),
        ("(42)", [42]),
        ("42%", [42]),
        ("1,692", [1692]),
        ("1,692,001.", [1692001]),
        ("42.0", [42]),
        ("2.5", [Fraction(5, 2)]),
        ("-5", [-5]),
        ("from 34 to 43", [34, 43]),
        ("34, 35", [34, 35]),
        ("34,35", ["34,35"]),
        ("34-43", [34, 43]),
        ("\uff14\uff12", [42]),
        ("\u0664\u0662", ["\u0664\u0662"]),
        ("room42", ["room42"]),
        ("42nd", ["42nd"]),
        ("1.2.3", ["1.2.3"]),
        ("forty-two", []),
        ("9" * 5000, []),
        ("9" * 300, ["9" * 300]),
        ("42 or 1e3 or 12,34", [42, "1e3", "12,34"]),
        ("42 or 1234567890123456", [42, "1234567890123456"]),
        *((f"{dash}42", [-42]) for dash in "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"),
        ("it is\u201442", [42]),
        ("202\u2074", ["202\u2074"]),
        ("42 \u00bd", [42, "\u00bd"]),
        ("2\u2460", ["2\u2460"]),
        ("\U0001d7d2\U0001d7d0", [42]),
        ("4\u03362\u0336", ["4\u03362\u0336"]),
        ("42\u200b42", [42, "42\u200b"]),
        ("minus 42", [-42]),
        ("It is negative 42.", [-42]),
        ("42 thousand", [42, "42 thousand"]),
        ("42 squared", [42, "42 squared"]),
        ("x + 42", [42, "x + 42"]),
        ("42/x", [42, "42/x"]),
        ("**42** is it", [42]),
        ("my guess\n* 42", [42]),
        ("42 - no, 42", [42]),
        ("room 42 - the last", [42]),
        ("", []),
    ],
)
def test_numbers(text: str, expected: list[int | str]) -> None:
    assert numbers(plain(text)) == expected


def test_a_long_text_is_empty() -> None:
    assert plain("x" * MAX_CHARS) != ""
    assert plain("x" * (MAX_CHARS + 1)) == ""


def test_reasoning_without_a_begin_is_not_read() -> None:
    assert plain(f"30 or 40? {'so ' * MAX_CHARS}\n</think>\n\n50") == "50"
    assert plain("30 or 40?</think>50") == "50"


def test_names_are_whole_words() -> None:
    forms = {"owl": ("owl", "owls"), "water": ("water", "swim")}
    assert names(plain("Is it the OWL?"), forms) == ["owl"]
    assert names(plain("Owls can swim."), forms) == ["owl", "water"]
    assert names(plain("growl, owlet"), forms) == []
