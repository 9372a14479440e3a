"""Demonstrations of an oracle in the batches of a run: encoded, trained on, and neither consumed nor expired."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from turnwise.agents.tiny_model import new_model
from turnwise.envs.registry import make
from turnwise.envs.tasks import make_task
from turnwise.errors import TurnwiseError
from turnwise.records import SUCCESS_RETURN, GroupState, ScoredGroup, Source
from turnwise.store import queries
from turnwise.store.project import run_folder
from turnwise.store.queries import RunReader
from turnwise.tests.agents.players import SITE, Stage, group, on_stage, oracle
from turnwise.tests.trainer.playing import FIRST, run_context
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.algorithms.replay.demonstrations import Demonstrations
from turnwise.trainer.config.errors import ConfigError
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.evaluation.tasks import evaluate
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.provenance.stored_batch import load_members, stored_samples
from turnwise.trainer.learner.update import UpdateStep
from turnwise.trainer.telemetry.events import EvalResult

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
        return sorted(one.state for one in queries.list_groups(conn))


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
            items = queries.load_update(conn, "r", 1).members
        assert [one.fresh for one in items] == [False, False]
        assert states(stage) == ["consumed", "filtered", "filtered", "filtered"]
        assert repeated(stage, step)

    on_stage(tmp_path, scenario)


def repeated(stage: Stage, step: UpdateStep) -> bool:
    """Return whether a new learner makes the weights of update 1 again, from the store."""
    with stage.database.read() as conn:
        stored = queries.load_update(conn, "r", 1)
    assert [one.fresh for one in stored.groups] == [True, False, False]
    members = load_members(stage.database, stored, step._config)
    batch = [one.train for one in stored_samples(stored, members, step.history)]
    config = step._config
    again = Learner(run_folder(stage.database, "r") / "tokenizer", config.learner, config.loss, config.proximal, 1.0)
    before = again.weights_hash()
    again.update(batch, 0.0, 0, Random(0))
    return before != again.weights_hash() == stored.weights_hash


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
            fresh = [one.fresh for one in queries.load_update(conn, "r", 1).members]
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


@pytest.mark.parametrize("loss", ["hpt", "behavior_cloning"])
def test_a_loss_on_demonstrations_needs_a_buffer_that_adds_them(loss: str) -> None:
    reason = rf"`{loss}` requires tokens of the source `expert`, which the replay buffer `none` does not add"
    with pytest.raises(ConfigError, match=reason):
        parse_config({**RUN, "loss": {"name": loss}})
    chosen = {"loss": {"name": loss}, "replay_buffer": {"name": "demonstrations"}}
    assert Source.EXPERT in parse_config({**RUN, **chosen}).replay_buffer.sources


class Recorded(RunReader):
    """A reader of ``count`` demonstrations, which may grow between two reads; the newest ones come first."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.min_return = 0.0
        self.options: dict[str, Any] = {}

    def demonstrations(
        self,
        *,
        limit: int,
        min_return: float = SUCCESS_RETURN,
        run: str | None = None,
        environment: str | None = None,
        task: str | None = None,
    ) -> list[str]:
        self.min_return = min_return
        return [f"d{number}" for number in reversed(range(self.count))][:limit]

    def load_demonstrations(self, trajectories: Sequence[str]) -> list[ScoredGroup]:
        return [demonstration(name, self.options) for name in trajectories]


@pytest.mark.parametrize(("min_return", "count"), [(0.5, 0), (0.2, 1), (-1e9, 1)])
def test_min_return_is_that_of_a_success_without_a_verdict(
    min_return: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = scored_group([[0.2]], name="d0", task=make_task(SITE, 7, "train", {}))
    expert = replace(one.group.trajectories[0], source=Source.EXPERT, success=None)
    stored = replace(one, group=replace(one.group, trajectories=(expert,)))
    reader, buffer = Recorded(1), Demonstrations(min_return=min_return)
    monkeypatch.setattr(reader, "load_demonstrations", lambda _: [stored])
    if count:
        assert drawn(buffer, reader, Random(0))[1:] == ["d0"]
    else:
        with pytest.raises(TurnwiseError, match=r"a return of at least 0\.5 \(`min_return`\)"):
            drawn(buffer, reader, Random(0))
    assert reader.min_return == min_return


def demonstration(name: str, options: dict[str, Any]) -> ScoredGroup:
    one = scored_group([[1.0]], name=name, task=make_task(SITE, 7, "train", options))
    expert = replace(one.group.trajectories[0], source=Source.EXPERT, success=True)
    return replace(one, group=replace(one.group, trajectories=(expert,)))


def drawn(buffer: Demonstrations, reader: Recorded, stream: Random) -> list[str]:
    fresh = scored_group([[1.0], [0.0]], task=make_task(SITE, 0, "train", {}))
    return [one.group.id for one in buffer.mix([fresh], reader, 0, stream)]


def resumed(buffer: Demonstrations) -> Demonstrations:
    after = Demonstrations(count=buffer.count)
    after.load_state_dict(buffer.state_dict())
    return after


def kept(buffer: Demonstrations) -> Demonstrations:
    return buffer


def test_a_resumed_run_draws_from_the_same_demonstrations() -> None:
    """Five demonstrations are recorded between the first batch and the second one."""

    def second_batch(interrupt: Callable[[Demonstrations], Demonstrations]) -> tuple[list[str], dict[str, float]]:
        reader, stream, buffer = Recorded(20), Random(1), Demonstrations(count=4)
        drawn(buffer, reader, stream)
        reader.count += 5
        buffer = interrupt(buffer)
        return drawn(buffer, reader, stream), buffer.metrics()

    assert second_batch(resumed) == second_batch(kept)
    assert second_batch(kept)[1] == {"demonstrations": 20}


def test_a_run_that_stopped_for_want_of_demonstrations_takes_those_recorded_since() -> None:
    reader, buffer = Recorded(3), Demonstrations(count=2)
    reader.options = OPTIONS
    with pytest.raises(TurnwiseError, match="the store has no demonstration"):
        drawn(buffer, reader, Random(0))
    reader.options = {}
    assert len(drawn(resumed(buffer), reader, Random(0))) == 3
