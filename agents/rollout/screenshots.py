"""Screenshots that a run keeps for people. No policy reads them, and an episode does not fail because of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ...envs.errors import EnvError
from ...errors import TurnwiseError

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread
    from ...envs.runner.step_result import StepResult

Screenshots = Literal["end", "all", "none"]
"""The observations without images of which a run keeps the environment's screenshot: that of the end, all, or none."""
SCREENSHOT_ERROR = "screenshot_error"
"""Key in a trajectory's ``extras``: the reason why a screenshot is missing."""


async def take_screenshot(
    env_thread: EnvThread, seen: StepResult, timeout_s: float, extras: dict[str, Any], *, ended: bool
) -> bytes | None:
    """Return the screenshot after a result, as PNG; None if the result has images, or the environment no screenshot.

    A failure leaves its reason in ``extras``.

    Raises:
        EnvError: the environment or its sandbox was lost, and the episode has not ended.
    """
    if seen.images or not env_thread.has_screenshots:
        return None
    try:
        return await env_thread.screenshot(timeout_s)
    except EnvError as error:
        if not ended and (env_thread.lost or isinstance(error.__cause__, TurnwiseError)):
            raise
        extras[SCREENSHOT_ERROR] = str(error)
        return None
