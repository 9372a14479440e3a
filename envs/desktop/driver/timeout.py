"""Timeouts on a loaded machine: time without a processor does not count, because the applications have none either."""

from __future__ import annotations

from time import monotonic

INTERVAL_S = 0.02
"""Read ``left_s`` this often: a longer interval, in which this process got no processor, counts as this one."""
MAX_STRETCH = 3.0
"""The wait ends after so many times its timeout in any case."""


class Timeout:
    """A timeout of ``seconds``, from now on."""

    def __init__(self, seconds: float) -> None:
        self._left_s = seconds
        self._seen = monotonic()
        self._until = self._seen + MAX_STRETCH * seconds

    def left_s(self) -> float:
        """Return the time left; 0 or less after the timeout."""
        now = monotonic()
        self._left_s -= min(now - self._seen, INTERVAL_S)
        self._seen = now
        return min(self._left_s, self._until - now)
