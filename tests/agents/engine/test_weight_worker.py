"""An engine of another data type than the learner's loads weights without a line in its log for each of them."""

import os
import subprocess
import sys

import pytest
from turnwise.agents.engine.actor import CPU_ENVIRONMENT

pytestmark = pytest.mark.slow

PROGRAM = """
import logging
import torch
from vllm.model_executor.models.utils import AutoWeightsLoader

class Lines(logging.Handler):
    def emit(self, record):
        print(record.getMessage())

logging.getLogger("vllm.model_executor.models.utils").addHandler(Lines())
layer = torch.nn.Linear(2, 2, bias=False, dtype=torch.bfloat16)
for value in (1.0, 2.0):
    AutoWeightsLoader(layer).load_weights([("weight", torch.full((2, 2), value))])
    print(layer.weight.tolist())
    import turnwise.agents.engine.weight_worker
"""


def test_weights_of_another_data_type_are_loaded_without_a_warning_for_each() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **CPU_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    warning, first, *rest = done.stdout.splitlines()[-3:]
    assert warning.startswith("Attempted to load weight")
    assert (first, rest) == (str([[1.0, 1.0]] * 2), [str([[2.0, 2.0]] * 2)])
