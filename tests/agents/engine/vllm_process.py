"""A process with vLLM and the environment of an engine, which prints what it finds as one JSON line.

It is run as a module, with the names to look up on its standard input. To import vLLM takes most of its time, so that
one process serves all tests of ``test_vllm.py``.
"""

import itertools
import json
import logging
import os
import subprocess
import sys
from typing import Any

from turnwise.agents.engine.actor import CPU_ENVIRONMENT


class Lines(logging.Handler):
    """Collects the messages of a logger."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Add one message."""
        self.lines.append(record.getMessage())


def loads() -> list[dict[str, Any]]:
    """Load weights of another data type, before ``weight_worker`` is imported and after it."""
    import torch
    from vllm.model_executor.models.utils import AutoWeightsLoader

    handler = Lines()
    logging.getLogger("vllm.model_executor.models.utils").addHandler(handler)
    layer = torch.nn.Linear(2, 2, bias=False, dtype=torch.bfloat16)
    found = []
    for value in (1.0, 2.0):
        AutoWeightsLoader(layer).load_weights([("weight", torch.full((2, 2), value))])
        found.append({"warnings": handler.lines, "weight": layer.weight.tolist()})
        handler.lines = []
        import turnwise.agents.engine.weight_worker  # noqa: F401
    return found


def norms() -> list[dict[str, Any]]:
    """Return the difference of each norm of ``cpu_patches`` from the native one; None where it is not used."""
    import torch
    from turnwise.agents.engine import cpu_patches
    from vllm import ir

    torch.manual_seed(0)
    found = []
    for dtype, hidden, strided in itertools.product(("float32", "bfloat16", "float16"), (20, 32, 128), (False, True)):
        kind = getattr(torch, dtype)
        x, residual = (torch.randn(5, 3 * hidden).to(kind)[:, :hidden] for _ in range(2))
        if not strided:
            x, residual = x.contiguous(), residual.contiguous()
        weight = torch.randn(hidden).to(kind)
        one: dict[str, Any] = {"dtype": dtype, "hidden": hidden, "strided": strided}
        for name, inputs in (("rms_norm", (x,)), ("fused_add_rms_norm", (x, residual))):
            operation = getattr(ir.ops, name)
            ours, native = operation.impls[cpu_patches.NORMS], operation.impls["native"]
            one[name] = None
            if ours.supports_args(*inputs, weight, 1e-6, None):
                expected = native.impl_fn(*(each.clone() for each in inputs), weight, 1e-6)
                given = ours.impl_fn(*(each.clone() if each.is_contiguous() else each for each in inputs), weight, 1e-6)
                pairs = zip(*(pair if isinstance(pair, tuple) else (pair,) for pair in (expected, given)), strict=True)
                one[name] = max(float((a - b).abs().max()) for a, b in pairs)
        found.append(one)
    return found


def columns() -> dict[str, dict[str, Any]]:
    """Return how a matrix of each data type is stored, and whether it is loaded in place."""
    import torch
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        layer: Any = torch.nn.Linear(8, 6, bias=False, dtype=dtype)
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
    return found


def ask(names: list[str]) -> dict[str, Any]:
    """Return what such a process finds."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name],
        input=json.dumps(names),
        env={**os.environ, **CPU_ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print everything; the loads come first, because the other parts import ``weight_worker``."""
    found: dict[str, Any] = {"loads": loads()}
    from turnwise.agents.engine import cpu_patches
    from turnwise.tests.agents.engine.vllm_names import missing

    found["missing"] = missing(json.load(sys.stdin))
    cpu_patches.apply()
    cpu_patches.apply()
    print(json.dumps(found | {"norms": norms(), "columns": columns()}), flush=True)
    os._exit(0)  # the interpreter takes two seconds to free the modules


if __name__ == "__main__":
    main()
