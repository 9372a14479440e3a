"""A method of one's own is one file: a file for each slot, in a package outside turnwise, trains and resumes.

The rollout side, the scoring, the update and the checkpoint are those of a run; the players are scripted. `make soak`
trains with the same files through engines and Ray's workers, and kills the driver (``tests/soak/proofs.py``).
"""

import asyncio
import json
from pathlib import Path

import pytest
from turnwise.store import queries
from turnwise.tests.agents.players import Stage, on_stage, oracle
from turnwise.tests.trainer.algorithms.dropped_files import BONUS, PREFIX, WEIGHT, drop_files
from turnwise.tests.trainer.playing import FIRST, InProcess, dispatcher, update_step
from turnwise.trainer.algorithms.algorithm_set import SLOTS, AlgorithmSet
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.learner.update import UpdateResult

PACKAGE = "dropped_methods"
KEYS = {"rewards.0", "group_filters.0", "sample_filters.0"} | {base.slot for base in SLOTS if base.default}


def test_a_file_per_slot_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    raw = {
        "name": "r",
        "environments": [{"id": "turnwise/TextSite-v0", "options": {"family": "find"}}],
        "rollout": {"groups_per_batch": 2, "group_size": 2, "max_concurrent_groups": 4},
        **drop_files(tmp_path, PACKAGE),
    }
    config = parse_config(raw)
    algorithms = AlgorithmSet.of(config)

    async def scenario(stage: Stage) -> UpdateResult:
        result = await updated(stage, config, algorithms, tmp_path / "model")
        with stage.database.read() as conn:
            consumed = [row.trajectory for row in queries.load_update(conn, "r", 1).members]
            rewards = queries.rewards_of(conn, consumed)
            scores = [rewards[one] for one in consumed if one in rewards]
        assert len(consumed) == len(scores) == 6, "members of each group, by the group size"
        stored = [queries.load_trajectory(stage.database, one) for one in consumed]
        assert {one.extras["loss_weight"] for one in stored} == {WEIGHT}, "by the rollout controller"
        for one, score in zip(stored, scores, strict=True):
            assert score.rewards is not None
            assert score.rewards[-1] - one.steps[-1].reward == pytest.approx(BONUS * one.member)
            assert score.verdicts[0]["bonus"] == one.member
        with stage.database.read() as conn:
            heads = queries.load_group_heads(conn, sorted({one.group for one in stored}))
        assert {(one.size, one.horizon.max_turns, one.prompt_prefix) for one in heads} == {(3, 3, PREFIX)}
        return result

    result = on_stage(tmp_path, scenario)
    calls = {key: result.metrics[f"{key}/calls"] for key in KEYS}
    assert all(count >= 1 for count in calls.values()), calls
    assert result.metrics["loss/dropped"] == 1.0, "the loss, with the log-probabilities of the proximal policy"
    states = json.loads(json.dumps(algorithms.component_states()))
    assert states.keys() == KEYS
    resumed = AlgorithmSet.of(parse_config(raw))
    resumed.load_component_states(states, algorithms.observed, algorithms.drawn)
    assert resumed.component_states() == states


async def updated(stage: Stage, config: RunConfig, algorithms: AlgorithmSet, model: Path) -> UpdateResult:
    """Play groups as the dispatcher opens them, and train on the first batch."""
    store = await stage.begin()
    await store.add_version(0, None)
    runner, streams = stage.runner(oracle), Streams(0)
    rollouts = dispatcher(stage, config, streams, InProcess(runner), algorithms)
    step = update_step(stage, config, streams, model, algorithms)
    rollouts.paused = False
    await rollouts.fill()
    while not (groups := await step.lease()):
        await asyncio.wait_for(rollouts.closed.wait(), 20)
        rollouts.closed.clear()
    result = await step.update(groups, FIRST, 0.0, 0.0)
    await rollouts.cancel()
    await runner.close()
    assert result is not None
    return result
