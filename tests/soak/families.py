"""Engine and learner agree on the log-probabilities of every family of models, one family after another.

The models of families have random weights. One more is pretrained: SmolLM2-135M-Instruct.
"""

import asyncio
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from turnwise.agents.engine.config import EngineConfig
from turnwise.tests.trainer.learner.model.parity.agreement import Agreeing, measure_all
from turnwise.tests.trainer.learner.model.parity.families import FAMILIES
from turnwise.trainer.cluster.runtime import start_ray, stop_ray

SMOLLM2 = "smollm2"
NAMES = (*FAMILIES, SMOLLM2)


class Pretrained(Agreeing):
    """SmolLM2-135M-Instruct; its weights change so little that what it samples stays language."""

    least_tokens = 2000
    conversations = 28
    max_context = 512
    noise = 0.01

    def __init__(self) -> None:
        """Start the engine; Ray must be up."""
        super().__init__(SMOLLM2, Path(), EngineConfig(kv_cache_memory_bytes=512 << 20))

    def new_model(self, folder: Path) -> Path:
        """Return the folder of the model; the first use on a machine fetches and converts it."""
        script = Path(__file__).parents[2] / "tools/smollm2.sh"
        done = subprocess.run(["bash", script], stdout=subprocess.PIPE, text=True, check=True)
        return Path(done.stdout.strip())


def agree(folder: Path, families: Sequence[str]) -> list[str]:
    """Print the figures of each family as one JSON line, and return the problems."""
    problems = []
    start_ray()
    try:
        for family in families:
            agreeing = Pretrained() if family == SMOLLM2 else Agreeing(family, folder / family)
            (found,) = asyncio.run(measure_all([agreeing]))
            print(json.dumps(found.json()), flush=True)
            problems += found.problems
    finally:
        stop_ray()
    return problems
