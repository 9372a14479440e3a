"""Updates with reused groups in a real store: only leased groups are consumed or expire, and reuse is recorded."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from turnwise.errors import TurnwiseError
from turnwise.records import GroupState, PolicyVersion, ScoredGroup, Source
from turnwise.store import queries
from turnwise.store.queries import RunReader
from turnwise.tests.agents.players import Stage, group, on_stage, oracle, site
from turnwise.tests.trainer.playing import FIRST, update_step
from turnwise.trainer.algorithms.losses.base import LossOutput, PolicyLoss, TokenBatch
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.algorithms.replay.base import ReplayBuffer
from turnwise.trainer.config.errors import ConfigError
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.learner.update import UpdateResult, UpdateStep

SITE = {"id": "turnwise/TextSite-v0", "options": {"family": "find"}}
BATCH = {"groups_per_batch": 1, "max_concurrent_groups": 4, "max_staleness": 1}


class Again(ReplayBuffer):
    """Adds every consumed group to the batch, outside the event loop."""

    def mix(self, fresh: Sequence[ScoredGroup], reader: RunReader, update: int, stream: Random) -> list[ScoredGroup]:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        consumed = reader.groups(states={GroupState.CONSUMED}, limit=9)
        return [*fresh, *reader.load([one.id for one in consumed])]


class Instead(ReplayBuffer):
    """Puts the consumed groups in place of the fresh ones."""

    def mix(self, fresh: Sequence[ScoredGroup], reader: RunReader, update: int, stream: Random) -> list[ScoredGroup]:
        return reader.load([one.id for one in reader.groups(states={GroupState.CONSUMED}, limit=9)])


class Fill(ReplayBuffer):
    """Puts the first member of the first group in place of the first member of every other group."""

    def mix(self, fresh: Sequence[ScoredGroup], reader: RunReader, update: int, stream: Random) -> list[ScoredGroup]:
        (loaded, rewards), *_ = reader.load_trajectories([fresh[0].group.trajectories[0].id])
        return [fresh[0], *(filled(one, loaded, rewards) for one in fresh[1:])]


class Twice(ReplayBuffer):
    """Returns every fresh group twice."""

    def mix(self, fresh: Sequence[ScoredGroup], reader: RunReader, update: int, stream: Random) -> list[ScoredGroup]:
        return [*fresh, *fresh]


class PolicyOnly(PolicyLoss):
    """A loss that does not declare replayed tokens."""

    def __call__(self, batch: TokenBatch) -> LossOutput:
        return LossOutput(batch.logprobs.sum(), {})


def filled(scored: ScoredGroup, member: Any, rewards: Sequence[float]) -> ScoredGroup:
    members = (member, *scored.group.trajectories[1:])
    return replace(scored, group=replace(scored.group, trajectories=members), rewards=[rewards, *scored.rewards[1:]])


def step_with(stage: Stage, folder: Path, buffer: type[ReplayBuffer], count: int = 1, **options: Any) -> UpdateStep:
    chosen = {"name": f"{__name__}:{buffer.__name__}", **options}
    batch = {**BATCH, "groups_per_batch": count}
    config = parse_config({"name": "r", "environments": [SITE], "rollout": batch, "replay_buffer": chosen})
    return update_step(stage, config, Streams(0), folder / "model")


async def ready(stage: Stage, number: int) -> None:
    """Play and score the group with this number, whose members are named after it."""
    await stage.play(oracle, group(site("find"), 2, name=f"g{number}"))
    store = stage.store()
    if number == 0:
        await store.add_version(0, None)
    await store.close_group(f"g{number}", GroupState.SCORING)
    await store.score_group(f"g{number}", number, GroupState.READY)


async def next_update(stage: Stage, step: UpdateStep) -> UpdateResult | None:
    """Make ``g0`` a group of update 1, train on ``g1``, and return the result of update 2."""
    await ready(stage, 0)
    await ready(stage, 1)
    store = stage.store()
    assert await store.lease(1, 60.0) == ["g0"]
    await store.acknowledge(["g0"], update=1, parent=0, items=[], metrics={})
    return await step.update(await step.lease(), PolicyVersion("r", 1, 0, 1), 0.0, 0.0)


def items(stage: Stage, update: int) -> dict[str, bool]:
    """Return the trajectories of an update, and whether each was fresh."""
    with stage.database.read() as conn:
        if update not in queries.update_numbers(conn, "r"):
            return {}
        return {one.trajectory: one.fresh for one in queries.load_update(conn, "r", update).members}


def states(stage: Stage) -> dict[str, str]:
    with stage.database.read() as conn:
        return {one.id: one.state for one in queries.list_groups(conn)}


def test_reuse_is_recorded_and_consumes_nothing(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        step = step_with(stage, tmp_path, Again)
        result = await next_update(stage, step)
        assert result is not None
        assert items(stage, 2) == {"g0-0": False, "g0-1": False, "g1-0": True, "g1-1": True}
        assert states(stage) == {"g0": "consumed", "g1": "consumed"}
        assert result.metrics["replayed_fraction"] == 0.5
        assert result.metrics["replayed_swept_fraction"] == 0
        assert result.metrics["trajectories"] == 2

    on_stage(tmp_path, scenario)


def test_replayed_tokens_have_another_bound(tmp_path: Path) -> None:
    """All tokens are of version 0, one update old; fresh ones may be that old, replayed ones may not."""

    async def scenario(stage: Stage) -> None:
        step = step_with(stage, tmp_path, Again, max_staleness=0)
        result = await next_update(stage, step)
        assert result is not None
        assert items(stage, 2) == {"g1-0": True, "g1-1": True}
        assert states(stage) == {"g0": "consumed", "g1": "consumed"}
        assert (result.metrics["replayed_fraction"], result.metrics["replayed_swept_fraction"]) == (0, 1)
        assert (result.metrics["swept_fraction"], result.metrics["expired_groups"]) == (0, 0)

    on_stage(tmp_path, scenario)


def test_a_fresh_group_that_is_left_out_expires(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        step = step_with(stage, tmp_path, Instead)
        await ready(stage, 0)
        assert await step.update(await step.lease(), FIRST, 0.0, 0.0) is None
        assert step.skipped_by_buffer
        assert step.skip_reason == "the replay buffer left out all 1 groups"
        assert states(stage) == {"g0": "expired"}

    on_stage(tmp_path, scenario)


@pytest.mark.parametrize("max_staleness", [0, 1])
def test_a_batch_may_consist_of_reused_groups(tmp_path: Path, max_staleness: int) -> None:
    """All tokens are one update old. If the replayed ones are too stale, the batch is not a stale one."""

    async def scenario(stage: Stage) -> None:
        step = step_with(stage, tmp_path, Instead, max_staleness=max_staleness)
        result = await next_update(stage, step)
        assert step.skipped_by_buffer == (result is None) == (max_staleness == 0)
        assert items(stage, 2) == ({} if result is None else {"g0-0": False, "g0-1": False})
        assert states(stage) == {"g0": "consumed", "g1": "expired"}
        if result is not None:
            assert (result.metrics["expired_groups"], result.metrics["replayed_fraction"]) == (1, 1)

    on_stage(tmp_path, scenario)


def test_a_trajectory_that_is_fresh_and_reused_in_one_batch_is_recorded_as_fresh(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        step = step_with(stage, tmp_path, Fill, count=2)
        await ready(stage, 0)
        await ready(stage, 1)
        result = await step.update(await step.lease(), FIRST, 0.0, 0.0)
        assert result is not None
        assert items(stage, 1) == {"g0-0": True, "g0-1": True, "g1-1": True}
        assert states(stage) == {"g0": "consumed", "g1": "consumed"}
        with stage.database.read() as conn:
            trained = {one.trajectory: one.tokens_trained for one in queries.load_update(conn, "r", 1).members}
        assert trained["g0-0"] == 2 * trained["g0-1"]

    on_stage(tmp_path, scenario)


def test_a_group_may_be_in_a_batch_only_once(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        step = step_with(stage, tmp_path, Twice)
        await ready(stage, 0)
        with pytest.raises(TurnwiseError, match="returned group g0 2 times"):
            await step.update(await step.lease(), FIRST, 0.0, 0.0)
        assert states(stage) == {"g0": "ready"}

    on_stage(tmp_path, scenario)


def test_the_loss_must_accept_the_sources_that_the_buffer_adds() -> None:
    chosen = {"loss": {"name": f"{__name__}:PolicyOnly"}, "replay_buffer": {"name": f"{__name__}:Again"}}
    with pytest.raises(ConfigError, match=r"PolicyOnly` does not train on tokens of the source `replay`"):
        parse_config({"name": "r", "environments": [SITE], **chosen})
    assert Source.REPLAY in parse_config({"name": "r", "environments": [SITE]}).loss.accepts
