"""The tree of a group whose episodes branch from one another, with the credit of each turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .....records import Trajectory
from .....store import queries
from .....store.database import Database
from .....store.errors import Pruned
from .....store.operations import Rewards
from .....store.queries.fates import GroupFate, MemberFate
from .....store.queries.load import load_trajectories

MEMBERS_MAX, TURNS_MAX = 64, 2_000
"""Members of a group of which a page draws the tree, and turns of all of them."""


@dataclass(frozen=True, slots=True)
class TurnCredit:
    """A turn on the line of a member."""

    turn: int
    reward: float
    """Shaped, or that of the environment."""
    advantage: float | None
    """Mean over the trained tokens; None if no update trained on one."""


@dataclass(frozen=True, slots=True)
class TreeLine:
    """The turns of a member that are not those of the episode that it branched from."""

    member: MemberFate
    parent: int | None
    """Index of the line of the episode that it branched from; None for one that began with a reset, or if that episode
    is of another group."""
    start: int
    """Index of its first own turn."""
    turns: Sequence[TurnCredit]


@dataclass(frozen=True, slots=True)
class Tree:
    """The lines of a group, a branch below the line that it branched from."""

    lines: Sequence[TreeLine]
    length: int
    """Turns of the longest member."""


def load_tree(database: Database, fate: GroupFate) -> Tree | None:
    """Return the tree of a group; None if it has no branch, too many members or turns, or members that were pruned."""
    if not is_tree(fate.members):
        return None
    names = [one.trajectory for one in fate.members]
    try:
        members = load_trajectories(database, names)
    except Pruned:
        return None
    with database.read() as conn:
        rewards = queries.rewards_of(conn, names)
    return tree(fate.members, {one.id: one for one in members}, rewards)


def is_tree(members: Sequence[MemberFate]) -> bool:
    """Return whether a page draws the tree of a group: it has a branch, and not too many members and turns."""
    is_small = len(members) <= MEMBERS_MAX and sum(one.turns for one in members) <= TURNS_MAX
    return is_small and any(one.branched_from is not None for one in members)


def tree(
    members: Sequence[MemberFate],
    trajectories: Mapping[str, Trajectory],
    rewards: Mapping[str, Rewards],
) -> Tree:
    """Return the tree of a group.

    Args:
        trajectories: the members by id, with their steps.
        rewards: the shaped rewards by id, where the run has some.
    """
    lines: list[TreeLine] = []
    below: dict[str | None, list[MemberFate]] = {}
    names = {one.trajectory for one in members}
    for one in members:
        below.setdefault(one.branched_from if one.branched_from in names else None, []).append(one)

    def add(one: MemberFate, parent: int | None) -> None:
        place, start = len(lines), (one.branched_at or 0) if one.branched_from is not None else 0
        shaped = rewards[one.trajectory].rewards if one.trajectory in rewards else None
        steps = trajectories[one.trajectory].steps[start:] if one.trajectory in trajectories else ()
        turns = [
            TurnCredit(
                step.index,
                step.reward if shaped is None else shaped[step.index],
                one.turn_advantages.get(str(step.index)),
            )
            for step in steps
        ]
        lines.append(TreeLine(one, parent, start, turns))
        for child in sorted(below.get(one.trajectory, ()), key=lambda child: (child.branched_at or 0, child.member)):
            add(child, place)

    for root in below.get(None, ()):
        add(root, None)
    return Tree(lines, max((one.turns for one in members), default=0))
