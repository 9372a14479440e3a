"""PRIME with the learner's model: it learns from outcomes, credits each token once, and resumes exactly."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from turnwise.agents.tiny_model import new_model
from turnwise.records import PolicyVersion
from turnwise.tests.trainer.learner.train_samples import VOCABULARY
from turnwise.tests.trainer.rollout.episodes import tree_group
from turnwise.trainer.algorithms.advantages.prime import PRIME
from turnwise.trainer.algorithms.algorithm_set import AlgorithmSet
from turnwise.trainer.algorithms.groups import Credit
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.learner import checkpoint
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.batch import assemble

UID = "0123456789abcdef"
CHOSEN = {"advantage": {"name": "prime", "learning_rate": 3e-3, "beta": 1.0}}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_model(tmp_path_factory.mktemp("m") / "model", VOCABULARY, hidden=32, heads=2, seed=3)


def process(folder: Path, reference: Path) -> tuple[AlgorithmSet, Learner]:
    """Return the components and the learner of one process of a run, with the token model bound."""
    config: RunConfig = parse_config({"name": "t", "environments": [{"id": "e"}], **CHOSEN})
    algorithms = AlgorithmSet.of(config)
    learner = Learner(folder, config.learner, algorithms.loss, algorithms.proximal, 1.0)
    assert config.needs_reference
    learner.load_reference(reference)
    algorithms.advantage.bind_token_model(learner.token_model())
    return algorithms, learner


def arrays(credit: Sequence[Credit]) -> list[list[list[list[float]]]]:
    return [[[np.asarray(turn).tolist() for turn in turns] for turns in members] for members in credit]


def test_the_model_learns_which_tokens_lead_to_success(model: Path) -> None:
    algorithms, _ = process(model, model)
    estimator = algorithms.advantage
    found: list[dict[str, float]] = []
    for update in range(15):
        credit = estimator([tree_group(name, update) for name in ("a", "b")])
        found.append(estimator.metrics())
    assert found[0]["process_reward_loss"] == pytest.approx(np.log(2), abs=1e-6), "the copy is the reference at first"
    assert found[-1]["process_reward_loss"] < 0.3
    assert found[-1]["process_reward_accuracy"] == 1.0
    for members in arrays(credit):
        assert [[len(turn) for turn in turns] for turns in members] == [[1, 2, 3], [1, 2, 3], [0, 2, 3], [0, 0, 3]]
        assert len({round(value, 4) for value in members[0][2]}) == 3, "each token of a turn has its own advantage"
    values = np.concatenate([turn for members in arrays(credit) for turns in members for turn in turns])
    unseen = tree_group("new", 99).group.trajectories
    both = estimator.token_model.logprobs(unseen), estimator.token_model.reference_logprobs(unseen)
    rewards = [float((torch.cat([*new]) - torch.cat([*old])).mean()) for new, old in zip(*both, strict=True)]
    assert rewards[0] > 0 > max(rewards[1:3]), "the rewards of an unseen success and of unseen failures"
    assert len(values) == 40, "each token counts once"
    assert (values.mean(), values.std()) == (pytest.approx(0, abs=1e-5), pytest.approx(1, abs=1e-4))


def test_before_it_learns_the_process_reward_is_0_and_the_credit_is_rloo(model: Path) -> None:
    """By hand: RLOO gives 1 and three times -1/3; 6 tokens have 1, 14 have -1/3: mean .0666667, deviation .6110101."""
    _, learner = process(model, model)
    estimator = PRIME(learning_rate=1e-30)
    estimator.bind_token_model(learner.token_model())
    (members,) = arrays(estimator([tree_group("g", 0)]))
    assert members[0][2] == pytest.approx([1.5275252] * 3, abs=1e-4)
    assert members[1][0] == pytest.approx([-0.6546537], abs=1e-4)
    assert members[3] == [[], [], pytest.approx([-0.6546537] * 3, abs=1e-4)]


def test_the_batch_has_an_advantage_for_each_trained_token(model: Path) -> None:
    algorithms, _ = process(model, model)
    groups = [tree_group("a", 1)]
    batch = assemble(
        groups,
        {0: PolicyVersion("r", 0, None, 0)},
        0,
        1,
        advantage=algorithms.advantage,
        filters=(),
        loss=algorithms.loss,
        streams=(),
    )
    assert sum(float(one.weights.sum()) for one in batch.samples) == 20
    assert all((one.advantages != 0).tolist() == (one.weights > 0).tolist() for one in batch.samples)


def test_a_resumed_run_continues_as_the_uninterrupted_one(model: Path, tmp_path: Path) -> None:
    def train(algorithms: AlgorithmSet, first: int, last: int) -> list[Any]:
        return [arrays(algorithms.advantage([tree_group("a", update)])) for update in range(first, last)]

    whole, _ = process(model, model)
    expected = train(whole, 0, 4)
    before, learner = process(model, model)
    train(before, 0, 2)
    saved = checkpoint.save(
        tmp_path,
        1,
        learner.save,
        model,
        {"components": before.component_states()},
        run_uid=UID,
        component_tensors=before.component_tensors(),
    )
    resumed, _ = process(saved, model)
    state = checkpoint.verify(saved, UID)
    resumed.load_component_states(state["components"], 0, 0)
    resumed.load_component_tensors(checkpoint.read_component_tensors(saved))
    assert train(resumed, 2, 4) == expected[2:]
    tensors = [one.component_tensors() for one in (whole, resumed)]
    assert tensors[0].keys() == tensors[1].keys()
    assert any("exp_avg_sq" in name for name in tensors[0])
    assert all(torch.equal(value, tensors[1][name]) for name, value in tensors[0].items())
