"""Tokens of several sources from trajectories to the loss: who may be trained on is decided per message."""

import math
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import ClassVar

import numpy as np
import pytest
import torch
from pydantic import PrivateAttr
from turnwise.agents.tiny_model import new_model
from turnwise.records import (
    NO_VERSION,
    Group,
    Horizon,
    Message,
    PolicyVersion,
    Role,
    ScoredGroup,
    Source,
    Status,
    Step,
    Task,
    Trajectory,
)
from turnwise.trainer.algorithms.advantages.grpo import GRPO
from turnwise.trainer.algorithms.advantages.reinforce_pp import ReinforcePP
from turnwise.trainer.algorithms.groups import sampled_tokens
from turnwise.trainer.algorithms.losses.base import SOURCES, LossOutput, PolicyLoss, TokenBatch
from turnwise.trainer.algorithms.losses.behavior_cloning import BehaviorCloning
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.losses.hpt import HPT
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.config.sections import LearnerConfig
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.batch import Batch, assemble
from turnwise.trainer.learner.batch_stats import batch_items, batch_metrics
from turnwise.trainer.learner.packing import pack
from turnwise.trainer.learner.samples import samples

POLICY, EXPERT, PATCH = (SOURCES.index(one) for one in (Source.POLICY, Source.EXPERT, Source.PATCH))
HISTORY = {0: PolicyVersion("r", 0, None, 0), 1: PolicyVersion("r", 1, 0, 1)}


def observed(index: int, *tokens: int) -> Message:
    size = len(tokens)
    parent = index - 1 if index else None
    return Message(index, parent, Role.USER, Source.POLICY, tokens, [0] * size, [math.nan] * size, [NO_VERSION] * size)


def acted(index: int, source: Source, *tokens: int) -> Message:
    """Return a turn of version 1 of the policy, or of another source."""
    if source is not Source.POLICY:
        return replace(observed(index, *tokens), role=Role.ASSISTANT, source=source)
    size = len(tokens)
    return Message(index, index - 1, Role.ASSISTANT, source, tokens, [1] * size, [-1.0] * size, [1] * size)


def trajectory(name: str, source: Source, *turns: Source, total: float = 0.0) -> Trajectory:
    """Return a trajectory with two tokens per observation and two per turn, which have these sources."""
    messages, steps = [], []
    for turn, author in enumerate(turns):
        messages += [observed(2 * turn, 1, 2), acted(2 * turn + 1, author, 3, 4)]
        reward = total if turn == len(turns) - 1 else 0.0
        steps.append(Step(turn, "", "", "", reward, {}, False, False, True, "", 2 * turn + 1, 0.0, 0.0))
    return Trajectory(name, "r", "g", 0, 0, Status.COMPLETED, source, steps=steps, messages=messages)


def scored(name: str, *members: Trajectory, task: str = "t") -> ScoredGroup:
    group = Group(name, "r", Task(task, "e", "0", 0, "train"), Horizon(8, 8, 64, 64), 2, trajectories=members)
    return ScoredGroup(group, [[step.reward for step in one.steps] for one in members])


def rollouts(name: str, *returns: float, task: str = "t") -> ScoredGroup:
    members = [trajectory(f"{name}{i}", Source.POLICY, Source.POLICY, total=total) for i, total in enumerate(returns)]
    return scored(name, *members, task=task)


def demonstration(name: str = "demo", task: str = "t") -> ScoredGroup:
    return scored(name, trajectory(name, Source.EXPERT, Source.EXPERT, Source.EXPERT, total=1.0), task=task)


def assembled(loss: PolicyLoss, *groups: ScoredGroup, update: int = 1, advantage=None) -> Batch:
    return assemble(groups, HISTORY, update, 0, advantage=advantage or GRPO(), filters=[], loss=loss, streams=[])


class AcceptsPatches(DecoupledPPO):
    """Decoupled PPO that also trains on patched turns, as UI-S1 does."""

    accepts: ClassVar[Collection[Source]] = frozenset({Source.POLICY, Source.PATCH})


def test_a_patched_turn_has_its_own_source_in_a_trajectory_of_the_policy() -> None:
    (one,) = samples(trajectory("a", Source.POLICY, Source.POLICY, Source.PATCH))
    assert one.sources.tolist() == [-1, -1, POLICY, POLICY, -1, -1, PATCH, PATCH]
    assert one.mask.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert one.turns.tolist() == [-1, -1, 0, 0, -1, -1, 1, 1]
    assert np.isnan(one.logprobs).tolist() == [True, True, False, False, True, True, True, True]


def test_a_patched_turn_is_trained_on_only_if_the_loss_accepts_patches() -> None:
    group = scored(
        "g",
        trajectory("a", Source.POLICY, Source.POLICY, Source.PATCH, total=1.0),
        trajectory("b", Source.POLICY, Source.POLICY),
    )
    masked, trained = (assembled(loss, group).samples[0] for loss in (DecoupledPPO(), AcceptsPatches()))
    assert masked.weights.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert trained.weights.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert trained.advantages.tolist() == [0, 0, 0.5, 0.5, 0, 0, 0.5, 0.5]


def test_the_tokens_of_an_expert_are_never_stale() -> None:
    late = assembled(HPT(), rollouts("g", 0.0, 1.0), demonstration(), update=5)
    assert [one.sample.trajectory for one in late.samples] == ["demo"]
    assert (late.groups, late.expired) == (["demo"], ["g"])
    assert (late.sampled_tokens, late.swept_tokens) == (4, 4)


