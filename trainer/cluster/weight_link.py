"""The choice of the weight transport of a run, by where learner and engines run."""

from collections.abc import Set

from ...agents.weights.base import AUTO, Link
from ...errors import TurnwiseError
from ..config.schema import RunConfig


def weight_link(config: RunConfig, learner: str, engines: Set[str]) -> tuple[str, Link]:
    """Return the name of the transport and the ends of its transfers.

    Args:
        learner: the node that sends.
        engines: the nodes of the engines.

    Raises:
        TurnwiseError: the configured transport does not reach an engine.
    """
    engine = config.engine
    link = Link(
        workers_per_engine=max(1, engine.tensor_parallel_size),
        engines_on_gpu=engine.tensor_parallel_size > 0,
        one_node=engines <= {learner},
    )
    name = config.learner.weight_transport
    if name == "shm" and not link.one_node:
        others = ", ".join(sorted(engines - {learner}))
        raise TurnwiseError(
            f'`learner.weight_transport = "shm"` reaches engines on the learner\'s node `{learner}` alone, and engines '
            f"run on {others}: remove the key, or set it to `collective`"
        )
    if name != AUTO:
        return name, link
    # The learner in the driver's process may share its GPU with an engine, which NCCL refuses.
    has_own_gpus = config.learner.backend == "fsdp" and config.learner.device == "cuda" and link.engines_on_gpu
    return "collective" if has_own_gpus or not link.one_node else "shm", link
