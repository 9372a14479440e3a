"""Every write of the store, by name (skeleton: bodies follow)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..records import Group, GroupState, Message, Status, Step, Trajectory


@dataclass(frozen=True, slots=True)
class BatchItem:
    """What one trajectory gave to one update."""

    trajectory: str
    tokens_trained: int
    max_staleness: int
    mean_advantage: float
    fresh: bool = True


def create_run(
    tx: Any, *, run: str, config: Mapping[str, Any], config_hash: str, kind: str, code_version: str, parent: str | None = None
) -> None: ...
def finish_run(tx: Any, *, run: str, status: str, error: str = "") -> None: ...
def request_stop(tx: Any, *, run: str) -> None: ...
def add_version(tx: Any, *, run: str, update: int, parent: int | None) -> int: ...
def set_checkpoint(tx: Any, *, run: str, version: int, path: str) -> None: ...
def open_group(tx: Any, *, group: Group) -> None: ...
def start_trajectory(tx: Any, *, trajectory: Trajectory) -> None: ...
def append(
    tx: Any,
    *,
    trajectory: str,
    steps: Sequence[Step],
    messages: Sequence[Message],
    observations: Mapping[str, bytes] | None = None,
) -> None: ...
def finish_trajectory(
    tx: Any,
    *,
    trajectory: str,
    status: Status,
    reward: float = 0.0,
    success: bool | None = None,
    error: str = "",
    final_observation_hash: str = "",
    final_observation: str = "",
) -> None: ...
def close_group(tx: Any, *, group: str, state: GroupState, reason: str = "") -> None: ...
def lease_groups(tx: Any, *, run: str, owner: str, count: int, seconds: float) -> list[str]: ...
def release(tx: Any, *, run: str, owner: str) -> list[str]: ...
def expire_groups(tx: Any, *, groups: Sequence[str], reason: str) -> None: ...
def acknowledge(
    tx: Any,
    *,
    run: str,
    owner: str,
    groups: Sequence[str],
    update: int,
    parent: int,
    items: Sequence[BatchItem],
    metrics: Mapping[str, Any],
) -> int: ...
def rewind(tx: Any, *, run: str, version: int | None) -> dict[str, int]: ...
def cancel_trajectories(tx: Any, *, group: str, reason: str, status: Status = Status.CANCELLED) -> int: ...
def add_metrics(tx: Any, *, run: str, update: int, metrics: Mapping[str, Any], kind: str = "train") -> None: ...


OPERATIONS: dict[str, Callable[..., Any]] = {}
