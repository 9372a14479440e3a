"""How a run's environments come by their sandboxes: what ties ``sandbox`` to those who must not know of it.

The process that owns a run keeps a host on every node of the Ray cluster if any of its environments declares itself
``sandboxed``; each rollout worker is told the run's name, and from then on ``sandbox.lease`` in it goes to those hosts.
Without either, a lease comes from a pool in the process itself.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from ..sandbox.cluster.client import ClusterProvider
from ..sandbox.cluster.settings import SandboxSettings
from ..sandbox.cluster.supervisor import NodeSupervisor
from ..sandbox.provider import set_provider
from .registry import spec

__all__ = ["NodeSupervisor", "SandboxSettings", "any_sandboxed", "lease_from"]


def any_sandboxed(env_ids: Iterable[str]) -> bool:
    """Whether any of these environments leases sandboxes. Raises UnknownEnvironment."""
    return any(getattr(_entry(env_id), "sandboxed", False) for env_id in env_ids)


def lease_from(run: str) -> None:
    """From now on this process's sandboxes come from the hosts of a run. Ray must be connected."""
    set_provider(ClusterProvider(run))


def _entry(env_id: str) -> Any:
    entry = spec(env_id).entry_point
    if not isinstance(entry, str):
        return entry
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name, None)
