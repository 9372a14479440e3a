"""The preparation gives the reference policy to the components that need it."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from turnwise.agents.tiny_model import new_model
from turnwise.errors import TurnwiseError
from turnwise.tests.agents.players import Stage, on_stage
from turnwise.tests.trainer.learner.train_samples import VOCABULARY
from turnwise.tests.trainer.playing import run_context
from turnwise.tests.trainer.rollout.episodes import tree_group
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.run import preparation
from turnwise.trainer.run.preparation import Preparation

WAIT_S = 20.0
"""Seconds that the part that does not fail would take."""


@pytest.mark.parametrize("configured", [False, True])
def test_a_token_model_is_a_copy_of_the_policy_that_training_began_with(tmp_path: Path, configured: bool) -> None:
    first, now, other = (
        new_model(tmp_path / str(seed), VOCABULARY, hidden=16, layers=1, heads=2, seed=seed) for seed in range(3)
    )
    chosen: dict[str, Any] = {"name": "r", "environments": [{"id": "e"}], "advantage": {"name": "prime"}}
    config = parse_config(chosen | ({"model": {"reference": str(other)}} if configured else {}))
    members = tree_group("g", 0).group.trajectories
    advantages: list[Any] = []

    async def scenario(stage: Stage) -> None:
        store = await stage.begin()
        for update, folder in enumerate((first, now)):
            version = await store.add_version(update, None)
            await store.set_checkpoint(version, str(folder))
        learner = Learner(now, config.learner, config.loss, config.proximal, 1.0)
        context = run_context(stage, config, Streams(0))
        advantages.append(context.algorithms.advantage)
        nothing = cast(Any, None)
        await Preparation(context, nothing, nothing, nothing, nothing)._load_reference(learner)

    on_stage(tmp_path, scenario)
    expected = Learner(other if configured else first, config.learner, config.loss, config.proximal, 1.0)
    expected.load_reference(other if configured else first)
    found = [one.logprobs(members) for one in (advantages[0].token_model, expected.token_model())]
    pairs = zip(*(torch.cat([turn for turns in values for turn in turns]) for values in found), strict=True)
    assert all(ours == theirs for ours, theirs in pairs)


class Untrained:
    """Stands for the cluster and the evaluator, whose first evaluation fails, or waits."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails
        self.engines = self
        self.cancelled = False

    async def ready(self) -> None:
        return

    async def serve_loaded(self, version: int) -> None:
        return

    async def evaluate(self, name: str, update: int) -> None:
        if self.fails:
            raise TurnwiseError("no episode had an outcome")
        try:
            await asyncio.sleep(WAIT_S)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


@pytest.mark.parametrize("fails", ["evaluation", "warm-up"])
def test_a_failure_ends_the_warm_up_and_the_first_evaluation_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    config = parse_config({"name": "r", "environments": [{"id": "e"}]})
    ended = []

    def warm_up(*arguments: Any, **named: Any) -> None:
        if fails == "warm-up":
            raise TurnwiseError("no environment can be played")
        stopped, deadline = arguments[-1], time.monotonic() + WAIT_S
        while not stopped() and time.monotonic() < deadline:
            time.sleep(0.01)
        ended.append(stopped())

    monkeypatch.setattr(preparation, "warm_up", warm_up)
    monkeypatch.setattr(preparation, "load_renderer", lambda folder: folder)
    untrained = Untrained(fails == "evaluation")

    async def scenario(stage: Stage) -> None:
        await stage.begin()
        context = run_context(stage, config, Streams(0))
        parts = cast(Any, untrained)
        state = SimpleNamespace(stop=False)
        initial = cast(Any, SimpleNamespace(model=tmp_path))
        began = time.monotonic()
        with pytest.raises(TurnwiseError, match=r"no episode|no environment"):
            await Preparation(context, cast(Any, state), initial, parts, parts)._warm_up(parts, 0.0)
        assert time.monotonic() - began < WAIT_S / 2

    on_stage(tmp_path, scenario)
    assert (ended, untrained.cancelled) == (([True], False) if fails == "evaluation" else ([], True))


def test_without_a_component_that_needs_it_no_reference_is_loaded(tmp_path: Path) -> None:
    config = parse_config({"name": "r", "environments": [{"id": "e"}]})

    async def scenario(stage: Stage) -> None:
        nothing = cast(Any, None)
        context = run_context(stage, config, Streams(0))
        await Preparation(context, nothing, nothing, nothing, nothing)._load_reference(nothing)

    on_stage(tmp_path, scenario)
    assert not config.needs_reference