def test_a_group_whose_sources_the_loss_does_not_accept_is_consumed_with_the_others() -> None:
    cloned = assembled(BehaviorCloning(), rollouts("g", 0.0, 1.0), demonstration())
    assert (sorted(cloned.groups), cloned.expired) == (["demo", "g"], [])
    alone = assembled(BehaviorCloning(), rollouts("g", 0.0, 1.0))
    assert (alone.groups, alone.expired, alone.swept_tokens) == ([], ["g"], 0)


def test_demonstrations_change_no_advantage_and_have_none() -> None:
    groups = rollouts("g", 0.0, 1.0), rollouts("h", 1.0, 1.0, task="u")
    for advantage in (GRPO(), ReinforcePP()):
        alone = assembled(HPT(), *groups, advantage=advantage)
        mixed = assembled(HPT(), groups[0], demonstration(), groups[1], advantage=advantage)
        rest = [one for one in mixed.samples if one.group != "demo"]
        assert [one.advantages.tolist() for one in rest] == [one.advantages.tolist() for one in alone.samples]
        (demo,) = (one for one in mixed.samples if one.group == "demo")
        assert not demo.advantages.any()
        assert {one.group: one.task_success for one in mixed.samples} == {"g": 0.5, "demo": 0.5, "h": 1.0}


def test_success_of_a_task_and_of_a_batch_is_the_verdict_where_there_is_one() -> None:
    """By hand: of the returns .75 and 1, the verdict rejects the first in `g`; without a verdict both count in `h`."""
    judged, plain = rollouts("g", 0.75, 1.0), rollouts("h", 0.75, 1.0, task="u")
    verdicts = [replace(one, success=won) for one, won in zip(judged.group.trajectories, (False, True), strict=True)]
    judged = replace(judged, group=replace(judged.group, trajectories=verdicts))
    batch = assembled(HPT(), judged, plain)
    assert {one.group: one.task_success for one in batch.samples} == {"g": 0.5, "h": 1.0}
    earned = [
        replace(one, reward=sum(turns)) for one, turns in zip(plain.group.trajectories, plain.rewards, strict=True)
    ]
    groups = [judged.group, replace(plain.group, trajectories=earned)]
    assert batch_metrics(groups, batch)["success"] == 0.75
    cut = [replace(one, success=None, reward=0.75, status=Status.TRUNCATED) for one in verdicts]
    assert batch_metrics([replace(judged.group, trajectories=cut)], batch)["success"] == 0.0


def test_the_turns_of_an_expert_count_as_many_tokens_as_they_have() -> None:
    assert sampled_tokens(trajectory("a", Source.POLICY, Source.POLICY, Source.PATCH)) == [2, 2]


def test_metrics_separate_the_sources_and_leave_experts_out_of_the_staleness() -> None:
    fresh = rollouts("g", 0.0, 1.0)
    batch = assembled(HPT(), fresh, demonstration())
    metrics = batch_metrics([fresh.group], batch)
    assert metrics["tokens_by_source"] == {"policy": 4, "expert": 4}
    assert metrics["tokens_by_staleness"] == {"0": 4}
    items = {one.trajectory: one for one in batch_items(batch, {"g"})}
    assert (items["demo"].fresh, items["demo"].max_staleness, items["demo"].tokens_trained) == (False, 0, 4)
    assert items["g0"].fresh


class Recording(HPT):
    """HPT that keeps the batches it receives."""

    _batches: list[TokenBatch] = PrivateAttr(default_factory=list)

    def __call__(self, batch: TokenBatch) -> LossOutput:
        self._batches.append(batch)
        return super().__call__(batch)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = [f"w{i}" for i in range(9)]
    return new_model(tmp_path_factory.mktemp("m") / "model", words, hidden=32, heads=2, seed=3)


def learner(model: Path, loss: PolicyLoss) -> Learner:
    config = LearnerConfig(learning_rate=1e-2, lr_warmup_steps=0, max_tokens_per_micro_batch=16)
    return Learner(model, config, loss, Recompute(), 1.0)


def test_the_learner_trains_on_tokens_of_the_policy_and_of_an_expert_in_one_batch(model: Path) -> None:
    # The policy solves task t and not task u, so RL trains on g and SFT on the demonstration of u.
    loss = Recording()
    one = learner(model, loss)
    groups = rollouts("g", 0.0, 1.0), rollouts("h", 0.0, 0.0, task="u"), demonstration("demo", "u")
    batch = assembled(loss, *groups)
    (demo,) = (sample for sample in batch.samples if sample.group == "demo")
    micro_batch = pack([demo])
    assert torch.isnan(micro_batch.behavior_logprobs).all()
    before = one.compute_logprobs(micro_batch)
    metrics = one.update(batch.samples, 0.0, 0, Random(0))
    assert (metrics["tokens"], metrics["loss/sft_fraction"]) == (12.0, 0.5)
    assert metrics["loss/nll"] == pytest.approx(-before.mean().item(), abs=1e-6)
    seen = [token for tokens in loss._batches for token in tokens.source.tolist()]
    assert (seen.count(POLICY), seen.count(EXPERT)) == (8, 4)
    for tokens in loss._batches:
        expert = tokens.from_source(Source.EXPERT)
        assert torch.equal(tokens.behavior[expert], tokens.logprobs[expert])
        assert not tokens.staleness[expert].any()
        assert not torch.isnan(tokens.behavior).any()
    assert (one.compute_logprobs(micro_batch) > before).all()


def test_behavior_cloning_trains_on_the_demonstration_only(model: Path) -> None:
    one = learner(model, BehaviorCloning())
    batch = assembled(one.loss, rollouts("g", 0.0, 1.0), demonstration())
    metrics = one.update(batch.samples, 0.0, 0, Random(0))
    assert metrics["tokens"] == 4.0
    assert metrics["loss"] == pytest.approx(metrics["loss/nll"])
