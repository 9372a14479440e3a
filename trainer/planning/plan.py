"""The plan of a run: the memory of each process, what each place has, and what does not fit."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import TurnwiseError
from ...records import Horizon
from ..config.schema import RunConfig
from .engine_memory import EngineMemory
from .machine import Machine
from .model_shape import ModelShape
from .model_source import model_shape
from .processes import HOST, Process, gpus_of, planned_processes

GPU_RESERVE = 0.1
"""Share of a GPU that is left for CUDA contexts, workspaces of kernels, captured graphs and fragmentation: an
allowance, not a measurement."""
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Place:
    """The memory of the host or of one GPU."""

    name: str
    needed: int
    available: int | None
    """0 if the machine lacks the GPU; None if the machine is not known."""

    @property
    def overshoot(self) -> int:
        """Bytes that do not fit; 0 if all do, or if the machine is not known."""
        return 0 if self.available is None else max(0, self.needed - self.available)


@dataclass(frozen=True, slots=True)
class Flow:
    """Groups, episodes and tokens of a run at its busiest.

    ``C`` is ``rollout.max_concurrent_groups``, ``B`` is ``rollout.groups_per_batch``. Admission keeps at most
    ``(max_staleness + 1) * B`` groups between opening and consumption.

    * If rollouts are the bottleneck, ``C`` groups run, and one update consumes ``B`` of them. By Little's law a group
      runs for ``C / B`` updates. That is the staleness of the first token of an episode; the last one has almost none.
    * If the learner is the bottleneck, all of ``(max_staleness + 1) * B`` groups are in flight. A group opens when a
      batch is consumed, so all its tokens have the staleness ``max_staleness``.
    """

    groups: int
    """Groups that run at once, at most."""
    episodes: int
    """Episodes that run at once, at most."""
    tokens: int
    """Tokens of their contexts, at most."""
    tokens_per_update: int
    """Tokens of the samples of one update, at most, if each episode is one sample."""
    staleness: float
    """Expected staleness of the first token of an episode, in updates."""
    max_staleness: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of a run. Bytes, unless the name says otherwise."""

    shape: ModelShape
    processes: list[Process]
    places: list[Place]
    engine: EngineMemory
    flow: Flow
    horizon: Horizon
    """The longest one of the run."""
    refusals: list[str]
    """One sentence per reason why the run cannot fit; empty if it fits."""


def plan_run(config: RunConfig, machine: Machine, shape: ModelShape | None = None) -> Plan:
    """Return the plan of a run on a machine.

    Args:
        machine: the host of the learner.
        shape: of the model; read from the configuration by default.

    Raises:
        TurnwiseError: the configuration of the model is missing or has no known shape, or vLLM sizes the cache.
    """
    if "gpu_memory_utilization" in (config.engine.model_extra or {}):
        raise TurnwiseError(
            "`engine.gpu_memory_utilization` leaves the size of the cache to vLLM, so it cannot be planned: set "
            "`engine.kv_cache_memory_bytes` instead"
        )
    shape = shape or model_shape(config)
    processes = planned_processes(config, shape)
    engine = EngineMemory(shape, config.engine, config.max_context)
    places = _places(processes, config, machine)
    refusals = _engine_refusals(engine) if config.num_engines else []
    needed_gpus = gpus_of(config)
    if machine.gpus is not None and needed_gpus > len(machine.gpus) and config.ray_address is None:
        gpus = "1 GPU" if needed_gpus == 1 else f"{needed_gpus} GPUs"
        refusals.append(f"the run needs {gpus}, and this machine has {len(machine.gpus)}")
    refusals += [
        f"{place.name} needs {size(place.needed)}, and has {size(place.available)}"
        for place in places
        if place.available and place.overshoot
    ]
    return Plan(shape, processes, places, engine, expected_flow(config), config.horizon.longest(), refusals)


def size(number: int | None) -> str:
    """Return bytes in GiB or MiB."""
    if number is None:
        return "unknown"
    return f"{number / GIB:.1f} GiB" if number >= GIB else f"{number / (1 << 20):.0f} MiB"


def _places(processes: list[Process], config: RunConfig, machine: Machine) -> list[Place]:
    needed: dict[str, int] = {}
    for process in processes:
        needed[process.place] = needed.get(process.place, 0) + process.count * process.total
    available: Mapping[str, int] = {
        **({} if config.ray_address else {HOST: machine.memory}),
        **{f"gpu {number}": int(total * (1 - GPU_RESERVE)) for number, total in enumerate(machine.gpus or ())},
    }
    missing = None if machine.gpus is None or config.ray_address else 0
    return [Place(name, total, available.get(name, missing)) for name, total in sorted(needed.items())]


def _engine_refusals(engine: EngineMemory) -> list[str]:
    """Return the reasons for which vLLM would not start."""
    found = []
    if engine.shape.heads % engine.devices:
        found.append(
            f"`engine.tensor_parallel_size` {engine.devices} does not divide the {engine.shape.heads} attention heads"
        )
    if engine.config.kv_cache_memory_bytes < engine.smallest_cache_bytes and not engine.shape.has_windows:
        found.append(
            f"`engine.kv_cache_memory_bytes` holds {engine.cached_tokens} tokens, and one context has "
            f"{engine.max_context}: set it to at least {engine.smallest_cache_bytes}"
        )
    return found


def expected_flow(config: RunConfig) -> Flow:
    """Return what is in flight; offline, nothing is."""
    rollout = config.rollout
    groups = min(rollout.max_concurrent_groups, (rollout.max_staleness + 1) * rollout.groups_per_batch)
    episodes = groups * rollout.group_size
    if config.ray_address is None:
        episodes = min(
            episodes, rollout.workers_per_node * sum(environment.concurrency for environment in config.environments)
        )
    if not config.num_engines:
        groups = episodes = 0
    return Flow(
        groups=groups,
        episodes=episodes,
        tokens=episodes * config.max_context,
        tokens_per_update=rollout.groups_per_batch * rollout.group_size * config.max_context,
        staleness=min(groups / rollout.groups_per_batch, rollout.max_staleness),
        max_staleness=rollout.max_staleness,
    )
