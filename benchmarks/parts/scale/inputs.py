"""The inputs of the simulation: measured costs, assumptions that this machine cannot check, and the size of a run."""

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of one turn and shapes, as ``measured_run`` measures them. Seconds are of one core of this machine."""

    turns_per_episode: float
    observed_tokens_per_turn: float
    sampled_tokens_per_turn: float
    driver_s_per_turn: float
    """Processor time of the driver, assembly included."""
    assembly_s_per_turn: float
    """The part of it in which the training loop waits."""
    worker_s_per_turn: float
    """Processor time of the rollout worker."""
    writer_s_per_turn: float
    """Time of a store writer that is never idle; it waits for the database meanwhile."""
    database_s_per_turn: float
    """Processor time of PostgreSQL's server, for writes and reads."""
    database_bytes_per_turn: float
    """Growth of the database."""
    ray_s_per_call: float
    """Processor time of a caller for one call of an actor that does nothing, and for its answer."""
    group_bytes: float
    """Bytes of the arguments and the answer of the call that plays a group."""
    batch_bytes_per_turn: float
    """Bytes of an assembled batch, which every node with ranks of the learner reads."""

    @property
    def tokens_per_turn(self) -> float:
        """Tokens that a turn adds to its episode."""
        return self.observed_tokens_per_turn + self.sampled_tokens_per_turn


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What nobody has measured here. Each is an argument of ``scale_simulation.py``."""

    step_s: float = 4.0
    """Mean duration of an environment's step; lognormal with the tail of ``parts/delayed_site.py``."""
    engine_tokens_per_s: float = 3000.0
    """Sampled tokens per second of an engine that is never idle."""
    request_tokens_per_s: float = 80.0
    """Sampled tokens per second of one request in an engine with few requests."""
    prompt_tokens_per_s: float = 40_000.0
    """Tokens of prompts that an engine computes per second."""
    rank_tokens_per_s: float = 12_000.0
    """Tokens that one rank of the learner trains on per second."""
    parameters: float = 4e9
    """Parameters of the model; each takes 4 bytes in a transfer, as the learner holds them in float32."""
    network_bytes_per_s: float = 25e9
    """Bytes per second that the sending rank's network card carries."""
    database_cores: int = 16
    """Cores of the PostgreSQL server, each as fast as one of this machine; waits for locks and disks are left out."""


@dataclass(frozen=True, slots=True)
class Size:
    """The processes of a run."""

    sandboxes: int
    engines: int
    ranks: int
    workers: int
    nodes: int
    """Nodes with workers; each has a store writer."""
    group_size: int = 8

    @classmethod
    def of(cls, sandboxes: int, full: "Size") -> "Size":
        """Return a size with as much per sandbox as ``full`` has, and at least one process of each kind."""

        def share(count: int) -> int:
            return max(1, ceil(count * sandboxes / full.sandboxes))

        return cls(
            sandboxes,
            share(full.engines),
            share(full.ranks),
            share(full.workers),
            share(full.nodes),
            full.group_size,
        )

    @property
    def groups_per_batch(self) -> int:
        """``rollout.groups_per_batch``: as many groups as the sandboxes hold."""
        return max(1, self.sandboxes // self.group_size)

    @property
    def max_concurrent_groups(self) -> int:
        """``rollout.max_concurrent_groups``: twice as many as the sandboxes hold, so that few of these are idle."""
        return 2 * self.groups_per_batch


FULL = Size(sandboxes=10_000, engines=512, ranks=64, workers=160, nodes=80)
"""The size that the sweep ends with."""
RANKS_PER_NODE = 8
