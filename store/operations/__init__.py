"""Every write of the store: functions that run inside one transaction.

All are safe to repeat: the caller makes the ids, and a call that was already carried out changes nothing. A write of a
driver carries its ``epoch`` and raises Fenced if another driver has taken over the run. Every write raises NotFound if
the store lacks a row that it names.

To add a write, add a function under ``@operation`` or ``@bulk_operation`` here, and a method to ``RunStore`` if a run
uses it.
"""

from .acknowledge import BatchItem, acknowledge
from .batches import run_writes
from .endings import Ending, cancel_trajectories, finish_trajectory
from .groups import close_group, grow_group, open_group
from .leases import expire_groups, lease_groups, release
from .resume import rewind
from .rewards import Rewards, add_rewards, create_reward_set, score_group
from .runs import add_metrics, add_version, create_run, finish_run, request_stop, set_checkpoint
from .starts import start_trajectory
from .steps import append
from .transaction import OPERATIONS, Operation, Transaction, Write
