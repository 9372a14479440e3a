"""What is re-used: by default nothing, every trajectory is trained on at most once."""

from collections.abc import Sequence
from random import Random

from ....records import Group
from ..registry import Extension


class NoReplay(Extension):
    """Fresh groups only."""

    def mix(self, fresh: Sequence[Group], rng: Random) -> list[Group]:
        """See ``protocols.ReplayPolicy``."""
        return list(fresh)
