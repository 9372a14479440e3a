"""The runners of episodes by name. An environment names its runner (``TurnEnv.runner``).

To add a runner, write one file with a class that follows ``episode.EpisodeRunner``, and add it to ``RUNNERS``.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import TurnwiseError
from ...records import Outcome
from .episode import Episode, EpisodeRunner, play_turns
from .gym_runner import GymRunner

RUNNERS: dict[str, Callable[[Episode], EpisodeRunner]] = {"gym": GymRunner}


async def play_episode(episode: Episode) -> Outcome:
    """Play an episode by the runner of its environment, as ``play_turns`` does.

    Raises:
        TurnwiseError: there is no such runner; and the errors of ``play_turns``.
    """
    name = episode.env_thread.runner
    if name not in RUNNERS:
        raise TurnwiseError(
            f"{episode.group.task.env_id} declares the runner {name!r}: `runner` must be one of {', '.join(RUNNERS)}"
        )
    return await play_turns(episode, RUNNERS[name](episode))
