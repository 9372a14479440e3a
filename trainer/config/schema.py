"""The run's configuration: TOML, checked whole before anything starts, stored resolved with the run.

Light to import: no torch, no ray. Unknown keys are errors that name the nearest key. Defaults are those of the
quickstart's scale.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from ...agents.engine.actor import EngineConfig
from ...envs.sandboxes import SandboxSettings
from ..algorithms.registry import SLOTS, ConfigError, build, explain

HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""What vLLM's attention on the CPU takes; with any other its process dies."""


DEFAULT_UPDATES = 100
"""The budget of a run that is given no limit."""


class Strict(BaseModel):
    """A section of the configuration: frozen, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class NewModel(Strict):
    """A tiny model made for the run's environments, where ``model.path`` is not given."""

    hidden: int = 128
    layers: int = 2
    heads: int = 4
    architecture: Literal["qwen3", "llama"] = "qwen3"
    tie_embeddings: bool = True

    @model_validator(mode="after")
    def _runs_on_a_cpu(self) -> Self:
        if self.hidden % self.heads or self.hidden // self.heads not in HEAD_SIZES:
            raise ValueError(
                f"hidden / heads must be one of {', '.join(map(str, HEAD_SIZES))}: vLLM runs no other on a CPU"
            )
        return self


class ModelConfig(Strict):
    """The policy to start from."""

    path: str | None = None
    """A Hugging Face folder with a causal language model and its tokenizer; None makes a new tiny one."""
    new: NewModel = NewModel()


class EnvironmentConfig(Strict):
    """One environment of the mixture."""

    id: str
    weight: float = Field(1.0, gt=0)
    """Share of the groups, relative to the other environments."""
    concurrency: int = Field(512, ge=1)
    """Episodes at once in this environment, in each worker."""
    options: dict[str, Any] = {}
    """Passed to the environment's constructor."""


