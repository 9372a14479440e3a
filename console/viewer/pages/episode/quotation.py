"""A quotation that a link names: where it is in the texts of a turn."""

from ...visible import visible

FIELDS = ("observation", "sampled", "action")
"""The fields of a turn that a link may quote."""
TEXT_MAX = 1_000_000
"""Characters of a text in which a quotation is looked for."""
OCCURRENCES_MAX = 1_000


def split_at(text: str, quote: str, occurrence: int) -> tuple[str, str, str] | None:
    """Return a text, as it is printed, in three parts: before, of and after a quotation; None if it is not in it.

    Runs of white space are equal, because a browser copies them differently.

    Args:
        occurrence: which one to return, from 0; the last one if there are fewer, or the last of `OCCURRENCES_MAX`.
    """
    wanted, shown = " ".join(quote.split()), str(visible(text[:TEXT_MAX]))
    occurrence = min(occurrence, OCCURRENCES_MAX)
    joined = " ".join(shown.split())
    at = joined.find(wanted) if wanted else -1
    if at < 0:
        return None
    while occurrence and (following := joined.find(wanted, at + len(wanted))) >= 0:
        at, occurrence = following, occurrence - 1
    start, end = _place(shown, joined, at), _place(shown, joined, at + len(wanted) - 1) + 1
    return shown[:start], shown[start:end], shown[end:]


def _place(text: str, joined: str, at: int) -> int:
    """Return where a character of a text is that has a place in its words, ``joined`` by single spaces."""
    words = joined.count(" ", 0, at)
    return len(text) - len(text.split(None, words)[-1]) + at - joined.rfind(" ", 0, at) - 1
