"""The head digest of a trajectory: of its content digest, its columns, and those of its group that shaped it.

The columns of the group have a digest of their own, which trajectories of one group share.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, select

from ..schema import Lookup, rollout_group, task, trajectory
from ..schema.types import load_json, time_text
from .digests import digest_of

BEGUN = (
    *("no", "uid", "id", "run_no", "group_no", "member", "attempt", "writer", "status", "env_id", "purpose", "source"),
    *("policy", "deterministic", "branched_from", "branched_at", "created_at"),
)
"""The columns of a trajectory that its start writes, and its status; its end writes the others."""
HEAD_COLUMNS = tuple(column.name for column in trajectory.c if column.name not in ("no", "abandoned", "digest"))
"""The columns of a trajectory that its head digest covers: all but the flag of its newest version."""
RUNNING_HEAD: dict[str, Any] = dict.fromkeys(HEAD_COLUMNS) | {
    **{"reward": 0.0, "n_steps": 0, "n_tokens": 0, "error": "", "stop_reason": "", "ended_by": "", "extras": {}}
}
"""The values of the columns that the end of a trajectory writes, while it runs; the others are None here."""
GROUP_COLUMNS = (
    *(rollout_group.c[name].label(f"group_{name}") for name in ("id", "purpose", "prompt_prefix")),
    *(rollout_group.c[name] for name in ("max_turns", "max_tokens_per_turn", "max_tokens_per_episode", "max_context")),
    rollout_group.c.created_at.label("group_created_at"),
    *(task.c[name].label(f"task_{name}") for name in ("id", "env_version", "seed", "split", "options")),
)
"""The columns of a trajectory's group that its head digest covers."""
_CIRCUMSTANCE_NAMES = tuple(column.name for column in GROUP_COLUMNS)
_CIRCUMSTANCES = Lookup(
    select(rollout_group.c.no.label("group_no"), *GROUP_COLUMNS).join_from(rollout_group, task), rollout_group.c.no
)
_values, _circumstances = itemgetter(*HEAD_COLUMNS), itemgetter(*_CIRCUMSTANCE_NAMES)


def circumstances_digest(row: Mapping[Any, Any]) -> str:
    """Return the digest of ``GROUP_COLUMNS`` of a row."""
    return digest_of(_circumstances(row))


def head_digest(row: Mapping[Any, Any], circumstances: str | None = None) -> str:
    """Return the head digest of a trajectory: of its row with ``GROUP_COLUMNS``, or with the digest of these."""
    return digest_of([*_values(row), circumstances or circumstances_digest(row)])


def stored_circumstances(conn: Connection, groups: Collection[int]) -> dict[int, str]:
    """Return the digests of ``GROUP_COLUMNS`` of stored groups, by ``no``."""
    found = {}
    for no, *values in _CIRCUMSTANCES.run_plain(conn, groups):
        row = dict(zip(_CIRCUMSTANCE_NAMES, values, strict=True))
        row["group_created_at"] = stored_time(row["group_created_at"])
        if isinstance(options := row["task_options"], str):
            row["task_options"] = load_json(options)
        found[no] = circumstances_digest(row)
    return found


def stored_time(value: str | datetime) -> str:
    """Return the driver's value of a time as ``time_text`` writes it."""
    return f"{value}+00:00" if isinstance(value, str) else time_text(value)
