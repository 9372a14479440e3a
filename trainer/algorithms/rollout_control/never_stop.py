"""Whether an episode goes on: by default until the environment or the horizon ends it."""

from ..registry import Extension


class PlayOn(Extension):
    """Never stops an episode early."""

    def stop(self, trajectory: str, turn: int, reward: float) -> str:
        """See ``protocols.RolloutController``."""
        return ""
