"""Random streams: one per component of a run, named by its slot and its index there.

Each stream is seeded by (run seed, slot, index) and belongs to one component, so the draws of one component do not
depend on when, how often or in which thread another one draws. Checkpoints hold the state of every stream: a resumed
run draws what the uninterrupted run would have drawn.

The components that choose a group draw from a stream per draw, seeded by (run seed, slot, number of the draw). The
store has the number of each group's draw, so a resume neither repeats the draw of a surviving group nor skips one.
"""

from collections.abc import Mapping
from random import Random
from typing import Any


class Streams:
    """The random streams of one run."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[str, Random] = {}

    def of(self, slot: str, index: int = 0) -> Random:
        """Return the stream of the component at ``index`` of ``slot``: the same object at every call."""
        name = f"{slot}.{index}"
        if name not in self._streams:
            self._streams[name] = Random(f"{self._seed} {name}")  # noqa: S311 - reproducible, not secret
        return self._streams[name]

    def of_draw(self, slot: str, draw: int) -> Random:
        """Return a new stream of a component for the group of one draw; equal numbers give equal streams."""
        return Random(f"{self._seed} {slot} draw {draw}")  # noqa: S311 - reproducible, not secret

    def state_dict(self) -> dict[str, Any]:
        """Return the state of every stream in use, as JSON values."""
        states = {name: stream.getstate() for name, stream in self._streams.items()}
        return {name: [version, list(words), gauss] for name, (version, words, gauss) in states.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the states that ``state_dict`` returned; streams in use stay the same objects."""
        for name, (version, words, gauss) in state.items():
            slot, _, index = name.rpartition(".")
            self.of(slot, int(index)).setstate((version, tuple(words), gauss))
