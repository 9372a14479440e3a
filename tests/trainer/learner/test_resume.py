"""An update after a resume equals the update of the uninterrupted run, bit for bit; `make soak` has every component."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from turnwise.agents.tiny_model import new_model
from turnwise.tests.trainer.learner.train_samples import VOCABULARY, train_samples
from turnwise.trainer.algorithms.algorithm_set import AlgorithmSet
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.learner import checkpoint
from turnwise.trainer.learner.backends.local import Learner

UID = "0123456789abcdef"
LEARNER = {"learning_rate": 1e-2, "num_minibatches": 2, "num_epochs": 2, "max_tokens_per_micro_batch": 24}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_model(tmp_path_factory.mktemp("m") / "model", VOCABULARY, hidden=32, heads=2, seed=3)


class Process:
    """One process of a run: its configuration and components, its streams and its learner."""

    def __init__(self, folder: Path, chosen: dict[str, Any]) -> None:
        self.config: RunConfig = parse_config({"name": "t", "environments": [{"id": "e"}], "learner": LEARNER} | chosen)
        self.streams = Streams(0)
        self.algorithms = AlgorithmSet.of(self.config)
        algorithms = self.algorithms
        self.learner = Learner(folder, self.config.learner, algorithms.loss, algorithms.proximal, 1.0)

    def train(self, first: int, last: int) -> None:
        for update in range(first, last):
            self.learner.update(train_samples(update), 0.0, update, self.streams.of("minibatches"))

    def save(self, folder: Path, tokenizer: Path) -> Path:
        states = {"components": self.algorithms.component_states(), "streams": self.streams.state_dict()}
        tensors = self.algorithms.component_tensors()
        write = self.learner.save
        return checkpoint.save(folder, 1, write, tokenizer, states, run_uid=UID, component_tensors=tensors)

    def load(self, folder: Path) -> None:
        states = json.loads(json.dumps(checkpoint.verify(folder, UID)))
        self.learner.load_optimizer(folder)
        self.algorithms.load_component_states(states["components"], 0, 0)
        self.algorithms.load_component_tensors(checkpoint.read_component_tensors(folder))
        self.streams.load_state_dict(states["streams"])


CHOSEN: list[dict[str, Any]] = [
    {},
    {"proximal": {"name": "ewma"}},
    {"proximal": {"name": "log_linear"}},
    {"loss": {"name": "gspo"}},
]
"""Components without a state, with tensors, and with other states."""
IN_CI = [(0, CHOSEN[0]), (2, CHOSEN[1]), (2, CHOSEN[2])]


@pytest.mark.parametrize(
    ("at", "chosen"),
    [
        pytest.param(at, chosen, marks=() if (at, chosen) in IN_CI else pytest.mark.soak)
        for at in (0, 2)
        for chosen in CHOSEN
    ],
    ids=str,
)
def test_a_resumed_run_continues_as_the_uninterrupted_one(
    model: Path, tmp_path: Path, chosen: dict[str, Any], at: int
) -> None:
    whole = Process(model, chosen)
    whole.train(0, 4)
    before = Process(model, chosen)
    before.train(0, at)
    folder = before.save(tmp_path / "checkpoints", model)
    resumed = Process(folder, chosen)
    resumed.load(folder)
    resumed.train(at, 4)
    assert resumed.algorithms.component_states() == whole.algorithms.component_states()
    pairs = [dict(one.learner.named_parameters()) | one.algorithms.component_tensors() for one in (resumed, whole)]
    assert pairs[0].keys() == pairs[1].keys()
    assert all(torch.equal(value, pairs[1][name]) for name, value in pairs[0].items())


def test_only_components_with_tensors_add_a_file(model: Path, tmp_path: Path) -> None:
    for number, chosen in enumerate(({}, {"proximal": {"name": "ewma"}})):
        process = Process(model, chosen)
        process.train(0, 1)
        folder = process.save(tmp_path / str(number), model)
        assert (folder / checkpoint.COMPONENTS).exists() is bool(chosen)
        assert (checkpoint.COMPONENTS in (folder / checkpoint.MANIFEST).read_text()) is bool(chosen)
