"""Scores: a state between the end of a group's last episode and its place in the queue, and shaped rewards."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_STATES = "ck_rollout_group_state"
_BEFORE = "state IN ('open', 'ready', 'filtered', 'failed', 'leased', 'consumed', 'expired')"
_AFTER = "state IN ('open', 'scoring', 'ready', 'filtered', 'failed', 'leased', 'consumed', 'expired')"
_LOST = "its scores were removed by a downgrade of the store"


def upgrade() -> None:
    op.create_table(
        "score",
        sa.Column("trajectory_id", sa.Text(), nullable=False),
        sa.Column("rewards", sa.JSON(), nullable=True),
        sa.Column("verdicts", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["trajectory_id"], ["trajectory.id"], name=op.f("fk_score_trajectory_id_trajectory")),
        sa.PrimaryKeyConstraint("trajectory_id", name=op.f("pk_score")),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("rollout_group") as table:
        table.add_column(sa.Column("score_no", sa.Integer(), nullable=True))
        table.drop_constraint(op.f(_STATES), type_="check")
        table.create_check_constraint(op.f(_STATES), _AFTER)
    op.create_index("uq_rollout_group_score_no", "rollout_group", ["run_id", "score_no"], unique=True)


def downgrade() -> None:
    groups = sa.table("rollout_group", sa.column("state"), sa.column("reason"))
    op.execute(groups.update().where(groups.c.state == "scoring").values(state="failed", reason=_LOST))
    op.drop_index("uq_rollout_group_score_no", "rollout_group")
    with op.batch_alter_table("rollout_group") as table:
        table.drop_column("score_no")
        table.drop_constraint(op.f(_STATES), type_="check")
        table.create_check_constraint(op.f(_STATES), _BEFORE)
    op.drop_table("score")
