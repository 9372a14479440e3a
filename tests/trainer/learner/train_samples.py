"""Random training samples for a tiny model, without a store and without episodes."""

from random import Random

import numpy as np
from turnwise.records import Sample
from turnwise.trainer.algorithms.groups import TrainSample

VOCABULARY = [f"w{i}" for i in range(20)]
"""Words of a model that these samples fit."""


def train_samples(seed: int, count: int = 8) -> list[TrainSample]:
    """Return samples of two turns each, two samples per group; every second token is trained on."""
    rng = Random(seed)
    made = []
    for number in range(count):
        size = 2 * rng.randint(2, 5)
        mask = np.arange(size) % 2
        tokens = np.array([rng.randrange(len(VOCABULARY)) for _ in range(size)], np.int32)
        logprobs = np.array([-4 * rng.random() for _ in range(size)], np.float32)
        staleness = np.array([rng.randrange(3) for _ in range(size)], np.int32)
        turns = np.where(np.arange(size) < size // 2, 0, 1).astype(np.int32)
        positions = (np.arange(size) % (size // 2)).astype(np.int32)
        sources = (mask - 1).astype(np.int8)
        columns = tokens, mask.astype(np.uint8), logprobs, 7 - staleness, turns, positions, sources
        sample = Sample(f"t{number}", *columns)
        advantages = np.full(size, rng.choice([-1.0, -0.5, 0.5, 1.0]), np.float32)
        weights = mask.astype(np.float32)
        made.append(TrainSample(sample, f"g{number // 2}", advantages, weights, staleness))
    return made
