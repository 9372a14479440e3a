"""The processes of a run, the place of each, and the bytes of its parts."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..cluster.weight_link import weight_link
from ..config.schema import RunConfig
from .engine_memory import EngineMemory
from .learner_memory import FLOAT32, LearnerMemory, largest_workload
from .model_shape import ModelShape
from .observed_images import observed_images

HOST = "memory"
"""The place of a process without a GPU: the memory of its host."""
DRIVER_BYTES = 530 << 20
"""Python, torch, transformers, Ray's client and the store in the driver; measured in the quick start and in
``examples/tiny_web.toml`` without the planned bytes of its learner. 165 MiB of it are mapped files, which are fewer if
the page cache does not hold whole libraries."""
RANK_BYTES = 360 << 20
"""Python, torch and transformers in a process that has taken one update of a model of 14 thousand parameters."""
ENGINE_BYTES = 640 << 20
"""Python, torch and vLLM in an engine; measured in the quick start."""
WORKER_BYTES = 190 << 20
"""A rollout worker; measured in the quick start. Environments that load data need more."""
WRITER_BYTES = 160 << 20
"""The store's writer; measured in the quick start."""
RAY_BYTES = 500 << 20
"""Ray's own processes on one host; measured in the quick start."""
HEAP_BLOCK_BYTES = 32 << 20
"""glibc returns larger blocks to the system at once, and keeps smaller ones."""
HEAP_SHARE = 0.4
"""Freed memory that glibc keeps, over the bytes of the tensors in blocks below ``HEAP_BLOCK_BYTES``: .25 to .6 in
updates of models of 4 to 133 million parameters."""


@dataclass(frozen=True, slots=True)
class Process:
    """One or several equal processes."""

    name: str
    place: str
    """``HOST`` or ``gpu N``; a process on a GPU has a second row for the host."""
    parts: dict[str, int]
    """Bytes by part, of one process."""
    count: int = 1

    @property
    def total(self) -> int:
        """Bytes of one process."""
        return sum(self.parts.values())


def planned_processes(config: RunConfig, shape: ModelShape) -> list[Process]:
    """Return the processes of a run, those of the learner first."""
    found = [*_learner(config, shape)]
    if config.num_engines:
        found += _engines(config, shape)
        found.append(Process("rollout worker", HOST, {"process": WORKER_BYTES}, config.rollout.workers_per_node))
        found.append(Process("store writer", HOST, {"process": WRITER_BYTES}))
    if config.uses_ray:
        found.append(Process("Ray", HOST, {"process": RAY_BYTES}))
    return found


def gpus_of(config: RunConfig) -> int:
    """Return the GPUs of a run. A learner in the driver shares the first one with the first engine."""
    engines = config.num_engines * config.engine.tensor_parallel_size
    if config.learner.device == "cpu":
        return engines
    return engines + config.learner.num_ranks if config.learner.backend == "fsdp" else max(1, engines)


def rank_parts(memory: LearnerMemory) -> dict[str, int]:
    """Return the bytes of a learner on a CPU by part, with what its heap keeps and without its process."""
    tensors = memory.parts
    work, shape = memory.work, memory.shape
    row = max(shape.intermediate, shape.active_experts * shape.expert_intermediate, shape.hidden)
    kept = 0
    if FLOAT32 * work.tokens * row < HEAP_BLOCK_BYTES:
        kept += tensors.get("activations", 0) + tensors.get("images", 0)
    if FLOAT32 * work.trained_tokens * shape.vocabulary < HEAP_BLOCK_BYTES:
        kept += tensors.get("logits", 0)
    if FLOAT32 * shape.hidden * row < HEAP_BLOCK_BYTES:
        kept += tensors.get("gradients", 0)
    images = {"kept images": memory.kept_images} if memory.kept_images else {}
    return {**tensors, **images, "heap": int(HEAP_SHARE * kept)}


def _copies_weights(config: RunConfig) -> bool:
    """Return whether engines on the learner's host read a copy of the weights: ``collective`` has none."""
    return config.num_engines > 0 and weight_link(config, HOST, {HOST})[0] == "shm"


def _learner(config: RunConfig, shape: ModelShape) -> Iterator[Process]:
    learner = config.learner
    memory = LearnerMemory(shape, config, largest_workload(config, observed_images(config, shape)))
    published = {"published weights": FLOAT32 * memory.trained} if _copies_weights(config) else {}
    is_sharded = learner.backend == "fsdp"
    if is_sharded:
        yield Process("driver", HOST, {"process": DRIVER_BYTES})
    name = f"learner rank 1 of {learner.num_ranks}" if is_sharded else "driver with the learner"
    process = {"process": RANK_BYTES if is_sharded else DRIVER_BYTES}
    others = learner.num_ranks - 1
    if learner.device == "cpu":
        tensors = rank_parts(memory)
        whole = {"checkpoint": FLOAT32 * memory.trained} if is_sharded else {}
        yield Process(name, HOST, process | tensors | published | whole)
        if others:
            yield Process("other learner ranks", HOST, process | tensors, others)
        return
    loaded = {"loading": FLOAT32 * shape.parameters}
    if learner.optimizer_offload:
        process["optimizer"] = memory.moments
    yield Process(name, "gpu 0", memory.parts)
    yield Process(f"{name}, host", HOST, process | loaded | published)
    if others:
        yield Process("other learner ranks, host", HOST, process, others)
    for rank in range(1, learner.num_ranks):
        yield Process(f"learner rank {rank + 1} of {learner.num_ranks}", f"gpu {rank}", memory.parts)


def _engines(config: RunConfig, shape: ModelShape) -> Iterator[Process]:
    engine = EngineMemory(shape, config.engine, config.max_context)
    count = config.rollout.num_engines
    if not config.engine.tensor_parallel_size:
        yield Process("engine", HOST, {"process": ENGINE_BYTES} | engine.host_parts | engine.parts, count)
        return
    learner = config.learner
    first = learner.num_ranks if learner.backend == "fsdp" and learner.device != "cpu" else 0
    for number in range(count):
        for device in range(engine.devices):
            gpu = first + number * engine.devices + device
            yield Process(f"engine {number + 1} of {count}", f"gpu {gpu}", engine.parts)
    yield Process("engine, host", HOST, {"process": ENGINE_BYTES * engine.devices} | engine.host_parts, count)
