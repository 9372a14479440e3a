"""The refusal of environments whose rewards an agent can forge, before a run spends anything on them."""

import asyncio
from collections.abc import Sequence

from ...envs.errors import EnvError, NotTrainable
from ...envs.runner.env_thread import EnvThread
from ..config.sections import EnvironmentConfig


async def refuse_untrainable(environments: Sequence[EnvironmentConfig], timeout_s: float) -> list[str]:
    """Make each environment once and call its ``check_trainable``. ``timeout_s`` bounds each call.

    An environment that cannot be made is left to its episodes, which record the failure. A check that fails in any way
    refuses the environment, because the agent may be able to forge its rewards.

    Returns:
        the errors of the environments that cannot be made.

    Raises:
        NotTrainable: a run must not train on an environment; the message names the environment and the task.
    """
    checks = [_check(one, timeout_s) for one in environments]
    unmade = list[str]()
    for found in await asyncio.gather(*checks, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found
        unmade += [found] if found else []
    return unmade


async def _check(environment: EnvironmentConfig, timeout_s: float) -> str:
    """Return why the environment cannot be made; empty if it was made and may be trained on. Raises NotTrainable."""
    thread = EnvThread(environment.id, environment.options)
    try:
        await thread.make(timeout_s)
    except EnvError as error:
        return str(error)
    try:
        await thread.run("cannot be trained on", lambda env: env.check_trainable(), timeout_s)
    except NotTrainable:
        raise
    except EnvError as error:
        raise NotTrainable(
            f"{error}; its `check_trainable` must return before a run trains on it: repair the environment or its "
            "tasks, or raise `rollout.reset_timeout_s` if the check needs more time"
        ) from error
    finally:
        await thread.close(timeout_s)
    return ""
