"""Refuse models that vLLM cannot serve as `transformers` computes them."""

from typing import Any

import pytest
from transformers import AutoConfig
from turnwise.agents.engine.config import (
    EngineConfig,
    ImagesNotSupported,
    ModelNotServable,
    refuse_other_images,
    refuse_unservable,
)

SMALL = {"vocab_size": 16, "hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
MIXED = {"num_hidden_layers": 2, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
LONG = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 16, "long_factor": [2.0] * 16}
LONGROPE = {"rope_parameters": LONG, "original_max_position_embeddings": 512, "max_position_embeddings": 1024}
DYNAMIC = {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}
CPU, GPU = EngineConfig(), EngineConfig(tensor_parallel_size=1)


@pytest.mark.parametrize(
    ("family", "options", "engine", "reason"),
    [
        ("qwen2", MIXED, GPU, "a mixture of sliding and full layers"),
        ("qwen3", MIXED, CPU, "a mixture of sliding and full layers"),
        ("llama", DYNAMIC, GPU, "rope_type = dynamic"),
        ("phi3", LONGROPE, GPU, "set `horizon.max_context` to at most 512"),
        ("llama", {"head_dim": 16}, CPU, "attention heads have the size 16"),
        ("olmo2", {"num_attention_heads": 8, "head_dim": None}, CPU, "attention heads have the size 16"),
        ("qwen3_moe", {"hidden_size": 48}, CPU, "a multiple of 32"),
    ],
)
def test_a_model_that_vllm_cannot_serve_is_refused(
    family: str, options: dict[str, Any], engine: EngineConfig, reason: str
) -> None:
    settings = {name: value for name, value in {**SMALL, **options}.items() if value is not None}
    model = AutoConfig.for_model(family, **settings)
    with pytest.raises(
        ModelNotServable, match=rf"^`model\.path`: vLLM cannot serve this model \({family}\): .*{reason}"
    ):
        refuse_unservable(model, engine, 1024)


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        ("gemma3", "differ by up to 0.0009 nats"),
        ("idefics3", "neither its images"),
        ("mllama", "neither its images"),
    ],
)
def test_a_model_of_another_family_that_reads_images_is_refused(family: str, reason: str) -> None:
    with pytest.raises(
        ImagesNotSupported, match=rf"^`--policy`: m \(`{family}`\) .*{reason}.*, Qwen3-VL \(`qwen3_vl`\)"
    ):
        refuse_other_images(AutoConfig.for_model(family), "m", "--policy")


def test_a_llava_with_other_parts_is_refused() -> None:
    pixtral = AutoConfig.for_model(
        "llava", vision_config={"model_type": "pixtral"}, text_config={"model_type": "mistral"}
    )
    reason = "its parts are `pixtral` and `mistral`, and those of the family `clip_vision_model` and `llama`"
    with pytest.raises(ImagesNotSupported, match=reason):
        refuse_other_images(pixtral, "m", "model.path")


@pytest.mark.parametrize(
    ("family", "options", "engine", "length"),
    [
        ("llama", {"head_dim": 16}, GPU, 1024),
        ("phi3", LONGROPE, CPU, 512),
        ("qwen2", {**MIXED, "max_window_layers": 0}, CPU, 1024),
        ("gemma3_text", {}, CPU, 1024),
        ("gpt_oss", {}, CPU, 1024),
    ],
)
def test_other_models_are_accepted(family: str, options: dict[str, Any], engine: EngineConfig, length: int) -> None:
    refuse_unservable(AutoConfig.for_model(family, **{**SMALL, **options}), engine, length)
