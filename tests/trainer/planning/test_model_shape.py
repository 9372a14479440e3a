"""The number of parameters is that of transformers' own class, for every family."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from turnwise.trainer.planning.model_shape import ModelShape, UnknownShape
from turnwise.trainer.planning.model_source import shape_in

from .planned_runs import model_folder

SIZES = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
FAMILIES: dict[str, dict[str, int]] = {
    "qwen2": {},
    "qwen3": {"head_dim": 32},
    "llama": {},
    "mistral": {},
    "gemma2": {"head_dim": 32},
    "gemma3_text": {"head_dim": 32},
    "olmo2": {},
    "granite": {},
    "phi3": {},
    "qwen3_moe": {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "head_dim": 32},
    "mixtral": {"num_local_experts": 4},
    "gpt_oss": {"num_local_experts": 8, "head_dim": 32},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_are_counted_as_the_class_makes_them(family: str) -> None:
    config = AutoConfig.for_model(family, **SIZES, **FAMILIES[family])
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert ModelShape.of(config).parameters == sum(one.numel() for one in model.parameters())


def test_the_file_of_sizes_is_enough(tmp_path) -> None:
    assert shape_in(str(model_folder("qwen3-0.6b", tmp_path))).parameters == 596_049_920
    assert shape_in(str(model_folder("qwen3-4b", tmp_path))).parameters == 4_022_468_096


def test_windows_are_found() -> None:
    assert ModelShape.of(AutoConfig.for_model("gemma2", **SIZES)).has_windows
    assert not ModelShape.of(AutoConfig.for_model("qwen3", **SIZES)).has_windows


def test_a_model_without_the_sizes_of_a_decoder_is_refused() -> None:
    with pytest.raises(UnknownShape, match="num_attention_heads"):
        ModelShape.of(AutoConfig.for_model("mamba"))
