"""Actions that name elements instead of numbering them: for oracles, near misses and tests.

``click({button 'Save'})`` names the first element in view of that role and name, ``{button 'Save' 2}`` the second one,
``{textbox}`` the first of the role. The agent never sees this notation.
"""

import re
from collections.abc import Sequence
from typing import Any, Protocol

from ..base import Info
from ..computer.elements import Node, in_viewport

REFERENCE = re.compile(r"\{([a-z]+)(?: '((?:[^'\\]|\\.)*)')?(?: (\d+))?\}")


class Playable(Protocol):
    """A ``DesktopEnv``."""

    nodes: list[Node]

    def step(self, action: str) -> tuple[Any, float, bool, bool, Info]:
        """Apply an action."""


def resolve(action: str, nodes: Sequence[Node]) -> str:
    """Return the action with the number of an element in place of each reference.

    Raises:
        LookupError: no element in view matches; the text lists the elements in view.
    """

    def number(reference: re.Match[str]) -> str:
        role, name, count = reference.groups()
        found = [
            node
            for node in nodes
            if in_viewport(node) and node["role"] == role and (name is None or node["name"] == name.replace("\\'", "'"))
        ]
        wanted = int(count or 1)
        if len(found) < wanted:
            shown = ", ".join(f"{node['role']} {node['name']!r}" for node in nodes if in_viewport(node))
            raise LookupError(f"element {reference.group()} is not on the screen; in view: {shown[:4000]}")
        return str(found[wanted - 1]["id"])

    return REFERENCE.sub(number, action)


def play(env: Playable, actions: Sequence[str]) -> tuple[float, bool, Info]:
    """Step through actions; return the sum of the rewards, whether the episode ended, and the last info.

    Raises:
        LookupError: an action names an element that is not in view.
    """
    total, over, info = 0.0, False, Info()
    for action in actions:
        _, reward, over, _, info = env.step(resolve(action, env.nodes))
        total += reward
        if over:
            break
    return total, over, info
