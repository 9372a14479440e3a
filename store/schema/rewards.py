"""Rewards of stored trajectories by sets: those that the run was trained with, and others under a name."""

from sqlalchemy import Column, Float, ForeignKey, Integer, Table, Text, UniqueConstraint

from .base import Document, Number, OptionalDocument, metadata, number
from .types import Hash, UtcDateTime

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
    Column("digest", Hash, nullable=False),
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
