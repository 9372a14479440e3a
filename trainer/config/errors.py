"""Messages about a wrong configuration: each key with its reason, the nearest known key, or its new name."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ...errors import TurnwiseError, suggestion
from ..algorithms.component import NAME_ERROR, Component
from ..algorithms.registry import UnknownComponent, component_class

MAX_SUGGESTIONS = 3
"""Sections named for a misplaced key; if more sections have the key, none is named."""

RENAMED_KEYS = {
    "budget": "`max_steps` and `max_seconds`, at the top level",
    "budget.updates": "`max_steps`, at the top level",
    "budget.seconds": "`max_seconds`, at the top level",
    "rollout.max_running": "`rollout.max_concurrent_groups`",
    "rollout.staleness": "`rollout.max_staleness`",
    "rollout.workers": "`rollout.workers_per_node`, the workers on each node of the cluster",
    "rollout.num_workers": "`rollout.workers_per_node`, the workers on each node of the cluster",
    "rollout.engines": "`rollout.num_engines`",
    "rollout.reset_deadline": "`rollout.reset_timeout_s`",
    "rollout.step_deadline": "`rollout.step_timeout_s`",
    "rollout.turn_deadline": "`rollout.turn_timeout_s`",
    "rollout.group_deadline": "`rollout.group_timeout_s`",
    "rollout_budget": "`rollout.group_size`",
    "horizon.turns": "`horizon.max_turns`",
    "horizon.tokens_turn": "`horizon.max_tokens_per_turn`",
    "horizon.tokens_total": "`horizon.max_tokens_per_episode`",
    "horizon.context": "`horizon.max_context`",
    "horizon.every": "`horizon.interval`",
    "engine.max_context": "`horizon.max_context`, which the engines share",
    "engine.max_model_len": "`horizon.max_context`, which the engines share",
    "engine.max_sequences": "`engine.max_num_seqs`",
    "engine.max_batch_tokens": "`engine.max_num_batched_tokens`",
    "engine.kv_cache_mib": "`engine.kv_cache_memory_bytes`",
    "engine.threads": "`engine.num_threads`",
    "engine.gpus": "`engine.tensor_parallel_size`",
    "learner.final_learning_rate": "`learner.min_learning_rate`",
    "learner.warmup_updates": "`learner.lr_warmup_steps`",
    "learner.steps_per_batch": "`learner.num_minibatches`",
    "learner.tokens_per_pass": "`learner.max_tokens_per_micro_batch`",
    "learner.threads": "`learner.num_threads`",
    "warmup": "`sft_warmup`",
    "sft_warmup.batch": "`sft_warmup.batch_size`",
    "evaluation.every": "`evaluation.interval`",
    "checkpoint.every": "`checkpoint.interval`",
    "checkpoint.keep": "`checkpoint.keep_last`",
    "sandboxes.per_node": "`sandboxes.max_per_node`",
    "sandboxes.runtime": "`sandboxes.options`, the table of the backend's own settings",
    "prompt_scaffold": "`prompt_prefix`",
    "rollout_controller": "`rollout_control`",
    "reward_shapers": "`rewards`",
    "replay": "`replay_buffer`",
    "admission": "`rollout.max_concurrent_groups` and `rollout.max_staleness`, which bound the groups in flight",
    "loss.clip_low": "`loss.clip_ratio_low`",
    "loss.clip_high": "`loss.clip_ratio_high`",
    "loss.behavior_cap": "`loss.is_cap`",
    "loss.behaviour_cap": "`loss.is_cap`",
    "loss.reject": "`loss.is_mode`",
    "loss.entropy_bonus": "`loss.entropy_coef`",
    "task_sampler.rate": "`task_sampler.ema_rate`",
    "task_sampler.floor": "`task_sampler.min_weight`",
    "group_filters.spread": "`group_filters.min_reward_range`",
    "rewards.key_from": "`rewards.api_key_env`",
    "rewards.deadline": "`rewards.timeout_s`",
    "rewards.retries": "`rewards.max_retries`",
    "rewards.at_once": "`rewards.max_concurrent_requests`",
}
"""Former keys and their new names, for the error message only. Items of lists have no number here. Former names keep
their British spelling."""
RENAMED_COMPONENTS = {
    "task_sampler.frontier": "`learnability`",
    "rollout_control.play_on": "`none`",
    "rewards.length_penalty": "`turn_penalty`",
    "rewards.judge": "`llm_judge`",
    "group_filters.informative": "`zero_variance`",
    "advantage.group_mean": "`grpo`",
    "advantage.group_normalised": "`grpo` with `normalize_std = true`",
    "sample_filters.negative_weight": "`negative_advantage_weight`",
    "loss.decoupled": "`decoupled_ppo`",
    "proximal.behaviour": "`behavior`",
}
"""Former names of components by slot, for the error message only."""


class ConfigError(TurnwiseError):
    """An unusable configuration; the message names each wrong key and what to write instead."""


def explain(error: ValidationError, model: type[BaseModel], raw: Mapping[str, Any], smallest: Mapping[str, Any]) -> str:
    """Return a validation error of ``raw`` against ``model`` as one line with a fix per key.

    Args:
        smallest: plain values with every key of every section, for keys in the wrong section.
    """
    everywhere = list(_keys(smallest))
    lines = []
    for item in error.errors():
        path = ".".join(str(part) for part in item["loc"])
        general = ".".join(part for part in item["loc"] if isinstance(part, str))
        if item["type"] == "extra_forbidden" and general in RENAMED_KEYS:
            lines.append(f"`{path}` was renamed: use {RENAMED_KEYS[general]}")
        elif item["type"] == "extra_forbidden":
            last = str(item["loc"][-1])
            homes = [f"`{key}`" for key in everywhere if key.rpartition(".")[2] == last]
            known = fields_at(model, item["loc"][:-1], raw)
            hint = f" (did you mean {' or '.join(homes)}?)" if 0 < len(homes) <= MAX_SUGGESTIONS else None
            lines.append(f"`{path}`: unknown key{hint or suggestion(last, known)}")
        elif item["type"] == NAME_ERROR:
            former = RENAMED_COMPONENTS.get(f"{general.removesuffix('.name')}.{item['input']}")
            lines.append(
                f"`{path}`: {item['input']!r} was renamed: use {former}" if former else f"`{path}`: {item['msg']}"
            )
        elif item["type"] == "list_type" and isinstance(item["input"], dict):
            lines.append(f"`{path}`: expected a list of tables, which has double brackets: [[{path}]]")
        else:
            lines.append(f"{f'`{path}`: ' if path else ''}{_message(item['msg'], item['input'])}")
    return "; ".join(lines)


def _message(message: str, value: Any) -> str:
    text = message.removeprefix("Value error, ")
    return text if isinstance(value, Mapping) else f"{text}, got {value!r}"[:300]


def fields_at(model: Any, path: tuple[int | str, ...], raw: Any = None) -> list[str]:
    """Return the field names at ``path`` inside ``model``; ``raw`` names the components whose options are meant."""
    for part in path:
        raw = _inside(raw, part)
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part)
        if field is None:
            return []
        model = _model_in(field.annotation)
        if model is None:
            return []
    if issubclass(model, Component):
        name = _inside(raw, "name") or model.default
        try:
            model = component_class(model, str(name))
        except UnknownComponent:
            return []
    return [*model.model_fields, *getattr(model, "more_fields", ())]


def _model_in(annotation: Any) -> Any:
    """Return the model that an annotation such as ``list[Annotated[X, …]]`` or ``X | None`` contains; else None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one)) is not None), None)


def _inside(node: Any, part: int | str) -> Any:
    try:
        return node[part]
    except (KeyError, IndexError, TypeError):
        return None


def _keys(node: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted path of every key inside plain values; items of lists by number, as ``--set`` takes them."""
    inside = enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, Mapping) else ()
    for key, value in inside:
        if isinstance(node, Mapping):
            yield f"{path}{key}"
        yield from _keys(value, f"{path}{key}.")
