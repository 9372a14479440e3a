"""The sections of a run's configuration, without its algorithm slots (``trainer/algorithms``) and ``[engine]``."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import from_json

from ...agents.engine.config import CPU_HEAD_SIZES, MAX_LORA_RANK
from ...agents.engine.request import MIN_TEMPERATURE, check_temperature
from ...agents.model_folder import model_folder
from ...agents.rollout.timeouts import Timeouts
from ...agents.weights.base import check_name
from ...base.rates import MAX_SAMPLES
from ...errors import shown
from ...records import Screenshots
from .errors import ConfigError

HELD_OUT_SEED = 1_000_003
"""The first held-out task's number: the same tasks for every policy and every run."""
_TIMEOUTS = Timeouts()
_Beta = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A table of the configuration: frozen, without unknown keys, every number finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


class NewModelConfig(Section):
    """The tiny model that is created for the run's environments if ``model.path`` is not set."""

    hidden: int = Field(128, ge=8)
    """Hidden size."""
    layers: int = Field(2, ge=1)
    """Transformer layers."""
    heads: int = Field(4, ge=1)
    """Attention heads."""
    architecture: Literal["qwen3", "llama"] = "qwen3"
    """Architecture in `transformers`."""
    tie_embeddings: bool = True
    """Share the input and output embeddings."""
    patch_size: int = Field(14, ge=4, le=112)
    """Pixels of an image's patch along each side, if an environment shows images; a token has 2 x 2 patches."""

    @model_validator(mode="after")
    def _runs_on_a_cpu(self) -> Self:
        if self.hidden % self.heads or self.hidden // self.heads not in CPU_HEAD_SIZES:
            sizes = ", ".join(map(str, CPU_HEAD_SIZES))
            raise ValueError(f"`hidden / heads` must be one of {sizes}: vLLM supports no other head size on a CPU")
        return self


class ModelConfig(Section):
    """The policy to start from."""

    path: str | None = None
    """A causal language model with its tokenizer: a Hugging Face folder, or a hub id. Without it, a new tiny model is
    created."""
    new: NewModelConfig = NewModelConfig()
    reference: str | None = None
    """The reference policy: a Hugging Face folder, or a hub id. Without it, the policy that training began with."""

    def folder(self) -> Path | None:
        """Return the folder of ``path``; None if a new model is to be created.

        Raises:
            TurnwiseError: there is no such model.
        """
        return None if self.path is None else model_folder(self.path)

    def reference_folder(self) -> Path | None:
        """Return the folder of ``reference``; None without it.

        Raises:
            TurnwiseError: there is no such model.
        """
        return None if self.reference is None else model_folder(self.reference, "model.reference")


class EnvironmentConfig(Section):
    """One environment of the mixture."""

    id: str
    """Environment id, such as `turnwise/TextSite-v0` or `my_pkg.envs:Id-v0`."""
    weight: float = Field(1.0, gt=0)
    """Share of the groups, relative to the other environments."""
    concurrency: int = Field(512, ge=1)
    """Concurrent episodes in this environment, per worker."""
    options: dict[str, Any] = {}
    """Keyword arguments of the environment's constructor."""

    @model_validator(mode="after")
    def _can_be_stored(self) -> Self:
        for key, value in self.options.items():
            try:
                kept = repr(from_json(json.dumps(value, allow_nan=False))) == repr(value)
            except (TypeError, ValueError, RecursionError):
                kept = False
            if not kept:
                raise ConfigError(
                    f"`options.{key}` of the environment `{self.id}` is {shown(value)}, which the store cannot hold as "
                    "it is: use texts, finite numbers, true, false, lists, and tables whose keys are texts"
                )
        return self


