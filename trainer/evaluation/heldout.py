"""Held-out tasks, played once each, recorded in the store and never trained on, and the result with its intervals."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import hypot, nan, sqrt

from ...agents.errors import FIRST_OBSERVATION
from ...envs.tasks import env_key, env_key_of, make_task
from ...errors import TurnwiseError
from ...rates import is_counted, success_rate
from ...records import SCORED_STATUSES, Group, GroupState, Horizon, Outcome, Purpose, Task, is_success
from ...store.run_store import RunStore
from ..config.sections import HELD_OUT_SEED, EnvironmentConfig
from ..telemetry.events import EvalResult
from ..telemetry.limits import LimitCounts

Z95 = 1.959963984540054
"""Standard normal quantile of a two-sided 95 % interval."""


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; NaN, NaN without trials."""
    if not trials:
        return nan, nan
    share, z2 = successes / trials, Z95**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z95 * sqrt(share * (1 - share) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def newcombe(before: tuple[float, float, float], after: tuple[float, float, float]) -> tuple[float, float]:
    """Return the 95 % interval of the difference ``after - before`` of two shares, each ``(share, low, high)``.

    ``low`` and ``high`` are the Wilson interval. Newcombe 1998, Statistics in Medicine 17, 873-890, method 10. The
    method assumes independent shares; for shares of the same tasks it is usually wider than necessary.
    """
    (p1, l1, u1), (p2, l2, u2) = before, after
    return p2 - p1 - hypot(p2 - l2, u1 - p1), p2 - p1 + hypot(u2 - p2, p1 - l1)


CLOSE_REASON = "evaluation"
SEED_STRIDE = 100_000
"""Held-out tasks per evaluation seed: evaluations with different seeds share no task."""
MAX_SEED = (2**32 - HELD_OUT_SEED) // SEED_STRIDE - 1
"""The largest evaluation seed: all of its tasks have seeds of 32 bits."""
MAX_OPEN = 256
"""Groups of an evaluation that are open at once: a stopped one leaves no more behind."""


def labels(environments: Sequence[EnvironmentConfig]) -> list[str]:
    """Return a short, distinct name for each environment of a mixture.

    The names are the first of these candidates that are distinct: the option ``family`` (the id if there is none), the
    values of the options, the id with all options.
    """
    chosen = [str(environment.options.get("family", environment.id)) for environment in environments]
    values = [
        "-".join(str(value) for value in environment.options.values()) or environment.id for environment in environments
    ]
    whole = [env_key_of(environment.id, environment.options) for environment in environments]
    return next((names for names in (chosen, values) if len(set(names)) == len(names)), whole)


def first_task(seed: int) -> int:
    """Return the number of the first held-out task of an evaluation seed.

    Raises:
        TurnwiseError: the seeds of its tasks would not fit into 32 bits, which numpy's old generators need.
    """
    if not 0 <= seed <= MAX_SEED:
        raise TurnwiseError(f"the seed of an evaluation, {seed}, must be from 0 to {MAX_SEED}")
    return HELD_OUT_SEED + SEED_STRIDE * seed


def held_out(
    environments: Sequence[EnvironmentConfig],
    count: int,
    split: str = "test",
    seed: int = HELD_OUT_SEED,
    seeds: Sequence[Sequence[int] | None] = (),
) -> list[Task]:
    """Return ``count`` tasks, distributed evenly over the environments; fewer if those enumerate fewer.

    Args:
        seed: the first one of the environments that do not enumerate their tasks.
        seeds: by environment, the seeds of all its tasks of ``split``; None, as without this, if every seed is one.
    """
    tasks = []
    for number in range(count):
        turn, which = divmod(number, len(environments))
        environment, listed = environments[which], seeds[which] if seeds else None
        if listed is None or turn < len(listed):
            drawn = seed + number if listed is None else listed[turn]
            tasks.append(make_task(environment.id, drawn, split, environment.options))
    return tasks


async def play_tasks(
    store: RunStore,
    name: str,
    tasks: Sequence[Task],
    horizon: Horizon,
    play: Callable[[Group], Awaitable[Sequence[Outcome]]],
) -> list[tuple[Task, Outcome]]:
    """Open a group of one per task, play it, close it, and return how each task ended.

    Args:
        name: distinguishes the groups of this evaluation from others of the run.
        play: plays an open group and returns its outcomes; it bounds the episodes that play at once.
    """

    places = asyncio.Semaphore(MAX_OPEN)

    async def one(number: int, task: Task) -> list[tuple[Task, Outcome]]:
        async with places:
            group = Group(f"{store.run}:eval-{name}-{number}", store.run, task, horizon, 1, Purpose.EVAL)
            await store.open_group(group)
            outcomes = await play(group)
            await store.close_group(group.id, GroupState.FILTERED, CLOSE_REASON)
        return [(task, outcome) for outcome in outcomes]

    played = await asyncio.gather(*(one(number, task) for number, task in enumerate(tasks)))
    return [pair for pairs in played for pair in pairs]


def summarize(
    name: str,
    run: str,
    environments: Sequence[EnvironmentConfig],
    played: Sequence[tuple[Task, Outcome]],
    requested: int,
    seconds: float,
) -> EvalResult:
    """Return the result of an evaluation of ``requested`` tasks from the ends of their episodes."""
    counted = [(task, outcome) for task, outcome in played if is_counted(outcome.status)]
    low, high = wilson(sum(is_success(one.success, one.status, one.reward) for _, one in counted), len(counted))
    by_environment, limits = {}, {}
    for environment, name_of in zip(environments, labels(environments), strict=True):
        key = env_key_of(environment.id, environment.options)
        own = [one for task, one in counted if env_key(task) == key]
        by_environment[name_of], limits[name_of] = _rate(own), LimitCounts.of(own).metrics()
    return EvalResult(
        name=name,
        run=run,
        tasks=len(counted),
        failed=requested - len(counted),
        failed_by_policy=sum(one.status not in SCORED_STATUSES for _, one in counted),
        success=_rate(one for _, one in counted),
        low=low,
        high=high,
        reward=sum(one.reward for _, one in counted) / max(len(counted), 1),
        turns=sum(one.turns for _, one in counted) / max(len(counted), 1),
        by_environment=by_environment,
        limits=LimitCounts.of(one for _, one in counted).metrics(),
        limits_by_environment=limits if len(limits) > 1 else {},
        seconds=seconds,
        note=next((one.error for _, one in played if one.error.startswith(FIRST_OBSERVATION)), ""),
    )


def _rate(outcomes: Iterable[Outcome]) -> float:
    return success_rate((outcome.success, outcome.status, outcome.reward) for outcome in outcomes)
