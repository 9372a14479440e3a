"""The samples of a stored batch are those that the learner received."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from statistics import fmean

import numpy as np
import pytest
from turnwise.agents.rollout.control import LOSS_WEIGHT
from turnwise.records import PolicyVersion, ScoredGroup, Source, Trajectory
from turnwise.store.queries.lineage import BatchGroup, BatchMember, StoredUpdate
from turnwise.tests.trainer.rollout.episodes import tree_group
from turnwise.trainer.algorithms.advantages.base import AdvantageEstimator
from turnwise.trainer.algorithms.advantages.tree import TreeCredit
from turnwise.trainer.algorithms.groups import Credit, TrainSample, sampled_tokens
from turnwise.trainer.algorithms.losses.hpt import HPT
from turnwise.trainer.algorithms.sample_filters.negative_advantage_weight import NegativeAdvantageWeight
from turnwise.trainer.config.sections import LearnerConfig
from turnwise.trainer.learner.batch import Batch, assemble
from turnwise.trainer.learner.batch_stats import batch_items
from turnwise.trainer.learner.packing import trained_tokens
from turnwise.trainer.learner.provenance.recipe import new_recipe
from turnwise.trainer.learner.provenance.recording import LogprobTrace, record_update
from turnwise.trainer.learner.provenance.stored_batch import StoredSample, stored_samples, trained_steps

HISTORY = {0: PolicyVersion("r", 0, None, 0)}


class PerToken(AdvantageEstimator):
    """Advantages that differ from token to token."""

    def __call__(self, groups: Sequence[ScoredGroup]) -> list[Credit]:
        stream = np.random.default_rng(3)
        return [
            [
                [stream.normal(size=count).astype(np.float32) for count in sampled_tokens(one)]
                for one in scored.group.trajectories
            ]
            for scored in groups
        ]


class Lenient(HPT):
    """A loss that accepts every source."""

    accepts = frozenset(Source)


def sources(scored: ScoredGroup, source: Source) -> ScoredGroup:
    """Return the group with all its members from a source, as a replay buffer returns it."""
    members = tuple(replace(one, source=source) for one in scored.group.trajectories)
    return replace(scored, group=replace(scored.group, trajectories=members))


def traced(batch: Batch) -> LogprobTrace:
    """Return log-probabilities and entropies that differ from token to token."""
    trace, stream = LogprobTrace(), np.random.default_rng(5)
    for position, one in enumerate(batch.samples):
        places = trained_tokens(one)
        trace.current[position] = stream.uniform(-2, 0, len(places)).astype(np.float32)
        trace.proximal[position] = stream.uniform(-2, 0, len(places)).astype(np.float32)
        trace.entropy[position] = stream.uniform(0, 3, len(places)).astype(np.float32)
    return trace


def stored(batch: Batch, fresh: set[str], trace: LogprobTrace) -> StoredUpdate:
    """Return the batch as the store returns it: its recipe went through JSON."""
    recipe = new_recipe(LearnerConfig(), 0.25, {})
    record = record_update(batch, fresh, trace, recipe, "hash")
    members = [
        BatchMember(
            item.trajectory,
            "",
            item.fresh,
            item.tokens_trained,
            item.max_staleness,
            item.mean_advantage,
            "completed",
            None,
            0.0,
            0,
            0,
            None,
            "",
            item.detail,
        )
        for item in batch_items(batch, fresh, record.details)
    ]
    return StoredUpdate(
        "r",
        1,
        1,
        0,
        record.weights_hash,
        "",
        datetime(2026, 1, 1, tzinfo=UTC),
        {},
        json.loads(record.recipe.model_dump_json()),
        [BatchGroup(name, "t", "e", name in fresh) for name in [*record.groups, *record.reused]],
        members,
    )


def assembled(groups: Sequence[ScoredGroup], advantage: AdvantageEstimator) -> Batch:
    return assemble(
        groups,
        HISTORY,
        0,
        2,
        advantage=advantage,
        filters=[NegativeAdvantageWeight(weight=0.3)],
        loss=Lenient(),
        streams=[Random(0)],
        replay_max_staleness=2,
    )


def trained(one: TrainSample) -> dict[str, object]:
    """Return what the learner reads of a sample."""
    places = trained_tokens(one)
    columns = {name: getattr(one, name)[places].tolist() for name in ("advantages", "weights", "staleness")}
    names = ("tokens", "mask", "logprobs", "versions", "turns", "sources")
    columns |= {name: getattr(one.sample, name)[places].tolist() for name in names}
    return {**columns, "group": one.group, "path": one.path, "return": one.task_success, "length": len(one.weights)}


@pytest.mark.parametrize("advantage", [TreeCredit(), PerToken()], ids=["per turn", "per token"])
def test_the_samples_are_those_that_the_learner_received(advantage: AdvantageEstimator) -> None:
    groups = [tree_group(name, seed) for seed, name in enumerate("abc")]
    first, *others = groups[0].group.trajectories
    weighted = replace(first, extras={LOSS_WEIGHT: 0.5})
    groups[0] = replace(groups[0], group=replace(groups[0].group, trajectories=(weighted, *others)))
    given = [groups[0], sources(groups[1], Source.REPLAY), groups[2]]
    batch = assembled(given, advantage)
    trace = traced(batch)
    update = stored(batch, {"a", "c"}, trace)
    assert [group.id for group in update.groups] == ["a", "c", "b"]
    members: dict[str, Trajectory] = {one.id: one for scored in groups for one in scored.group.trajectories}
    found = stored_samples(update, members, HISTORY)
    received = [(index, one) for index, one in enumerate(batch.samples) if one.weights.any()]
    assert [one.position for one in found] == [index for index, _ in received]
    assert [trained(one.train) for one in found] == [trained(one) for _, one in received]
    assert any(one.path for _, one in received) or len(received) == len(members)
    for one in found:
        places = trained_tokens(one.train)
        assert one.logprobs[places] == pytest.approx(trace.current[one.position], abs=2e-3)
        assert one.proximal[places] == pytest.approx(trace.proximal[one.position], abs=2e-3)
        assert one.entropies[places] == pytest.approx(trace.entropy[one.position], abs=2e-3)
        assert np.isnan(np.delete(one.logprobs, places)).all()
        assert np.isnan(np.delete(one.entropies, places)).all()
    _check_steps(found, members)
    for item in batch_items(batch, {"a", "c"}):
        tokens = {step.index: step.tokens for step in trained_steps(members[item.trajectory], found)}
        values = {turn: [one.advantage for one in of if one.weight] for turn, of in tokens.items()}
        assert item.turn_advantages == {turn: pytest.approx(fmean(of)) for turn, of in values.items() if of}


def _check_steps(found: Sequence[StoredSample], members: dict[str, Trajectory]) -> None:
    """Check that the turns hold every trained token once, in its turn."""
    counts = 0
    for trajectory in members.values():
        for step in trained_steps(trajectory, found):
            assert all(token.staleness == 0 and token.version == 0 for token in step.tokens)
            counts += sum(token.weight != 0 for token in step.tokens)
    assert counts == sum(len(trained_tokens(one.train)) for one in found)


def test_only_the_trajectories_that_are_loaded_are_returned() -> None:
    scored = tree_group("a", 0)
    batch = assembled([scored], TreeCredit())
    update = stored(batch, {"a"}, traced(batch))
    one = scored.group.trajectories[1]
    found = stored_samples(update, {one.id: one}, HISTORY)
    assert {sample.train.sample.trajectory for sample in found} == {one.id}
