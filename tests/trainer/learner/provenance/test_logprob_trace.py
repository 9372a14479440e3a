"""Differences of log-probabilities between engine and learner: which tokens count."""

import numpy as np
import pytest
from turnwise.tests.trainer.learner.train_samples import train_samples
from turnwise.trainer.learner.packing import trained_tokens
from turnwise.trainer.learner.provenance.recording import LogprobTrace, engine_mismatch


def test_only_tokens_of_the_updated_version_in_the_first_step_count() -> None:
    samples, trace = train_samples(0), LogprobTrace()
    trace.first_step = set(range(0, len(samples), 2))
    counted = []
    for index, one in enumerate(samples):
        trained = trained_tokens(one)
        stale = one.staleness[trained] > 0
        excluded = stale | (index not in trace.first_step)
        difference = np.where(excluded, np.float32(5), np.float32(0.001) * (index + 1))
        trace.current[index] = one.sample.logprobs[trained] + difference
        counted += [0.001 * (index + 1)] * int((~excluded).sum())
    found = engine_mismatch(samples, trace)
    assert found["engine_mismatch_max"] == pytest.approx(max(counted), abs=1e-6)
    assert found["engine_mismatch_mean"] == pytest.approx(np.mean(counted), abs=1e-6)


def test_without_a_fresh_token_there_is_no_metric() -> None:
    samples, trace = train_samples(0), LogprobTrace()
    trace.first_step = set(range(len(samples)))
    for index, one in enumerate(samples):
        one.staleness[:] = 1
        trace.current[index] = one.sample.logprobs[trained_tokens(one)]
    assert engine_mismatch(samples, trace) == {}
