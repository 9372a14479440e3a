"""Start the learner backend that the configuration names."""

from pathlib import Path

from ...algorithms.algorithm_set import AlgorithmSet
from ...config.schema import RunConfig
from .base import LearnerBackend
from .fsdp import FsdpLearner
from .local import Learner


def start_learner(config: RunConfig, algorithms: AlgorithmSet, model: Path) -> LearnerBackend:
    """Return a learner with the weights of a model folder, and with a new optimizer. ``fsdp`` needs Ray.

    Raises:
        TurnwiseError: a rank did not start, or the model does not suit the backend.
    """
    backend = FsdpLearner if config.learner.backend == "fsdp" else Learner
    return backend(model, config.learner, algorithms.loss, algorithms.proximal, config.rollout.temperature)
