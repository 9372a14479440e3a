"""Where Ray runs the actors of a run, and why it lost one.

Actors run on every node except those reserved for sandboxes (``ray start --labels=turnwise=sandboxes``).

A reserved node has the socket of a container engine and none of the run's secrets; only ``SandboxNode`` runs there.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_LABEL, _SANDBOXES = "turnwise", "sandboxes"

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = '  File "'
_MODULE = re.compile(r"^(?:\w+\.)+(?=\w+(?::|$))")
_PYDANTIC = re.compile(r" \[type=\w+, input_value=.*$|^For further information visit .*$")
"""The value that pydantic repeats after each error, and the address after it."""
REASON_MAX_CHARS = 600

OFF_SANDBOX_NODES: dict[str, Any] = {"label_selector": {_LABEL: f"!{_SANDBOXES}"}}
"""Ray options of an actor that must not run on a reserved node."""


def on_node(node: str) -> dict[str, Any]:
    """Return the Ray options of an actor that runs on a node of the run, by id; on another one if it is gone."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    if any(one["NodeID"] == node for one in nodes_of_actors(ray.nodes())):
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}
    return OFF_SANDBOX_NODES


def own_node() -> str:
    """Return the address and the id of the Ray node of this process. Ray must be up.

    Only processes of one node share memory: two containers have two nodes and two ``/dev/shm``, also if both have the
    name and the address of their host.
    """
    import ray.util

    return f"{ray.util.get_node_ip_address()} (node {ray.get_runtime_context().get_node_id()})"


def nodes_of_actors(nodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the live nodes on which the run's actors may be placed, from the result of ``ray.nodes()``."""
    return [node for node in nodes if node["Alive"] and (node.get("Labels") or {}).get(_LABEL) != _SANDBOXES]


def hosts_of_actors(nodes: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the addresses of the hosts of ``nodes_of_actors``."""
    return {str(node["NodeManagerAddress"]) for node in nodes_of_actors(nodes)}


def lost_actor() -> tuple[type[Exception], ...]:
    """Return the errors of a call to an actor that died or restarts, also if Ray ended it for a shortage of memory."""
    import ray.exceptions

    return ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError


def reason_of_loss(error: Exception) -> str:
    """Return why Ray lost an actor, from what a call of the actor raised.

    Ray's own advice, which is about Ray's settings, is left out.
    """
    import ray.exceptions

    if isinstance(error, ray.exceptions.OutOfMemoryError):
        return "its host ran short of memory, so Ray ended it"
    return _raised(str(error))


def _raised(text: str) -> str:
    """Return the exception at the end of a traceback in one line, with its whole message; else the last line.

    The last line alone may be the end of a message, such as an address.
    """
    lines = _COLOR.sub("", text).strip().splitlines()
    frames = [i for i, line in enumerate(lines) if line.startswith(_FRAME)]
    if not frames:
        return lines[-1].partition(". Worker exit type")[0].removesuffix(".") if lines else ""
    after = frames[-1] + 1
    while after < len(lines) and lines[after].startswith(" "):
        after += 1
    message = [_PYDANTIC.sub("", line.strip()) for line in lines[after:]]
    whole = ": ".join(line.rstrip(":") for line in message if line).replace(".: ", ". ")
    return _MODULE.sub("", whole).removesuffix(".")[:REASON_MAX_CHARS]
