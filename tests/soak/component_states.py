"""Check that the component states of a run's checkpoints follow from one another, by value.

* A checkpoint's states, tensors and random streams come back from a load: a resume begins with what was saved.
* The states of a checkpoint, followed by the groups that were scored since, are the states of the next checkpoint.
  This holds in the surviving history, so also over a kill and a resume between the two. It is computed from the store,
  for the components that learn from ``observe`` alone.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from turnwise.store import queries
from turnwise.store.database import Database, open_database
from turnwise.tests.chaos.harness import url
from turnwise.trainer.algorithms.algorithm_set import AlgorithmSet
from turnwise.trainer.algorithms.component import Component
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.checkpoint import read_component_tensors, read_state


def check_states(folder: Path, run: str, config: RunConfig, state: str) -> dict[str, Any]:
    """Check the checkpoints of a run in their order. The components of ``config`` are loaded with each in turn.

    Args:
        state: the key of the component whose state must not be empty in the last checkpoint; empty for none.
    """
    database = open_database(url(folder))
    with database.read() as conn:
        saved = [Path(one.checkpoint) for one in queries.checkpoints(conn, run)]
    assert len(saved) > 2, f"checkpoints: {saved}"
    algorithms = AlgorithmSet.of(config)
    if algorithms.advantage.needs_token_model:
        learner = Learner(saved[0], config.learner, config.loss, config.proximal, config.rollout.temperature)
        learner.load_reference(saved[0])
        algorithms.advantage.bind_token_model(learner.token_model())
    compared: dict[str, int] = {}
    for earlier, later in pairwise(saved):
        check_load(algorithms, config.seed, earlier)
        expected = read_state(later)
        observed = observe_until(database, run, algorithms, expected["observed"])
        states = as_json(algorithms.component_states())
        for key in learners(algorithms):
            assert states[key] == expected["components"][key], f"{key} differs from its state in {later}"
            compared[key] = compared.get(key, 0) + observed
    check_load(algorithms, config.seed, saved[-1])
    last = {key: one for key, one in algorithms.components() if algorithms.component_states()[key] or one.tensors()}
    assert not state or state in last, f"the state of {state} is empty"
    return {"checkpoints": len(saved), "states": sorted(last), "groups_observed_again": compared}


def check_load(algorithms: AlgorithmSet, seed: int, path: Path) -> None:
    """Load a checkpoint's components and random streams; check that they are in the saved state."""
    saved, tensors = read_state(path), read_component_tensors(path)
    algorithms.load_component_states(saved["components"], saved["observed"], saved["drawn"])
    algorithms.load_component_tensors(tensors)
    assert as_json(algorithms.component_states()) == saved["components"], f"the states of {path} differ after a load"
    loaded = algorithms.component_tensors()
    assert not tensors or loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[name], value) for name, value in tensors.items()), f"tensors of {path} differ"
    streams = Streams(seed)
    streams.load_state_dict(saved["streams"])
    assert as_json(streams.state_dict()) == saved["streams"], f"the random streams of {path} differ after a load"


def observe_until(database: Database, run: str, algorithms: AlgorithmSet, end: int) -> int:
    """Pass the surviving groups whose scoring has a number below ``end`` to the components, and return how many."""
    with database.read() as conn:
        scorings = [one for one in queries.scored_from(conn, run, algorithms.observed) if one[0] < end]
    names = [group for _, group in scorings]
    loaded = queries.load_scored(database, names, texts=algorithms.scoring_needs_texts)
    for (number, _), scored in zip(scorings, loaded, strict=True):
        algorithms.observe(number, scored)
    return len(names)


def learners(algorithms: AlgorithmSet) -> list[str]:
    """Return the keys of the components that learn from ``observe`` and keep no tensors."""
    return [
        key for key, one in algorithms.components() if type(one).observe is not Component.observe and not one.tensors()
    ]


def as_json(value: Any) -> Any:
    """Return a value as it comes back from JSON."""
    return json.loads(json.dumps(value))
