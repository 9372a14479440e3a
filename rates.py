"""Success rates: the one definition of which episodes a rate counts, and as what.

A rate counts every episode whose end depends on the policy. Otherwise a policy that fails on the hard tasks in another
way than on the easy ones, by answers without an action or by actions that hang, would have the higher rate. Only
failures of the world are left out; every report of a rate contains their number.
"""

from collections.abc import Iterable
from math import nan

from .records import COUNTED_STATUSES, Status, is_success


def is_counted(status: Status) -> bool:
    """Return whether a rate counts an episode with this status."""
    return status in COUNTED_STATUSES


def success_rate(ends: Iterable[tuple[bool | None, Status, float]]) -> float:
    """Return the share of successes among the counted ones of these ends; NaN if there is none.

    Each end has the arguments of ``is_success``: the environment's verdict, the status and the return.
    """
    counted = [is_success(verdict, status, total) for verdict, status, total in ends if is_counted(status)]
    return sum(counted) / len(counted) if counted else nan
