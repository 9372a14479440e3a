"""Every read of the store.

``lists`` returns pages of rows, ``load`` whole records with their content verified, ``rewards`` those of scored groups
and reward sets, ``groups`` what the driver of a run continues with, ``lineage`` the versions of a run and its updates
with their batches, ``run_details`` its counts, ``run_summaries`` the numbers of a page of runs, and ``run_reader`` the
groups and successes that a replay buffer selects from, outside the event loop. ``fates`` returns what became of groups,
``failures`` the failures of a run in clusters, and ``task_history`` success per task over time. A query takes a
connection of ``Database.read`` and changes nothing; to add one, write the function in the module of its kind and export
it here.
"""

from .failures import Failures, failure_clusters, failures_per_update
from .fates import GroupFate, MemberFate, group_fates, left_out, since_update_before, training_of, waiting
from .groups import (
    active_groups,
    cancelled_groups,
    group_counts,
    lost_draws,
    members,
    next_draw,
    next_group,
    next_scoring,
    running_tallies,
    scored_from,
    unscored_groups,
)
from .lineage import (
    BestCheckpoint,
    Branch,
    best_checkpoint,
    branches_of,
    checkpoints,
    find_checkpoint,
    latest_checkpoint,
    load_update,
    reused_groups,
    update_numbers,
    updates_with,
    versions,
)
from .lists import NULL, find_group, find_run, group_row_of, list_groups, list_metrics, list_runs, list_trajectories
from .load import final_observation, group_of, load_group_heads, load_groups, load_trajectory
from .rewards import load_scored, not_in_set, returns_in, reward_set, reward_sets, rewards_of, scorable
from .run_details import (
    accounting,
    batch_metrics,
    cut_off,
    driven_run,
    failed_for_good,
    failure_counts,
    filtered_groups,
    list_driven_runs,
    run_details,
    run_totals,
    status_counts,
    update_times,
)
from .run_reader import RunReader
from .run_summaries import evaluations, run_summaries, task_results, tokens_by_run, trained_tokens
from .task_history import task_histories, trajectory_names

__all__ = [
    "NULL",
    "BestCheckpoint",
    "Branch",
    "Failures",
    "GroupFate",
    "MemberFate",
    "RunReader",
    "accounting",
    "active_groups",
    "batch_metrics",
    "best_checkpoint",
    "branches_of",
    "cancelled_groups",
    "checkpoints",
    "cut_off",
    "driven_run",
    "evaluations",
    "failed_for_good",
    "failure_clusters",
    "failure_counts",
    "failures_per_update",
    "filtered_groups",
    "final_observation",
    "find_checkpoint",
    "find_group",
    "find_run",
    "group_counts",
    "group_fates",
    "group_of",
    "group_row_of",
    "latest_checkpoint",
    "left_out",
    "list_driven_runs",
    "list_groups",
    "list_metrics",
    "list_runs",
    "list_trajectories",
    "load_group_heads",
    "load_groups",
    "load_scored",
    "load_trajectory",
    "load_update",
    "lost_draws",
    "members",
    "next_draw",
    "next_group",
    "next_scoring",
    "not_in_set",
    "returns_in",
    "reused_groups",
    "reward_set",
    "reward_sets",
    "rewards_of",
    "run_details",
    "run_summaries",
    "run_totals",
    "running_tallies",
    "scorable",
    "scored_from",
    "since_update_before",
    "status_counts",
    "task_histories",
    "task_results",
    "tokens_by_run",
    "trained_tokens",
    "training_of",
    "trajectory_names",
    "unscored_groups",
    "update_numbers",
    "update_times",
    "updates_with",
    "versions",
    "waiting",
]
