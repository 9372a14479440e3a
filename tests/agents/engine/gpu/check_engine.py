"""Check vLLM engines against the learner, on one GPU; without vLLM or Ray, print that they are not checked.

``make test-gpu`` runs this file after ``check_learner.py``. ``make test-gpu ARGS="--device cpu"`` runs the checks that
need no GPU on the CPU. The weight transport ``collective`` is not checked here: NCCL needs two GPUs.
Prints one line per check and one JSON line last. Exit status: 0 if every check holds, 1 if one fails, 2 without a GPU.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]
FAMILY = "qwen3"
SECONDS_PER_CHECK = 300.0
TOLERANCE_ON_GPU = 5e-3
"""Nats, in float32: on a GPU, vLLM's attention kernel for float32 multiplies in TF32, which has 10 bits of mantissa."""
ADAPTER_TOLERANCE_ON_GPU = 0.05
"""Nats, in float16: vLLM's LoRA kernels for GPUs refuse float32."""


def this_checkout(folder: Path) -> None:
    """Make ``turnwise`` the checkout of this file, here and in Ray's processes."""
    (folder / "turnwise").symlink_to(ROOT)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


def obstacle(device: str) -> str:
    """Return why no engine can be started on the device, or an empty string."""
    if missing := [name for name in ("vllm", "ray") if find_spec(name) is None]:
        return f"`{'` and `'.join(missing)}` cannot be imported"
    from turnwise.trainer.preflight.machine import cpu_build, gpu_build

    return gpu_build() if device == "cpu" else cpu_build()


def compilation(engine: Any) -> dict[str, Any]:
    """Return how vLLM runs the model; called in the process of the engine."""
    from vllm.compilation.counter import compilation_counter

    config = engine._core._core.vllm_config.compilation_config
    captured = compilation_counter.num_gpu_runner_capture_triggers
    return {"mode": config.mode.name, "cudagraph_mode": config.cudagraph_mode.name, "captures": captured}


class Checks:
    """The checks, on one device; each returns what it measured, and raises ``AssertionError`` where it fails."""

    def __init__(self, device: str, folder: Path) -> None:
        from turnwise.agents.engine.config import EngineConfig

        self.device = device
        self.on_gpu = device == "cuda"
        self.folder = folder
        settings = {"kv_cache_memory_bytes": 32 << 20, "tensor_parallel_size": int(self.on_gpu)}
        self.settings = EngineConfig.model_validate(settings)
        self.agreeing: Any = None

    def start(self) -> dict[str, float]:
        """An engine starts and samples."""
        from turnwise.tests.trainer.learner.model.parity.agreement import Agreeing

        self.agreeing = Agreeing(FAMILY, self.folder / "model", self.settings, self.device)
        return within(self.sample(self.agreeing.engine))

    async def sample(self, engine: Any) -> dict[str, float]:
        """Sample turns with the weights that the engine loaded, and return their number of tokens."""
        from turnwise.agents.engine.client import PolicyClient
        from turnwise.agents.engine.request import Sampling

        await engine.use_loaded_weights.remote(0)
        client = PolicyClient([engine], Sampling(stop=()))
        turns = await asyncio.gather(*(client.generate(f"s{one}", [5, 6, 7], 16, 120) for one in range(8)))
        await client.close()
        for turn in turns:
            assert turn.defect() == "", turn
            assert set(turn.versions) == {0}, turn
        return {"tokens": sum(len(turn.tokens) for turn in turns)}

    def shm(self) -> dict[str, Any]:
        """Engine and learner agree on 1,000 sampled tokens, through updates in flight by `shm`."""
        return self.agree(self.agreeing, "shm", TOLERANCE_ON_GPU)

    def ipc(self) -> dict[str, Any]:
        """They agree through updates in flight by `ipc`."""
        return self.agree(self.agreeing, "ipc", TOLERANCE_ON_GPU)

    def compiled(self) -> dict[str, Any]:
        """The engine compiles the model and captures CUDA graphs."""
        found: dict[str, Any] = within(self.agreeing.engine.__ray_call__.remote(compilation))
        assert found["mode"] == "VLLM_COMPILE", found
        assert found["cudagraph_mode"] != "NONE", found
        assert found["captures"] > 0, found
        return found

    def adapter(self) -> dict[str, Any]:
        """An engine serves the LoRA adapter of the learner as if it were merged into the model."""
        import ray
        from turnwise.tests.agents.engine.gpu.adapter_agreement import AgreeingAdapter

        if self.agreeing is not None:
            ray.kill(self.agreeing.engine)  # the next engine needs its GPU
        settings = self.settings.model_copy(update={"dtype": "float16"}) if self.on_gpu else self.settings
        adapting = AgreeingAdapter(FAMILY, self.folder / "adapter", settings, self.device)
        return self.agree(adapting, "shm", ADAPTER_TOLERANCE_ON_GPU)

    def agree(self, agreeing: Any, transport_name: str, tolerance_on_gpu: float) -> dict[str, Any]:
        """Sample while the weights change, and return the figures of the comparison with the learner."""
        if self.on_gpu:
            agreeing.tolerance = tolerance_on_gpu
        agreement = within(agreeing.measure(transport_name))
        assert agreement.problems == [], agreement
        figures: dict[str, Any] = agreement.json()
        return figures

    def all(self) -> list[Callable[[], dict[str, Any]]]:
        """Return every check, in the order in which they share an engine."""
        of_gpus = [self.ipc, self.compiled] if self.on_gpu else []
        return [self.start, self.shm, *of_gpus, self.adapter]


def within(awaitable: Awaitable[Any]) -> Any:
    """Return the result of ``awaitable``, which must arrive within ``SECONDS_PER_CHECK``."""

    async def bounded() -> Any:
        async with asyncio.timeout(SECONDS_PER_CHECK):
            return await awaitable

    return asyncio.run(bounded())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    device: str = parser.parse_args().device
    with tempfile.TemporaryDirectory() as temporary:
        this_checkout(Path(temporary))
        from turnwise.tests.trainer.learner.gpu.check_learner import NO_GPU, name_of, run_checks

        if not (name := name_of(device)):
            return NO_GPU
        if reason := obstacle(device):
            print(f"the engine is not checked, because {reason}")
            return 0
        from turnwise.trainer.cluster.runtime import start_ray, stop_ray

        start_ray()
        try:
            return run_checks("the engine", name, Checks(device, Path(temporary)).all())
        finally:
            stop_ray()


if __name__ == "__main__":
    sys.exit(main())
