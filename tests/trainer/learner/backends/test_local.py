"""Check the tokens that a loss receives from the learner, and the learner's use of its answers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import PrivateAttr
from turnwise.agents.tiny_model import new_model
from turnwise.errors import TurnwiseError
from turnwise.records import Source
from turnwise.tests.trainer.learner.train_samples import VOCABULARY, train_samples
from turnwise.trainer.algorithms.groups import TrainSample
from turnwise.trainer.algorithms.losses.base import SOURCES, LossOutput, Metric, PolicyLoss, TokenBatch
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.sections import LearnerConfig
from turnwise.trainer.learner.backends.local import Learner, NonFiniteLoss
from turnwise.trainer.learner.packing import pack

SAMPLES = train_samples(1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_model(tmp_path_factory.mktemp("m") / "model", VOCABULARY, hidden=32, heads=2, seed=3)


class Recording(PolicyLoss):
    """The plain policy gradient; it records its calls, and scales the learning rate by ``scale``."""

    scale: float = 1.0

    _prepared: list[Sequence[TrainSample]] = PrivateAttr(default_factory=list)
    _batches: list[TokenBatch] = PrivateAttr(default_factory=list)

    def prepare(self, samples: Sequence[TrainSample]) -> None:
        self._prepared.append(samples)

    def __call__(self, batch: TokenBatch) -> LossOutput:
        self._batches.append(batch)
        loss = -(batch.weights * batch.advantages * batch.logprobs).sum() / batch.totals.tokens
        return LossOutput(loss, {"tokens_seen": Metric(batch.weights, "sum")})

    def lr_scale(self, metrics: Mapping[str, float]) -> float:
        step = [len(one.weights) for one in self._prepared[-1]]
        assert metrics == {"tokens_seen": sum(step) / 2}
        return self.scale


def learner(model: Path, loss: PolicyLoss, **changes: Any) -> Learner:
    settings = {"learning_rate": 1e-2, "lr_warmup_steps": 0, "max_tokens_per_micro_batch": 24} | changes
    return Learner(model, LearnerConfig(**settings), loss, Recompute(), 1.0)


def weights(one: Learner) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in one.model.parameters()]


def test_an_update_counts_the_tokens_that_it_has_passed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, counted = sum(int((one.weights > 0).sum()) for one in SAMPLES), list[tuple[int, ...]]()
    one = learner(model, Recording(), num_minibatches=2, num_epochs=2)
    step = one._optimizer_step

    def record(*values: Any) -> dict[str, float]:
        done = step(*values)
        counted.append(tuple(one.passed))
        return done

    monkeypatch.setattr(one, "_optimizer_step", record)
    one.update(SAMPLES, 0.0, 0, Random(0))
    assert (counted[1], counted[3]) == ((tokens, 2 * tokens), (2 * tokens, 2 * tokens))
    assert (0 < counted[0][0] < tokens, one.passed) == (True, [0, 0])


def test_indices_and_totals_are_those_of_the_whole_optimizer_step(model: Path) -> None:
    loss = Recording()
    metrics = learner(model, loss).update(SAMPLES, 0.0, 0, Random(0))
    assert loss._prepared == [SAMPLES]
    assert len(loss._batches) > 2
    order = [index for batch in loss._batches for index in batch.sequence.unique_consecutive().tolist()]
    assert sorted(order) == list(range(8))
    trained = [one.weights > 0 for one in SAMPLES]
    for name, values in {
        "sequence": [np.full(len(one.weights), i) for i, one in enumerate(SAMPLES)],
        "group": [np.full(len(one.weights), i // 2) for i, one in enumerate(SAMPLES)],
        "turn": [one.sample.turns for one in SAMPLES],
        "staleness": [one.staleness for one in SAMPLES],
        "source": [np.full(len(one.weights), SOURCES.index(Source.POLICY)) for one in SAMPLES],
        "behavior": [one.sample.logprobs for one in SAMPLES],
    }.items():
        expected = np.concatenate([values[index][trained[index]] for index in order])
        assert torch.cat([getattr(batch, name) for batch in loss._batches]).tolist() == expected.tolist(), name
    tokens = [int(mask.sum()) for mask in trained]
    for batch in loss._batches:
        assert batch.lengths.tolist() == tokens
        assert (batch.totals.tokens, batch.totals.episodes, batch.totals.groups) == (sum(tokens), 8, 4)
    assert metrics["loss/tokens_seen"] == metrics["tokens"] == sum(tokens)


def test_the_loss_scales_one_step_and_the_learning_rate_returns(model: Path) -> None:
    still = learner(model, Recording(scale=0.0))
    before = weights(still)
    metrics = still.update(SAMPLES, 0.0, 0, Random(0))
    assert all(torch.equal(a, b) for a, b in zip(before, weights(still), strict=True))
    assert metrics["lr_scale"] == 0.0
    assert [group["lr"] for group in still.optimizer.param_groups] == [metrics["learning_rate"]] == [1e-2]
    half, slower = learner(model, Recording(scale=0.5)), learner(model, Recording(), learning_rate=5e-3)
    for one in (half, slower):
        one.update(SAMPLES, 0.0, 0, Random(0))
    assert all(torch.equal(a, b) for a, b in zip(weights(slower), weights(half), strict=True))


def test_every_step_of_an_update_sees_the_policy_at_its_start_as_proximal(model: Path) -> None:
    loss = Recording()
    one = learner(model, loss, num_minibatches=2, num_epochs=3)
    expected = torch.cat([one.compute_logprobs(pack([sample])) for sample in SAMPLES])
    one.update(SAMPLES, 0.0, 0, Random(0))
    assert len(loss._prepared) == 6
    seen = torch.cat([batch.proximal for batch in loss._batches])
    assert torch.allclose(seen.sort().values, expected.repeat(3).sort().values, atol=1e-5)
    current = torch.cat([batch.logprobs for batch in loss._batches]).detach()
    assert (current - seen).abs().max() > 0.01


@pytest.mark.parametrize(
    "chosen",
    [
        {"name": "decoupled_ppo", "entropy_coef": 0.1},
        {"name": "decoupled_ppo", "aggregation": "constant"},
        {"name": "gspo", "clip_ratio_high": 0.2},
        {"name": "vcpo"},
    ],
    ids=str,
)
def test_an_update_does_not_depend_on_its_split_into_micro_batches(model: Path, chosen: dict[str, Any]) -> None:
    results = []
    for size in (1, 24, 1000):
        loss = parse_config({"name": "t", "environments": [{"id": "e"}], "loss": chosen}).loss
        one = learner(model, loss, max_tokens_per_micro_batch=size)
        metrics = one.update(SAMPLES, 0.0, 0, Random(0))
        results.append((metrics, [parameter.grad for parameter in one.model.parameters()]))
    for metrics, gradients in results[1:]:
        assert metrics == pytest.approx(results[0][0], abs=1e-5, rel=1e-4)
        for ours, first in zip(gradients, results[0][1], strict=True):
            assert torch.allclose(ours, first, atol=1e-6)


def test_the_reference_policy_is_frozen_and_loaded_only_if_needed(model: Path, tmp_path: Path) -> None:
    loss = DecoupledPPO(reference_kl_coef=0.1)
    one = learner(model, loss)
    with pytest.raises(TurnwiseError, match="needs a reference policy"):
        one.update(SAMPLES, 0.0, 0, Random(0))
    with pytest.raises(TurnwiseError, match=r"set `model\.reference`"):
        one.load_reference(tmp_path)
    one.load_reference(model)
    whole = pack(SAMPLES)
    reference = one.compute_logprobs(whole)
    for update in range(3):
        current = one.compute_logprobs(whole)
        log_ratio, weights = reference - current, (current - whole.behavior_logprobs).exp().clamp(max=loss.is_cap)
        expected = float((weights * (log_ratio.exp() - 1 - log_ratio)).mean())
        metrics = one.update(SAMPLES, 0.0, update, Random(0))
        assert metrics["reference_kl"] == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert expected > 1e-3


@pytest.mark.parametrize("tie", [False, True])
def test_tokens_are_scored_with_other_weights_and_the_models_own_stay(tmp_path: Path, tie: bool) -> None:
    folders = [new_model(tmp_path / str(n), VOCABULARY, hidden=32, heads=2, seed=n, tie=tie) for n in range(2)]
    first, second = (learner(folder, Recording()) for folder in folders)
    tokens = pack(SAMPLES)
    before = first.compute_logprobs(tokens)
    expected = second.compute_logprobs(tokens)
    assert not torch.allclose(before, expected, atol=1e-3)
    assert torch.equal(first.compute_logprobs(tokens, dict(second.named_parameters())), expected)
    assert torch.equal(first.compute_logprobs(tokens), before)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -1.0])
def test_a_negative_or_infinite_scale_changes_no_weight(model: Path, scale: float) -> None:
    class Scaled(DecoupledPPO):
        def lr_scale(self, metrics: Mapping[str, float]) -> float:
            return scale

    one = learner(model, Scaled())
    before = weights(one)
    with pytest.raises(NonFiniteLoss, match="`lr_scale` of the loss returned"):
        one.update(SAMPLES, 0.0, 0, Random(0))
    assert all(torch.equal(a, b) for a, b in zip(before, weights(one), strict=True))
