"""Held-out tasks, played once or several times each, recorded in the store and never trained on, and the result."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from ...agents.errors import FIRST_OBSERVATION
from ...base.logs import log_errors
from ...base.rates import Counts, Rate, is_counted
from ...envs.tasks import env_key, env_key_of, make_task
from ...errors import TurnwiseError
from ...records import SCORED_STATUSES, Group, GroupState, Horizon, Outcome, Purpose, Task, is_success
from ...store.queries.lists import RunRow
from ...store.queries.run_summaries import TRAIN, HeldOut, TaskResult
from ...store.run_store import RunStore
from ..config.sections import HELD_OUT_SEED, EnvironmentConfig
from ..telemetry.events import EvalResult
from ..telemetry.limits import LimitCounts
from ..telemetry.progress import remaining, reported

LOG = logging.getLogger(__name__)

CLOSE_REASON = "evaluation"
SEED_STRIDE = 100_000
"""Held-out tasks per evaluation seed: evaluations with different seeds share no task."""
MAX_SEED = (2**32 - HELD_OUT_SEED) // SEED_STRIDE - 1
"""The largest evaluation seed: all of its tasks have seeds of 32 bits."""
GREEDY_SAMPLES = (
    "the temperature of the evaluation is 0: the samples of a task differ only as far as its environment does"
)
MAX_OPEN = 256
"""Groups of an evaluation that are open at once: a stopped one leaves no more behind."""
CLOSE_TIMEOUT_S = 10.0
"""Seconds that the groups of a failed evaluation get to close: the actor that writes may be dead."""


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

    An environment that is listed twice counts once.

    Args:
        seed: the first one of the environments that do not enumerate their tasks.
        seeds: by environment, the seeds of all its tasks of ``split``; None, as without this, if every seed is one.
    """
    listings = seeds or [None] * len(environments)
    keys = [env_key_of(one.id, one.options) for one in environments]
    distinct = list(dict(zip(keys, zip(environments, listings, strict=True), strict=True)).values())
    tasks = []
    for number in range(count):
        turn, which = divmod(number, len(distinct))
        environment, listed = distinct[which]
        if listed is None or turn < len(listed):
            drawn = seed + number if listed is None else listed[turn]
            tasks.append(make_task(environment.id, drawn, split, environment.options))
    return tasks


def group_prefix(run: str, name: str) -> str:
    """Return how the ids of the groups of an evaluation begin."""
    return f"{run}:eval-{name}-"


async def play_tasks(
    store: RunStore,
    name: str,
    tasks: Sequence[tuple[Task, int]],
    horizon: Horizon,
    play: Callable[[Group], Awaitable[Sequence[Outcome]]],
    report: Callable[[str], None] = lambda text: None,
) -> list[tuple[Task, Outcome]]:
    """Open one group per task, play it, close it, and return how each episode ended.

    The first error, or a cancellation, ends the other groups; all of them are closed then.

    Args:
        name: distinguishes the groups of this evaluation from others of the run.
        tasks: each with its number of episodes.
        play: plays an open group and returns its outcomes; it bounds the episodes that play at once.
        report: receives a line of progress every ``progress.INTERVAL_S``.
    """

    places, opened, ended = asyncio.Semaphore(MAX_OPEN), set[str](), list[Outcome]()
    requested = sum(samples for _, samples in tasks)

    def line(seconds: float) -> str:
        wins = [is_success(one.success, one.status, one.reward) for one in ended if is_counted(one.status)]
        success = f"success {sum(wins) / len(wins):.3f} so far, " if wins else ""
        return f"{len(ended)} of {requested} episodes, {success}{remaining(len(ended), requested, seconds)}"

    async def one(number: int, task: Task, samples: int) -> list[tuple[Task, Outcome]]:
        async with places:
            of_task = f"{group_prefix(store.run, name)}{number}"
            group = Group(of_task, store.run, task, horizon, samples, Purpose.EVAL)
            opened.add(group.id)
            await store.open_group(group)
            outcomes = await play(group)
            await store.close_group(group.id, GroupState.FILTERED, CLOSE_REASON)
            opened.remove(group.id)
            ended.extend(outcomes)
        return [(task, outcome) for outcome in outcomes]

    try:
        async with reported(report, line), asyncio.TaskGroup() as playing:
            played = [playing.create_task(one(number, *task)) for number, task in enumerate(tasks)]
    except (BaseExceptionGroup, asyncio.CancelledError) as error:
        with log_errors(LOG, "the groups of an evaluation could not be closed"):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await asyncio.gather(*(store.close_group(one, GroupState.FAILED, CLOSE_REASON) for one in opened))
        failure = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error
    else:
        return [pair for task in played for pair in task.result()]
    raise failure