class RolloutConfig(Section):
    """How many episodes run at once, and how long each wait may take."""

    groups_per_batch: int = Field(16, ge=1)
    """Groups per update."""
    group_size: int = Field(8, ge=2)
    """Episodes per group: several attempts at one task, compared with one another."""
    max_concurrent_groups: int = Field(32, ge=1)
    """Groups in flight at once, at most."""
    max_staleness: int = Field(2, ge=0)
    """Maximum staleness of a trained token, in updates; 0 is synchronous training."""
    temperature: float = Field(1.0, ge=MIN_TEMPERATURE)
    """Sampling temperature; the learner divides its logits by the same value."""
    max_thought_tokens: int = Field(0, ge=0)
    """Tokens of the thought that the policy samples before each action, at most; they count as tokens of the turn, and
    are trained on. 0 samples no thoughts."""
    action_request: str = "Now give the action."
    """The text between a thought and its action."""
    workers_per_node: int = Field(1, ge=1)
    """Rollout worker processes per node of the Ray cluster, nodes that run sandboxes only left out. Nodes that join or
    leave during the run change their number, unless the store is SQLite or an environment uses sandboxes."""
    num_engines: int = Field(1, ge=1)
    """Engine replicas."""
    reset_timeout_s: float = Field(_TIMEOUTS.reset_s, gt=0)
    """Timeout of one environment reset, including the wait for a sandbox."""
    step_timeout_s: float = Field(_TIMEOUTS.step_s, gt=0)
    """Timeout of one environment step, without scoring. An environment that exceeds it fails (`env_error`)."""
    scoring_timeout_s: float = Field(_TIMEOUTS.scoring_s, gt=0)
    """Timeout of the scoring of an episode, such as by a rubric. A judge's wait for a free request does not count."""
    turn_timeout_s: float = Field(_TIMEOUTS.turn_s, gt=0)
    """Timeout of one completion of the policy."""
    group_timeout_s: float = Field(_TIMEOUTS.group_s, gt=0)
    """Timeout of each member of a group, including its retry; the wait for a slot of the environment does not count."""

    screenshots: Screenshots = "end"
    """Screenshots to keep of episodes in a browser or on a desktop whose observations are texts, for people: that of
    the `end`, `all`, or `none`. No policy reads them. Images that the policy reads are kept in any case."""

    @property
    def timeouts(self) -> Timeouts:
        """The timeouts as one record."""
        return Timeouts(
            self.reset_timeout_s,
            self.step_timeout_s,
            self.turn_timeout_s,
            self.group_timeout_s,
            self.scoring_timeout_s,
        )


class LoraConfig(Section):
    """LoRA: the weights of the model stay frozen, and a low-rank adapter of its linear layers is trained. Without this
    table, all weights are trained."""

    rank: int = Field(16, ge=1, le=MAX_LORA_RANK)
    """Rank of the product that is added to the weights of each adapted layer."""
    alpha: float = Field(32.0, gt=0)
    """The product is multiplied by `alpha / rank`."""
    target_modules: list[str] | None = Field(None, min_length=1)
    """Names of the linear layers to adapt, such as `q_proj`. Without it, all of them but the output head."""


class LearnerConfig(Section):
    """The optimizer."""

    backend: Literal["local", "fsdp"] = "local"
    """`local`: in the driver's process. `fsdp`: one Ray actor per rank, with the weights sharded over them."""
    num_ranks: int = Field(1, ge=1)
    """Ranks of the backend `fsdp`: one GPU each with `device = "cuda"`."""
    learning_rate: float = Field(1e-6, gt=0)
    """Peak learning rate of AdamW. The default without `model.path` is 1e-3."""
    min_learning_rate: float = Field(0.0, ge=0)
    """The rate at the end of the run."""
    lr_schedule: Literal["constant", "linear", "cosine", "quadratic"] = "quadratic"
    """Shape of the decay to `min_learning_rate`, along `max_steps` if set, else along `max_seconds`; `quadratic` falls
    slowly at first."""
    lr_warmup_steps: int = Field(10, ge=0)
    """Updates over which the rate rises to ``learning_rate``."""
    betas: tuple[_Beta, _Beta] = (0.9, 0.95)
    """AdamW's decay rates of the two moments."""
    weight_decay: float = Field(0.0, ge=0)
    """AdamW's decoupled weight decay."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are clipped to this norm."""
    max_kl: float = Field(0.0, ge=0)
    """Trust region, in nats per token: a step with a larger KL divergence on its tokens is shortened. 0 sets no
    bound, and saves the forward pass that measures the divergence."""
    num_minibatches: int = Field(1, ge=1)
    """Optimizer steps per pass over a batch; several are shuffled, and balanced by trained tokens."""
    num_epochs: int = Field(1, ge=1)
    """Passes over a batch."""
    max_tokens_per_micro_batch: int = Field(2048, ge=1)
    """Tokens packed into one forward and backward pass."""
    activation_checkpointing: bool = False
    """Compute each decoder layer again in the backward pass: less memory per token of a micro-batch, a third more
    time."""
    optimizer_offload: bool = False
    """Keep AdamW's moments in the host's memory between optimizer steps. They take 8 bytes per trained parameter, and
    are copied twice per step. Needs `device = "cuda"`. The format warm-up does not."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Data type of the forward and backward pass; weights, gradients and the optimizer stay in float32."""
    lora: LoraConfig | None = None
    """The LoRA adapter to train; None trains all weights."""
    vision: Literal["trained", "frozen"] = "trained"
    """The vision tower of a model that reads images: `trained` with all other weights, or `frozen`. LoRA leaves it
    frozen in any case."""
    num_threads: int = Field(1, ge=1)
    """CPU threads of the learner."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Torch device of the learner: `cpu` or `cuda`."""
    weight_transport: Annotated[str, AfterValidator(check_name)] = "auto"
    """The way of new weights to the engines. `shm`: memory of the learner's host. `collective`: broadcasts by NCCL
    between GPUs, by gloo otherwise. `ipc`: memory of the GPU that learner and engine share. `auto`: `shm`, but
    `collective` if an engine runs on another host, or if learner (`backend = "fsdp"`) and engines have GPUs of their
    own."""

    @model_validator(mode="after")
    def _fits_the_device(self) -> Self:
        if self.backend == "local" and self.num_ranks > 1:
            raise ValueError(
                f'`num_ranks` is {self.num_ranks}, and the backend `local` has one: set `learner.backend = "fsdp"`'
            )
        if self.optimizer_offload and self.device == "cpu":
            raise ValueError(
                'with `device = "cpu"` the moments are in the host\'s memory already: remove `optimizer_offload`'
            )
        return self


