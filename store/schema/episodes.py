"""Tasks, groups, trajectories, their content and their rewards, and success as a condition on trajectories.

The columns of a table that grows with every turn begin with those of a fixed size, the widest alignment first:
PostgreSQL fills the gaps between them with zeros.
"""

from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    and_,
    case,
    false,
    literal_column,
    null,
    text,
    true,
    type_coerce,
)

from ...records import COUNTED_STATUSES, SCORED_STATUSES, SUCCESS_RETURN, Status
from .types import Content, Document, ExactText, Hash, Number, OptionalDocument, UtcDateTime, metadata, number, where

task = Table(
    "task",
    metadata,
    number(),
    Column("id", Text, nullable=False, unique=True),
    Column("env_id", Text, nullable=False),
    Column("env_version", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("split", Text, nullable=False),
    Column("options", Document, nullable=False),
    Index(None, "env_id", "split"),
)

rollout_group = Table(
    "rollout_group",
    metadata,
    number(),
    Column("id", Text, nullable=False, unique=True),
    Column("run_no", Number, ForeignKey("run.no"), nullable=False),
    Column("task_no", Number, ForeignKey("task.no"), nullable=False),
    Column("purpose", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("prompt_prefix", Text, nullable=False, server_default=""),
    Column("max_turns", Integer, nullable=False),
    Column("max_tokens_per_turn", Integer, nullable=False),
    Column("max_tokens_per_episode", Integer, nullable=False),
    Column("max_context", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", ExactText, nullable=False, server_default=""),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    Column("created_at", UtcDateTime, nullable=False),
    Column("closed_at", UtcDateTime),
    Column("n_trajectories", Integer),
    Column("score_no", Integer),
    Column("n_rewards", Integer),
    Column("draw", Integer),
    Index(None, "run_no", "purpose", "state", "closed_at"),
    Index("uq_rollout_group_score_no", "run_no", "score_no", unique=True),
    Index(None, "run_no", "created_at", "no"),
    Index(None, "run_no", "task_no"),
    Index(None, "task_no"),
)

KINDS = ("deterministic", "purpose", "source", "policy")
"""Columns with few values, which the end of a trajectory does not change. They end each index that sorts a list, so
that a filter by them reads few rows."""
RESULTS = ("abandoned", "success", "status")
"""Likewise columns that the end writes: only indexes of ended trajectories have them, as an index is slow to update."""

_FAILED = f"status NOT IN {(*sorted(one.value for one in SCORED_STATUSES), Status.RUNNING.value)}"
FAILED: ColumnElement[bool] = literal_column(f"trajectory.{_FAILED}")
"""Whether a trajectory failed, in the words of an index's condition: SQLite uses the index for no other ones.
It has no type: SQLAlchemy would append ``= 1`` to a Boolean."""

trajectory = Table(
    "trajectory",
    metadata,
    number(),
    Column("run_no", Number, ForeignKey("run.no"), nullable=False),
    Column("reward", Float, nullable=False, server_default="0"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("pruned_at", UtcDateTime),
    Column("group_no", Number, ForeignKey("rollout_group.no"), nullable=False),
    Column("member", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("n_steps", Integer, nullable=False, server_default="0"),
    Column("n_tokens", Integer, nullable=False, server_default="0"),
    Column("min_version", Integer),
    Column("max_version", Integer),
    Column("branched_from", Number, ForeignKey("trajectory.no")),
    Column("branched_at", Integer),
    Column("deterministic", Boolean, nullable=False),
    Column("success", Boolean),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    Column("uid", Uuid, nullable=False, unique=True),
    Column("id", Text, nullable=False, unique=True),
    Column("writer", Text, nullable=False, server_default=""),
    Column("status", Text, nullable=False),
    Column("env_id", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("policy", Text, nullable=False, server_default=""),
    Column("error", ExactText, nullable=False, server_default=""),
    Column("stop_reason", ExactText, nullable=False, server_default=""),
    Column("reached", Text, nullable=False, server_default=""),
    Column("ended_by", Text, nullable=False, server_default=""),
    Column("final_observation", ExactText),
    Column("final_observation_blob", Hash),
    Column("final_observation_hash", Hash),
    Column("extras", Document, nullable=False, server_default=text("'{}'")),
    Column("seal", Hash),
    UniqueConstraint("group_no", "member", "attempt"),
    Index("ix_trajectory_created_at", "created_at", "no", *KINDS),
    Index("ix_trajectory_run_created_at", "run_no", "created_at", "no", *KINDS),
    *(
        Index(f"ix_trajectory_run_{sort}", "run_no", sort, "no", *KINDS, *RESULTS, **where("ended_at IS NOT NULL"))
        for sort in ("reward", "n_steps")
    ),
    Index("ix_trajectory_running", "run_no", **where("ended_at IS NULL")),
    Index("ix_trajectory_failed", "run_no", "no", "ended_by", **where(_FAILED)),
    Index(None, "run_no", "max_version"),
    Index(
        "ix_trajectory_played",
        *(
            "run_no",
            "purpose",
            "abandoned",
            "group_no",
            "max_version",
            "status",
            "success",
            "reward",
            "n_tokens",
            "ended_at",
        ),
        **where("ended_at IS NOT NULL"),
    ),
    Index(None, "env_id", "created_at", "no"),
    Index("ix_trajectory_whole", "run_no", "no", **where("pruned_at IS NULL")),
    Index("ix_trajectory_branched_from", "branched_from", **where("branched_from IS NOT NULL")),
    Index(
        "ix_trajectory_final_observation_blob", "final_observation_blob", **where("final_observation_blob IS NOT NULL")
    ),
)

blob = Table(
    "blob",
    metadata,
    Column("hash", Hash, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("encoding", Text, nullable=False, server_default=""),
    Column("location", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("data", Content),
    Index(None, "created_at"),
)

step = Table(
    "step",
    metadata,
    Column("reward", Float, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("trajectory_no", Number, primary_key=True, autoincrement=False),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    Column("model_ms", REAL, nullable=False),
    Column("env_ms", REAL, nullable=False),
    Column("terminated", Boolean, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("failed", Boolean, nullable=False, server_default=false()),
    Column("action_valid", Boolean, nullable=False),
    Column("agent", Text, nullable=False, server_default=""),
    Column("cut_by", Text, nullable=False, server_default=""),
    Column("observation", ExactText),
    Column("observation_blob", Hash),
    Column("observation_hash", Hash, nullable=False),
    Column("action", ExactText, nullable=False),
    Column("reward_parts", OptionalDocument),
    Column("state_key", ExactText, nullable=False),
    Column("messages", Content),
    Column("messages_blob", Hash),
    Column("digest", Hash, nullable=False),
    Index("ix_step_observation_blob", "observation_blob", **where("observation_blob IS NOT NULL")),
    Index("ix_step_messages_blob", "messages_blob", **where("messages_blob IS NOT NULL")),
    sqlite_with_rowid=False,
)

partial_turn = Table(
    "partial_turn",
    metadata,
    Column("trajectory_no", Number, primary_key=True, autoincrement=False),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    Column("messages", Content),
    Column("messages_blob", Hash),
    Column("digest", Hash, nullable=False),
    Index("ix_partial_turn_messages_blob", "messages_blob", **where("messages_blob IS NOT NULL")),
    sqlite_with_rowid=False,
)

step_image = Table(
    "step_image",
    metadata,
    Column("trajectory_no", Number, primary_key=True, autoincrement=False),
    Column("step_idx", Integer, primary_key=True, autoincrement=False),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    Column("blob_hash", Hash, nullable=False),
    Index(None, "blob_hash"),
    sqlite_with_rowid=False,
)

SCREENSHOT = -1
"""The ``idx`` of a screenshot that the run kept, before those of the images that the observation contains."""

message_image = Table(
    "message_image",
    metadata,
    Column("trajectory_no", Number, primary_key=True, autoincrement=False),
    Column("message_idx", Integer, primary_key=True, autoincrement=False),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    Column("blob_hash", Hash, nullable=False),
    Index(None, "blob_hash"),
    sqlite_with_rowid=False,
)

OWN = 0
"""The ``set_no`` of the rewards that a run was trained with. It has no row of ``reward_set``."""

reward_set = Table(
    "reward_set",
    metadata,
    number(),
    Column("run_no", Number, ForeignKey("run.no"), nullable=False),
    Column("name", Text, nullable=False),
    Column("component", Text, nullable=False),
    Column("options", Document, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("n_rewards", Integer, nullable=False, server_default="0"),
    UniqueConstraint("run_no", "name"),
)

reward = Table(
    "reward",
    metadata,
    Column("set_no", Number, primary_key=True, autoincrement=False),
    Column("trajectory_no", Number, ForeignKey("trajectory.no"), primary_key=True, autoincrement=False),
    Column("rewards", OptionalDocument),
    Column("verdicts", Document, nullable=False),
    Column("total", Float),
    Column("digest", Hash, nullable=False),
    sqlite_with_rowid=False,
)


def succeeded(min_return: float = SUCCESS_RETURN) -> ColumnElement[bool]:
    """Return ``records.is_success`` of a trajectory and the reward of its environment, as a condition in SQL."""
    return and_(
        trajectory.c.status.in_(sorted(status.value for status in SCORED_STATUSES)),
        case(
            (trajectory.c.success.is_not(None), trajectory.c.success == true()),
            else_=and_(trajectory.c.status == Status.COMPLETED.value, trajectory.c.reward >= min_return),
        ),
    )


SUCCEEDED = succeeded()
"""``succeeded`` with the usual return."""
RESULT = type_coerce(
    case((trajectory.c.status.in_(sorted(status.value for status in COUNTED_STATUSES)), SUCCEEDED), else_=null()),
    Boolean,
)
"""Whether a trajectory succeeded or failed; NULL if no rate counts it."""
