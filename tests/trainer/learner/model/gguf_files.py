"""GGUF files of small Llama models, written as llama.cpp's converter writes them."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFWriter, TokenType
from tokenizers.pre_tokenizers import ByteLevel
from transformers import LlamaConfig, LlamaForCausalLM

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot|>"]
MERGES = ["Ġ 1", "1 2", "a b", "Ġ a", "Ġ Ġ"]
TOKENS = [*SPECIAL, *sorted(ByteLevel.alphabet()), *(merge.replace(" ", "") for merge in MERGES)]


def small_llama(*, tied: bool = False) -> Any:
    """Return a Llama model with grouped queries and random weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=512,
        rope_parameters={"rope_type": "default", "rope_theta": 50_000.0},
        tie_word_embeddings=tied,
    )
    return LlamaForCausalLM(config).eval()


def write_gguf(
    path: Path, model: Any, *, without: str = "", arch: str = "llama", more: tuple[str, ...] = (), **fields: Any
) -> Path:
    """Write a model as a GGUF file; ``fields`` replace or, with None, remove fields, dots written as ``__``.

    Args:
        without: name of a tensor to leave out.
        more: names of further tensors, of one row.
    """
    config = model.config
    writer = GGUFWriter(path, arch)
    values: dict[str, Any] = {
        f"{arch}.block_count": config.num_hidden_layers,
        f"{arch}.context_length": config.max_position_embeddings,
        f"{arch}.embedding_length": config.hidden_size,
        f"{arch}.feed_forward_length": config.intermediate_size,
        f"{arch}.attention.head_count": config.num_attention_heads,
        f"{arch}.attention.head_count_kv": config.num_key_value_heads,
        f"{arch}.rope.dimension_count": config.head_dim,
        f"{arch}.rope.freq_base": 50_000.0,
        f"{arch}.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "general.name": "small",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [TokenType.CONTROL] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.eos_token_id": TOKENS.index("<|im_end|>"),
        "tokenizer.ggml.eot_token_id": TOKENS.index("<|eot|>"),
        "tokenizer.chat_template": CHATML,
        **{name.replace("__", "."): value for name, value in fields.items()},
    }
    for name, value in values.items():
        if isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif value is not None:
            writer.add_array(name, value)
    for name, tensor in tensors(model).items():
        if name != without:
            writer.add_tensor(name, np.ascontiguousarray(tensor.detach().numpy()))
    for name in more:
        writer.add_tensor(name, np.ones(config.hidden_size, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensors(model: Any) -> dict[str, torch.Tensor]:
    """Return the weights under llama.cpp's names, with queries and keys in its order of rotated pairs."""
    config, state = model.config, model.state_dict()
    found = {"token_embd.weight": state["model.embed_tokens.weight"], "output_norm.weight": state["model.norm.weight"]}
    if not config.tie_word_embeddings:
        found["output.weight"] = state["lm_head.weight"]
    names = {
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
    }
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for layer in range(config.num_hidden_layers):
        for short, long in names.items():
            weight = state[f"model.layers.{layer}.{long}.weight"]
            if short in heads:
                split = weight.reshape(heads[short], 2, config.head_dim // 2, config.hidden_size)
                weight = split.swapaxes(1, 2).reshape(weight.shape)
            found[f"blk.{layer}.{short}.weight"] = weight
    return found
