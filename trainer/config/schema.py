"""The whole configuration of a run, and the digest that identifies its mathematics."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from ...agents.engine.config import LANGUAGE_MODEL_CACHE_BYTES, EngineConfig
from ...envs.sandboxes import SandboxSettings
from ...store.maintenance.policy import RetentionPolicy
from ..algorithms.algorithm_set import SLOTS, AlgorithmConfig
from ..algorithms.component import Component
from ..algorithms.horizons.base import LANGUAGE_MODEL_LIMITS
from ..algorithms.registry import component_name
from ..algorithms.task_samplers.base import WeightedEnvironment
from ..telemetry.trackers.base import check_name
from .sections import (
    CheckpointConfig,
    EnvironmentConfig,
    EvaluationConfig,
    LearnerConfig,
    ModelConfig,
    OfflineConfig,
    RolloutConfig,
    Section,
    SftWarmupConfig,
)

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""The characters of a run's name."""
NAME_MAX_CHARS = 80
PRETRAINED_WARMUP = {"steps": 50, "batch_size": 16, "learning_rate": 5e-5, "observation_weight": 0.0}
"""The defaults of ``sft_warmup`` with ``model.path``."""
NEW_MODEL_LEARNING_RATE = 1e-3
"""The default of ``learner.learning_rate`` without ``model.path``."""
DEFAULT_MAX_STEPS = 100
"""The length of a run without a limit."""

MATHEMATICS: dict[str, Any] = {
    "seed": True,
    "model": True,
    "environments": {"__all__": {"id", "weight", "options"}},
    "rollout": {
        "groups_per_batch",
        "group_size",
        "max_staleness",
        "temperature",
        "max_thought_tokens",
        "action_request",
    },
    "learner": {
        "betas",
        "weight_decay",
        "max_grad_norm",
        "max_kl",
        "vision",
        "num_minibatches",
        "num_epochs",
        "dtype",
        "lora",
    },
    "engine": {"dtype"},
    "sft_warmup": True,
    "offline": True,
}
"""The keys outside the slots that change the mathematics of a run, as pydantic's ``include``. ``digest`` hashes these
and the slots. The learning rate, which each update records, length, timeouts, parallelism, evaluation, checkpoints
and trackers are not among them: a resume may change them."""
MATHEMATICS_REVISION = 4
"""Part of ``digest``. Raise it when the default or the meaning of a key that ``digest`` hashes changes."""


