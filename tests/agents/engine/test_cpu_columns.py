"""Engines on a CPU store float32 matrices by columns, where products of few rows take less time."""

import json
import os
import subprocess
import sys

import pytest
from turnwise.agents.engine.actor import CPU_ENVIRONMENT

pytestmark = pytest.mark.slow

PROGRAM = """
import json
import torch
from turnwise.agents.engine import cpu_patches
cpu_patches.apply()
cpu_patches.apply()
from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

found = {}
for dtype in (torch.float32, torch.bfloat16):
    layer = torch.nn.Linear(8, 6, bias=False, dtype=dtype)
    before, inputs = layer.weight.detach().clone(), torch.randn(3, 8, dtype=dtype)
    dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
    after = torch.randn(6, 8, dtype=dtype)
    same = torch.equal(layer.weight, before)
    layer.weight.data.copy_(after)
    product = layer.cpu_linear(inputs, layer.weight, None)
    found[str(dtype)] = {
        "stride": layer.weight.stride(),
        "same": same,
        "difference": float((product - inputs @ after.T).abs().max()),
    }
print(json.dumps(found))
"""


def test_matrices_in_float32_are_stored_by_columns_and_loaded_in_place() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **CPU_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["torch.float32"]["stride"] == [1, 6]
    assert found["torch.bfloat16"]["stride"] == [8, 1]
    for one in found.values():
        assert one["same"]
        assert one["difference"] < 1e-5
