"""The refusal of environments that show images to a policy that reads text only, before anything is spent on them."""

import asyncio
from collections.abc import Sequence

from ...agents.errors import ImagesUnsupported
from ...agents.players.policy import refuse_images
from ...envs.errors import EnvError
from ...envs.runner.env_thread import EnvThread
from ..config.sections import EnvironmentConfig
from .heldout import SEED


async def refuse_unseen(environments: Sequence[EnvironmentConfig], split: str, timeout_s: float) -> None:
    """Reset each environment once and check its first observation. ``timeout_s`` bounds each call.

    An environment that fails here is left to its episodes, which record the failure.

    Raises:
        ImagesUnsupported: an observation holds an image.
    """
    looks = [_look(one, split, timeout_s) for one in environments]
    for found in await asyncio.gather(*looks, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found


async def _look(environment: EnvironmentConfig, split: str, timeout_s: float) -> None:
    thread = EnvThread(environment.id, environment.options)
    try:
        await thread.make(timeout_s)
        refuse_images((await thread.reset(SEED, split, timeout_s)).images)
    except ImagesUnsupported as error:
        raise ImagesUnsupported(f"{environment.id}: {error}") from None
    except EnvError:
        return
    finally:
        await thread.close(timeout_s)