class RunConfig(AlgorithmConfig):
    """A whole run: its sections, and one component per algorithm slot, chosen by ``name``.

    The learning rate decays along ``max_steps`` where it is given, so that a run is the same on a slow machine as on a
    fast one. It decays along ``max_seconds`` only where that is the one limit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    name: str = Field(pattern=NAME, max_length=NAME_MAX_CHARS)
    """The run's identity: the same name resumes an unfinished run."""
    preset: str | None = None
    """A bundle of keys from ``trainer/algorithms/presets``; the file's own keys take precedence."""
    seed: int = Field(0, ge=0)
    """Seed of the initial weights, the tasks and every component's random stream. The engine samples without a seed."""
    max_steps: int | None = Field(None, ge=1)
    """Limit on updates; 100 if ``max_seconds`` is not set either. The run ends at the first limit that it reaches."""
    max_seconds: float | None = Field(None, gt=0)
    """Limit on seconds of training, from the first group; evaluations, the warm-up and the start do not count."""
    model: ModelConfig = ModelConfig()
    environments: list[EnvironmentConfig] = Field(min_length=1)
    """The mixture that tasks are drawn from."""
    rollout: RolloutConfig = RolloutConfig()
    learner: LearnerConfig = LearnerConfig()
    engine: EngineConfig = EngineConfig()
    sft_warmup: SftWarmupConfig = SftWarmupConfig()
    offline: OfflineConfig = OfflineConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    retention: RetentionPolicy = RetentionPolicy()
    sandboxes: SandboxSettings = SandboxSettings()
    """For environments that lease sandboxes."""
    store_timeout_s: float = Field(600.0, gt=0)
    """Seconds for which the run waits for a PostgreSQL server that is away; then it ends, and can be resumed."""
    ray_address: str | None = None
    """Address of a Ray cluster to run on. Without it, the run starts Ray on this machine."""
    trackers: list[Annotated[str, AfterValidator(check_name)]] = Field([])
    """Programs that receive the metrics: `tensorboard`, `trackio`, `mlflow`, `wandb`, or `my_pkg.module:MyTracker`."""

    @model_validator(mode="before")
    @classmethod
    def _limited(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and raw.get("max_steps") is None and raw.get("max_seconds") is None:
            return {**raw, "max_steps": DEFAULT_MAX_STEPS}
        return raw

    @model_validator(mode="before")
    @classmethod
    def _offline_plays_nothing(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or not isinstance(given := raw.get("evaluation", {}), dict):
            return raw
        if isinstance(raw.get("offline"), dict) and raw["offline"].get("run"):
            return {**raw, "evaluation": {"tasks": 0, **given}}
        return raw

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_model(cls, raw: Any) -> Any:
        """Give a run with ``model.path`` the limits on tokens of a language model, a cache that holds them, and the
        steps of a warm-up for trained weights; give a run without it the learning rate of random weights."""
        if not isinstance(raw, dict) or not isinstance(raw.get("model", {}), dict):
            return raw
        defaults: dict[str, Any] = {"learner": {"learning_rate": NEW_MODEL_LEARNING_RATE}}
        if raw.get("model", {}).get("path"):
            defaults = {
                "horizon": LANGUAGE_MODEL_LIMITS,
                "engine": {"kv_cache_memory_bytes": LANGUAGE_MODEL_CACHE_BYTES},
            }
            if isinstance(raw.get("sft_warmup"), dict):
                defaults["sft_warmup"] = PRETRAINED_WARMUP
        given = {name: {} if raw.get(name) is None else raw[name] for name in defaults}
        chosen = {name: {**defaults[name], **one} for name, one in given.items() if isinstance(one, dict)}
        return {**raw, **chosen}

    @model_validator(mode="before")
    @classmethod
    def _sections_as_tables(cls, raw: Any) -> Any:
        """Read a section that a program made as the keys that it names: the validators above give it other defaults.

        Pydantic calls the last of such validators first.
        """
        if not isinstance(raw, dict):
            return raw
        sections = {name: one for name, one in raw.items() if isinstance(one, Section | EngineConfig)}
        return raw | {name: one.model_dump(exclude_unset=True) for name, one in sections.items()}

    @model_validator(mode="after")
    def _check_offline(self) -> Self:
        if reason := self._offline_conflict():
            raise ValueError(reason)
        return self

    def _offline_conflict(self) -> str:
        """Return the reason why the other keys do not fit `offline`; empty if they do."""
        if self.offline.run is None:
            return "`offline.rewards` needs `offline.run`, the run of the reward set" if self.offline.rewards else ""
        if self.rewards:
            return (
                "`rewards` shape the episodes of the run itself: with `offline.run`, score the stored episodes with "
                "`turnwise runs score`, and set `offline.rewards` to the name of the reward set"
            )
        if not self.replay_buffer.passive:
            return "`replay_buffer` reuses groups of the run itself: remove it, or remove `offline.run`"
        if self.evaluation.tasks:
            return (
                "an offline run starts no engine to evaluate with: set `evaluation.tasks = 0`, and evaluate its "
                "checkpoints with `turnwise eval`"
            )
        return ""

    @model_validator(mode="after")
    def _normalizes_by_the_horizon(self) -> Self:
        if getattr(self.loss, "aggregation", "") == "constant" and getattr(self.loss, "max_tokens", 0) is None:
            budget = {"max_tokens": self.horizon.max_tokens_per_episode}
            object.__setattr__(self, "loss", self.loss.model_copy(update=budget))
        return self

    @model_validator(mode="after")
    def _has_room_for_actions(self) -> Self:
        if self.rollout.max_thought_tokens >= self.horizon.max_tokens_per_turn:
            raise ValueError(
                f"`rollout.max_thought_tokens` {self.rollout.max_thought_tokens} leaves no token for the action: it "
                f"must be less than `horizon.max_tokens_per_turn` {self.horizon.max_tokens_per_turn}"
            )
        return self

    @model_validator(mode="after")
    def _suits_the_learner(self) -> Self:
        if self.learner.backend == "local":
            return self
        if self.proximal.reads_weights:
            raise ValueError(
                f"`proximal` `{component_name(type(self.proximal))}` scores with separate weights, and the learner "
                'backend `fsdp` scores with the present ones only: set `learner.backend = "local"`, or another '
                "`proximal`, such as `recompute`"
            )
        if self.advantage.needs_token_model:
            raise ValueError(
                f"`advantage` `{component_name(type(self.advantage))}` trains a separate model, and the learner "
                'backend `fsdp` has none: set `learner.backend = "local"`'
            )
        return self

    @model_validator(mode="after")
    def _suits_ipc(self) -> Self:
        shared = self.learner.backend == "local" and self.learner.device != "cpu" and self.rollout.num_engines == 1
        if self.learner.weight_transport == "ipc" and not (shared and self.engine.tensor_parallel_size == 1):
            raise ValueError(
                '`learner.weight_transport = "ipc"` needs one engine on the GPU of the learner: set `learner.backend` '
                "to `local`, `learner.device` to `cuda`, `rollout.num_engines` to 1 and `engine.tensor_parallel_size` "
                "to 1, or choose another transport"
            )
        return self

    @model_validator(mode="after")
    def _suits_lora(self) -> Self:
        if self.learner.lora is not None and self.advantage.needs_token_model:
            raise ValueError(
                f"`advantage` `{component_name(type(self.advantage))}` trains all weights of a separate model, which "
                "`learner.lora` keeps frozen: remove `learner.lora`, or choose another `advantage`"
            )
        if self.learner.lora is not None and self.engine.tensor_parallel_size and self.engine.dtype == "float32":
            raise ValueError(
                "vLLM computes an adapter (`learner.lora`) on a GPU in half precision only: set `engine.dtype` to "
                "`bfloat16`"
            )
        return self

    @property
    def evaluation_temperature(self) -> float:
        """Sampling temperature of the episodes of evaluations and branches."""
        own = self.evaluation.temperature
        return self.rollout.temperature if own is None else own

    @property
    def num_engines(self) -> int:
        """Engine replicas: none, and no rollout worker, if the groups come from another run in the store."""
        return self.rollout.num_engines if self.offline.run is None else 0

    @property
    def warmup_source(self) -> str | None:
        """The source of the actions that a warm-up trains on; None without a warm-up."""
        chosen = self.sft_warmup.source or ("random" if self.model.path is None else None)
        return chosen if self.sft_warmup.steps else None

    @property
    def played_environments(self) -> list[EnvironmentConfig]:
        """The environments in which the run plays."""
        return self.environments if self.num_engines else []

    @property
    def uses_ray(self) -> bool:
        """Whether processes of the run are Ray actors."""
        return self.num_engines > 0 or self.learner.backend == "fsdp"

    def reference_folder(self, first_checkpoint: Path) -> Path | None:
        """Return the folder of the reference policy; None if it is the policy without its LoRA adapter.

        Args:
            first_checkpoint: the one that training began with.

        Raises:
            TurnwiseError: there is no model at `model.reference`.
        """
        trained_apart = None if self.learner.lora is not None else first_checkpoint
        return self.model.reference_folder() or trained_apart

    @property
    def max_context(self) -> int:
        """Prompt and completion together, in tokens: the horizon's limit and the engines' ``max_model_len``."""
        return self.horizon.max_context

    @property
    def mixture(self) -> list[WeightedEnvironment]:
        """The environments with their weights, for the task sampler."""
        return [
            WeightedEnvironment(environment.id, environment.weight, environment.options)
            for environment in self.environments
        ]

    def progress(self, update: int, seconds: float) -> float:
        """Return the share of the run that is over after ``update`` updates and ``seconds`` of training, 0 to 1."""
        by_steps = update / self.max_steps if self.max_steps else 0.0
        by_time = seconds / self.max_seconds if self.max_seconds else 0.0
        return min(1.0, max(by_steps, by_time))

    def lr_progress(self, update: int, seconds: float) -> float:
        """Return the share of the learning rate's schedule that has passed, 0 to 1."""
        if self.max_steps is not None:
            return min(1.0, update / self.max_steps)
        return self.progress(update, seconds)

    def resolved(self) -> dict[str, Any]:
        """Return everything, defaults included, as JSON values that ``parse_config`` reads back."""
        return self.model_dump(mode="json")

    def digest(self) -> str:
        """Hash the slots and the keys of ``MATHEMATICS``: a resume may change none of them."""
        text = json.dumps([MATHEMATICS_REVISION, self._mathematics()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def differences(self, other: "RunConfig") -> list[str]:
        """Return the dotted keys of the mathematics whose values differ, in alphabetical order."""
        ours, theirs = (
            _flat({**one._mathematics(), **{base.slot: _mathematics(getattr(one, base.slot)) for base in SLOTS}})
            for one in (self, other)
        )
        return sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))

    def _mathematics(self) -> dict[str, Any]:
        """Return the keys that change the mathematics and their values, as JSON values.

        Values equal to their defaults are left out, so a release that adds a key with a default changes no digest.
        """
        settings = self.model_dump(mode="json", include=MATHEMATICS, exclude_defaults=True)
        for base in SLOTS:
            chosen = _mathematics(getattr(self, base.slot))
            default = _mathematics(type(self).model_fields[base.slot].get_default(call_default_factory=True))
            if chosen != default:
                settings[base.slot] = chosen
        return {name: value for name, value in settings.items() if value or name in AlgorithmConfig.model_fields}


def _mathematics(value: Component | list[Component]) -> Any:
    return [one.mathematics() for one in value] if isinstance(value, list) else value.mathematics()


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of nested tables by dotted key."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
