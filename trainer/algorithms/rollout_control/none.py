"""No control: an episode ends by its environment or its horizon."""

from .base import RolloutController


class NeverStop(RolloutController):
    """Never end an episode early."""

    def stop(self, trajectory: str, turn: int, reward: float) -> str:
        """Return no reason."""
        return ""
