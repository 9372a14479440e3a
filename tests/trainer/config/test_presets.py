"""A preset under the name of a method has what its paper has."""

from pathlib import Path
from random import Random

import pytest
from turnwise.agents.tiny_model import new_model
from turnwise.tests.trainer.learner.train_samples import VOCABULARY, train_samples
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.losses.gspo import GSPO
from turnwise.trainer.config.loading import parse_config, preset_names
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.learner.backends.local import Learner


def preset(name: str, **changes: object) -> RunConfig:
    return parse_config({"name": "t", "environments": [{"id": "e"}], "preset": name, **changes})


def test_every_preset_is_compared_with_its_paper() -> None:
    assert set(preset_names()) == {"grpo", "gspo", "dr_grpo", "tiny"}, "`tiny` has no paper"


def test_grpo_has_the_objective_of_its_paper() -> None:
    """Shao et al. 2024: the mean over sequences of the mean over tokens, k3 with .04, std in the advantage."""
    config = preset("grpo")
    assert type(config.loss) is DecoupledPPO
    assert (config.loss.aggregation, config.loss.reference_kl_coef) == ("episode_mean", 0.04)
    assert config.loss.kl_estimator == "k3"
    assert config.advantage.model_dump() == {"name": "grpo", "normalize_std": True}
    assert (config.learner.num_minibatches, config.learner.num_epochs) == (1, 1)
    assert (config.group_filters, config.sample_filters) == ([], [])


def test_dr_grpo_has_no_lengths_no_deviations_and_no_reference() -> None:
    """Liu et al. 2025: a constant, the budget of tokens, in place of the length; returns less their mean."""
    short = preset("dr_grpo", horizon={"max_tokens_per_episode": 128})
    assert isinstance(short.loss, DecoupledPPO)
    assert short.loss.max_tokens == 128, "the budget of the run"
    assert parse_config(short.resolved()).digest() == short.digest()
    own = preset("dr_grpo", horizon={"max_tokens_per_episode": 128}, loss={"max_tokens": 64})
    assert isinstance(own.loss, DecoupledPPO)
    assert own.loss.max_tokens == 64
    config = preset("dr_grpo")
    assert type(config.loss) is DecoupledPPO
    assert config.loss.aggregation == "constant"
    assert config.loss.max_tokens == config.horizon.max_tokens_per_episode
    assert config.loss.reference_kl_coef == 0
    assert config.advantage.model_dump() == {"name": "grpo", "normalize_std": False}
    assert config.group_filters == []


@pytest.mark.parametrize(("steps", "clips"), [(4, True), (1, False)])
def test_gspo_clips_because_it_takes_several_steps_per_batch(tmp_path: Path, steps: int, clips: bool) -> None:
    """Zheng et al. 2025, section 5.1: four mini-batches, 3e-4 and 4e-4; in the first of them every ratio is 1."""
    config = preset("gspo", learner={"learning_rate": 1e-3, "lr_warmup_steps": 0})
    assert type(config.loss) is GSPO
    assert config.learner.num_minibatches == 4
    assert (config.loss.clip_ratio_low, config.loss.clip_ratio_high) == (3e-4, 4e-4)
    assert (config.loss.aggregation, config.loss.reference_kl_coef) == ("episode_mean", 0)
    assert config.advantage.model_dump() == {"name": "grpo", "normalize_std": True}
    folder = new_model(tmp_path / "model", VOCABULARY, hidden=32, heads=2, seed=3)
    settings = config.learner.model_copy(update={"num_minibatches": steps})
    metrics = Learner(folder, settings, config.loss, config.proximal, 1.0).update(train_samples(1), 0.0, 0, Random(0))
    assert (metrics["clip_fraction"] > 0) is clips
