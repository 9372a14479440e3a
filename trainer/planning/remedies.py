"""Settings with which a run fits that does not fit."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from ..config.errors import ConfigError
from ..config.loading import override, parse_config
from ..config.schema import RunConfig
from .machine import Machine
from .model_shape import ModelShape
from .plan import Plan, plan_run

MIB = 1 << 20
PARALLEL = (2, 4, 8)
"""Numbers of GPUs to try for one engine."""
SMALLEST_CONTEXT = 1024
"""Context below which none is offered."""
LORA_RANK = 16
"""Rank of the adapter that is offered instead of training all weights."""

Way = list[str]
"""Assignments ``key=value`` for ``--set``."""


def find_remedies(config: RunConfig, machine: Machine, shape: ModelShape) -> list[Way]:
    """Return ways to make a run fit; empty if none is known.

    Each change is tried alone. If none suffices, changes are added up in their order, as long as each saves memory,
    and those that turn out not to be needed are left out.
    """

    def plan_with(way: Iterable[str]) -> Plan | None:
        changed = _changed(config, way)
        return None if changed is None else plan_run(changed, machine, shape)

    def fits(way: Iterable[str]) -> bool:
        return (after := plan_with(way)) is not None and not after.refusals

    plan = plan_run(config, machine, shape)
    tried = [way for change in CHANGES for way in change(config, plan)]
    if alone := [way for way in tried if fits(way)]:
        return list({tuple(_by_key(way)): way for way in reversed(alone)}.values())[::-1]
    for changes in (
        CHANGES,
        [change for change in CHANGES if change is not _ranks],
    ):  # ranks exclude an adapter that shrinks
        chosen: dict[str, str] = {}
        best = plan
        for change in [*changes, *changes]:  # a later change may make an earlier one possible
            for way in change(_changed(config, chosen.values()) or config, best):
                after = plan_with((chosen | _by_key(way)).values())
                if after is None or _badness(after) >= _badness(best):
                    continue
                chosen, best = chosen | _by_key(way), after
                break
            if not best.refusals:
                return [_needed(chosen, fits)]
    return []


def _needed(chosen: dict[str, str], fits: Callable[[Iterable[str]], bool]) -> Way:
    """Leave out the assignments without which the plan still fits, and return the others."""
    for key in list(chosen):
        fewer = {other: one for other, one in chosen.items() if other != key}
        if fits(fewer.values()):
            chosen = fewer
    return list(chosen.values())


def _badness(plan: Plan) -> tuple[int, int]:
    return plan.overshoot, len(plan.refusals)


def _by_key(way: Way) -> dict[str, str]:
    return {one.partition("=")[0]: one for one in way}


def _changed(config: RunConfig, way: Iterable[str]) -> RunConfig | None:
    """Return the configuration with assignments; None if it is not valid."""
    raw = _without_none(config.resolved())
    try:
        for one in way:
            override(raw, one)
        return parse_config(raw)
    except ConfigError:
        return None


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def _cache(config: RunConfig, plan: Plan) -> list[Way]:
    """A cache of the missing size, or one smaller by what is missing; at least one that holds a full context."""
    own = config.engine.kv_cache_memory_bytes
    least = -(-plan.engine.smallest_cache_bytes // MIB) * MIB
    missing = max((place.overshoot for place in plan.places), default=0)
    size = max(least, (own - missing) // MIB * MIB)
    return [[_set("engine.kv_cache_memory_bytes", size)]] if size != own else []


def _micro_batch(config: RunConfig, _: Plan) -> list[Way]:
    most = config.learner.max_tokens_per_micro_batch
    return [[_set("learner.max_tokens_per_micro_batch", config.max_context)]] if most > config.max_context else []


def _activations(config: RunConfig, _: Plan) -> list[Way]:
    return [] if config.learner.activation_checkpointing else [[_set("learner.activation_checkpointing", True)]]


def _offload(config: RunConfig, _: Plan) -> list[Way]:
    learner = config.learner
    return [] if learner.device == "cpu" or learner.optimizer_offload else [[_set("learner.optimizer_offload", True)]]


def _engine_dtype(config: RunConfig, _: Plan) -> list[Way]:
    return [[_set("engine.dtype", "bfloat16")]] if config.engine.dtype == "float32" else []


def _learner_dtype(config: RunConfig, _: Plan) -> list[Way]:
    return [[_set("learner.dtype", "bfloat16")]] if config.learner.dtype == "float32" else []


def _tensor_parallel(config: RunConfig, plan: Plan) -> list[Way]:
    now = config.engine.tensor_parallel_size
    sizes = [one for one in PARALLEL if now and one > now and plan.shape.heads % one == 0]
    return [[_set("engine.tensor_parallel_size", size)] for size in sizes]


def _lora(config: RunConfig, _: Plan) -> list[Way]:
    is_possible = config.model.path is not None and config.learner.lora is None
    return [[_set("learner.lora.rank", LORA_RANK)]] if is_possible else []


def _context(config: RunConfig, _: Plan) -> list[Way]:
    """Half of the context; then also micro-batches of its size."""
    half = config.max_context // 2
    if half < SMALLEST_CONTEXT:
        return []
    context = _set("horizon.max_context", half)
    return [[context], [context, _set("learner.max_tokens_per_micro_batch", half)]]


def _ranks(config: RunConfig, plan: Plan) -> list[Way]:
    """The fewest ranks, each on a GPU of its own, with which the run fits."""
    learner = config.learner
    gpus = sum(place.name != "memory" for place in plan.places)
    sizes = range(max(2, learner.num_ranks + 1), gpus + 9) if learner.device != "cpu" else ()
    return [[_set("learner.backend", "fsdp"), _set("learner.num_ranks", size)] for size in sizes]


CHANGES: tuple[Callable[[RunConfig, Plan], list[Way]], ...] = (
    _cache,
    _micro_batch,
    _activations,
    _engine_dtype,
    _learner_dtype,
    _offload,
    _tensor_parallel,
    _ranks,
    _lora,
    _context,
)
"""Changes, those first that cost a run the least. Each returns its ways, the smallest first."""


def _set(key: str, value: Any) -> str:
    return f"{key}={json.dumps(value)}"
