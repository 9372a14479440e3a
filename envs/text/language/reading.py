"""Read numbers, names and arithmetic from a sentence of a language model.

The rule, the same in every environment: case, punctuation and code fences do not matter. An action counts if it names
one thing: the same number or name may occur several times, two different ones make the action invalid.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from fractions import Fraction

MAX_CHARS = 400
"""Longest action that is read; a longer one is invalid."""
MAX_DIGITS = 15

_NUMBER = re.compile(r"(?<![\w.,])-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?![\w]|[.,][0-9])")
_FENCE = re.compile(r"```[\w-]*")


def plain(text: str) -> str:
    """Return the text in lower case, on one line, without the marks of code fences; empty if it is too long."""
    if len(text) > MAX_CHARS:
        return ""
    return " ".join(_FENCE.sub(" ", unicodedata.normalize("NFKC", text)).casefold().split())


def numbers(text: str) -> list[Fraction]:
    """Return the different numbers of a plain text, in order: ``1,692`` and ``1692.`` are 1692."""
    found = [match.replace(",", "") for match in _NUMBER.findall(text)]
    return list(dict.fromkeys(Fraction(each) for each in found if len(each) <= MAX_DIGITS))


def names(text: str, forms: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of which the plain text has one of the forms as whole words, in the order of ``forms``."""
    return [name for name, spelled in forms.items() if any(_has(text, form) for form in spelled)]


def _has(text: str, form: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text) is not None
