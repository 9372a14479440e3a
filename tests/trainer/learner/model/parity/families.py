"""Tiny models of every family, with random weights, a tokenizer trained on a text of its own, and a chat template.

The configurations exercise what sets a family apart: windows shorter than the sequences, soft caps, sinks, experts,
normalized queries and keys, scaled logits, tied embeddings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .tokenizers import CHATML, GEMMA, GPT_OSS, GRANITE, LLAMA, MISTRAL, OLMO, PHI, ChatStyle, new_tokenizer

MAX_CONTEXT = 256
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": MAX_CONTEXT,
}
WINDOW = {"sliding_window": 16}
EVERY_SECOND = {**WINDOW, "layer_types": ["sliding_attention", "full_attention"] * 2}
STRETCHED = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": MAX_CONTEXT // 4,
    "truncate": False,
}
"""A rotary embedding for longer contexts than the model was trained with at first."""
EXPERTS = {"num_experts_per_tok": 2}
STANDARD_DEVIATION = 0.1
"""Of random weights, and of the noise of scales and biases: every part of a layer changes the log-probabilities."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family of models: its type in `transformers`, options that differ from ``SIZES``, and how it writes a chat."""

    model_type: str
    chat: ChatStyle
    options: Mapping[str, Any] = field(default_factory=dict)


FAMILIES = {
    "qwen2": Family("qwen2", CHATML, {"tie_word_embeddings": True}),
    "qwen3": Family("qwen3", CHATML, {"tie_word_embeddings": True}),
    "llama": Family("llama", LLAMA),
    "mistral": Family("mistral", MISTRAL, WINDOW),
    "gemma2": Family(
        "gemma2",
        GEMMA,
        {
            **EVERY_SECOND,
            "query_pre_attn_scalar": 32,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma3": Family("gemma3_text", GEMMA, {**EVERY_SECOND, "query_pre_attn_scalar": 32}),
    "olmo2": Family("olmo2", OLMO),
    "granite": Family(
        "granite",
        GRANITE,
        {
            "tie_word_embeddings": True,
            "attention_multiplier": 0.1,
            "embedding_multiplier": 6.0,
            "residual_multiplier": 0.3,
            "logits_scaling": 4.0,
        },
    ),
    "phi3": Family("phi3", PHI, {**WINDOW, "original_max_position_embeddings": MAX_CONTEXT}),
    "qwen3_moe": Family("qwen3_moe", CHATML, {**EXPERTS, "num_experts": 8, "moe_intermediate_size": 32}),
    "gpt_oss": Family(
        "gpt_oss", GPT_OSS, {**EXPERTS, **EVERY_SECOND, "num_local_experts": 4, "rope_parameters": STRETCHED}
    ),
}


def new_family_model(name: str, folder: Path) -> Path:
    """Write a tiny model of the family ``name`` with its tokenizer to ``folder``."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    family = FAMILIES[name]
    tokenizer = new_tokenizer(family.chat, MAX_CONTEXT)
    config = AutoConfig.for_model(
        family.model_type,
        vocab_size=len(tokenizer),
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **{**SIZES, **family.options},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for parameter in model.parameters():
                kept = parameter if parameter.ndim == 1 else torch.zeros(())
                parameter.copy_(kept + STANDARD_DEVIATION * torch.randn(parameter.shape))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
