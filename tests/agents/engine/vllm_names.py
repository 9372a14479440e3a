"""The names inside vLLM (0.32) that turnwise uses and that vLLM does not promise to keep.

``test_vllm.py`` looks each of them up, so that an update of vLLM names what it breaks. Attributes that vLLM sets in a
constructor (``EngineCore.scheduler``) and the parameters of its functions are not listed; the tests of the engine use
them.
"""

from collections.abc import Sequence
from importlib import import_module

ENGINE_CORE = (
    "vllm.v1.engine.core:EngineCore.abort_requests",
    "vllm.v1.engine.core:EngineCore.add_lora",
    "vllm.v1.engine.core:EngineCore.add_request",
    "vllm.v1.engine.core:EngineCore.collective_rpc",
    "vllm.v1.engine.core:EngineCore.pause_scheduler",
    "vllm.v1.engine.core:EngineCore.post_step",
    "vllm.v1.engine.core:EngineCore.preprocess_add_request",
    "vllm.v1.engine.core:EngineCore.resume_scheduler",
    "vllm.v1.engine.core:EngineCore.set_weight_version",
    "vllm.v1.engine.core:EngineCore.shutdown",
    "vllm.v1.engine.core:EngineCore.step",
    "vllm.usage.usage_lib:UsageContext.ENGINE_CONTEXT",
    "vllm.v1.core.sched.interface:SchedulerInterface.has_requests",
    "vllm.v1.engine:EngineCoreOutput.finish_reason",
    "vllm.v1.engine:EngineCoreOutput.new_logprobs",
    "vllm.v1.engine:EngineCoreOutput.new_token_ids",
    "vllm.v1.engine:EngineCoreOutput.prefill_stats",
    "vllm.v1.engine:EngineCoreOutput.request_id",
    "vllm.v1.engine:EngineCoreOutputs.outputs",
    "vllm.v1.engine:EngineCoreOutputs.weight_version",
    "vllm.v1.engine:EngineCoreRequest.arrival_time",
    "vllm.v1.engine:EngineCoreRequest.mm_features",
    "vllm.v1.engine:EngineCoreRequest.pooling_params",
    "vllm.v1.engine:EngineCoreRequest.prompt_token_ids",
    "vllm.v1.engine:EngineCoreRequest.request_id",
    "vllm.v1.engine:EngineCoreRequest.sampling_params",
    "vllm.v1.engine:EngineCoreRequest.lora_request",
    "vllm.v1.engine:EngineCoreRequest.cache_salt",
    "vllm.v1.engine:EngineCoreRequest.data_parallel_rank",
    "vllm.v1.executor:Executor.get_class",
    "vllm.v1.metrics.stats:PrefillStats.num_cached_tokens",
    "vllm.v1.metrics.stats:PrefillStats.num_prompt_tokens",
    "vllm.v1.outputs:LogprobsLists.logprobs",
)
"""Used by ``agents.engine.core``."""

WEIGHTS = (
    "vllm.distributed.weight_transfer.base:WeightTransferEngine",
    "vllm.distributed.weight_transfer.base:WeightTransferInitInfo",
    "vllm.distributed.weight_transfer.base:WeightTransferUpdateInfo",
    "vllm.distributed.weight_transfer.factory:WeightTransferEngineFactory._registry",
    "vllm.distributed.weight_transfer.factory:WeightTransferEngineFactory.register_engine",
    "vllm.lora.lora_model:LoRAModel.from_lora_tensors",
    "vllm.lora.model_manager:LoRAModelManager.activate_adapter",
    "vllm.lora.model_manager:LoRAModelManager.add_adapter",
    "vllm.lora.model_manager:LoRAModelManager.remove_adapter",
    "vllm.lora.peft_helper:PEFTHelper.from_dict",
    "vllm.lora.peft_helper:PEFTHelper.validate_legal",
    "vllm.lora.request:LoRARequest",
    "vllm.model_executor.model_loader.reload:finalize_layerwise_reload",
    "vllm.model_executor.model_loader.reload:initialize_layerwise_reload",
)
"""Used by ``agents.engine.weight_worker`` and ``agents.weights``."""

CPU = (
    "vllm._custom_ops:_supports_onednn",
    "vllm.model_executor.layers.fused_moe.experts.cpu_moe:CPUUnquantizedExperts.apply",
    "vllm.model_executor.layers.fused_moe.experts.cpu_moe:CPUUnquantizedExperts.process_weights_after_loading",
    "vllm.model_executor.layers.utils:check_cpu_sgl_kernel",
    "vllm.model_executor.layers.utils:dispatch_cpu_unquantized_gemm",
    "vllm.v1.attention.backend:MultipleOf",
    "vllm.v1.attention.backends.cpu_attn:CPUAttentionBackend.get_supported_kernel_block_sizes",
    "vllm.engine.arg_utils:EngineArgs.ir_op_priority",
    "vllm.ir:ops.fused_add_rms_norm.impls",
    "vllm.ir:ops.fused_add_rms_norm.register_impl",
    "vllm.ir:ops.rms_norm.impls",
    "vllm.ir:ops.rms_norm.register_impl",
    "vllm.model_executor.parameter:BasevLLMParameter",
    "vllm._custom_ops:torch.ops._C.fused_add_rms_norm.default",
    "vllm._custom_ops:torch.ops._C.rms_norm.default",
)
"""Used by ``agents.engine.cpu_patches``, on a CPU only."""


def missing(names: Sequence[str]) -> list[str]:
    """Return those of ``names`` that the installed vLLM lacks. A name is a module and a path of attributes in it."""
    return [name for name in names if not _exists(name)]


def _exists(name: str) -> bool:
    module, path = name.split(":")
    try:
        found: object = import_module(module)
    except Exception:
        return False
    for part in path.split("."):
        fields = getattr(found, "__annotations__", {})
        if not hasattr(found, part) and part not in fields:
            return False
        found = getattr(found, part, None)
    return True
