"""Reject models without full causal attention, by their configuration and in a forward pass."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from turnwise.trainer.learner.model import packed_attention
from turnwise.trainer.learner.model.packed_attention import AttentionNotSupported, packed, refuse_unsupported

SMALL = {
    "vocab_size": 16,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@pytest.mark.parametrize(
    ("family", "options", "named"),
    [
        ("mistral", {"sliding_window": 64}, "a sliding window of 64 tokens"),
        ("gemma2", {}, "layers of the type sliding_attention"),
        ("gemma2", {"layer_types": ["full_attention"] * 2}, "a soft cap of 50 on its attention logits"),
        ("qwen3", {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 0}, "sliding_attention"),
        ("gpt_oss", {"layer_types": ["full_attention"] * 2}, None),
    ],
)
def test_other_than_full_attention_is_rejected(
    tmp_path: Path, family: str, options: dict[str, Any], named: str | None
) -> None:
    config = AutoConfig.for_model(family, **SMALL, **options)
    config.save_pretrained(tmp_path)
    if named:
        with pytest.raises(AttentionNotSupported) as rejected:
            refuse_unsupported(tmp_path)
        assert named in str(rejected.value)
        assert "Set `model.path` to a model" in str(rejected.value)
        assert "another attention" not in str(rejected.value)
    config._attn_implementation = packed_attention.NAME
    ids = torch.arange(4)[None]
    with pytest.raises(AttentionNotSupported), packed([4]):
        AutoModelForCausalLM.from_config(config)(input_ids=ids, position_ids=ids, use_cache=False)


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("llama", {}),
        ("mistral", {"sliding_window": None}),
        ("qwen2", {"sliding_window": 64, "use_sliding_window": False}),
        ("qwen3", {}),
        ("glm4", {}),
        ("olmo2", {}),
        ("phi3", {}),
    ],
)
def test_full_attention_is_accepted_and_packed_sequences_are_independent(
    tmp_path: Path, family: str, options: dict[str, Any]
) -> None:
    config = AutoConfig.for_model(family, **SMALL, **options)
    config.save_pretrained(tmp_path)
    refuse_unsupported(tmp_path)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=packed_attention.NAME).eval()
    ids = torch.arange(3, 13)[None]
    with torch.no_grad():
        with packed([5]):
            alone = model(input_ids=ids[:, 5:], position_ids=torch.arange(5)[None], use_cache=False).logits
        with packed([5, 5]):
            both = model(input_ids=ids, position_ids=torch.arange(5).repeat(2)[None], use_cache=False).logits
    torch.testing.assert_close(both[:, 5:], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("bloom", {"n_layer": 2, "n_head": 2}),
        ("falcon", {"head_dim": None}),
        ("gpt_neo", {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]}),
        ("gptj", {"n_embd": 16, "n_layer": 2, "n_head": 2, "rotary_dim": 4}),
        ("mamba", {}),
        ("mpt", {"d_model": 16, "n_heads": 2, "n_layers": 2}),
        ("rwkv", {}),
    ],
)
def test_a_class_that_ignores_registered_attention_is_rejected(
    tmp_path: Path, family: str, options: dict[str, Any]
) -> None:
    small = {name: value for name, value in {**SMALL, **options}.items() if value is not None}
    AutoConfig.for_model(family, **small).save_pretrained(tmp_path)
    with pytest.raises(AttentionNotSupported, match=r"Set `model\.path` to a model"):
        refuse_unsupported(tmp_path)


def test_a_model_without_a_causal_class_is_rejected(tmp_path: Path) -> None:
    AutoConfig.for_model("vit").save_pretrained(tmp_path)
    with pytest.raises(AttentionNotSupported, match="no causal language model in transformers"):
        refuse_unsupported(tmp_path)
