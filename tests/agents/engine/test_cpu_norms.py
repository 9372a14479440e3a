"""The norms that engines on a CPU use equal vLLM's native ones, and step aside where their kernel does not."""

import json
import os
import subprocess
import sys

import pytest
from turnwise.agents.engine.actor import CPU_ENVIRONMENT

pytestmark = pytest.mark.slow

PROGRAM = """
import itertools, json
import torch
from turnwise.agents.engine import cpu_patches
cpu_patches.apply()
from vllm import ir

torch.manual_seed(0)
found = []
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
    found.append(one)
print(json.dumps(found))
"""


def test_the_norms_equal_the_native_ones_where_they_are_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **CPU_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    for one in json.loads(done.stdout.splitlines()[-1]):
        is_exact = one["dtype"] == "float32" and one["hidden"] % 16 == 0
        assert (one["rms_norm"] is not None) == is_exact, one
        assert (one["fused_add_rms_norm"] is not None) == (is_exact and not one["strided"]), one
        assert max(one["rms_norm"] or 0, one["fused_add_rms_norm"] or 0) < 1e-5, one
