"""Memory that an update freed goes back to the system, whatever the sizes of its micro-batches."""

import ctypes
from pathlib import Path
from random import Random

import numpy as np
from turnwise.agents.tiny_model import new_model
from turnwise.records import Sample
from turnwise.trainer.algorithms.groups import TrainSample
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.config.sections import LearnerConfig
from turnwise.trainer.learner.backends.local import Learner

VOCABULARY = [f"w{number}" for number in range(4000)]
UPDATES, SEQUENCES = 4, 12
KEPT_MIB = 16


def sequence(rng: Random) -> TrainSample:
    """Return a sequence of random length and tokens, all of them sampled."""
    size = rng.randrange(40, 400)
    tokens = np.array([rng.randrange(len(VOCABULARY)) for _ in range(size)], np.int32)
    ints, ones = np.zeros(size, np.int32), np.ones(size, np.float32)
    sample = Sample("t", tokens, ones.astype(np.uint8), -8 * ones, ints, ints, ints, ints.astype(np.int8))
    return TrainSample(sample, "g", ones, ones, ints)


def resident_mib() -> float:
    """Return the memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def test_little_of_what_an_update_freed_stays_with_the_process(tmp_path: Path) -> None:
    model = new_model(tmp_path / "model", VOCABULARY, hidden=128, heads=2)
    learner = Learner(model, LearnerConfig(max_tokens_per_micro_batch=800), DecoupledPPO(), Recompute(), 1.0)
    rng = Random(0)
    for number in range(UPDATES):
        learner.update([sequence(rng) for _ in range(SEQUENCES)], 0.0, number, rng)
    before = resident_mib()
    ctypes.CDLL(None).malloc_trim(0)
    assert before - resident_mib() < KEPT_MIB
