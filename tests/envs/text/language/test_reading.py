"""The rule by which numbers and names are read from a sentence of a language model."""

from fractions import Fraction

import pytest
from turnwise.envs.text.language.reading import MAX_CHARS, names, numbers, plain


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
        ("34,35", []),
        ("34-43", [34, 43]),
        ("\uff14\uff12", [42]),
        ("\u0664\u0662", []),
        ("room42", []),
        ("42nd", []),
        ("1.2.3", []),
        ("forty-two", []),
        ("9" * 5000, []),
        ("9" * 300, []),
        ("", []),
    ],
)
def test_numbers(text: str, expected: list[int]) -> None:
    assert numbers(plain(text)) == expected


def test_a_long_text_is_empty() -> None:
    assert plain("x" * MAX_CHARS) != ""
    assert plain("x" * (MAX_CHARS + 1)) == ""


def test_names_are_whole_words() -> None:
    forms = {"owl": ("owl", "owls"), "water": ("water", "swim")}
    assert names(plain("Is it the OWL?"), forms) == ["owl"]
    assert names(plain("Owls can swim."), forms) == ["owl", "water"]
    assert names(plain("growl, owlet"), forms) == []
