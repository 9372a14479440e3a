"""Connect the environments of a run to its sandboxes, so that ``trainer`` and ``agents`` need not import ``sandbox``.

If an environment of a run declares itself ``sandboxed``, the run's driver keeps a sandbox node actor on every node of
the Ray cluster. Each rollout worker gets the run's name and leases its sandboxes from those actors. Elsewhere a lease
comes from a pool in the process itself.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from ..sandbox.cluster.client import ClusterProvider
from ..sandbox.cluster.settings import SandboxSettings
from ..sandbox.cluster.supervisor import NodeSupervisor
from ..sandbox.provider import set_provider
from .registry import spec

__all__ = ["NodeSupervisor", "SandboxSettings", "any_sandboxed", "lease_from_run"]


def any_sandboxed(env_ids: Iterable[str]) -> bool:
    """Return whether any of these environments leases sandboxes.

    Raises:
        UnknownEnvironment: an id is not registered.
    """
    return any(getattr(_entry(env_id), "sandboxed", False) for env_id in env_ids)


def lease_from_run(run: str) -> None:
    """Lease the sandboxes of this process from the node actors of a run; Ray must be connected."""
    set_provider(ClusterProvider(run))


def _entry(env_id: str) -> Any:
    entry = spec(env_id).entry_point
    if not isinstance(entry, str):
        return entry
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name, None)
