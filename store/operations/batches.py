"""Run many writes in one transaction with few statements.

A statement costs more than a row. Consecutive writes of episodes (open a group, start, append, finish) are therefore
sorted by kind, and each kind runs as one. That keeps the order of the writes of one trajectory and of one group. Every
other write runs alone, after all writes that precede it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from .groups import Open, open_group, open_many
from .steps import Append, append, append_many
from .trajectories import End, Start, finish_many, finish_trajectory, start_many, start_trajectory
from .transaction import Transaction, Write


def run_writes(tx: Transaction, writes: Sequence[Write[Any]]) -> list[Any]:
    """Run ``writes`` in an order that has the effect of theirs, all or none, and return their results.

    Raises:
        Exception: that of the first write that failed.
    """
    results: list[Any] = [None] * len(writes)
    waiting: dict[str, list[Mapping[str, Any]]] = {name: [] for name in _KINDS}
    for position, write in enumerate(writes):
        if (kind := waiting.get(write.operation)) is not None:
            kind.append(write.arguments)
            continue
        _run_waiting(tx, waiting)
        results[position] = write.run(tx)
    _run_waiting(tx, waiting)
    return results


def _start(tx: Transaction, arguments: Sequence[Mapping[str, Any]]) -> None:
    """Start trajectories; a branch may have its parent in the same batch, and needs its row."""
    starts = [Start(**one) for one in arguments]
    start_many(tx, [one for one in starts if one.trajectory.branched_from is None])
    for one in starts:
        if one.trajectory.branched_from is not None:
            start_many(tx, [one])


_KINDS: dict[str, Callable[[Transaction, Sequence[Mapping[str, Any]]], None]] = {
    open_group.name: lambda tx, arguments: open_many(tx, [Open(**one) for one in arguments]),
    start_trajectory.name: _start,
    append.name: lambda tx, arguments: append_many(tx, cast(Sequence[Append], arguments)),
    finish_trajectory.name: lambda tx, arguments: finish_many(tx, [End(**one) for one in arguments]),
}
"""The writes of episodes, in the order in which they run."""


def _run_waiting(tx: Transaction, waiting: Mapping[str, list[Mapping[str, Any]]]) -> None:
    """Run the writes of episodes by kind, and forget them."""
    for name, arguments in waiting.items():
        if arguments:
            _KINDS[name](tx, arguments)
            arguments.clear()
