"""Demonstrations of an oracle in the batches of a run: encoded, trained on, and neither consumed nor expired."""

from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.tiny_model import new_model
from turnwise.envs.registry import make
from turnwise.envs.tasks import make_task
from turnwise.errors import TurnwiseError
from turnwise.records import GroupState
from turnwise.store import queries
from turnwise.store.run_lock import run_folder
from turnwise.tests.agents.players import SITE, Stage, group, on_stage, oracle
from turnwise.tests.trainer.playing import FIRST, run_context
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.errors import ConfigError
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.evaluation.heldout import EvalResult
from turnwise.trainer.evaluation.standalone import evaluate
from turnwise.trainer.learner.local import Learner
from turnwise.trainer.learner.update import UpdateStep

OPTIONS = {"family": "find", "pool_size": 3}
RUN = {
    "name": "r",
    "environments": [{"id": SITE, "options": OPTIONS}],
    "rollout": {"groups_per_batch": 1, "max_concurrent_groups": 4},
}


def recorded(folder: Path, split: str = "train") -> EvalResult:
    return evaluate("oracle", SITE, tasks=9, split=split, store_url=f"sqlite:///{folder}/turnwise.db", options=OPTIONS)


def update_step(stage: Stage, loss: str, **buffer: Any) -> UpdateStep:
    """Return the update step of a run whose new model has the words of the site."""
    config = parse_config({**RUN, "loss": {"name": loss}, "replay_buffer": {"name": "demonstrations", **buffer}})
    env = make(SITE, **OPTIONS)
    words = list(env.vocabulary())
    env.close()
    model = new_model(run_folder(stage.database, "r") / "tokenizer", words, hidden=32, heads=2, max_context=512)
    learner = Learner(model, config.learner, config.loss, config.proximal, 1.0)
    return UpdateStep(run_context(stage, config, Streams(0)), learner, {0: FIRST})


async def ready(stage: Stage) -> None:
    """Play a group of the task with seed 1, whose members solve it."""
    await stage.play(oracle, group(make_task(SITE, 1, "train", OPTIONS), 2))
    store = stage.store()
    await store.add_version(0, None)
    await store.close_group("g", GroupState.READY)


def states(stage: Stage) -> list[str]:
    with stage.database.read() as conn:
        return sorted(one["state"] for one in queries.list_groups(conn))


def test_stored_episodes_of_an_oracle_are_cloned(tmp_path: Path) -> None:
    result = recorded(tmp_path)
    assert result.tasks == 3  # the enumerated tasks of the training split

    async def scenario(stage: Stage) -> None:
        await ready(stage)
        step = update_step(stage, "behavior_cloning", run=result.run, count=2)
        trained = await step.update(await step.lease(), FIRST, 0.0, 0.0)
        assert trained is not None
        assert set(trained.metrics["tokens_by_source"]) == {"expert"}
        assert trained.metrics["replay_buffer/demonstrations"] == 3
        with stage.database.read() as conn:
            items = queries.batch_items(conn, "r", 1)
        assert [one["fresh"] for one in items] == [False, False]
        assert states(stage) == ["consumed", "filtered", "filtered", "filtered"]

    on_stage(tmp_path, scenario)


def test_demonstrations_of_the_task_share_a_batch_with_its_rollouts(tmp_path: Path) -> None:
    recorded(tmp_path)

    async def scenario(stage: Stage) -> None:
        await ready(stage)
        step = update_step(stage, "hpt", match="task")
        groups = await step.lease()
        trained = await step.update(groups, FIRST, 0.0, 0.0)
        assert trained is not None
        assert set(trained.metrics["tokens_by_source"]) == {"policy", "expert"}
        with stage.database.read() as conn:
            fresh = [one["fresh"] for one in queries.batch_items(conn, "r", 1)]
        assert sorted(fresh) == [False, True, True]

    on_stage(tmp_path, scenario)


def test_episodes_on_held_out_tasks_are_not_demonstrations(tmp_path: Path) -> None:
    recorded(tmp_path, "test")

    async def scenario(stage: Stage) -> None:
        await ready(stage)
        step = update_step(stage, "hpt")
        with pytest.raises(TurnwiseError, match="the store has no demonstration of turnwise/TextSite-v0"):
            await step.update(await step.lease(), FIRST, 0.0, 0.0)

    on_stage(tmp_path, scenario)


def test_the_loss_must_accept_experts() -> None:
    with pytest.raises(ConfigError, match="does not train on tokens of the source `expert`"):
        parse_config({**RUN, "replay_buffer": {"name": "demonstrations"}})
