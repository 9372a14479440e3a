"""The timeouts of a rollout. The module imports nothing, because the configuration and every learner read it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts of the waits in a rollout, in seconds."""

    reset_s: float = 60.0
    step_s: float = 40.0
    """More than the longest request to a browser or a desktop (``driver_client.request_timeout_s``)."""
    turn_s: float = 300.0
    group_s: float = 1800.0
    """Timeout of each member of a group, including its retry; the wait for a slot of the environment does not count."""
