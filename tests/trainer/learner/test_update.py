"""The update step on groups in a real store: metrics and random streams."""

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from pydantic import PrivateAttr
from sqlalchemy import select
from turnwise.errors import TurnwiseError
from turnwise.records import GroupState, Limit, ScoredGroup, Status
from turnwise.store.queries import idle_updates, load_group_heads, trained_tokens
from turnwise.store.schema import rollout_group
from turnwise.tests.agents.players import Stage, group, on_stage, oracle, site
from turnwise.tests.trainer.playing import FIRST, dispatcher, update_step
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.algorithms.groups import TrainSample
from turnwise.trainer.algorithms.losses.base import LossOutput, Metric, PolicyLoss, TokenBatch
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.algorithms.sample_filters.base import SampleFilter
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.learner.update import UpdateResult, UpdateStep, _ends, _unbegun
from turnwise.trainer.telemetry.events import EvalResult, UpdateDone

DOCUMENTED = Path(__file__).parents[3] / "docs" / "guide" / "metrics.md"
SITE = {"id": "turnwise/TextSite-v0", "options": {"family": "find"}}
BATCH = {"groups_per_batch": 1, "max_concurrent_groups": 4}


async def played(stage: Stage, size: int = 2) -> None:
    """Play a group of run ``r`` with its first version, and mark it ready."""
    await stage.play(oracle, group(site("find"), size))
    store = stage.store()
    await store.add_version(0, None)
    await store.close_group("g", GroupState.READY)


async def updated(step: UpdateStep) -> tuple[Sequence[ScoredGroup], UpdateResult | None]:
    groups = await step.lease()
    return groups, await step.update(groups, FIRST, 0.0, 0.0)


def test_every_recorded_metric_is_documented(tmp_path: Path) -> None:
    config = parse_config({"name": "r", "environments": [SITE], "rollout": BATCH})

    async def scenario(stage: Stage) -> set[str]:
        await played(stage)
        _, result = await updated(update_step(stage, config, Streams(0), tmp_path / "model"))
        assert result is not None
        return set(result.metrics)

    recorded = on_stage(tmp_path, scenario)
    recorded |= {field.name for event in (UpdateDone, EvalResult) for field in fields(event)}
    recorded = {re.sub(r"^reward_part/.*", "reward_part/NAME", name) for name in recorded}
    documented = set(re.findall(r"`([\w/]+)`", DOCUMENTED.read_text()))
    assert recorded - documented == set()


class Measured(SampleFilter):
    """A sample filter that measures its batches and changes nothing."""

    _samples: int = PrivateAttr(0)

    def __call__(self, batch: Sequence[TrainSample], rng: Random) -> list[TrainSample]:
        self._samples += len(batch)
        return list(batch)

    def metrics(self) -> dict[str, float]:
        return {"samples": self._samples}


def test_the_metrics_of_components_are_recorded_with_the_update(tmp_path: Path) -> None:
    filters = [{"name": f"{Measured.__module__}:Measured"}]
    config = parse_config({"name": "r", "environments": [SITE], "rollout": BATCH, "sample_filters": filters})

    async def scenario(stage: Stage) -> None:
        await played(stage)
        _, result = await updated(update_step(stage, config, Streams(0), tmp_path / "model"))
        assert result is not None
        assert result.metrics["sample_filters.0/samples"] == 2

    on_stage(tmp_path, scenario)


class Dropping(PolicyLoss):
    """A loss that drops every token."""

    def __call__(self, batch: TokenBatch) -> LossOutput:
        return LossOutput((0 * batch.logprobs).sum(), {"dropped_fraction": Metric(torch.ones(len(batch.weights)))})


def test_an_update_whose_gradient_is_0_trained_on_no_token(tmp_path: Path) -> None:
    chosen = {"name": "r", "environments": [SITE], "rollout": BATCH}
    config = parse_config({**chosen, "loss": {"name": f"{Dropping.__module__}:Dropping"}})

    async def scenario(stage: Stage) -> None:
        await played(stage)
        _, result = await updated(update_step(stage, config, Streams(0), tmp_path / "model"))
        assert result is not None
        assert (result.metrics["grad_norm"], result.metrics["tokens"]) == (0.0, 0.0)
        assert result.metrics["loss/dropped_fraction"] == 1.0
        with stage.database.read() as conn:
            assert (idle_updates(conn, "r"), trained_tokens(conn, "r")) == (1, 0)

    on_stage(tmp_path, scenario)


