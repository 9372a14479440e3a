"""Samples of random tokens for benchmarks of the learner."""

import numpy as np
from turnwise.records import Sample
from turnwise.trainer.algorithms.groups import TrainSample


def random_sample(number: int, length: int, vocabulary: int, padded_length: int = 0) -> TrainSample:
    """Return a sample of random tokens, a quarter of them trained, padded with tokens that are not."""
    whole = max(length, padded_length)
    tokens = np.random.default_rng(number).integers(vocabulary, size=whole, dtype=np.int32)
    places = np.arange(whole)
    mask = ((places % 4 == 3) & (places < length)).astype(np.uint8)
    ints = mask.astype(np.int32)
    logprobs = np.where(mask, -1.0, np.nan).astype(np.float32)
    sample = Sample(f"t{number}", tokens, mask, logprobs, ints, ints - 1, ints - 1, (ints - 1).astype(np.int8))
    advantages = np.full(whole, (-1.0) ** number, np.float32)
    return TrainSample(sample, f"g{number // 8}", advantages, mask.astype(np.float32), ints)


def training_samples(count: int, length: int, vocabulary: int) -> list[TrainSample]:
    """Return samples of equal length."""
    return [random_sample(number, length, vocabulary) for number in range(count)]
