"""The first tables: runs, versions, tasks, groups, trajectories, messages, steps, blobs, leases, batches, metrics."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "blob",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_blob")),
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("stop_requested", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.Column("config_hash", sa.Text(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("kind IN ('train', 'eval')", name=op.f("ck_run_kind")),
        sa.CheckConstraint("status IN ('running', 'finished', 'failed', 'stopped')", name=op.f("ck_run_status")),
        sa.ForeignKeyConstraint(["parent_id"], ["run.id"], name=op.f("fk_run_parent_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
    )
    op.create_index("ix_run_created_at", "run", ["created_at"])

    op.create_table(
        "task",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("env_id", sa.Text(), nullable=False),
        sa.Column("env_version", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("split", sa.Text(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task")),
    )
    op.create_index("ix_task_env_id_split", "task", ["env_id", "split"])

    op.create_table(
        "metric",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("update_no", sa.Integer(), nullable=False),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_metric_run_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metric")),
    )
    op.create_index(
        "uq_metric_surviving",
        "metric",
        ["run_id", "kind", "update_no"],
        unique=True,
        sqlite_where=sa.text("NOT abandoned"),
        postgresql_where=sa.text("NOT abandoned"),
    )

    op.create_table(
        "policy_version",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("parent_id", sa.Integer(), nullable=True),
        sa.Column("update_no", sa.Integer(), nullable=False),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("checkpoint", sa.Text(), server_default="", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "parent_id"],
            ["policy_version.run_id", "policy_version.id"],
            name=op.f("fk_policy_version_run_id_parent_id_policy_version"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_policy_version_run_id_run")),
        sa.PrimaryKeyConstraint("run_id", "id", name=op.f("pk_policy_version")),
    )
    op.create_index(
        "uq_policy_version_surviving",
        "policy_version",
        ["run_id", "update_no"],
        unique=True,
        sqlite_where=sa.text("NOT abandoned"),
        postgresql_where=sa.text("NOT abandoned"),
    )

    op.create_table(
        "rollout_group",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("prompt_prefix", sa.Text(), server_default="", nullable=False),
        sa.Column("max_turns", sa.Integer(), nullable=False),
        sa.Column("max_tokens_per_turn", sa.Integer(), nullable=False),
        sa.Column("max_tokens_per_episode", sa.Integer(), nullable=False),
        sa.Column("max_context", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("purpose IN ('train', 'eval')", name=op.f("ck_rollout_group_purpose")),
        sa.CheckConstraint(
            "state IN ('open', 'ready', 'filtered', 'failed', 'leased', 'consumed', 'expired')",
            name=op.f("ck_rollout_group_state"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_rollout_group_run_id_run")),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_rollout_group_task_id_task")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollout_group")),
    )
    op.create_index(
        "ix_rollout_group_run_id_purpose_state_closed_at",
        "rollout_group",
        ["run_id", "purpose", "state", "closed_at"],
    )
    op.create_index("ix_rollout_group_task_id", "rollout_group", ["task_id"])

    op.create_table(
        "lease",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["group_id"], ["rollout_group.id"], name=op.f("fk_lease_group_id_rollout_group")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_lease_run_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lease")),
    )
    op.create_index(
        "ix_lease_run_held",
        "lease",
        ["run_id"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "uq_lease_held",
        "lease",
        ["group_id"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )

    op.create_table(
        "train_batch",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("version_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("update_no", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "version_id"],
            ["policy_version.run_id", "policy_version.id"],
            name=op.f("fk_train_batch_run_id_version_id_policy_version"),
        ),
        sa.PrimaryKeyConstraint("run_id", "version_id", name=op.f("pk_train_batch")),
    )
    op.create_index(
        "uq_train_batch_surviving",
        "train_batch",
        ["run_id", "update_no"],
        unique=True,
        sqlite_where=sa.text("NOT abandoned"),
        postgresql_where=sa.text("NOT abandoned"),
    )

    op.create_table(
        "trajectory",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("member", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("env_id", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), server_default="", nullable=False),
        sa.Column("deterministic", sa.Boolean(), nullable=False),
        sa.Column("reward", sa.Float(), server_default="0", nullable=False),
        sa.Column("success", sa.Boolean(), nullable=True),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("n_steps", sa.Integer(), server_default="0", nullable=False),
        sa.Column("n_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("min_version", sa.Integer(), nullable=True),
        sa.Column("max_version", sa.Integer(), nullable=True),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("final_observation_hash", sa.Text(), server_default="", nullable=False),
        sa.Column("final_observation_blob", sa.Text(), nullable=True),
        sa.Column("branched_from", sa.Text(), nullable=True),
        sa.Column("branched_at", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("extras", sa.JSON(), server_default=sa.text("'{}'"), nullable=False),
        sa.CheckConstraint(
            "source IN ('policy', 'expert', 'patch', 'replay', 'world_model', 'peer')",
            name=op.f("ck_trajectory_source"),
        ),
        sa.CheckConstraint(
            "status IN ('running', 'completed', 'truncated', 'env_error', 'policy_error', 'timeout', 'cancelled')",
            name=op.f("ck_trajectory_status"),
        ),
        sa.ForeignKeyConstraint(
            ["branched_from"], ["trajectory.id"], name=op.f("fk_trajectory_branched_from_trajectory")
        ),
        sa.ForeignKeyConstraint(
            ["final_observation_blob"], ["blob.hash"], name=op.f("fk_trajectory_final_observation_blob_blob")
        ),
        sa.ForeignKeyConstraint(["group_id"], ["rollout_group.id"], name=op.f("fk_trajectory_group_id_rollout_group")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_trajectory_run_id_run")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trajectory")),
        sa.UniqueConstraint("group_id", "member", "attempt", name=op.f("uq_trajectory_group_id_member_attempt")),
    )
    op.create_index("ix_trajectory_created_at", "trajectory", ["created_at"])
    op.create_index("ix_trajectory_env_id_created_at", "trajectory", ["env_id", "created_at"])
    op.create_index("ix_trajectory_run_id_created_at", "trajectory", ["run_id", "created_at"])
    op.create_index("ix_trajectory_run_id_status", "trajectory", ["run_id", "status"])

    op.create_table(
        "batch_group",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("version_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("fresh", sa.Boolean(), nullable=False),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(["group_id"], ["rollout_group.id"], name=op.f("fk_batch_group_group_id_rollout_group")),
        sa.ForeignKeyConstraint(
            ["run_id", "version_id"],
            ["train_batch.run_id", "train_batch.version_id"],
            name=op.f("fk_batch_group_run_id_version_id_train_batch"),
        ),
        sa.PrimaryKeyConstraint("run_id", "version_id", "group_id", name=op.f("pk_batch_group")),
    )
    op.create_index(
        "uq_batch_group_once",
        "batch_group",
        ["group_id"],
        unique=True,
        sqlite_where=sa.text("fresh AND NOT abandoned"),
        postgresql_where=sa.text("fresh AND NOT abandoned"),
    )

    op.create_table(
        "batch_item",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("version_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("trajectory_id", sa.Text(), nullable=False),
        sa.Column("tokens_trained", sa.Integer(), nullable=False),
        sa.Column("max_staleness", sa.Integer(), nullable=False),
        sa.Column("mean_advantage", sa.Float(), nullable=False),
        sa.Column("fresh", sa.Boolean(), nullable=False),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "version_id"],
            ["train_batch.run_id", "train_batch.version_id"],
            name=op.f("fk_batch_item_run_id_version_id_train_batch"),
        ),
        sa.ForeignKeyConstraint(
            ["trajectory_id"], ["trajectory.id"], name=op.f("fk_batch_item_trajectory_id_trajectory")
        ),
        sa.PrimaryKeyConstraint("run_id", "version_id", "trajectory_id", name=op.f("pk_batch_item")),
    )
    op.create_index(
        "uq_batch_item_once",
        "batch_item",
        ["trajectory_id"],
        unique=True,
        sqlite_where=sa.text("fresh AND NOT abandoned"),
        postgresql_where=sa.text("fresh AND NOT abandoned"),
    )

    op.create_table(
        "message",
        sa.Column("trajectory_id", sa.Text(), nullable=False),
        sa.Column("idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("parent_idx", sa.Integer(), nullable=True),
        sa.Column("agent", sa.Text(), server_default="", nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("n_tokens", sa.Integer(), nullable=False),
        sa.Column("n_sampled", sa.Integer(), nullable=False),
        sa.Column("min_version", sa.Integer(), nullable=True),
        sa.Column("max_version", sa.Integer(), nullable=True),
        sa.Column("tokens_blob", sa.Text(), nullable=False),
        sa.Column("sent_blob", sa.Text(), nullable=True),
        sa.CheckConstraint("role IN ('system', 'user', 'assistant')", name=op.f("ck_message_role")),
        sa.CheckConstraint(
            "source IN ('policy', 'expert', 'patch', 'replay', 'world_model', 'peer')", name=op.f("ck_message_source")
        ),
        sa.ForeignKeyConstraint(["sent_blob"], ["blob.hash"], name=op.f("fk_message_sent_blob_blob")),
        sa.ForeignKeyConstraint(["tokens_blob"], ["blob.hash"], name=op.f("fk_message_tokens_blob_blob")),
        sa.ForeignKeyConstraint(
            ["trajectory_id", "parent_idx"],
            ["message.trajectory_id", "message.idx"],
            name=op.f("fk_message_trajectory_id_parent_idx_message"),
        ),
        sa.ForeignKeyConstraint(["trajectory_id"], ["trajectory.id"], name=op.f("fk_message_trajectory_id_trajectory")),
        sa.PrimaryKeyConstraint("trajectory_id", "idx", name=op.f("pk_message")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "message_image",
        sa.Column("trajectory_id", sa.Text(), nullable=False),
        sa.Column("message_idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("blob_hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["blob_hash"], ["blob.hash"], name=op.f("fk_message_image_blob_hash_blob")),
        sa.ForeignKeyConstraint(
            ["trajectory_id", "message_idx"],
            ["message.trajectory_id", "message.idx"],
            name=op.f("fk_message_image_trajectory_id_message_idx_message"),
        ),
        sa.PrimaryKeyConstraint("trajectory_id", "message_idx", "idx", name=op.f("pk_message_image")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "step",
        sa.Column("trajectory_id", sa.Text(), nullable=False),
        sa.Column("idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("agent", sa.Text(), server_default="", nullable=False),
        sa.Column("message_idx", sa.Integer(), nullable=True),
        sa.Column("observation_blob", sa.Text(), nullable=False),
        sa.Column("observation_hash", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("reward", sa.Float(), nullable=False),
        sa.Column("reward_parts", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("terminated", sa.Boolean(), nullable=False),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.Column("action_valid", sa.Boolean(), nullable=False),
        sa.Column("state_key", sa.Text(), nullable=False),
        sa.Column("model_ms", sa.Float(), nullable=False),
        sa.Column("env_ms", sa.Float(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["observation_blob"], ["blob.hash"], name=op.f("fk_step_observation_blob_blob")),
        sa.ForeignKeyConstraint(
            ["trajectory_id", "message_idx"],
            ["message.trajectory_id", "message.idx"],
            name=op.f("fk_step_trajectory_id_message_idx_message"),
        ),
        sa.ForeignKeyConstraint(["trajectory_id"], ["trajectory.id"], name=op.f("fk_step_trajectory_id_trajectory")),
        sa.PrimaryKeyConstraint("trajectory_id", "idx", name=op.f("pk_step")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "step_image",
        sa.Column("trajectory_id", sa.Text(), nullable=False),
        sa.Column("step_idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("blob_hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["blob_hash"], ["blob.hash"], name=op.f("fk_step_image_blob_hash_blob")),
        sa.ForeignKeyConstraint(
            ["trajectory_id", "step_idx"],
            ["step.trajectory_id", "step.idx"],
            name=op.f("fk_step_image_trajectory_id_step_idx_step"),
        ),
        sa.PrimaryKeyConstraint("trajectory_id", "step_idx", "idx", name=op.f("pk_step_image")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    for table in (
        "step_image",
        "step",
        "message_image",
        "message",
        "batch_item",
        "batch_group",
        "trajectory",
        "train_batch",
        "lease",
        "rollout_group",
        "policy_version",
        "metric",
        "task",
        "run",
        "blob",
    ):
        op.drop_table(table)
