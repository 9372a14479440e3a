"""Run many writes in one transaction with few statements.

A statement costs more than a row. Consecutive writes of episodes are therefore sorted by operation, and each operation
runs once. That keeps the order of the writes of one trajectory and of one group. Every other write runs alone, after
all writes that precede it. The content that the rows name is inserted first.
"""

from collections.abc import Sequence
from typing import Any

from .endings import finish_trajectory
from .groups import open_group
from .starts import start_trajectory
from .steps import append
from .transaction import OPERATIONS, BulkOperation, Transaction, Write, insert_content

_EPISODES: tuple[BulkOperation[..., Any], ...] = (open_group, start_trajectory, append, finish_trajectory)
"""The writes of episodes, in the order in which they run."""


def run_writes(tx: Transaction, writes: Sequence[Write[Any]]) -> list[Any]:
    """Run ``writes`` in an order that has the effect of theirs, all or none, and return their results.

    Raises:
        Exception: that of the first write that failed.
    """
    insert_content(tx, writes)
    results: list[Any] = [None] * len(writes)
    waiting: dict[str, list[Any]] = {episode.name: [] for episode in _EPISODES}

    def run_waiting() -> None:
        for episode in _EPISODES:
            if records := waiting[episode.name]:
                episode.run(tx, records)
                records.clear()

    for position, write in enumerate(writes):
        if (records := waiting.get(write.operation)) is not None:
            records.append(write.record)
            continue
        run_waiting()
        results[position] = OPERATIONS[write.operation](tx, **write.record)
    run_waiting()
    return results
