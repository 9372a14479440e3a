"""The part of a group that one worker plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...records import Group, Outcome
from .control import Controller
from .progress import Start


@dataclass(frozen=True, slots=True)
class Assignment:
    """Members of one open group, for a worker to play to their ends."""

    group: Group
    members: Sequence[tuple[int, int]]
    """``(member, attempt)`` pairs to play."""
    controller: Controller | None = None
    """Decides about the running members, and each worker has its own copy; None to play each member to its end."""
    finished: Sequence[Outcome] = ()
    """The outcomes of the other members, which another worker or an earlier stage played."""
    starts: Mapping[int, Start] = field(default_factory=dict)
    """The points at which members begin; the other members begin with a reset."""

    @classmethod
    def whole(cls, group: Group, controller: Controller | None = None, starts: Sequence[Start] = ()) -> Assignment:
        """Return the assignment of all members of a group, and of those that the controller adds, in one stage.

        Args:
            starts: the points at which the first members begin.
        """
        size = controller.members(group.size) if controller is not None else group.size
        return cls(group, [(member, 0) for member in range(size)], controller, starts=dict(enumerate(starts)))
