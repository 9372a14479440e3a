"""The words of a new model: those of the run's environments."""

from collections.abc import Sequence

from ...envs.registry import make
from ...errors import TurnwiseError
from ..config.sections import EnvironmentConfig


def closed_vocabulary(environments: Sequence[EnvironmentConfig]) -> list[str]:
    """Return every word of the environments, each once.

    Raises:
        EnvError: an environment cannot be made, for example because it has no such option.
        TurnwiseError: an environment has no closed vocabulary.
    """
    words: dict[str, None] = {}
    for one in environments:
        env = make(one.id, **one.options)
        try:
            words.update(dict.fromkeys(env.vocabulary()))
        except NotImplementedError as error:
            raise TurnwiseError(
                f"a new model needs a closed vocabulary, and {error}; set `model.path` to a pretrained model instead"
            ) from None
        finally:
            env.close()
    return list(words)
