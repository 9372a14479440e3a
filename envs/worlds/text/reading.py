"""Read numbers, names and arithmetic from a sentence of a language model.

The rule, the same in every environment: case, punctuation and code fences do not matter. An action counts if it names
one thing: the same number or name may occur several times, two different ones make the action invalid. A word with a
digit that is no readable number, such as ``1e3`` or ``12,34``, counts as another number, and so does a number that a
word changes, as in ``2 thousand`` or ``x + 2``. A text up to ``</think>``, as of a server that returns thoughts without
their begin, is not read.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from fractions import Fraction

MAX_CHARS = 400
"""Longest action that is read; a longer one is invalid."""
MAX_DIGITS = 15

_JOINED = r"\w\u00ad\u0300-\u036f\u200b-\u200f\u2060\u20d0-\u20ff\ufe0f"
"""Characters that continue a number: letters, digits, and marks that are invisible or drawn over it."""
_NUMBER = re.compile(rf"(?<![\w.,])-?(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+|[0-9]+)(?:\.[0-9]+)?(?![{_JOINED}]|[.,][0-9])")
_LONG_DASH = re.compile(r"(?<=[^\W\d_])[\u2013-\u2015]")
_PUNCTUATION = re.compile(r"(?<=\s)[\u2013-\u2015](?=\s+[^\W\d_])|[\u2014\u2015](?=[^\W\d_])")
"""A long dash before a word: between blanks, or one that is as long as no sign of arithmetic."""
_NEGATIVE = re.compile(r"\b(?:minus|negative) (?=[0-9])")
SCALES = ["hundred", "thousand", "million", "billion", "dozen", "squared", "cubed"]
"""Words that change the number before them."""
_SIGN = r"(?:[ ][+*/^\u00d7\u00f7][ ]|[+*/^\u00d7\u00f7])"
_CHANGED = re.compile(rf"[0-9]+ (?:{'|'.join(SCALES)})\b|[0-9]+{_SIGN}[a-z]+|[a-z]+{_SIGN}[0-9]+")
"""A number that a word changes."""
_FENCE = re.compile(r"```[\w-]*")


def plain(text: str) -> str:
    """Return the text after ``</think>`` in lower case, without the marks of code fences and blank lines.

    It is empty if it is too long.

    Full-width and styled characters are read as the usual ones and every dash as a minus sign; a long dash after a
    letter stands alone, and before a word it is punctuation. Superscripts and fractions stay, because ``2\u2074``
    is not 24.
    """
    text = text.rpartition("</think>")[2]
    if len(text) > MAX_CHARS:
        return ""
    text = _LONG_DASH.sub(" - ", _PUNCTUATION.sub(": ", unicodedata.normalize("NFC", text)))
    usual = "".join(map(_usual, text))
    lines = (" ".join(line.split()) for line in _FENCE.sub(" ", usual).casefold().split("\n"))
    return "\n".join(line for line in lines if line)


def _usual(char: str) -> str:
    if char == "\u2212" or unicodedata.category(char) == "Pd":
        return "-"
    styled = unicodedata.decomposition(char).startswith(("<wide>", "<narrow>", "<font>"))
    return unicodedata.normalize("NFKC", char) if styled else char


def numbers(text: str) -> list[Fraction | str]:
    """Return the different numbers of a plain text: ``1,692`` and ``1692.`` are 1692.

    Numbers that cannot be read, have too many digits, or are changed by a word, follow as their texts.
    """
    text = _NEGATIVE.sub("-", text)
    found = [match.replace(",", "") for match in _NUMBER.findall(text)]
    read = [Fraction(each) for each in found if len(each) <= MAX_DIGITS]
    long = [each for each in found if len(each) > MAX_DIGITS]
    odd = [
        word for word in _NUMBER.sub(" ", text).split() if any(unicodedata.category(each)[0] == "N" for each in word)
    ]
    return list(dict.fromkeys([*read, *long, *odd, *_CHANGED.findall(text)]))


def names(text: str, forms: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of which the plain text has one of the forms as whole words, in the order of ``forms``."""
    whole = {name: "|".join(map(re.escape, spelled)) for name, spelled in forms.items()}
    return [name for name, form in whole.items() if re.search(rf"(?<!\w)(?:{form})(?!\w)", text)]
