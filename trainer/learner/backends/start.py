"""Start the learner backend that the configuration names."""

from pathlib import Path

from ...config.schema import RunConfig
from .base import LearnerBackend
from .local import Learner


def start_learner(config: RunConfig, model: Path) -> LearnerBackend:
    """Return a learner with the weights of a model folder, and with a new optimizer."""
    return Learner(model, config.learner, config.loss, config.proximal, config.rollout.temperature)
