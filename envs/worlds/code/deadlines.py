"""Divide the time of a step, so that an agent that slows a part down gets an outcome and not a timeout of the step.

The runner sets the deadline of a call (``TurnEnv.deadline``). The parts of a step end before it: the action, the
collection of the files, the lease of a grading sandbox, the grading. Each part gets a share of the time that is left,
so the parts add up to less than the step, whatever its timeout is.
"""

import math
from time import monotonic

STEP_TIMEOUT_S = 30.0
"""Time of a step for which nobody set a deadline."""
USED_SHARE = 0.8
"""Share of a step that its parts may use; the rest is for a guest agent that answers late."""
GRADING_SHARE = 0.5
"""Share of the time that is left at the start of a grading for its commands; the other part is for the lease."""
ACTION_SHARE = 0.6
"""Share of a step for the command of an action; the other part is for reading the files that it changed."""
COLLECTION_SHARE = 0.25
"""Share of the time that is left at the submission for ending the agent's processes and reading its files."""
MIN_GRADING_SHARE = 0.3
"""With a smaller share left, the files are not graded: the lease could take longer, and the agent caused it."""
MIN_TIMEOUT_S = 0.1


def end_of_step(deadline: float) -> float:
    """Return until when the parts of a step that begins now may take, on the monotonic clock."""
    now = monotonic()
    return now + USED_SHARE * (STEP_TIMEOUT_S if math.isinf(deadline) else max(0.0, deadline - now))


def latest_grading(until: float) -> float:
    """Return until when a grading may begin in a step that begins now and whose parts end at ``until``."""
    return until - MIN_GRADING_SHARE * left(until)


def left(until: float, most_s: float = math.inf) -> float:
    """Return the seconds left, at most ``most_s`` and at least ``MIN_TIMEOUT_S``, as the timeout of a call."""
    return max(MIN_TIMEOUT_S, min(most_s, until - monotonic()))