class SftWarmupConfig(Section):
    """Supervised steps before the first update: on random valid actions, which teach a new model the syntax and not the
    task, or on right ones, from which a model learns the format and begins to succeed."""

    source: str | None = Field(None, min_length=1)
    """The actions to learn: `random` valid ones, those of the `oracle`, or those of a run of the store. The oracle
    plays training tasks; of a run, its successes of an expert on training tasks are used, recorded or imported.
    Default: `random` for a new model, and no warm-up with `model.path`."""
    steps: int = Field(500, ge=0)
    """Optimizer steps; 0 skips the warm-up. The default with `model.path` is 50."""
    batch_size: int = Field(6, ge=1)
    """Episodes per step. The default with `model.path` is 16."""
    episodes: int | None = Field(None, ge=0)
    """Episodes to play; later batches are drawn from them. 0 plays new episodes for each batch. Default: 0, but 200 if
    an environment leases a sandbox, whose episodes take seconds. The episodes of a run of the store are all used."""
    learning_rate: float = Field(3e-3, gt=0)
    """Learning rate of the warm-up; it falls linearly to 0. The default with `model.path` is 5e-5."""
    observation_weight: float = Field(0.1, ge=0)
    """Weight of the next-token loss on observations. The default with `model.path` is 0."""


class OfflineConfig(Section):
    """Offline training: the groups come from another run in the store, and nothing is played."""

    run: str | None = None
    """The run whose scored groups are trained on, each once, in the order of their scoring. Without it, the policy
    plays."""
    rewards: str | None = None
    """A reward set of that run (`turnwise runs score`), in place of the rewards that the run was trained with."""


class EvaluationConfig(Section):
    """Held-out tasks: how many, how often, and how the policy plays them."""

    tasks: int = Field(200, ge=0)
    """Held-out tasks per evaluation; 0 skips evaluations."""
    interval: Annotated[int, Field(ge=0)] | Literal["auto"] = "auto"
    """Updates between evaluations during training. `auto`: with each checkpoint, as long as these evaluations take at
    most a twentieth of the training time. 0: only at the start, after the warm-up and at the end. The checkpoint with
    the highest success is kept."""
    temperature: Annotated[float, AfterValidator(check_temperature)] | None = None
    """Sampling temperature, 0 for greedy and `rollout.temperature` by default: that of the policy which is trained."""
    samples: int = Field(1, ge=1, le=MAX_SAMPLES)
    """Episodes per task; with several, pass@k is reported too, and intervals are clustered by task."""


class CheckpointConfig(Section):
    """Checkpoints to resume from."""

    interval: int = Field(25, ge=1)
    """Updates between checkpoints."""
    keep_last: int = Field(3, ge=1)
    """Number of newest checkpoints that are kept, besides the best one by held-out success."""
    keep_first: bool = True
    """Keep the first checkpoint too: `turnwise runs retrain` starts from it."""
