"""Simulate a run at growing sizes, and find the station that ends its linear growth."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import ceil
from typing import Any

from turnwise.benchmarks.parts.scale.inputs import FULL, RANKS_PER_NODE, Assumptions, Costs, Size
from turnwise.benchmarks.parts.scale.system import BYTES_PER_PARAMETER, Result, Simulation
from turnwise.trainer.cluster.engines import WATCH_INTERVAL_S
from turnwise.trainer.rollout.worker_pool import CHECK_INTERVAL_S

LINEAR = 0.9
"""A size is linear if it has at least this share of the turns per sandbox of the smallest size."""
SHARED = ("driver", "database", "weights")
"""Stations of which a run has one, so that their demand grows with its size."""
MEASURED_TURNS = 100_000
MEASURED_UPDATES = 6
"""Updates that are measured at least."""
CALLS_PER_ENGINE_UPDATE = 3
"""Calls of the driver per engine and update: its incarnation, its weights, its usage."""


def sweep(
    sandboxes: Sequence[int],
    costs: Costs,
    assumed: Assumptions,
    engines_at_once: Callable[[Size], int],
    full: Size = FULL,
    measured_turns: int = MEASURED_TURNS,
) -> dict[str, Any]:
    """Return the figures of each size, and where the growth ends.

    Args:
        sandboxes: the sizes, from the smallest on; the other processes are in proportion to ``full``.
        engines_at_once: returns how many engines load new weights at the same time, for a size.
        measured_turns: turns that are measured at least, per size.
    """
    rows: list[dict[str, Any]] = []
    for number in sandboxes:
        size = Size.of(number, full)
        batch_turns = size.groups_per_batch * size.group_size * round(costs.turns_per_episode)
        updates = max(MEASURED_UPDATES, ceil(measured_turns / batch_turns))
        result = Simulation(size, costs, assumed, engines_at_once=engines_at_once(size)).run(updates)
        rows.append(_row(size, costs, assumed, result))
        rows[-1]["linear_share"] = round(result.turns_per_s / number / (rows[0]["turns_per_s"] / sandboxes[0]), 3)
    return {"sizes": rows, **_end_of_growth(rows)}


def _row(size: Size, costs: Costs, assumed: Assumptions, result: Result) -> dict[str, Any]:
    return {
        **asdict(size),
        "groups_per_batch": size.groups_per_batch,
        "turns_per_s": round(result.turns_per_s, 2),
        "updates_per_hour": round(result.updates_per_hour, 2),
        "utilization": {name: round(share, 4) for name, share in result.utilization.items()},
        "carried": _carried(size, costs, assumed, result),
    }


def _carried(size: Size, costs: Costs, assumed: Assumptions, result: Result) -> dict[str, float]:
    """Return what the store, the driver and Ray carry per second at the simulated rate."""
    turns, updates = result.turns_per_s, result.updates_per_hour / 3600
    groups = turns / (size.group_size * costs.turns_per_episode)
    playing = min(size.max_concurrent_groups, ceil(size.sandboxes / size.group_size))
    calls = (
        groups + playing / CHECK_INTERVAL_S + size.engines * (CALLS_PER_ENGINE_UPDATE * updates + 1 / WATCH_INTERVAL_S)
    )
    nodes = ceil(size.ranks / RANKS_PER_NODE)
    return {
        "store_rows_per_s": round(turns, 1),
        "store_bytes_per_s": round(turns * costs.database_bytes_per_turn),
        "database_cores": round(turns * costs.database_s_per_turn, 2),
        "driver_cores": round(turns * costs.driver_s_per_turn, 2),
        "driver_calls_per_s": round(calls, 1),
        "driver_call_cores": round(calls * costs.ray_s_per_call, 3),
        "driver_call_bytes_per_s": round(groups * costs.group_bytes),
        "batch_bytes_per_s": round(turns * costs.batch_bytes_per_turn * nodes),
        "weight_bytes_per_s": round(updates * size.engines * BYTES_PER_PARAMETER * assumed.parameters),
        "polls_in_flight": size.workers * min(size.engines, ceil(size.sandboxes / size.workers)),
    }


def _end_of_growth(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the last size of the linear ones, the busiest shared station at the next size, and the size at which each
    of them would be busy all the time, with the turns per sandbox of the smallest size and its work per turn at the
    largest.
    """
    linear = next((index for index, row in enumerate(rows) if row["linear_share"] < LINEAR), len(rows))
    found: dict[str, Any] = {"linear_up_to": rows[linear - 1]["sandboxes"], "first_saturated": None}
    if linear < len(rows):
        first = rows[linear]
        busiest = max(SHARED, key=lambda name: first["utilization"][name])
        found["first_saturated"] = {"station": busiest, "sandboxes": first["sandboxes"]}
    per_sandbox, last = rows[0]["turns_per_s"] / rows[0]["sandboxes"], rows[-1]
    shares = {name: last["utilization"][name] for name in SHARED if last["utilization"][name] > 0}
    found["alone_up_to"] = {name: round(last["turns_per_s"] / share / per_sandbox) for name, share in shares.items()}
    return found
