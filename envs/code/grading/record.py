"""Make the record of tampering: few short lines of printable ASCII, whatever names and texts the agent chooses.

The record enters ``info["extras"]``, whose length as JSON is limited. A longer one would fail the step, and the
agent's failure would be a failure of the environment.
"""

from collections.abc import Iterable

MAX_LINES = 20
MAX_LINE_CHARS = 200
"""JSON doubles each character at most, so the record has at most 9,000 characters of JSON."""


def recorded(lines: Iterable[str]) -> list[str]:
    """Return at most ``MAX_LINES`` different lines, each escaped and cut, then the number of omitted ones."""
    found = [*dict.fromkeys(_printable(line) for line in lines)]
    more = len(found) - MAX_LINES
    return [*found[:MAX_LINES], f"and {more} more"] if more > 0 else found


def _printable(line: str) -> str:
    """Return a line in printable ASCII, other characters as the escapes of a Python literal."""
    return ascii(line[:MAX_LINE_CHARS])[1:-1][:MAX_LINE_CHARS]
