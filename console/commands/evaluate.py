"""``turnwise eval``: the success rate of a policy on held-out tasks."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from ...base.masking import without_secrets
from ...base.rates import MAX_SAMPLES, is_counted
from ...errors import TurnwiseError
from ...records import Split, Status
from ...store.project import DEFAULT_STORE, InvalidProject, default_store
from ..options import (
    MAX_COUNT,
    RUN_DEFAULT,
    ApiKeyEnv,
    Json,
    LogLevel,
    SandboxOptions,
    Store,
    Temperature,
    complete_run,
    open_store,
)
from ..terminal.output import GUTTER, Progress, console, format_value, print_fields, print_json, result_fields
from ..terminal.rates import print_rates, rate_fields
from ..terminal.sanitize import indented, one_line, sanitize
from .envs import EnvOptions, choose_sandboxes, play_episode, read_env_options, read_options

if TYPE_CHECKING:
    from ...trainer.config.schema import RunConfig
    from ...trainer.config.sections import EnvironmentConfig, EvaluationConfig

POLICIES = "random, oracle, human, RUN or RUN@UPDATE, a model (folder or hub id), or a server URL."
MAX_REASON_CHARS = 300
"""Maximum length of a printed failure reason, in characters."""


DEFAULT_TASKS = 100
RATES = ("by_environment", "success", "low", "high", "pass_at", "pass_all", "pass_tasks")
"""Values of a result that ``terminal.rates`` prints."""


class NoEnvironment(TurnwiseError):
    """No environment, or two lists of them, were given."""


class OptionsOfConfig(TurnwiseError):
    """``--option`` is given with a configuration."""


class InvalidPolicy(TurnwiseError):
    """``--policy`` cannot be used with the other options."""


def evaluate(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG.toml",
            help="A configuration: its environments, limits, sampling, engine and `[evaluation]`, for every policy.",
        ),
    ] = None,
    env: Annotated[list[str] | None, typer.Option("--env", metavar="ID", help="An environment; repeatable.")] = None,
    policy: Annotated[str, typer.Option("--policy", help=POLICIES, autocompletion=complete_run)] = "random",
    name: Annotated[str, typer.Option("--name", help="Name of the run of the evaluation.")] = "",
    tasks: Annotated[
        int | None,
        typer.Option(
            "--tasks", min=1, help="Number of tasks over all environments. Default: `evaluation.tasks`, otherwise 100."
        ),
    ] = None,
    split: Annotated[Split, typer.Option("--split", help="Split of the tasks.")] = "test",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the tasks and of the policy.")] = 0,
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples", min=1, max=MAX_SAMPLES, help="Episodes per task. Default: `evaluation.samples`, otherwise 1."
        ),
    ] = None,
    turns: Annotated[
        int | None, typer.Option("--turns", min=1, max=MAX_COUNT, help=f"Maximum turns per episode. {RUN_DEFAULT} 12.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, max=MAX_COUNT, help="Maximum sampled tokens per turn.")
    ] = None,
    temperature: Temperature = None,
    api_key_env: ApiKeyEnv = "",
    option: EnvOptions = None,
    sandbox: SandboxOptions = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
    log_level: LogLevel = None,
) -> None:
    """Play tasks with a policy, store the episodes, and print the success rate with its confidence interval.

    With several samples per task, pass@k and pass^k are printed too, and the intervals are clustered by task.
    """
    environments, settings, whole = _chosen(config, env, option)
    source = "`--tasks`" if tasks else "`evaluation.tasks`" if config and settings.tasks else ""
    tasks = tasks or settings.tasks or DEFAULT_TASKS
    if policy == "human":
        if as_json:
            raise InvalidPolicy("`--policy human` reads the terminal and prints no JSON; remove `--json`")
        playing = {"--name": name or None, "--samples": samples, "--turns": turns, "--temperature": temperature}
        playing |= {"--api-key-env": api_key_env or None, "--max-tokens": max_tokens}
        if unused := [flag for flag, value in playing.items() if value is not None]:
            raise InvalidPolicy(f"`--policy human` plays here and stores nothing; remove `{'` and `'.join(unused)}`")
        from ...trainer.evaluation.tasks import tasks_of

        choose_sandboxes(sandbox)
        if not env or len(env) > 1:
            raise InvalidPolicy("`--policy human` plays one environment: give one `--env`")
        chosen = tasks_of(environments, tasks, split=split, seed=seed)
        for number, task in enumerate(chosen, 1):
            console().print(f"task {number} of {len(chosen)}")
            play_episode(env[0], seed=task.seed, split=split, options=environments[0].options)
        return
    from ...trainer.evaluation.heldout import GREEDY_SAMPLES
    from ...trainer.evaluation.tasks import evaluate as run

    samples, progress = samples or settings.samples, Progress()
    try:
        result = run(
            policy,
            environments,
            tasks=tasks,
            split=split,
            seed=seed,
            store_url=store,
            turns=turns,
            temperature=settings.temperature if temperature is None else temperature,
            samples=samples,
            sandboxes=read_options(sandbox, "--sandbox"),
            rollout={} if whole is None else whole.rollout.model_dump(exclude_unset=True),
            config=whole,
            max_tokens=max_tokens,
            api_key_env=api_key_env,
            name=name,
            report=progress.show,
        )
    finally:
        progress.clear()
    if samples > 1 and result.temperature == 0:
        _print_error(GREEDY_SAMPLES)
    if as_json:
        print_json(result.json(), indent=None)
    elif result.tasks:
        others = {name: value for name, value in result_fields(result.json()).items() if name not in RATES}
        print_fields({"name": result.name, "run": result.run, **rate_fields(result), **others})
        print_rates({result.run: result.by_environment})
    if (listed := (result.episodes + result.failed) // samples) < tasks:
        names = ", ".join(one.id for one in environments)
        times = "once" if samples == 1 else f"{samples} times"
        verb = "lists" if len(environments) == 1 else "list"
        count = "1 task" if listed == 1 else f"{listed} tasks"
        wanted = f"the {tasks} of {source}" if source else f"the default {tasks}"
        _print_error(f"{names} {verb} {count} of `{split}`: each was played {times}, not {wanted}")
        tasks = listed
    if not result.tasks:
        _print_error(
            f"no episode had an outcome: {_failure_summary(store, result.run, _with_traceback, counted=False)}"
        )
        raise typer.Exit(1)
    if as_json:
        return
    if result.failed:
        left_out = _failure_summary(store, result.run, _without_traceback, counted=False)
        _print_error(f"{result.failed} of {tasks * samples} episodes failed and are left out of the rates: {left_out}")
    if result.failed_by_policy:
        own = _failure_summary(store, result.run, _without_traceback, counted=True)
        _print_error(f"{result.failed_by_policy} of {tasks * samples} episodes count as failures of the policy: {own}")


def _chosen(
    config: Path | None, env: list[str] | None, option: list[str] | None
) -> tuple[Sequence["EnvironmentConfig"], "EvaluationConfig", "RunConfig | None"]:
    """Return the environments to play, `[evaluation]`, and the whole configuration; None for ``--env``.

    Raises:
        NoEnvironment: neither a configuration nor an environment is given, or both.
        OptionsOfConfig: options are given with a configuration, which has its own.
    """
    if (config is None) == (not env):
        raise NoEnvironment("give one or several `--env ID`, or one `CONFIG.toml` with `[[environments]]`")
    if config is None:
        from ...trainer.config.sections import EnvironmentConfig, EvaluationConfig

        chosen = [EnvironmentConfig(id=one, options=read_env_options(one, option)) for one in env or []]
        return chosen, EvaluationConfig(tasks=DEFAULT_TASKS), None
    if option:
        raise OptionsOfConfig(
            f"`--option {option[0]}` goes to the environments of `--env`: write it below `[environments.options]` in "
            f"`{config}`"
        )
    from ...trainer.config.loading import load_config

    read = load_config(config)
    return read.environments, read.evaluation, read


def _print_error(text: str) -> None:
    console(stderr=True).print(f"turnwise: {text}", soft_wrap=True)


def _failure_summary(store: str, run: str, describe: Callable[[str], str], *, counted: bool) -> str:
    """Return the failures per status, the first failure's reason, and the commands that list the failures.

    ``counted`` selects those that a rate counts, or those that it leaves out.
    """
    from ...store import queries

    with open_store(store) as database, database.read() as conn:
        failed = [one for one in queries.failed_for_good(conn, run) if is_counted(Status(one.status)) is counted]
    if not failed:
        return "no episode started"
    first = f"{sanitize(failed[0].id)}: {describe(failed[0].error)}"
    counts = Counter(row.status for row in failed)
    lists = [f"  turnwise trajectories list --run {run} --status {status}{_store_option(store)}" for status in counts]
    return "\n".join([f"{format_value(counts)}; the first, {first}", *lists])


def _with_traceback(error: str) -> str:
    """Return an error with its traceback, each further line with a prefix: the text could imitate turnwise's lines."""
    return indented(error, GUTTER)


def _without_traceback(error: str) -> str:
    """Return an error on one line, without the frames of its traceback."""
    kept = [line for line in error.splitlines() if not line.startswith((" ", "Traceback "))]
    return one_line(" ".join(kept), MAX_REASON_CHARS)


def _store_option(store: str) -> str:
    """Return the ``--store`` option that a printed command needs to read the same store."""
    try:
        is_default = store == default_store()
    except InvalidProject:
        is_default = False
    return "" if is_default else f" --store {quote(without_secrets(store))}"
