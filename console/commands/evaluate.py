"""``turnwise eval``: how often a policy succeeds on tasks it was not trained on."""

import os
from collections import Counter
from collections.abc import Callable
from shlex import quote
from typing import Annotated

import typer

from ...errors import TurnwiseError
from ..opening import opened
from ..options import DEFAULT_STORE, Json, LogLevel, Split, Store
from ..terminal.output import GUTTER, console, in_words, print_facts, print_json, result_facts
from ..terminal.sanitize import clean, indented, one_line
from .envs import EnvOptions, read_options
from .play import play_episode

POLICIES = "random, oracle, human, a checkpoint's folder, or the URL of a server"
OF_RUN = "Default: that of the checkpoint's run; without one,"
REASON = 300
"""Characters of a failure's reason that are shown."""


class NoPolicy(TurnwiseError):
    """The policy that was asked for is none."""


def evaluate(
    env: Annotated[str, typer.Option("--env", metavar="ID", help="The environment.")],
    policy: Annotated[str, typer.Option("--policy", help=POLICIES)] = "random",
    tasks: Annotated[int, typer.Option("--tasks", min=1, help="How many tasks.")] = 100,
    split: Annotated[Split, typer.Option("--split", help="Of the tasks.")] = "test",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the tasks drawn, and of the policy.")] = 0,
    turns: Annotated[
        int | None, typer.Option("--turns", min=1, help=f"An episode's longest length. {OF_RUN} 12.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", min=0.01, help=f"Of a model's sampling. {OF_RUN} 1.")
    ] = None,
    option: EnvOptions = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
    log_level: LogLevel = None,
) -> None:
    """Play tasks with a policy, store what happens, and print success with its interval."""
    options = read_options(option)
    if policy == "human":
        if as_json:
            raise NoPolicy("--policy human talks to a person; --json cannot go with it")
        from ...trainer.evaluation.heldout import first_task

        for number in range(tasks):
            console().print(f"task {number + 1} of {tasks}")
            play_episode(env, seed=first_task(seed) + number, split=split, options=options)
        return
    from ...trainer.evaluation.standalone import evaluate as run

    result = run(
        policy,
        env,
        tasks=tasks,
        split=split,
        seed=seed,
        store_url=store,
        options=options,
        turns=turns,
        temperature=temperature,
    )
    if as_json:
        print_json(result.json(), indent=None)
    elif result.tasks:
        print_facts(result_facts(result.json()))
    if not result.tasks:
        _say(f"no episode had an outcome: {_why_failed(store, result.run, _in_full)}")
        raise typer.Exit(1)
    if result.failed and not as_json:
        _say(f"{result.failed} of {tasks} episodes failed: {_why_failed(store, result.run, _in_short)}")


def _say(text: str) -> None:
    console(stderr=True).print(f"turnwise: {text}", soft_wrap=True)


def _why_failed(store: str, run: str, told: Callable[[str], str]) -> str:
    """How many failed in which way, why the first did, and the commands that list them."""
    from ...store import queries

    with opened(store) as database, database.read() as conn:
        failed = queries.failed_for_good(conn, run)
    if not failed:
        return "they never began"
    first = f"{clean(failed[0]['id'])}: {told(failed[0]['error'])}"
    counts = Counter(row["status"] for row in failed)
    lists = [f"  turnwise trajectories list --run {run} --status {status}{_store_option(store)}" for status in counts]
    return "\n".join([f"{in_words(counts)}; the first, {first}", *lists])


def _in_full(error: str) -> str:
    """An error with its traceback, behind a gutter: the environment wrote its text."""
    return indented(error, GUTTER)


def _in_short(error: str) -> str:
    """An error in one line, without the frames of its traceback."""
    kept = [line for line in error.splitlines() if not line.startswith((" ", "Traceback "))]
    return one_line(" ".join(kept), REASON)


def _store_option(store: str) -> str:
    """What a command for a person to repeat needs to find the same store."""
    from ...store.database import without_password

    known = store in (DEFAULT_STORE, os.environ.get("TURNWISE_STORE"))
    return "" if known else f" --store {quote(without_password(store))}"
