"""The tables, as SQLAlchemy Core. The first migration creates the same ones; a test compares the two.

A value that people filter or sort by is a column; the rest is JSON; long content is a row of ``blob``, named by its
SHA-256. The order of steps, messages and images is ``idx``. ``update_no`` counts updates (``update`` is a keyword of
SQL).

The schema itself guarantees exactly-once consumption: by the partial unique indexes of ``batch_group`` and
``batch_item``, a fresh group or trajectory is in one surviving batch only.
"""

from functools import cache

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Insert,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite

from .types import Content, ExactText, UtcDateTime

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

run = Table(
    "run",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("error", ExactText, nullable=False, server_default=""),
    Column("stop_requested", Boolean, nullable=False, server_default=false()),
    Column("parent_id", Text, ForeignKey("run.id")),
    Column("code_version", Text, nullable=False),
    Column("config_hash", Text, nullable=False),
    Column("config", JSON, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    CheckConstraint("kind IN ('train', 'eval')", name="kind"),
    CheckConstraint("status IN ('running', 'finished', 'failed', 'stopped')", name="status"),
    Index(None, "created_at"),
)

policy_version = Table(
    "policy_version",
    metadata,
    Column("run_id", Text, ForeignKey("run.id"), primary_key=True),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("parent_id", Integer),
    Column("update_no", Integer, nullable=False),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    Column("checkpoint", Text, nullable=False, server_default=""),
    Column("created_at", UtcDateTime, nullable=False),
    ForeignKeyConstraint(["run_id", "parent_id"], ["policy_version.run_id", "policy_version.id"]),
    Index(
        "uq_policy_version_surviving",
        "run_id",
        "update_no",
        unique=True,
        sqlite_where=text("NOT abandoned"),
        postgresql_where=text("NOT abandoned"),
    ),
)

task = Table(
    "task",
    metadata,
    Column("id", Text, primary_key=True),
    Column("env_id", Text, nullable=False),
    Column("env_version", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("split", Text, nullable=False),
    Column("options", JSON, nullable=False),
    Index(None, "env_id", "split"),
)

rollout_group = Table(
    "rollout_group",
    metadata,
    Column("id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey("run.id"), nullable=False),
    Column("task_id", Text, ForeignKey("task.id"), nullable=False),
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
    Column("score_no", Integer),
    CheckConstraint("purpose IN ('train', 'eval')", name="purpose"),
    CheckConstraint(
        "state IN ('open', 'scoring', 'ready', 'filtered', 'failed', 'leased', 'consumed', 'expired')",
        name="state",
    ),
    Index(None, "run_id", "purpose", "state", "closed_at"),
    Index("uq_rollout_group_score_no", "run_id", "score_no", unique=True),
    Index(None, "task_id"),
)

trajectory = Table(
    "trajectory",
    metadata,
    Column("id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey("run.id"), nullable=False),
    Column("group_id", Text, ForeignKey("rollout_group.id"), nullable=False),
    Column("member", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("env_id", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("policy", Text, nullable=False, server_default=""),
    Column("deterministic", Boolean, nullable=False),
    Column("reward", Float, nullable=False, server_default="0"),
    Column("success", Boolean),
    Column("error", ExactText, nullable=False, server_default=""),
    Column("n_steps", Integer, nullable=False, server_default="0"),
    Column("n_tokens", Integer, nullable=False, server_default="0"),
    Column("min_version", Integer),
    Column("max_version", Integer),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    Column("final_observation_hash", Text, nullable=False, server_default=""),
    Column("final_observation_blob", Text, ForeignKey("blob.hash")),
    Column("branched_from", Text, ForeignKey("trajectory.id")),
    Column("branched_at", Integer),
    Column("created_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("extras", JSON, nullable=False, server_default=text("'{}'")),
    UniqueConstraint("group_id", "member", "attempt"),
    CheckConstraint(
        "status IN ('running', 'completed', 'truncated', 'env_error', 'policy_error', 'timeout', 'cancelled')",
        name="status",
    ),
    CheckConstraint(
        "source IN ('policy', 'expert', 'patch', 'replay', 'world_model', 'peer')",
        name="source",
    ),
    Index(None, "run_id", "created_at"),
    Index(None, "run_id", "status"),
    Index(None, "created_at"),
    Index(None, "env_id", "created_at"),
)

score = Table(
    "score",
    metadata,
    Column("trajectory_id", Text, ForeignKey("trajectory.id"), primary_key=True),
    Column("rewards", JSON(none_as_null=True)),
    Column("verdicts", JSON, nullable=False),
    sqlite_with_rowid=False,
)

blob = Table(
    "blob",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("data", Content),
)

message = Table(
    "message",
    metadata,
    Column("trajectory_id", Text, ForeignKey("trajectory.id"), primary_key=True),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    Column("parent_idx", Integer),
    Column("agent", Text, nullable=False, server_default=""),
    Column("role", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("n_tokens", Integer, nullable=False),
    Column("n_sampled", Integer, nullable=False),
    Column("min_version", Integer),
    Column("max_version", Integer),
    Column("tokens_blob", Text, ForeignKey("blob.hash"), nullable=False),
    Column("sent_blob", Text, ForeignKey("blob.hash")),
    ForeignKeyConstraint(["trajectory_id", "parent_idx"], ["message.trajectory_id", "message.idx"]),
    CheckConstraint("role IN ('system', 'user', 'assistant')", name="role"),
    CheckConstraint(
        "source IN ('policy', 'expert', 'patch', 'replay', 'world_model', 'peer')",
        name="source",
    ),
    sqlite_with_rowid=False,
)

step = Table(
    "step",
    metadata,
    Column("trajectory_id", Text, ForeignKey("trajectory.id"), primary_key=True),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    Column("agent", Text, nullable=False, server_default=""),
    Column("message_idx", Integer),
    Column("observation_blob", Text, ForeignKey("blob.hash"), nullable=False),
    Column("observation_hash", Text, nullable=False),
    Column("action", ExactText, nullable=False),
    Column("reward", Float, nullable=False),
    Column("reward_parts", JSON(none_as_null=True)),
    Column("terminated", Boolean, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("action_valid", Boolean, nullable=False),
    Column("state_key", ExactText, nullable=False),
    Column("model_ms", Float, nullable=False),
    Column("env_ms", Float, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    ForeignKeyConstraint(["trajectory_id", "message_idx"], ["message.trajectory_id", "message.idx"]),
    sqlite_with_rowid=False,
)

step_image = Table(
    "step_image",
    metadata,
    Column("trajectory_id", Text, primary_key=True),
    Column("step_idx", Integer, primary_key=True, autoincrement=False),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    Column("blob_hash", Text, ForeignKey("blob.hash"), nullable=False),
    ForeignKeyConstraint(["trajectory_id", "step_idx"], ["step.trajectory_id", "step.idx"]),
    sqlite_with_rowid=False,
)

message_image = Table(
    "message_image",
    metadata,
    Column("trajectory_id", Text, primary_key=True),
    Column("message_idx", Integer, primary_key=True, autoincrement=False),
    Column("idx", Integer, primary_key=True, autoincrement=False),
    Column("blob_hash", Text, ForeignKey("blob.hash"), nullable=False),
    ForeignKeyConstraint(["trajectory_id", "message_idx"], ["message.trajectory_id", "message.idx"]),
    sqlite_with_rowid=False,
)

lease = Table(
    "lease",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", Text, ForeignKey("run.id"), nullable=False),
    Column("group_id", Text, ForeignKey("rollout_group.id"), nullable=False),
    Column("owner", Text, nullable=False),
    Column("taken_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("outcome", Text, nullable=False, server_default=""),
    Index(
        "uq_lease_held",
        "group_id",
        unique=True,
        sqlite_where=text("ended_at IS NULL"),
        postgresql_where=text("ended_at IS NULL"),
    ),
    Index(
        "ix_lease_run_held",
        "run_id",
        sqlite_where=text("ended_at IS NULL"),
        postgresql_where=text("ended_at IS NULL"),
    ),
)

train_batch = Table(
    "train_batch",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("version_id", Integer, primary_key=True, autoincrement=False),
    Column("update_no", Integer, nullable=False),
    Column("owner", Text, nullable=False),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    Column("metrics", JSON, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    ForeignKeyConstraint(["run_id", "version_id"], ["policy_version.run_id", "policy_version.id"]),
    Index(
        "uq_train_batch_surviving",
        "run_id",
        "update_no",
        unique=True,
        sqlite_where=text("NOT abandoned"),
        postgresql_where=text("NOT abandoned"),
    ),
)

batch_group = Table(
    "batch_group",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("version_id", Integer, primary_key=True, autoincrement=False),
    Column("group_id", Text, ForeignKey("rollout_group.id"), primary_key=True),
    Column("fresh", Boolean, nullable=False),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    ForeignKeyConstraint(["run_id", "version_id"], ["train_batch.run_id", "train_batch.version_id"]),
    Index(
        "uq_batch_group_once",
        "group_id",
        unique=True,
        sqlite_where=text("fresh AND NOT abandoned"),
        postgresql_where=text("fresh AND NOT abandoned"),
    ),
)

batch_item = Table(
    "batch_item",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("version_id", Integer, primary_key=True, autoincrement=False),
    Column("trajectory_id", Text, ForeignKey("trajectory.id"), primary_key=True),
    Column("tokens_trained", Integer, nullable=False),
    Column("max_staleness", Integer, nullable=False),
    Column("mean_advantage", Float, nullable=False),
    Column("fresh", Boolean, nullable=False),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    ForeignKeyConstraint(["run_id", "version_id"], ["train_batch.run_id", "train_batch.version_id"]),
    Index(
        "uq_batch_item_once",
        "trajectory_id",
        unique=True,
        sqlite_where=text("fresh AND NOT abandoned"),
        postgresql_where=text("fresh AND NOT abandoned"),
    ),
)

metric = Table(
    "metric",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", Text, ForeignKey("run.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("update_no", Integer, nullable=False),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    Column("data", JSON, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index(
        "uq_metric_surviving",
        "run_id",
        "kind",
        "update_no",
        unique=True,
        sqlite_where=text("NOT abandoned"),
        postgresql_where=text("NOT abandoned"),
    ),
)


@cache
def insert_once(dialect: str, table: Table) -> Insert:
    """Return an insert into ``table`` that leaves a row with the same primary key as it is.

    This is why a repeated write has no second effect. Cached, so that SQLAlchemy compiles each statement once.
    """
    keys = [column.name for column in table.primary_key]
    if dialect == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing(index_elements=keys)
    return sqlite.insert(table).on_conflict_do_nothing(index_elements=keys)
