"""Every write of the store, by name: ``OPERATIONS[name](tx, **arguments)``. The writer runs them; so may a
transaction of your own.

All are safe to repeat: ids are made by the caller, and a call that was already carried out changes nothing.
"""

from .leases import BatchItem, acknowledge, expire_groups, lease_groups, release
from .resume import rewind
from .runs import add_metrics, add_version, create_run, finish_run, request_stop, set_checkpoint
from .steps import append
from .trajectories import cancel_trajectories, close_group, finish_trajectory, open_group, start_trajectory
from .transaction import OPERATIONS, Transaction

__all__ = [
    "OPERATIONS",
    "BatchItem",
    "Transaction",
    "acknowledge",
    "add_metrics",
    "add_version",
    "append",
    "cancel_trajectories",
    "close_group",
    "create_run",
    "expire_groups",
    "finish_run",
    "finish_trajectory",
    "lease_groups",
    "open_group",
    "release",
    "request_stop",
    "rewind",
    "set_checkpoint",
    "start_trajectory",
]
