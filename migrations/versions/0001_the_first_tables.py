"""The first tables. One revision until the first release; ``store.schema`` describes the columns."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

DOCUMENT = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "blob",
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("encoding", sa.Text(), server_default="", nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_blob")),
    )
    op.create_index(op.f("ix_blob_created_at"), "blob", ["created_at"])
    op.create_table(
        "message_image",
        sa.Column("trajectory_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("message_idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("blob_hash", sa.LargeBinary(), nullable=False),
        sa.Column("first_token", sa.Integer(), nullable=True),
        sa.Column("n_tokens", sa.Integer(), nullable=True),
        sa.Column("width", sa.Integer(), nullable=True),
        sa.Column("height", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("trajectory_no", "message_idx", "idx", name=op.f("pk_message_image")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_message_image_blob_hash"), "message_image", ["blob_hash"])
    op.create_table(
        "partial_turn",
        sa.Column("trajectory_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("messages", sa.LargeBinary(), nullable=True),
        sa.Column("messages_blob", sa.LargeBinary(), nullable=True),
        sa.Column("sent", sa.LargeBinary(), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("trajectory_no", "idx", name=op.f("pk_partial_turn")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_partial_turn_messages_blob",
        "partial_turn",
        ["messages_blob"],
        sqlite_where=sa.text("messages_blob IS NOT NULL"),
        postgresql_where=sa.text("messages_blob IS NOT NULL"),
    )
    op.create_table(
        "step",
        sa.Column("reward", sa.Float(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("trajectory_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("model_ms", sa.REAL(), nullable=False),
        sa.Column("env_ms", sa.REAL(), nullable=False),
        sa.Column("terminated", sa.Boolean(), nullable=False),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.Column("failed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("action_valid", sa.Boolean(), nullable=False),
        sa.Column("agent", sa.Text(), server_default="", nullable=False),
        sa.Column("observation", sa.Text(), nullable=True),
        sa.Column("observation_blob", sa.LargeBinary(), nullable=True),
        sa.Column("observation_hash", sa.LargeBinary(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("reward_parts", DOCUMENT, nullable=True),
        sa.Column("state_key", sa.Text(), nullable=False),
        sa.Column("tool_calls", DOCUMENT, nullable=True),
        sa.Column("messages", sa.LargeBinary(), nullable=True),
        sa.Column("messages_blob", sa.LargeBinary(), nullable=True),
        sa.Column("sent", sa.LargeBinary(), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("trajectory_no", "idx", name=op.f("pk_step")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_step_messages_blob",
        "step",
        ["messages_blob"],
        sqlite_where=sa.text("messages_blob IS NOT NULL"),
        postgresql_where=sa.text("messages_blob IS NOT NULL"),
    )
    op.create_index(
        "ix_step_observation_blob",
        "step",
        ["observation_blob"],
        sqlite_where=sa.text("observation_blob IS NOT NULL"),
        postgresql_where=sa.text("observation_blob IS NOT NULL"),
    )
    op.create_table(
        "step_image",
        sa.Column("trajectory_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("step_idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("blob_hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("trajectory_no", "step_idx", "idx", name=op.f("pk_step_image")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_step_image_blob_hash"), "step_image", ["blob_hash"])
    op.create_table(
        "store_setting",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_store_setting")),
    )
    op.create_table(
        "task",
        sa.Column("no", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("env_id", sa.Text(), nullable=False),
        sa.Column("env_version", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("split", sa.Text(), nullable=False),
        sa.Column("options", DOCUMENT, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_task")),
        sa.UniqueConstraint("id", name=op.f("uq_task_id")),
    )
    op.create_index(op.f("ix_task_env_id_split"), "task", ["env_id", "split"])
    op.create_table(
        "run",
        sa.Column("no", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("uid", sa.Uuid(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("driver", sa.Text(), server_default="", nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("stop_requested", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("parent_no", sa.Integer(), nullable=True),
        sa.Column("parent_version", sa.Integer(), nullable=True),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.Column("git_revision", sa.Text(), server_default="", nullable=False),
        sa.Column("packages", DOCUMENT, server_default=sa.text("'{}'"), nullable=False),
        sa.Column("tokenizer_blob", sa.LargeBinary(), nullable=True),
        sa.Column("config_hash", sa.Text(), nullable=False),
        sa.Column("config", DOCUMENT, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("n_groups", sa.Integer(), server_default="0", nullable=False),
        sa.Column("n_versions", sa.Integer(), server_default="0", nullable=False),
        sa.Column("n_batches", sa.Integer(), server_default="0", nullable=False),
        sa.Column("n_leases", sa.Integer(), server_default="0", nullable=False),
        sa.Column("n_metrics", sa.Integer(), server_default="0", nullable=False),
        sa.Column("n_reward_sets", sa.Integer(), server_default="0", nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["parent_no"], ["run.no"], name=op.f("fk_run_parent_no_run")),
        sa.ForeignKeyConstraint(["tokenizer_blob"], ["blob.hash"], name=op.f("fk_run_tokenizer_blob_blob")),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_run")),
        sa.UniqueConstraint("id", name=op.f("uq_run_id")),
        sa.UniqueConstraint("uid", name=op.f("uq_run_uid")),
    )
    op.create_index(op.f("ix_run_created_at_no"), "run", ["created_at", "no"])
    op.create_index(
        "ix_run_parent_no",
        "run",
        ["parent_no"],
        sqlite_where=sa.text("parent_no IS NOT NULL"),
        postgresql_where=sa.text("parent_no IS NOT NULL"),
    )
    op.create_table(
        "metric",
        sa.Column("no", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("run_no", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("update_no", sa.Integer(), nullable=False),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("data", DOCUMENT, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_no"], ["run.no"], name=op.f("fk_metric_run_no_run")),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_metric")),
    )
    op.create_index(
        "uq_metric_surviving",
        "metric",
        ["run_no", "kind", "update_no"],
        unique=True,
        sqlite_where=sa.text("abandoned = 0"),
        postgresql_where=sa.text("NOT abandoned"),
    )
    op.create_table(
        "policy_version",
        sa.Column("run_no", sa.Integer(), nullable=False),
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("policy", sa.Text(), server_default="", nullable=False),
        sa.Column("parent_id", sa.Integer(), nullable=True),
        sa.Column("update_no", sa.Integer(), nullable=False),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("checkpoint", sa.Text(), server_default="", nullable=False),
        sa.Column("weights_hash", sa.Text(), server_default="", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_no", "parent_id"],
            ["policy_version.run_no", "policy_version.id"],
            name=op.f("fk_policy_version_run_no_parent_id_policy_version"),
        ),
        sa.ForeignKeyConstraint(["run_no"], ["run.no"], name=op.f("fk_policy_version_run_no_run")),
        sa.PrimaryKeyConstraint("run_no", "id", name=op.f("pk_policy_version")),
    )
    op.create_index(
        "uq_policy_version_surviving",
        "policy_version",
        ["run_no", "policy", "update_no"],
        unique=True,
        sqlite_where=sa.text("abandoned = 0"),
        postgresql_where=sa.text("NOT abandoned"),
    )
    op.create_table(
        "reward_set",
        sa.Column("no", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("run_no", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("component", sa.Text(), nullable=False),
        sa.Column("options", DOCUMENT, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("n_rewards", sa.Integer(), server_default="0", nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_no"], ["run.no"], name=op.f("fk_reward_set_run_no_run")),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_reward_set")),
        sa.UniqueConstraint("run_no", "name", name=op.f("uq_reward_set_run_no_name")),
    )
    op.create_table(
        "rollout_group",
        sa.Column("no", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("run_no", sa.Integer(), nullable=False),
        sa.Column("task_no", sa.Integer(), nullable=False),
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
        sa.Column("n_trajectories", sa.Integer(), nullable=True),
        sa.Column("score_no", sa.Integer(), nullable=True),
        sa.Column("n_scores", sa.Integer(), nullable=True),
        sa.Column("draw", sa.Integer(), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_no"], ["run.no"], name=op.f("fk_rollout_group_run_no_run")),
        sa.ForeignKeyConstraint(["task_no"], ["task.no"], name=op.f("fk_rollout_group_task_no_task")),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_rollout_group")),
        sa.UniqueConstraint("id", name=op.f("uq_rollout_group_id")),
    )
    op.create_index(op.f("ix_rollout_group_run_no_created_at_no"), "rollout_group", ["run_no", "created_at", "no"])
    op.create_index(
        op.f("ix_rollout_group_run_no_purpose_state_closed_at"),
        "rollout_group",
        ["run_no", "purpose", "state", "closed_at"],
    )
    op.create_index(op.f("ix_rollout_group_run_no_task_no"), "rollout_group", ["run_no", "task_no"])
    op.create_index(op.f("ix_rollout_group_task_no"), "rollout_group", ["task_no"])
    op.create_index("uq_rollout_group_score_no", "rollout_group", ["run_no", "score_no"], unique=True)
    op.create_table(
        "lease",
        sa.Column("no", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("run_no", sa.Integer(), nullable=False),
        sa.Column("group_no", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), server_default="", nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["group_no"], ["rollout_group.no"], name=op.f("fk_lease_group_no_rollout_group")),
        sa.ForeignKeyConstraint(["run_no"], ["run.no"], name=op.f("fk_lease_run_no_run")),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_lease")),
    )
    op.create_index(op.f("ix_lease_group_no"), "lease", ["group_no"])
    op.create_index(
        "ix_lease_run_held",
        "lease",
        ["run_no"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "uq_lease_held",
        "lease",
        ["group_no"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "train_batch",
        sa.Column("run_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("update_no", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("metrics", DOCUMENT, nullable=False),
        sa.Column("recipe", DOCUMENT, nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_no", "version_id"],
            ["policy_version.run_no", "policy_version.id"],
            name=op.f("fk_train_batch_run_no_version_id_policy_version"),
        ),
        sa.PrimaryKeyConstraint("run_no", "version_id", name=op.f("pk_train_batch")),
    )
    op.create_index(
        "uq_train_batch_surviving",
        "train_batch",
        ["run_no", "update_no"],
        unique=True,
        sqlite_where=sa.text("abandoned = 0"),
        postgresql_where=sa.text("NOT abandoned"),
    )
    op.create_table(
        "trajectory",
        sa.Column("no", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("run_no", sa.Integer(), nullable=False),
        sa.Column("reward", sa.Float(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pruned_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("group_no", sa.Integer(), nullable=False),
        sa.Column("member", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("n_steps", sa.Integer(), server_default="0", nullable=False),
        sa.Column("n_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("min_version", sa.Integer(), nullable=True),
        sa.Column("max_version", sa.Integer(), nullable=True),
        sa.Column("branched_from", sa.Integer(), nullable=True),
        sa.Column("branched_at", sa.Integer(), nullable=True),
        sa.Column("deterministic", sa.Boolean(), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=True),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("uid", sa.Uuid(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("writer", sa.Text(), server_default="", nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("env_id", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), server_default="", nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("stop_reason", sa.Text(), server_default="", nullable=False),
        sa.Column("final_observation", sa.Text(), nullable=True),
        sa.Column("final_observation_blob", sa.LargeBinary(), nullable=True),
        sa.Column("final_observation_hash", sa.LargeBinary(), nullable=True),
        sa.Column("extras", DOCUMENT, server_default=sa.text("'{}'"), nullable=False),
        sa.Column("content_digest", sa.LargeBinary(), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["branched_from"], ["trajectory.no"], name=op.f("fk_trajectory_branched_from_trajectory")
        ),
        sa.ForeignKeyConstraint(["group_no"], ["rollout_group.no"], name=op.f("fk_trajectory_group_no_rollout_group")),
        sa.ForeignKeyConstraint(["run_no"], ["run.no"], name=op.f("fk_trajectory_run_no_run")),
        sa.PrimaryKeyConstraint("no", name=op.f("pk_trajectory")),
        sa.UniqueConstraint("group_no", "member", "attempt", name=op.f("uq_trajectory_group_no_member_attempt")),
        sa.UniqueConstraint("id", name=op.f("uq_trajectory_id")),
        sa.UniqueConstraint("uid", name=op.f("uq_trajectory_uid")),
    )
    op.create_index(
        "ix_trajectory_branched_from",
        "trajectory",
        ["branched_from"],
        sqlite_where=sa.text("branched_from IS NOT NULL"),
        postgresql_where=sa.text("branched_from IS NOT NULL"),
    )
    op.create_index(
        "ix_trajectory_created_at",
        "trajectory",
        ["created_at", "no", "abandoned", "deterministic", "success", "purpose", "status", "source", "policy"],
    )
    op.create_index(op.f("ix_trajectory_env_id_created_at_no"), "trajectory", ["env_id", "created_at", "no"])
    op.create_index(
        "ix_trajectory_final_observation_blob",
        "trajectory",
        ["final_observation_blob"],
        sqlite_where=sa.text("final_observation_blob IS NOT NULL"),
        postgresql_where=sa.text("final_observation_blob IS NOT NULL"),
    )
    op.create_index(
        "ix_trajectory_run_created_at",
        "trajectory",
        [
            "run_no",
            "created_at",
            "no",
            "abandoned",
            "deterministic",
            "success",
            "purpose",
            "status",
            "source",
            "policy",
        ],
    )
    op.create_index(
        "ix_trajectory_run_n_steps",
        "trajectory",
        ["run_no", "n_steps", "no", "abandoned", "deterministic", "success", "purpose", "status", "source", "policy"],
        sqlite_where=sa.text("ended_at IS NOT NULL"),
        postgresql_where=sa.text("ended_at IS NOT NULL"),
    )
    op.create_index(op.f("ix_trajectory_run_no_max_version"), "trajectory", ["run_no", "max_version"])
    op.create_index(
        "ix_trajectory_run_reward",
        "trajectory",
        ["run_no", "reward", "no", "abandoned", "deterministic", "success", "purpose", "status", "source", "policy"],
        sqlite_where=sa.text("ended_at IS NOT NULL"),
        postgresql_where=sa.text("ended_at IS NOT NULL"),
    )
    op.create_index(
        "ix_trajectory_running",
        "trajectory",
        ["run_no"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "ix_trajectory_whole",
        "trajectory",
        ["run_no", "no"],
        sqlite_where=sa.text("pruned_at IS NULL"),
        postgresql_where=sa.text("pruned_at IS NULL"),
    )
    op.create_table(
        "batch_group",
        sa.Column("run_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("group_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idx", sa.Integer(), nullable=False),
        sa.Column("fresh", sa.Boolean(), nullable=False),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(["group_no"], ["rollout_group.no"], name=op.f("fk_batch_group_group_no_rollout_group")),
        sa.ForeignKeyConstraint(
            ["run_no", "version_id"],
            ["train_batch.run_no", "train_batch.version_id"],
            name=op.f("fk_batch_group_run_no_version_id_train_batch"),
        ),
        sa.PrimaryKeyConstraint("run_no", "version_id", "group_no", name=op.f("pk_batch_group")),
    )
    op.create_index(op.f("ix_batch_group_group_no"), "batch_group", ["group_no"])
    op.create_index(
        "uq_batch_group_once",
        "batch_group",
        ["group_no"],
        unique=True,
        sqlite_where=sa.text("fresh = 1 AND abandoned = 0"),
        postgresql_where=sa.text("fresh AND NOT abandoned"),
    )
    op.create_table(
        "batch_item",
        sa.Column("run_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("trajectory_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idx", sa.Integer(), nullable=False),
        sa.Column("tokens_trained", sa.Integer(), nullable=False),
        sa.Column("max_staleness", sa.Integer(), nullable=False),
        sa.Column("mean_advantage", sa.Float(), nullable=False),
        sa.Column("fresh", sa.Boolean(), nullable=False),
        sa.Column("abandoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("detail", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_no", "version_id"],
            ["train_batch.run_no", "train_batch.version_id"],
            name=op.f("fk_batch_item_run_no_version_id_train_batch"),
        ),
        sa.ForeignKeyConstraint(
            ["trajectory_no"], ["trajectory.no"], name=op.f("fk_batch_item_trajectory_no_trajectory")
        ),
        sa.PrimaryKeyConstraint("run_no", "version_id", "trajectory_no", name=op.f("pk_batch_item")),
    )
    op.create_index(op.f("ix_batch_item_trajectory_no"), "batch_item", ["trajectory_no"])
    op.create_index(
        "uq_batch_item_once",
        "batch_item",
        ["trajectory_no"],
        unique=True,
        sqlite_where=sa.text("fresh = 1 AND abandoned = 0"),
        postgresql_where=sa.text("fresh AND NOT abandoned"),
    )
    op.create_table(
        "reward",
        sa.Column("set_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("trajectory_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rewards", DOCUMENT, nullable=True),
        sa.Column("verdicts", DOCUMENT, nullable=False),
        sa.Column("total", sa.Float(), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["set_no"], ["reward_set.no"], name=op.f("fk_reward_set_no_reward_set")),
        sa.ForeignKeyConstraint(["trajectory_no"], ["trajectory.no"], name=op.f("fk_reward_trajectory_no_trajectory")),
        sa.PrimaryKeyConstraint("set_no", "trajectory_no", name=op.f("pk_reward")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_reward_trajectory_no"), "reward", ["trajectory_no"])
    op.create_table(
        "score",
        sa.Column("trajectory_no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rewards", DOCUMENT, nullable=True),
        sa.Column("verdicts", DOCUMENT, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["trajectory_no"], ["trajectory.no"], name=op.f("fk_score_trajectory_no_trajectory")),
        sa.PrimaryKeyConstraint("trajectory_no", name=op.f("pk_score")),
    )


def downgrade() -> None:
    op.drop_table("score")
    op.drop_index(op.f("ix_reward_trajectory_no"), table_name="reward")
    op.drop_table("reward")
    op.drop_index(
        "uq_batch_item_once",
        table_name="batch_item",
        sqlite_where=sa.text("fresh = 1 AND abandoned = 0"),
        postgresql_where=sa.text("fresh AND NOT abandoned"),
    )
    op.drop_index(op.f("ix_batch_item_trajectory_no"), table_name="batch_item")
    op.drop_table("batch_item")
    op.drop_index(
        "uq_batch_group_once",
        table_name="batch_group",
        sqlite_where=sa.text("fresh = 1 AND abandoned = 0"),
        postgresql_where=sa.text("fresh AND NOT abandoned"),
    )
    op.drop_index(op.f("ix_batch_group_group_no"), table_name="batch_group")
    op.drop_table("batch_group")
    op.drop_index(
        "ix_trajectory_whole",
        table_name="trajectory",
        sqlite_where=sa.text("pruned_at IS NULL"),
        postgresql_where=sa.text("pruned_at IS NULL"),
    )
    op.drop_index(
        "ix_trajectory_running",
        table_name="trajectory",
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.drop_index(
        "ix_trajectory_run_reward",
        table_name="trajectory",
        sqlite_where=sa.text("ended_at IS NOT NULL"),
        postgresql_where=sa.text("ended_at IS NOT NULL"),
    )
    op.drop_index(op.f("ix_trajectory_run_no_max_version"), table_name="trajectory")
    op.drop_index(
        "ix_trajectory_run_n_steps",
        table_name="trajectory",
        sqlite_where=sa.text("ended_at IS NOT NULL"),
        postgresql_where=sa.text("ended_at IS NOT NULL"),
    )
    op.drop_index("ix_trajectory_run_created_at", table_name="trajectory")
    op.drop_index(
        "ix_trajectory_final_observation_blob",
        table_name="trajectory",
        sqlite_where=sa.text("final_observation_blob IS NOT NULL"),
        postgresql_where=sa.text("final_observation_blob IS NOT NULL"),
    )
    op.drop_index(op.f("ix_trajectory_env_id_created_at_no"), table_name="trajectory")
    op.drop_index("ix_trajectory_created_at", table_name="trajectory")
    op.drop_index(
        "ix_trajectory_branched_from",
        table_name="trajectory",
        sqlite_where=sa.text("branched_from IS NOT NULL"),
        postgresql_where=sa.text("branched_from IS NOT NULL"),
    )
    op.drop_table("trajectory")
    op.drop_index(
        "uq_train_batch_surviving",
        table_name="train_batch",
        sqlite_where=sa.text("abandoned = 0"),
        postgresql_where=sa.text("NOT abandoned"),
    )
    op.drop_table("train_batch")
    op.drop_index(
        "uq_lease_held",
        table_name="lease",
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.drop_index(
        "ix_lease_run_held",
        table_name="lease",
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.drop_index(op.f("ix_lease_group_no"), table_name="lease")
    op.drop_table("lease")
    op.drop_index("uq_rollout_group_score_no", table_name="rollout_group")
    op.drop_index(op.f("ix_rollout_group_task_no"), table_name="rollout_group")
    op.drop_index(op.f("ix_rollout_group_run_no_task_no"), table_name="rollout_group")
    op.drop_index(op.f("ix_rollout_group_run_no_purpose_state_closed_at"), table_name="rollout_group")
    op.drop_index(op.f("ix_rollout_group_run_no_created_at_no"), table_name="rollout_group")
    op.drop_table("rollout_group")
    op.drop_table("reward_set")
    op.drop_index(
        "uq_policy_version_surviving",
        table_name="policy_version",
        sqlite_where=sa.text("abandoned = 0"),
        postgresql_where=sa.text("NOT abandoned"),
    )
    op.drop_table("policy_version")
    op.drop_index(
        "uq_metric_surviving",
        table_name="metric",
        sqlite_where=sa.text("abandoned = 0"),
        postgresql_where=sa.text("NOT abandoned"),
    )
    op.drop_table("metric")
    op.drop_index(
        "ix_run_parent_no",
        table_name="run",
        sqlite_where=sa.text("parent_no IS NOT NULL"),
        postgresql_where=sa.text("parent_no IS NOT NULL"),
    )
    op.drop_index(op.f("ix_run_created_at_no"), table_name="run")
    op.drop_table("run")
    op.drop_index(op.f("ix_task_env_id_split"), table_name="task")
    op.drop_table("task")
    op.drop_table("store_setting")
    op.drop_index(op.f("ix_step_image_blob_hash"), table_name="step_image")
    op.drop_table("step_image")
    op.drop_index(
        "ix_step_observation_blob",
        table_name="step",
        sqlite_where=sa.text("observation_blob IS NOT NULL"),
        postgresql_where=sa.text("observation_blob IS NOT NULL"),
    )
    op.drop_index(
        "ix_step_messages_blob",
        table_name="step",
        sqlite_where=sa.text("messages_blob IS NOT NULL"),
        postgresql_where=sa.text("messages_blob IS NOT NULL"),
    )
    op.drop_table("step")
    op.drop_index(
        "ix_partial_turn_messages_blob",
        table_name="partial_turn",
        sqlite_where=sa.text("messages_blob IS NOT NULL"),
        postgresql_where=sa.text("messages_blob IS NOT NULL"),
    )
    op.drop_table("partial_turn")
    op.drop_index(op.f("ix_message_image_blob_hash"), table_name="message_image")
    op.drop_table("message_image")
    op.drop_index(op.f("ix_blob_created_at"), table_name="blob")
    op.drop_table("blob")
