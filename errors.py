"""The one base of every error that turnwise itself raises on purpose.

The message of a ``TurnwiseError`` is written for a person: what happened, to what, and what to do about it. The console
prints it without a traceback and exits 2; anything else that escapes is a bug and keeps its traceback. Each part keeps
its own errors beside what raises them.
"""

import difflib
from collections.abc import Sequence


class TurnwiseError(Exception):
    """Something a person can mend: a misspelt key, an unknown environment, an old database, a full disk."""


def nearest(word: str, known: Sequence[str]) -> str:
    """For the end of a message: `` (did you mean X?)``, or the list of what is known when nothing is near."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {', '.join(sorted(known)) or 'none'})"
