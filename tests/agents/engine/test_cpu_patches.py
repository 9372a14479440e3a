"""On a CPU, engines store float32 matrices by columns, for products of few rows, and compute norms by vLLM's kernel."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from turnwise.agents.engine.actor import CPU_ENVIRONMENT

pytestmark = pytest.mark.slow

PROGRAM = """
import itertools, json
import torch
from turnwise.agents.engine import cpu_patches
cpu_patches.apply()
cpu_patches.apply()
from vllm import ir
from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

torch.manual_seed(0)
norms = []
for dtype, hidden, strided in itertools.product(("float32", "bfloat16", "float16"), (20, 32, 128), (False, True)):
    kind = getattr(torch, dtype)
    x, residual = (torch.randn(5, 3 * hidden).to(kind)[:, :hidden] for _ in range(2))
    if not strided:
        x, residual = x.contiguous(), residual.contiguous()
    weight = torch.randn(hidden).to(kind)
    one = {"dtype": dtype, "hidden": hidden, "strided": strided}
    for name, inputs in (("rms_norm", (x,)), ("fused_add_rms_norm", (x, residual))):
        operation = getattr(ir.ops, name)
        ours, native = operation.impls[cpu_patches.NORMS], operation.impls["native"]
        one[name] = None
        if ours.supports_args(*inputs, weight, 1e-6, None):
            expected = native.impl_fn(*(each.clone() for each in inputs), weight, 1e-6)
            given = ours.impl_fn(*(each.clone() if each.is_contiguous() else each for each in inputs), weight, 1e-6)
            pairs = zip(*(pair if isinstance(pair, tuple) else (pair,) for pair in (expected, given)))
            one[name] = max(float((a - b).abs().max()) for a, b in pairs)
    norms.append(one)

columns = {}
for dtype in (torch.float32, torch.bfloat16):
    layer = torch.nn.Linear(8, 6, bias=False, dtype=dtype)
    before, inputs = layer.weight.detach().clone(), torch.randn(3, 8, dtype=dtype)
    dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
    after = torch.randn(6, 8, dtype=dtype)
    same = torch.equal(layer.weight, before)
    layer.weight.data.copy_(after)
    product = layer.cpu_linear(inputs, layer.weight, None)
    columns[str(dtype)] = {
        "stride": layer.weight.stride(),
        "same": same,
        "difference": float((product - inputs @ after.T).abs().max()),
    }
print(json.dumps({"norms": norms, "columns": columns}))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Return what a process with the environment of an engine measured."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **CPU_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def test_matrices_in_float32_are_stored_by_columns_and_loaded_in_place(found: dict[str, Any]) -> None:
    assert found["columns"]["torch.float32"]["stride"] == [1, 6]
    assert found["columns"]["torch.bfloat16"]["stride"] == [8, 1]
    for one in found["columns"].values():
        assert one["same"]
        assert one["difference"] < 1e-5


def test_the_norms_equal_the_native_ones_where_they_are_used(found: dict[str, Any]) -> None:
    for one in found["norms"]:
        is_exact = one["dtype"] == "float32" and one["hidden"] % 16 == 0
        assert (one["rms_norm"] is not None) == is_exact, one
        assert (one["fused_add_rms_norm"] is not None) == (is_exact and not one["strided"]), one
        assert max(one["rms_norm"] or 0, one["fused_add_rms_norm"] or 0) < 1e-5, one