def summarize(
    name: str,
    run: str,
    environments: Sequence[EnvironmentConfig],
    played: Sequence[tuple[Task, Outcome]],
    requested: int,
    seconds: float,
) -> EvalResult:
    """Return the result of an evaluation of ``requested`` episodes from their ends."""
    counted = [(task, outcome) for task, outcome in played if is_counted(outcome.status)]
    successes: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for task, one in counted:
        successes[env_key(task), task.id].append(is_success(one.success, one.status, one.reward))
    rate, by_environment = rates(
        environments, [(key, (sum(of_task), len(of_task))) for (key, _), of_task in successes.items()]
    )
    limits = {
        name_of: LimitCounts.of(one for task, one in counted if env_key(task) == key).metrics()
        for key, name_of in _labels_by_key(environments).items()
    }
    return EvalResult(
        name=name,
        run=run,
        tasks=rate.tasks,
        episodes=rate.episodes,
        failed=requested - rate.episodes,
        failed_by_policy=sum(one.status not in SCORED_STATUSES for _, one in counted),
        success=rate.success,
        low=rate.low,
        high=rate.high,
        pass_at=rate.pass_at,
        pass_all=rate.pass_all,
        pass_tasks=rate.pass_tasks,
        reward=sum(one.reward for _, one in counted) / max(len(counted), 1),
        turns=sum(one.turns for _, one in counted) / max(len(counted), 1),
        by_environment=by_environment,
        limits=LimitCounts.of(one for _, one in counted).metrics(),
        limits_by_environment=limits if len(limits) > 1 else {},
        seconds=seconds,
        note=next((one.error for _, one in played if one.error.startswith(FIRST_OBSERVATION)), ""),
    )


def rates(
    environments: Sequence[EnvironmentConfig], tasks: Iterable[tuple[str, Counts]]
) -> tuple[Rate, dict[str, Rate]]:
    """Return the rate over tasks, each with the key of its environment, and that of each environment by label."""
    names = _labels_by_key(environments)
    by_environment: dict[str, list[Counts]] = {name: [] for name in names.values()}
    for key, counts in tasks:
        by_environment.setdefault(names.get(key, key), []).append(counts)
    total = Rate.of(one for own in by_environment.values() for one in own)
    return total, {name: Rate.of(own) for name, own in by_environment.items()}


def stored_rate(
    run: RunRow, results: Mapping[str, TaskResult], held_out: HeldOut | None
) -> tuple[Rate | None, Mapping[str, Rate]]:
    """Return the rate of a run in the store, and that of each environment: of its newest evaluation if it trains
    (``held_out``), else over all its tasks (``results``); None without a counted episode.
    """
    if run.kind == TRAIN:
        return (held_out.rate, held_out.by_environment) if held_out and held_out.rate.tasks else (None, {})
    environments = [EnvironmentConfig.model_validate(one) for one in run.config.get("environments", ())]
    tasks = [(env_key_of(one.env_id, one.options), (one.successes, one.counted)) for one in results.values()]
    rate, by_environment = rates(environments, tasks)
    return rate if rate.tasks else None, by_environment


def _labels_by_key(environments: Sequence[EnvironmentConfig]) -> dict[str, str]:
    distinct = {env_key_of(environment.id, environment.options): environment for environment in environments}
    return dict(zip(distinct, labels(list(distinct.values())), strict=True))
