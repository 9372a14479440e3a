"""The one base of every error that turnwise itself raises on purpose.

The message of a ``TurnwiseError`` is written for a person: what happened, to what, and what to do about it. The console
prints it without a traceback and exits 2; anything else that escapes is a bug and keeps its traceback. Each part keeps
its own errors beside what raises them.
"""


class TurnwiseError(Exception):
    """Something a person can mend: a misspelt key, an unknown environment, an old database, a full disk."""
