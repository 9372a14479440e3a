"""Engine and learner agree on the log-probabilities of every family of models, one family after another."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from turnwise.tests.trainer.learner.model.parity.agreement import measure_all
from turnwise.trainer.cluster.runtime import start_ray, stop_ray


def agree(folder: Path, families: Sequence[str]) -> list[str]:
    """Print the figures of each family as one JSON line, and return the problems."""
    problems = []
    start_ray()
    try:
        for family in families:
            (found,) = asyncio.run(measure_all([family], folder))
            print(json.dumps(found.json()), flush=True)
            problems += found.problems
    finally:
        stop_ray()
    return problems
