"""The head digest of a trajectory: of its content digest, its columns, and those of its group that shaped it.

The columns of the group have a digest of their own, which trajectories of one group share.
"""

from collections.abc import Mapping
from typing import Any

from ..schema import rollout_group, task, trajectory
from .digests import digest_of

HEAD_COLUMNS = tuple(
    column.name for column in trajectory.c if column.name not in ("no", "abandoned", "pruned_at", "digest")
)
"""The columns of a trajectory that its head digest covers; the others change after its end."""
GROUP_COLUMNS = (
    *(rollout_group.c[name].label(f"group_{name}") for name in ("id", "purpose", "prompt_prefix")),
    *(rollout_group.c[name] for name in ("max_turns", "max_tokens_per_turn", "max_tokens_per_episode", "max_context")),
    rollout_group.c.created_at.label("group_created_at"),
    *(task.c[name].label(f"task_{name}") for name in ("id", "env_version", "seed", "split", "options")),
)
"""The columns of a trajectory's group that its head digest covers."""
_CIRCUMSTANCE_NAMES = tuple(column.name for column in GROUP_COLUMNS)


def circumstances_digest(row: Mapping[Any, Any]) -> str:
    """Return the digest of ``GROUP_COLUMNS`` of a row."""
    return digest_of(map(row.__getitem__, _CIRCUMSTANCE_NAMES))


def head_digest(row: Mapping[Any, Any], circumstances: str | None = None) -> str:
    """Return the head digest of a trajectory: of its row with ``GROUP_COLUMNS``, or with the digest of these."""
    values = [row[name] for name in HEAD_COLUMNS]
    return digest_of([*values, circumstances or circumstances_digest(row)])
