"""Runs, versions, the queue's leases, batches and metrics: what the driver of a run writes."""

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
    false,
    text,
)

from .types import Document, ExactText, Hash, Number, OptionalDocument, UtcDateTime, metadata, number, surviving, where

store_setting = Table(
    "store_setting",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

run = Table(
    "run",
    metadata,
    number(),
    Column("uid", Uuid, nullable=False, unique=True),
    Column("id", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("driver", Text, nullable=False, server_default=""),
    Column("error", ExactText, nullable=False, server_default=""),
    Column("stop_requested", Boolean, nullable=False, server_default=false()),
    Column("parent_no", Number, ForeignKey("run.no")),
    Column("parent_version", Integer),
    Column("code_version", Text, nullable=False),
    Column("git_revision", Text, nullable=False, server_default=""),
    Column("packages", Document, nullable=False, server_default=text("'{}'")),
    Column("config_hash", Text, nullable=False),
    Column("config", Document, nullable=False),
    Column("changes", Document, nullable=False, server_default=text("'[]'")),
    Column("created_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Index(None, "created_at", "no"),
    Index("ix_run_parent_no", "parent_no", **where("parent_no IS NOT NULL")),
)

policy_version = Table(
    "policy_version",
    metadata,
    Column("run_no", Number, ForeignKey("run.no"), primary_key=True),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("parent_id", Integer),
    Column("update_no", Integer, nullable=False),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    Column("checkpoint", Text, nullable=False, server_default=""),
    Column("weights_hash", Text, nullable=False, server_default=""),
    Column("created_at", UtcDateTime, nullable=False),
    ForeignKeyConstraint(["run_no", "parent_id"], ["policy_version.run_no", "policy_version.id"]),
    Index("uq_policy_version_surviving", "run_no", "update_no", unique=True, **surviving()),
)

lease = Table(
    "lease",
    metadata,
    number(),
    Column("run_no", Number, ForeignKey("run.no"), nullable=False),
    Column("group_no", Number, ForeignKey("rollout_group.no"), nullable=False),
    Column("owner", Text, nullable=False),
    Column("taken_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("outcome", Text, nullable=False, server_default=""),
    Index(None, "group_no"),
    Index("uq_lease_held", "group_no", unique=True, **where("ended_at IS NULL")),
    Index("ix_lease_run_held", "run_no", **where("ended_at IS NULL")),
)

train_batch = Table(
    "train_batch",
    metadata,
    Column("run_no", Number, primary_key=True, autoincrement=False),
    Column("version_id", Integer, primary_key=True, autoincrement=False),
    Column("update_no", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    Column("metrics", Document, nullable=False),
    Column("recipe", OptionalDocument),
    Column("digest", Hash, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    ForeignKeyConstraint(["run_no", "version_id"], ["policy_version.run_no", "policy_version.id"]),
    Index("uq_train_batch_surviving", "run_no", "update_no", unique=True, **surviving()),
)

batch_group = Table(
    "batch_group",
    metadata,
    Column("run_no", Number, primary_key=True, autoincrement=False),
    Column("version_id", Integer, primary_key=True, autoincrement=False),
    Column("group_no", Number, ForeignKey("rollout_group.no"), primary_key=True, autoincrement=False),
    Column("idx", Integer, nullable=False),
    Column("fresh", Boolean, nullable=False),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    ForeignKeyConstraint(["run_no", "version_id"], ["train_batch.run_no", "train_batch.version_id"]),
    Index(None, "group_no"),
    Index("uq_batch_group_once", "group_no", unique=True, **surviving("fresh")),
)

batch_item = Table(
    "batch_item",
    metadata,
    Column("run_no", Number, primary_key=True, autoincrement=False),
    Column("version_id", Integer, primary_key=True, autoincrement=False),
    Column("trajectory_no", Number, ForeignKey("trajectory.no"), primary_key=True, autoincrement=False),
    Column("idx", Integer, nullable=False),
    Column("tokens_trained", Integer, nullable=False),
    Column("max_staleness", Integer, nullable=False),
    Column("mean_advantage", Float, nullable=False),
    Column("turn_advantages", Document, nullable=False),
    Column("fresh", Boolean, nullable=False),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    Column("detail", LargeBinary),
    ForeignKeyConstraint(["run_no", "version_id"], ["train_batch.run_no", "train_batch.version_id"]),
    Index(None, "trajectory_no"),
    Index("uq_batch_item_once", "trajectory_no", unique=True, **surviving("fresh")),
    Index("ix_batch_item_tokens", "run_no", "tokens_trained", **surviving()),
)

EVALUATION = "evaluation "
"""The kind of the metrics of an evaluation begins with this; its name follows."""
PACE = "pace"
"""The kind of the metrics of an update that are known only after its transaction: seconds, rates and busy fractions."""

metric = Table(
    "metric",
    metadata,
    number(),
    Column("run_no", Number, ForeignKey("run.no"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("update_no", Integer, nullable=False),
    Column("abandoned", Boolean, nullable=False, server_default=false()),
    Column("data", Document, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index("uq_metric_surviving", "run_no", "kind", "update_no", unique=True, **surviving()),
)
