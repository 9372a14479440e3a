"""Where a run's actors may be: on any node but those kept for sandboxes (``ray start --labels=turnwise=sandboxes``).

Such a node holds the socket of a container engine and none of the run's secrets; only ``SandboxHost`` belongs there.
"""

from typing import Any

OFF_SANDBOX_NODES: dict[str, Any] = {"label_selector": {"turnwise": "!sandboxes"}}
"""Options of an actor."""
