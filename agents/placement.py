"""Where a run's actors may be: on any node but those kept for sandboxes (``ray start --labels=turnwise=sandboxes``).

Such a node holds the socket of a container engine and none of the run's secrets; only ``SandboxNode`` belongs there.
"""

from collections.abc import Iterable, Mapping
from typing import Any

_LABEL, _SANDBOXES = "turnwise", "sandboxes"

OFF_SANDBOX_NODES: dict[str, Any] = {"label_selector": {_LABEL: f"!{_SANDBOXES}"}}
"""Options of an actor."""


def hosts_of_actors(nodes: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the addresses of the live hosts that a run's actors may be on, from the answer of ``ray.nodes()``."""
    open_nodes = [node for node in nodes if node["Alive"] and (node.get("Labels") or {}).get(_LABEL) != _SANDBOXES]
    return {str(node["NodeManagerAddress"]) for node in open_nodes}
