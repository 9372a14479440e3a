"""The two kinds of station of the simulation: a queue with servers, and an engine that its requests share."""

import heapq
from itertools import count
from typing import Any


class Queue:
    """A station that serves in the order of arrival, with one or several servers."""

    def __init__(self, servers: int = 1) -> None:
        self._free_at = [0.0] * servers
        self._servers = servers
        self.busy_s = 0.0
        """Seconds of service so far, over all servers."""

    def serve(self, now: float, service_s: float) -> float:
        """Return when a request that arrives ``now`` is served. Requests arrive in the order of time."""
        end = max(now, heapq.heappop(self._free_at)) + service_s
        heapq.heappush(self._free_at, end)
        self.busy_s += service_s
        return end

    def utilization(self, seconds: float) -> float:
        """Return the busy share of all servers over ``seconds``."""
        return self.busy_s / (self._servers * seconds)


class Engine:
    """An engine whose running requests progress at the same rate: ``tokens_per_s`` over their number, and at most
    ``request_tokens_per_s`` each.
    """

    def __init__(self, tokens_per_s: float, request_tokens_per_s: float) -> None:
        self._tokens_per_s = tokens_per_s
        self._request_tokens_per_s = request_tokens_per_s
        self._progress = 0.0
        """Tokens that a request would have which runs since the beginning."""
        self._at = 0.0
        """The time of ``_progress``; in the future while the engine is paused."""
        self._running: list[tuple[float, int, Any]] = []
        """Of each request: the progress at its end, a number that makes the tuples differ, and its owner."""
        self._numbers = count()
        self.busy_s = 0.0
        """Seconds in which the engine would have sampled the same tokens at its full rate."""

    def start(self, now: float, tokens: float, owner: Any) -> None:
        """Start a request of ``tokens``."""
        self._advance(now)
        heapq.heappush(self._running, (self._progress + tokens, next(self._numbers), owner))

    def next_end(self) -> float | None:
        """Return when the next request ends if none starts before; None without a request."""
        return self._at + (self._running[0][0] - self._progress) / self._rate() if self._running else None

    def finish(self, now: float) -> Any:
        """End the next request, whose end is ``now``, and return its owner."""
        self._advance(now)
        return heapq.heappop(self._running)[2]

    def pause(self, now: float, seconds: float) -> None:
        """Sample nothing for ``seconds``; further requests may start meanwhile."""
        self._advance(now)
        self._at = max(self._at, now) + seconds

    def _rate(self) -> float:
        return min(self._request_tokens_per_s, self._tokens_per_s / len(self._running))

    def _advance(self, now: float) -> None:
        if now <= self._at:
            return
        if self._running:
            tokens = (now - self._at) * self._rate()
            self._progress += tokens
            self.busy_s += tokens * len(self._running) / self._tokens_per_s
        self._at = now
