"""Compare the log-probabilities of engine and learner under the same weights."""

from collections.abc import Sequence

import numpy as np

from ....records import Source
from ...algorithms.groups import TrainSample
from ...algorithms.losses.base import SOURCES
from ..packing import trained_tokens
from .logprob_trace import LogprobTrace

POLICY = SOURCES.index(Source.POLICY)


def engine_mismatch(samples: Sequence[TrainSample], trace: LogprobTrace) -> dict[str, float]:
    """Return the mean and the maximum of |engine - learner|, in nats, over the trained tokens with staleness 0 of the
    first optimizer step.

    Engine and learner computed these tokens with the weights that the update begins with, so that they differ by their
    arithmetic alone. Without such a token the result is empty.

    Args:
        samples: the batch of the update.
        trace: what the learner computed.
    """
    found = [np.empty(0, np.float32)]
    for index in sorted(trace.first_step & trace.current.keys()):
        one, current = samples[index], trace.current[index]
        trained = trained_tokens(one)
        same = (one.staleness[trained] == 0) & (one.sample.sources[trained] == POLICY) & (one.sample.mask[trained] != 0)
        found.append(np.abs(one.sample.logprobs[trained][same] - current[same]))
    differences = np.concatenate(found)
    if not len(differences):
        return {}
    return {"engine_mismatch_mean": float(differences.mean()), "engine_mismatch_max": float(differences.max())}
