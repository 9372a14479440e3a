"""``turnwise eval``: how often a policy succeeds on tasks it was not trained on."""

from typing import Annotated

import typer

from ..errors import TurnwiseError
from .envs import EnvOptions, read_options
from .opening import opened
from .options import DEFAULT_STORE, Json, Split, Store
from .output import console, print_facts, print_json, result_facts
from .play import play_episode
from .safe import clean

POLICIES = "random, oracle, human, a checkpoint's folder, or the URL of a server"


class NoPolicy(TurnwiseError):
    """The policy that was asked for is none."""


def evaluate(
    env: Annotated[str, typer.Option("--env", metavar="ID", help="The environment.")],
    policy: Annotated[str, typer.Option("--policy", help=POLICIES)] = "random",
    tasks: Annotated[int, typer.Option("--tasks", min=1, help="How many tasks.")] = 100,
    split: Annotated[Split, typer.Option("--split", help="Of the tasks.")] = "test",
    seed: Annotated[int, typer.Option("--seed", help="Of the tasks drawn, and of the policy.")] = 0,
    turns: Annotated[int, typer.Option("--turns", min=1, help="An episode's longest length.")] = 12,
    temperature: Annotated[float, typer.Option("--temperature", min=0.01, help="Of a model's sampling.")] = 1.0,
    option: EnvOptions = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Play tasks with a policy, store what happens, and print success with its interval."""
    options = read_options(option)
    if policy == "human":
        if as_json:
            raise NoPolicy("--policy human talks to a person; --json cannot go with it")
        for number in range(tasks):
            console().print(f"task {number + 1} of {tasks}")
            play_episode(env, seed=seed + number, split=split, options=options)
        return
    from ..trainer.evaluate import evaluate as run

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
        said = f"turnwise: no episode had an outcome: {clean(_first_failure(store, result.run))}"
        console(stderr=True).print(said, soft_wrap=True)
        raise typer.Exit(1)


def _first_failure(store: str, run: str) -> str:
    from ..store import queries

    with opened(store) as database, database.read() as conn:
        failed = [row for row in queries.list_trajectories(conn, run=run, descending=False) if row["error"]]
    return f"{failed[0]['id']} ended as {failed[0]['status']}: {failed[0]['error']}" if failed else "none was played"
