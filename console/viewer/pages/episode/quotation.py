"""A quotation that a link names: where it is in the texts of a turn."""

import re

from ...visible import visible

FIELDS = ("observation", "sampled", "action")
"""The fields of a turn that a link may quote."""


def split_at(text: str, quote: str, occurrence: int) -> tuple[str, str, str] | None:
    """Return a text, as it is printed, in three parts: before, of and after a quotation; None if it is not in it.

    Runs of white space are equal, because a browser copies them differently.

    Args:
        occurrence: which one to return, from 0; the last one if there are fewer.
    """
    words = quote.split()
    if not words:
        return None
    shown = str(visible(text))
    found = list(re.finditer(r"\s+".join(map(re.escape, words)), shown))
    if not found:
        return None
    start, end = found[min(occurrence, len(found) - 1)].span()
    return shown[:start], shown[start:end], shown[end:]
