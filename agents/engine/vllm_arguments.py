"""Arguments of vLLM's ``EngineArgs`` (0.32): those that every engine has, those that ``[engine]`` takes under vLLM's
own names, and those it refuses.

An argument is refused if turnwise sets it, or if the engine would then sample from another distribution than the one
whose log-probabilities the learner computes.
"""

from collections.abc import Mapping
from typing import Any

from .cpu_patches import norm_arguments

PASSED_THROUGH = frozenset(
    {
        # memory
        "gpu_memory_utilization",
        "num_gpu_blocks_override",
        "cpu_offload_gb",
        "offload_backend",
        "offload_group_size",
        "offload_num_in_group",
        "offload_prefetch_step",
        "kv_offloading_backend",
        "kv_offloading_size",
        "enable_cumem_allocator",
        # compilation
        "enforce_eager",
        "compilation_config",
        "cudagraph_capture_sizes",
        "max_cudagraph_capture_size",
        "optimization_level",
        "performance_mode",
        "kernel_config",
        "enable_flashinfer_autotune",
        # kernels
        "attention_backend",
        "attention_config",
        "disable_cascade_attn",
        "linear_backend",
        "moe_backend",
        "model_impl",
        # experts
        "enable_expert_parallel",
        "all2all_backend",
        "enable_eplb",
        "eplb_config",
        "expert_placement_strategy",
        # scheduling
        "enable_chunked_prefill",
        "enable_prefix_caching",
        "prefix_caching_hash_algo",
        "long_prefill_token_threshold",
        "max_num_scheduled_tokens",
        "scheduler_reserve_full_isl",
        "watermark",
        "disable_hybrid_kv_cache_manager",
        # processes
        "distributed_executor_backend",
        "distributed_timeout_seconds",
        "disable_custom_all_reduce",
        "numa_bind",
        "numa_bind_cpus",
        "numa_bind_nodes",
        "max_parallel_loading_workers",
        "model_loader_extra_config",
        "safetensors_load_strategy",
    }
)

_LOGPROBS = "the engine would sample from another distribution than the learner computes"
_SET = "turnwise sets it"
_REPLICA = "an engine is one replica: set `rollout.num_engines`, and `engine.tensor_parallel_size` for GPUs per engine"
REFUSED = {
    "async_scheduling": "weights are updated between two steps",
    "data_parallel_size": _REPLICA,
    "disable_log_stats": _SET,
    "disable_sliding_window": _LOGPROBS,
    "enable_lora": "`learner.lora` sets it",
    "enable_sleep_mode": "an engine that shares its GPU with the learner stays awake (`docs/gpu.md`)",
    "generation_config": _LOGPROBS,
    "hf_overrides": _LOGPROBS,
    "kv_cache_dtype": _LOGPROBS,
    "load_format": "engine and learner read the same safetensors",
    "logits_processors": _LOGPROBS,
    "logprobs_mode": _SET,
    "max_lora_rank": "`learner.lora.rank` sets it",
    "model": "set `model.path`",
    "override_generation_config": _LOGPROBS,
    "pipeline_parallel_size": _REPLICA,
    "quantization": _LOGPROBS,
    "scheduler_cls": _SET,
    "seed": "the engine samples without a seed",
    "speculative_config": "its log-probabilities are not checked against the learner's",
    "tokenizer": "set `model.path`",
    "trust_remote_code": "it would run code of the model's publisher",
    "weight_transfer_config": _SET,
    "worker_cls": _SET,
    "worker_extension_cls": _SET,
}
"""Reasons by name."""


def all_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an engine: those that every engine has, and ``arguments``. Imports vLLM."""
    from vllm.config import WeightTransferConfig
    from vllm.platforms import current_platform

    own = {
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "async_scheduling": False,
        "use_tqdm_on_load": False,
        "worker_extension_cls": "turnwise.agents.engine.weight_worker.WorkerExtension",
        "weight_transfer_config": WeightTransferConfig(backend="turnwise"),
    }
    if current_platform.is_cpu() and "kernel_config" not in arguments:
        own |= norm_arguments()
    return own | dict(arguments)
