"""The timeouts of a rollout, and whose fault one is. The module imports nothing of turnwise: every learner reads it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

FAIR_SHARE = 0.5
"""Share of the group's timeout that the policy needs to have had to be charged with its expiry: an earlier attempt, the
reset or the environment may have taken the rest."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts of the waits in a rollout, in seconds."""

    reset_s: float = 60.0
    step_s: float = 40.0
    """More than the longest request to a browser or a desktop (``driver_client.request_timeout_s``)."""
    turn_s: float = 300.0
    group_s: float = 1800.0
    """Timeout of each member of a group, including its retry; the wait for a slot of the environment does not count."""
    scoring_s: float = 120.0


class Fault:
    """Decide whose fault a timeout of an episode is. No other place decides it.

    * The policy is charged with its own answers: with one that exceeds ``turn_s``, and with the expiry of ``group_s``
      if the policy had ``FAIR_SHARE`` of that time.
    * The environment bounds what the agent's action started, such as a command, and returns its timeout as an outcome.
      A step that exceeds ``step_s`` is therefore a failure of the environment, and the time of its steps is not the
      policy's. Only an environment that declares ``charges_steps`` has both charged to the policy.
    * Scoring has ``scoring_s``, and is never charged to the policy.
    """

    def __init__(self, group_s: float, charges_steps: bool) -> None:
        self._group_s = group_s
        self._charges_steps = charges_steps
        self._began = monotonic()
        self._in_steps_s = 0.0

    @contextmanager
    def step(self) -> Iterator[None]:
        """Count the time inside as that of a step."""
        began = monotonic()
        try:
            yield
        finally:
            self._in_steps_s += monotonic() - began

    def is_policys_step(self, is_scoring: bool) -> bool:
        """Return whether the policy is charged with a step that exceeded its timeout."""
        return self._charges_steps and not is_scoring

    def is_policys_group(self) -> bool:
        """Return whether the policy is charged with the expiry of the group's timeout during its own turn."""
        taken = monotonic() - self._began - (0.0 if self._charges_steps else self._in_steps_s)
        return taken >= FAIR_SHARE * self._group_s
