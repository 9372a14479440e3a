"""Evaluate any policy on held-out tasks, stand-alone: a random, an oracle, a model under vLLM, or a server by URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from ...agents.engine.request import check_temperature
from ...base.rates import MAX_SAMPLES
from ...envs.runner.once import enumerated_seeds
from ...errors import TurnwiseError
from ...records import SPLITS, Task
from ...store.database import open_database
from ..config.schema import RunConfig
from ..config.sections import EnvironmentConfig
from ..preflight.refusal import Command
from ..shutdown import SHUTDOWN
from ..telemetry.events import EvalResult
from .heldout import SEED_STRIDE, first_task, held_out, play_tasks, summarize
from .session import session
from .stored_policy import named_policy


@SHUTDOWN.receiving()
def evaluate(
    policy: str,
    env: str | Sequence[str | EnvironmentConfig],
    *,
    tasks: int,
    split: str = "test",
    seed: int = 0,
    store_url: str,
    options: Mapping[str, Any] | None = None,
    turns: int | None = None,
    temperature: float | None = None,
    samples: int = 1,
    sandboxes: Mapping[str, Any] | None = None,
    rollout: Mapping[str, Any] | None = None,
    api_key_env: str = "",
    name: str = "",
    max_tokens: int | None = None,
    config: RunConfig | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> EvalResult:
    """Play ``tasks`` tasks and store the episodes: of an environment that enumerates its tasks, the first ones.

    The tasks are distributed evenly over several environments; the result has the success of each.

    A checkpoint plays the longest horizon of its run, at the temperature of the run's evaluations, with its timeouts
    and the settings of its sandboxes.

    Args:
        policy: ``random``, ``oracle``, a run of the store (``RUN``, ``RUN@UPDATE``), the folder of a Hugging Face model
            or checkpoint, a hub id, or the URL of an OpenAI-compatible server (``http://host:port/v1``; with
            ``#model`` the model's name).
        env: the id of the environment, or several ids or environments with options.
        options: options of the environments that are given by id.
        turns: replaces the turns of the horizon.
        temperature: replaces the temperature; 0 is greedy.
        samples: episodes per task.
        sandboxes: replaces settings of the sandboxes by key.
        rollout: replaces settings of `[rollout]` by key, such as ``screenshots``.
        api_key_env: name of the environment variable with the key of a server.
        max_tokens: replaces the sampled tokens per turn of the horizon.
        config: its horizon, engine and sandboxes are those of the episodes, also of a checkpoint's of another run.
        report: receives a line of progress every ten seconds, and one when a model is loaded.
        name: of the evaluation's run, which no other run has; empty to derive one from the policy and the time.
        seed: two seeds give evaluations that share no task, unless the environment enumerates its tasks; 0 gives the
            tasks that a training run is evaluated on.

    Raises:
        TurnwiseError: the policy is none of these, or the environment is unknown or cannot be played by it, or there
            are more than ``SEED_STRIDE`` tasks or ``MAX_SAMPLES`` samples, or a number cannot be used.
    """
    began = monotonic()
    if tasks > SEED_STRIDE:
        raise TurnwiseError(
            f"`--tasks {tasks}`: one evaluation plays {SEED_STRIDE} tasks at most; use several `--seed`"
        )
    if tasks < 1 or not 1 <= samples <= MAX_SAMPLES:
        raise TurnwiseError(f"tasks {tasks}, samples {samples}: at least 1 of each, and at most {MAX_SAMPLES} samples")
    if split not in SPLITS:
        raise TurnwiseError(f"the split {split!r}: name `train` or `test`")
    if temperature is not None:
        try:
            check_temperature(temperature)
        except ValueError as error:
            raise TurnwiseError(f"temperature {temperature:g}: {error}") from None
    first_task(seed)
    database = open_database(store_url, create=True)
    chosen = named_policy(database, policy, seed, api_key_env, "random, oracle, human")
    environments = environments_of(env, options)
    limits = turns, temperature, sandboxes, name, rollout, config, max_tokens
    with session(database, Command.EVAL, chosen, environments, *limits) as opened:
        problems = tasks_of(environments, tasks, split=split, seed=seed)
        wanted = [(task, samples) for task in problems]
        if chosen.folder is not None:
            report("starting Ray, then the model and the engine")
        played = opened.play(
            lambda players: play_tasks(players.store, "eval", wanted, opened.horizon, players.play, report),
            split=split,
            tasks=len(problems),
            samples=samples,
            environments=[one.model_dump(mode="json", include={"id", "options"}) for one in environments],
        )
    result = summarize(chosen.shown, opened.run, environments, played, samples * len(problems), monotonic() - began)
    played_at = opened.config.evaluation_temperature if chosen.samples_tokens else None
    return replace(result, samples=samples, temperature=played_at)


def environments_of(
    env: str | Sequence[str | EnvironmentConfig], options: Mapping[str, Any] | None = None
) -> list[EnvironmentConfig]:
    """Return environments given by id, with ``options``, or as they are.

    Raises:
        TurnwiseError: there are ``options``, and an environment that has its own.
    """
    given = [env] if isinstance(env, str) else env
    own = [one.id for one in given if not isinstance(one, str)]
    if options and own:
        raise TurnwiseError(f"`options` are for environments given by id, and `{own[0]}` has its own: write them there")
    return [EnvironmentConfig(id=one, options=dict(options or {})) if isinstance(one, str) else one for one in given]


def tasks_of(environments: Sequence[EnvironmentConfig], count: int, *, split: str, seed: int) -> list[Task]:
    """Return the tasks that an evaluation plays; fewer than ``count`` if the environments list fewer.

    Raises:
        TurnwiseError: the seed is too large, or an environment cannot list its tasks.
    """
    seeds = [enumerated_seeds(one.id, one.options, split) for one in environments]
    return held_out(environments, count, split, first_task(seed), seeds)
