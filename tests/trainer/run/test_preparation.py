"""The preparation gives the reference policy to the components that need it."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from turnwise.agents.tiny_model import new_model
from turnwise.tests.agents.players import Stage, on_stage
from turnwise.tests.trainer.learner.train_samples import VOCABULARY
from turnwise.tests.trainer.playing import run_context
from turnwise.tests.trainer.rollout.episodes import tree_group
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.run.preparation import Preparation


@pytest.mark.parametrize("configured", [False, True])
def test_a_token_model_is_a_copy_of_the_policy_that_training_began_with(tmp_path: Path, configured: bool) -> None:
    first, now, other = (
        new_model(tmp_path / str(seed), VOCABULARY, hidden=16, layers=1, heads=2, seed=seed) for seed in range(3)
    )
    chosen: dict[str, Any] = {"name": "r", "environments": [{"id": "e"}], "advantage": {"name": "prime"}}
    config = parse_config(chosen | ({"model": {"reference": str(other)}} if configured else {}))
    members = tree_group("g", 0).group.trajectories

    async def scenario(stage: Stage) -> None:
        store = await stage.begin()
        for update, folder in enumerate((first, now)):
            version = await store.add_version(update, None)
            await store.set_checkpoint(version, str(folder))
        learner = Learner(now, config.learner, config.loss, config.proximal, 1.0)
        context = run_context(stage, config, Streams(0))
        nothing = cast(Any, None)
        await Preparation(context, nothing, nothing, nothing, nothing)._load_reference(learner)

    on_stage(tmp_path, scenario)
    expected = Learner(other if configured else first, config.learner, config.loss, config.proximal, 1.0)
    expected.load_reference(other if configured else first)
    found = [one.logprobs(members) for one in (config.advantage.token_model, expected.token_model())]
    pairs = zip(*(torch.cat([turn for turns in values for turn in turns]) for values in found), strict=True)
    assert all(ours == theirs for ours, theirs in pairs)


def test_without_a_component_that_needs_it_no_reference_is_loaded(tmp_path: Path) -> None:
    config = parse_config({"name": "r", "environments": [{"id": "e"}]})

    async def scenario(stage: Stage) -> None:
        nothing = cast(Any, None)
        context = run_context(stage, config, Streams(0))
        await Preparation(context, nothing, nothing, nothing, nothing)._load_reference(nothing)

    on_stage(tmp_path, scenario)
    assert not config.needs_reference