class BudgetConfig(Strict):
    """When the run is finished: at the first limit that it reaches.

    The learning rate decays along ``updates`` where it is given, so that a run is the same on a slow machine as on a
    fast one. It decays along ``seconds`` only where that is the one limit.
    """

    updates: int | None = Field(None, ge=1)
    """Where neither limit is given, 100."""
    seconds: float | None = Field(None, gt=0)
    """Seconds of training, counted from the first group; evaluation and start-up do not count."""

    @model_validator(mode="before")
    @classmethod
    def _limited(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and raw.get("updates") is None and raw.get("seconds") is None:
            return {**raw, "updates": DEFAULT_UPDATES}
        return raw

    def spent(self, update: int, seconds: float) -> float:
        """Share of the budget spent after ``update`` updates and ``seconds`` of training, 0 to 1."""
        shares = [update / self.updates if self.updates else 0.0, seconds / self.seconds if self.seconds else 0.0]
        return min(1.0, max(shares))

    def decay(self, update: int, seconds: float) -> float:
        """Share of the learning rate's schedule that has passed, 0 to 1."""
        if self.updates is not None:
            return min(1.0, update / self.updates)
        return self.spent(update, seconds)


class RolloutConfig(Strict):
    """How much is played at once, and how long anything may take."""

    groups_per_batch: int = Field(16, ge=1)
    max_running: int = Field(32, ge=1)
    """Groups under way at once."""
    staleness: int = Field(2, ge=0)
    """Oldest trained token, in updates. 0 is synchronous training."""
    temperature: float = Field(1.0, gt=0)
    workers: int = Field(1, ge=1)
    """Rollout worker processes."""
    engines: int = Field(1, ge=1)
    """Engine replicas."""
    reset_deadline: float = Field(60.0, gt=0)
    """Seconds for one environment reset: where one has a sandbox, the wait for it too."""
    step_deadline: float = Field(30.0, gt=0)
    """Seconds for one environment step."""
    turn_deadline: float = Field(60.0, gt=0)
    """Seconds for the policy to answer one turn."""
    group_deadline: float = Field(600.0, gt=0)
    """Seconds each member of a group may play, retries included; the wait for an environment's slot does not count."""


class LearnerConfig(Strict):
    """The optimizer."""

    learning_rate: float = Field(1e-3, gt=0)
    final_learning_rate: float = Field(0.0, ge=0)
    """Reached at the end of the schedule (``BudgetConfig``), along the square of the share that has passed."""
    warmup_updates: int = Field(10, ge=0)
    """Updates over which the rate rises to ``learning_rate``: AdamW's first steps know no scale yet."""
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    max_grad_norm: float = Field(1.0, gt=0)
    max_kl: float | None = Field(None, gt=0)
    """Trust region: a step that moves the policy further than this on its own tokens, in nats a token, is shortened."""
    steps_per_batch: int = Field(1, ge=1)
    """Optimizer steps a batch is split into."""
    tokens_per_pass: int = Field(2048, ge=1)
    """Tokens packed into one forward and backward pass."""
    threads: int = Field(1, ge=1)
    device: str = "cpu"


class WarmupConfig(Strict):
    """Format warm-up of a new model: supervised on random valid actions. It teaches the syntax, not the task."""

    steps: int = Field(500, ge=0)
    batch: int = Field(8, ge=1)
    episodes: int = Field(0, ge=0)
    """Episodes played for it; later batches are drawn from those. 0 is as many as it takes, where a world is quick."""
    learning_rate: float = Field(3e-3, gt=0)
    observation_weight: float = Field(0.3, ge=0)
    """Weight of the next-token loss on observations."""


class EvaluationConfig(Strict):
    """Held-out tasks, sampled at the training temperature."""

    tasks: int = Field(200, ge=0)
    every: int = Field(0, ge=0)
    """Also evaluate every so many updates; 0 is only before, after the warm-up and at the end."""


class CheckpointConfig(Strict):
    """How often a run can be resumed from."""

    every: int = Field(25, ge=1)
    keep: int = Field(3, ge=1)


Choice = dict[str, Any]
"""An extension by ``name``; its other keys are its options."""

LISTS = {"reward_shapers": "reward_shaper", "group_filters": "group_filter", "sample_filters": "sample_filter"}
"""The slots that hold a list; every other slot holds one."""

MATHEMATICS: dict[str, Any] = {
    "seed": True,
    "model": True,
    "environments": {"__all__": {"id", "weight", "options"}},
    "rollout": {"groups_per_batch", "staleness", "temperature"},
    "learner": {
        "learning_rate",
        "final_learning_rate",
        "warmup_updates",
        "betas",
        "weight_decay",
        "max_grad_norm",
        "max_kl",
        "steps_per_batch",
    },
    "engine": {"dtype"},
    "warmup": True,
}
"""The keys outside the slots that change the mathematics of a run, as pydantic's ``include``. ``digest`` hashes these
and the slots. Budget, timeouts, parallelism, evaluation, checkpoints and trackers are not among them."""
MATHEMATICS_REVISION = 1
"""Part of ``digest``. Raise it when the default or the meaning of a key that ``digest`` hashes changes."""


def _resolve(slot: str, choice: Choice, default: str | None = None) -> Choice:
    if "name" not in choice:
        if default is None:
            raise ConfigError(f"{slot}: an entry needs a name (known: {', '.join(sorted(SLOTS[slot]))})")
        choice = {"name": default, **choice}
    return {"name": choice["name"], **build(slot, choice).model_dump(mode="json")}


class RunConfig(Strict):
    """A whole run. Every extension point is chosen by name; its other keys are its options."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)
    seed: int = 0
    model: ModelConfig = ModelConfig()
    environments: list[EnvironmentConfig] = Field(min_length=1)
    budget: BudgetConfig = BudgetConfig()
    rollout: RolloutConfig = RolloutConfig()
    learner: LearnerConfig = LearnerConfig()
    engine: EngineConfig = EngineConfig()
    warmup: WarmupConfig = WarmupConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    sandboxes: SandboxSettings = SandboxSettings()
    """For environments that lease them."""
    ray_address: str | None = None
    """A Ray cluster to run on; None starts one in this process."""
    tensorboard: bool = False
    task_sampler: Choice = {"name": "mixture"}
    prompt_scaffold: Choice = {"name": "none"}
    rollout_budget: Choice = {"name": "constant"}
    horizon: Choice = {"name": "constant"}
    rollout_controller: Choice = {"name": "play_on"}
    reward_shapers: list[Choice] = []
    group_filters: list[Choice] = []
    advantage: Choice = {"name": "group_mean"}
    sample_filters: list[Choice] = []
    loss: Choice = {"name": "decoupled"}
    proximal: Choice = {"name": "recompute"}
    replay: Choice = {"name": "none"}
    admission: Choice = {"name": "capacity"}

    @field_validator(*(SLOTS.keys() - LISTS.values()), mode="after")
    @classmethod
    def _one(cls, value: Choice, info: ValidationInfo) -> Choice:
        name = str(info.field_name)
        return _resolve(name, value, cls.model_fields[name].default["name"])

    @field_validator(*LISTS, mode="after")
    @classmethod
    def _list(cls, values: list[Choice], info: ValidationInfo) -> list[Choice]:
        return [_resolve(LISTS[str(info.field_name)], value) for value in values]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        context = self.horizon.get("context", 0)
        if context > self.engine.max_context:
            raise ValueError(f"horizon.context {context} is more than engine.max_context {self.engine.max_context}")
        return self

    def resolved(self) -> dict[str, Any]:
        """Everything, defaults included, as JSON values."""
        return self.model_dump(mode="json")

    def digest(self) -> str:
        """Hash of the mathematics: two configurations with one digest train the same policy from the same data.

        Values equal to their defaults are left out, so a release that adds a key with a default changes no digest.
        """
        settings = self.model_dump(mode="json", include=MATHEMATICS, exclude_defaults=True)
        for name, field in type(self).model_fields.items():
            if name in LISTS:
                settings[name] = [_mathematics(LISTS[name], one) for one in getattr(self, name)]
            elif name in SLOTS:
                chosen = _mathematics(name, getattr(self, name))
                settings[name] = {} if chosen == field.default else chosen
        kept = {name: value for name, value in settings.items() if value}
        text = json.dumps([MATHEMATICS_REVISION, kept], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _mathematics(slot: str, choice: Choice) -> Choice:
    """The name of an extension and those of its options that change the mathematics and differ from their defaults."""
    one = build(slot, choice)
    options = one.model_dump(mode="json", exclude=set(one.operational), exclude_defaults=True)
    return {"name": choice["name"], **options}


def override(raw: dict[str, Any], assignment: str) -> None:
    """Apply one ``dotted.key=value``; the value is TOML, or a plain string where it is not. List items by number.

    Raises:
        ConfigError: the assignment has no ``=``, or its path goes through something that holds no keys.
    """
    key, separator, text = assignment.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"--set {assignment}: expected key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *path, last = key.strip().split(".")
    node: Any = raw
    try:
        for part in path:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        node[int(last) if isinstance(node, list) else last] = value
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise ConfigError(f"--set {assignment}: {key} does not lead to a key") from error


def parse_config(raw: dict[str, Any]) -> RunConfig:
    """A checked configuration from plain values.

    Raises:
        ConfigError: with every offending key and, for a misspelt one, the nearest.
    """
    try:
        return RunConfig.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(explain(error, model=RunConfig, everywhere=list(_keys(_smallest())))) from error


def _smallest() -> dict[str, Any]:
    return RunConfig(name="any", environments=[EnvironmentConfig(id="any")]).resolved()


def _keys(node: Any, path: str = "") -> Iterator[str]:
    """The dotted path of every key inside plain values; items of lists by number, as ``--set`` takes them."""
    inside = enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, dict) else ()
    for key, value in inside:
        if isinstance(node, dict):
            yield f"{path}{key}"
        yield from _keys(value, f"{path}{key}.")


def load_config(path: str | Path, overrides: list[str] | None = None) -> RunConfig:
    """Read a TOML file, apply ``key=value`` overrides, check.

    Raises:
        ConfigError: the file is missing or not TOML, or a key is wrong.
    """
    file = Path(path)
    try:
        raw = tomllib.loads(file.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {file}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from error
    for assignment in overrides or []:
        override(raw, assignment)
    try:
        return parse_config(raw)
    except ConfigError as error:
        where = f"{file} with {', '.join(f'--set {one}' for one in overrides)}" if overrides else f"{file}"
        raise ConfigError(f"{where}: {error}") from error


__all__ = ["ConfigError", "RunConfig", "load_config", "parse_config"]
