"""The choice of the weight transport of a run, by where learner and engines run."""

from collections.abc import Set

from ...agents.weights.base import Link
from ...agents.weights.registry import AUTO
from ..config.schema import RunConfig


def weight_link(config: RunConfig, learner: str, engines: Set[str]) -> tuple[str, Link]:
    """Return the name of the transport and the ends of its transfers.

    Args:
        learner: the name of the host that sends.
        engines: the names of the engines' hosts.
    """
    engine = config.engine
    link = Link(
        workers_per_engine=max(1, engine.tensor_parallel_size),
        engines_on_gpu=engine.tensor_parallel_size > 0,
        one_host=engines <= {learner},
    )
    name = config.learner.weight_transport
    if name != AUTO:
        return name, link
    # The learner in the driver's process may share its GPU with an engine, which NCCL refuses.
    has_own_gpus = config.learner.backend == "fsdp" and config.learner.device == "cuda" and link.engines_on_gpu
    return "collective" if has_own_gpus or not link.one_host else "shm", link