def test_an_advantage_that_cannot_be_computed_releases_the_batch(tmp_path: Path) -> None:
    chosen = {"name": "r", "environments": [SITE], "rollout": BATCH, "advantage": {"name": "prime"}}
    config = parse_config(chosen)

    async def scenario(stage: Stage) -> None:
        await played(stage)
        step = update_step(stage, config, Streams(0), tmp_path / "model")
        with pytest.raises(TurnwiseError, match="no token model"):
            await updated(step)
        learner = step._learner
        await asyncio.to_thread(learner.load_reference, tmp_path / "model")
        step._algorithms.advantage.bind_token_model(learner.token_model())
        groups, result = await updated(step)
        assert len(groups) == 1, "the batch is leased again"
        assert result is not None
        assert result.metrics["advantage/process_reward_loss"] == pytest.approx(math.log(2))

    on_stage(tmp_path, scenario)


DRAWN: list[float] = []


class Drawing(SampleFilter):
    """A sample filter that draws a number per sample and changes nothing."""

    def __call__(self, batch: Sequence[TrainSample], rng: Random) -> list[TrainSample]:
        DRAWN.extend(rng.random() for _ in batch)
        return list(batch)


class Never:
    """Workers whose groups never end."""

    async def play(self, *_: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    async def cancel(self, timeout_s: float = 30.0) -> None:
        """Do nothing."""


@pytest.fixture
def drawing() -> str:
    """Return the import path of the filter, and clear its draws."""
    DRAWN.clear()
    return f"{Drawing.__module__}:Drawing"


def test_the_dispatcher_and_each_filter_draw_from_independent_streams(tmp_path: Path, drawing: str) -> None:
    filters = [{"name": drawing}, {"name": drawing}]
    config = parse_config({"name": "r", "environments": [SITE], "rollout": BATCH, "sample_filters": filters})

    def tasks(folder: Path, *, updates_first: bool) -> list[int]:
        async def scenario(stage: Stage) -> list[int]:
            await played(stage)
            streams = Streams(5)
            step = update_step(stage, config, streams, folder / "model")
            rollouts = dispatcher(stage, config, streams, Never())
            if updates_first:
                await updated(step)
            rollouts.paused = False
            assert await rollouts.fill() > 1
            if not updates_first:
                await updated(step)
            await rollouts.cancel()
            with stage.database.read() as conn:
                heads = load_group_heads(conn, [f"r:{number}" for number in range(rollouts.next_group)])
            return [head.task.seed for head in heads]

        folder.mkdir()
        return on_stage(folder, scenario)

    first = tasks(tmp_path / "a", updates_first=True)
    first_draws, DRAWN[:] = list(DRAWN), []
    second = tasks(tmp_path / "b", updates_first=False)
    common = min(len(first), len(second))
    assert common > 1
    assert first[:common] == second[:common]
    assert first_draws == DRAWN
    assert len(set(DRAWN)) == len(DRAWN) == 4


def test_a_batch_without_a_turn_names_how_its_episodes_ended() -> None:
    reason = "the first observation has 70 tokens, `horizon.max_context` is 64"
    unread = scored_group([[], []], status=Status.TRUNCATED)
    ended = [replace(one, reached=Limit.CONTEXT, stop_reason=reason) for one in unread.group.trajectories]
    unread = replace(unread, group=replace(unread.group, trajectories=ended))
    assert _unbegun(unread) == f"no episode had a turn: {reason}"
    played = scored_group([[1.0], [0.0]])
    assert _unbegun(played) == ""
    assert _ends([unread, played]) == (
        "4 episodes ended: 2 truncated by `horizon.max_context`, 2 completed; 2 had no turn, such as: " + reason
    )


def test_a_batch_with_an_unreadable_image_expires_with_its_reason(tmp_path: Path) -> None:
    config = parse_config({"name": "r", "environments": [SITE], "rollout": BATCH})

    async def scenario(stage: Stage) -> tuple[str, GroupState, Any]:
        await played(stage)
        step = update_step(stage, config, Streams(0), tmp_path / "model")
        (one,) = await step.lease()
        shown = [
            replace(member, messages=[replace(member.messages[0], images=["0" * 64]), *member.messages[1:]])
            for member in one.group.trajectories
        ]
        altered = replace(one, group=replace(one.group, trajectories=shown))
        assert await step.update([altered], FIRST, 0.0, 0.0) is None
        with stage.database.read() as conn:
            (head,) = load_group_heads(conn, ["g"])
            reason = conn.execute(select(rollout_group.c.reason)).scalar_one()
        return step.skip_reason, head.state, reason

    skipped, state, reason = on_stage(tmp_path, scenario)
    assert state is GroupState.EXPIRED
    assert skipped == reason
    assert "image 000000000000: the store refers to blob 0000" in reason
