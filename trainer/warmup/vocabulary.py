"""What a new model reads: the words of the run's environments, and whether they show images."""

from collections.abc import Sequence

from ...envs.base import checked_vocabulary
from ...envs.errors import EnvError
from ...envs.runner.once import call_once
from ...envs.spaces import has_images
from ...errors import TurnwiseError
from ..config.sections import EnvironmentConfig


def closed_vocabulary(environments: Sequence[EnvironmentConfig]) -> list[str]:
    """Return every word of the environments, each once.

    Raises:
        EnvError: an environment cannot be made, for example because it has no such option.
        TurnwiseError: an environment has no closed vocabulary.
    """
    words: dict[str, None] = {}
    for environment in environments:
        try:
            words.update(
                dict.fromkeys(call_once(environment.id, environment.options, "vocabulary", checked_vocabulary))
            )
        except EnvError as error:
            if not isinstance(error.__cause__, NotImplementedError):
                raise
            raise TurnwiseError(
                f"a new model needs a closed vocabulary, and {error.__cause__}; return its words from `vocabulary()`, "
                "or set `model.path` to a pretrained model"
            ) from None
    return list(words)


def any_images(environments: Sequence[EnvironmentConfig]) -> bool:
    """Return whether the observations of an environment have images.

    Raises:
        EnvError: an environment cannot be made.
    """
    return any(
        call_once(one.id, one.options, "observation_space", lambda env: has_images(env.observation_space))
        for one in environments
    )
