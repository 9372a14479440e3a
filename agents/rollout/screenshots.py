"""Screenshots that a run keeps for people. No policy reads them, and an episode does not fail because of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...envs.errors import EnvError
from ...errors import TurnwiseError

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread
    from ...envs.runner.step_result import StepResult

SCREENSHOT_ERROR = "screenshot_error"
"""Key in a trajectory's ``extras``: the reason why a screenshot is missing."""
END_TIMEOUT_S = 5.0
"""Limit on the timeout of the screenshot of an end, which delays the worker. One between two turns may take as long as
a step: a driver needs that time to find out whether its page or its machine does not respond."""
_hung: set[str] = set()
"""The environments whose screenshot timed out in this process."""


async def take_screenshot(
    env_thread: EnvThread, seen: StepResult, timeout_s: float, extras: dict[str, Any], *, ended: bool
) -> bytes | None:
    """Return the screenshot after a result, as PNG; None if the result has images, or the environment no screenshot.

    A failure leaves its reason in ``extras``. After one that timed out, the process takes none of that environment.

    Raises:
        EnvError: the environment or its sandbox was lost, and the episode has not ended.
    """
    if seen.images or not env_thread.has_screenshots:
        return None
    if env_thread.env_id in _hung:
        extras[SCREENSHOT_ERROR] = "an earlier screenshot of this environment timed out"
        return None
    was_lost = env_thread.lost
    try:
        return await env_thread.screenshot(min(timeout_s, END_TIMEOUT_S) if ended else timeout_s)
    except EnvError as error:
        if env_thread.lost and not was_lost:
            _hung.add(env_thread.env_id)
        if not ended and (env_thread.lost or isinstance(error.__cause__, TurnwiseError)):
            raise
        extras[SCREENSHOT_ERROR] = str(error)
        return None
