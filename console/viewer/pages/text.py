"""Texts of episodes, cut to the length that a page shows."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """The beginning of a text."""

    text: str
    chars: int
    """Length of the whole text."""
    quoted: Sequence[str] = ()
    """The printed text in three parts: before, of and after a quotation; empty without one."""

    @classmethod
    def of(cls, text: str, limit: int | None) -> "Cut":
        """Return at most ``limit`` characters of a text; None for all."""
        return cls(text if limit is None else text[:limit], len(text))
