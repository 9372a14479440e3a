"""Warm up the format of a new model: supervised training on random valid actions.

The model learns the syntax of actions and which words occur together, but nothing about solving tasks. Observations are
predicted too, with a small weight. Batches are small, because many small steps train better than few large ones.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random
from time import monotonic

from ...agents.tokens.renderer import Renderer
from ...records import Horizon
from ..config.sections import EnvironmentConfig, SftWarmupConfig
from ..learner.backends.base import LearnerBackend
from ..learner.sft import SftExample
from .examples import random_policy, resampled
from .random_episodes import random_episodes

REPORT_INTERVAL_S = 15.0
"""Seconds between two reports of progress."""


def warm_up(
    learner: LearnerBackend,
    renderer: Renderer,
    environments: Sequence[EnvironmentConfig],
    horizon: Horizon,
    config: SftWarmupConfig,
    seed: int,
    timeout_s: float = 30.0,
    report: Callable[[str], None] = lambda text: None,
    stopped: Callable[[], bool] = lambda: False,
) -> float:
    """Train the learner's model and return the last loss. The learning rate falls linearly to 0.

    Args:
        timeout_s: limit for one call of an environment.
        report: called with lines about progress and excluded environments.
        stopped: no further step begins once it returns True.

    Raises:
        NoPlayableEnvironment: no environment can be played.
    """
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    played = random_episodes(environments, random_policy(renderer, horizon.max_turns), rng, timeout_s, report, stopped)
    source: Iterator[SftExample] = played
    if config.episodes:
        source = resampled(played, config.episodes, Random(seed))  # noqa: S311
    last_loss, last_report = float("nan"), monotonic()
    for step in range(config.steps):
        learning_rate = config.learning_rate * (1 - step / config.steps)
        batch = list(islice(source, config.batch_size))
        if stopped():
            break
        last_loss = learner.fit(batch, learning_rate, config.observation_weight)
        if (now := monotonic()) - last_report > REPORT_INTERVAL_S:
            last_report = now
            report(f"format warm-up: {step + 1} of {config.steps} steps")
    return last_loss
