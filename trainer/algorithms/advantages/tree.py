"""TreeRL's credit (Hou et al. 2025, arXiv:2506.11902) on a tree of turns, such as that of ``turn_tree``.

A node is a run of turns between two branch points, and its leaves are the members whose path contains it. The root
holds all members of the group, so that independent episodes are trees of one node below it. With ``V(s)`` the mean
return of the leaves of node ``s`` and ``L(s)`` their number, the paper gives every token of the node the reward::

    (V(s) - V(root)  +  V(s) - V(parent of s)) / sqrt(L(s))

in each of the ``L(s)`` paths that contain it, so that the token counts ``sqrt(L(s))`` times. Here a shared token is
trained on once, with that factor. The sum of both differences is halved (``global_weight``), so that a group without
branches has GRPO's advantages ``R - mean R``.
"""

from collections.abc import Sequence
from statistics import fmean

from pydantic import Field, PrivateAttr

from ....records import ScoredGroup, Trajectory
from ..groups import Credit, PerTurn
from .base import GroupAdvantage

Leaves = frozenset[int]
"""Indices of the members whose path contains a turn."""


def leaves_by_turn(trajectories: Sequence[Trajectory]) -> list[list[Leaves]]:
    """Return ``leaves[trajectory][turn]``. The turns before ``branched_at`` are those of the parent."""
    owners = {trajectory.id: trajectory for trajectory in trajectories}

    def owner(one: Trajectory, turn: int) -> str:
        """Return the trajectory that holds a turn: the first of the chain of parents, of which one may be missing."""
        if one.branched_from is None or turn >= (one.branched_at or 0):
            return one.id
        parent = owners.get(one.branched_from)
        return one.branched_from if parent is None else owner(parent, turn)

    nodes = [[(owner(trajectory, turn), turn) for turn in range(len(trajectory.steps))] for trajectory in trajectories]
    found: dict[tuple[str, int], set[int]] = {}
    for index, turns in enumerate(nodes):
        for node in turns:
            found.setdefault(node, set()).add(index)
    return [[frozenset(found[node]) for node in turns] for turns in nodes]


class TreeCredit(GroupAdvantage):
    """Each turn gets the value of its node, compared with the root and with the node above. GRPO without branches."""

    global_weight: float = Field(0.5, ge=0, le=1)
    """Weight of the comparison with the root; that with the node above has the rest. 0 is the local advantage alone."""
    leaf_exponent: float = Field(0.5, ge=0, le=1)
    """A turn counts as much as its number of leaves to this power: 0 as one turn, 1 as in that many episodes."""

    _shared: int = PrivateAttr(0)
    _turns: int = PrivateAttr(0)

    def __call__(self, groups: Sequence[ScoredGroup]) -> list[Credit]:
        """Return the advantages of each group."""
        self._shared = self._turns = 0
        return super().__call__(groups)

    def of_group(self, scored: ScoredGroup) -> PerTurn:
        """Return one advantage per turn; members have the same one for a turn that they share."""
        returns = [sum(turns) for turns in scored.rewards]
        values: dict[Leaves, float] = {}

        def value(leaves: Leaves) -> float:
            if leaves not in values:
                values[leaves] = fmean(returns[index] for index in leaves)
            return values[leaves]

        everyone = frozenset(range(len(returns)))

        def advantages(path: Sequence[Leaves]) -> list[float]:
            found: list[float] = []
            above = leaves = everyone
            for here in path:
                if here != leaves:
                    above, leaves = leaves, here
                local, whole = value(here) - value(above), value(here) - value(everyone)
                both = self.global_weight * whole + (1 - self.global_weight) * local
                found.append(both * len(here) ** self.leaf_exponent)
            return found

        paths = leaves_by_turn(scored.group.trajectories)
        own = [here for path, one in zip(paths, scored.group.trajectories, strict=True) for here in path[_first(one) :]]
        self._turns += len(own)
        self._shared += sum(len(here) > 1 for here in own)
        return [advantages(path) for path in paths]

    def metrics(self) -> dict[str, float]:
        """Return the share of the turns of the last batch, each counted once, that several members share."""
        return {"shared_turn_fraction": self._shared / max(self._turns, 1)}


def _first(one: Trajectory) -> int:
    """Return the index of the first turn that is not the parent's."""
    return one.branched_at or 0
