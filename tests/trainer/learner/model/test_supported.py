"""Refuse models that the learner cannot train, by their configuration and class."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from transformers import AutoConfig
from turnwise.agents.engine.config import IMAGE_TYPES, ImagesNotSupported
from turnwise.agents.tokens import renderers
from turnwise.tests.trainer.learner.model.test_packed_attention import SMALL
from turnwise.trainer.learner.model.packed_attention import AttentionNotSupported
from turnwise.trainer.learner.model.supported import ModelNotSupported, refuse_unsupported
from turnwise.trainer.learner.model.vision_families import FAMILIES
from turnwise.trainer.planning.vision_memory import SIZES


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("mistral", {"sliding_window": 64}),
        ("gemma2", {}),
        ("gpt_oss", {}),
        ("qwen3_moe", {}),
    ],
)
def test_full_and_sliding_attention_are_accepted(tmp_path: Path, family: str, options: dict[str, Any]) -> None:
    AutoConfig.for_model(family, **SMALL, **options).save_pretrained(tmp_path)
    assert refuse_unsupported(tmp_path).model_type == family


@pytest.mark.parametrize(
    ("family", "options", "named"),
    [
        ("bloom", {"n_layer": 2, "n_head": 2}, "an attention fixed by its class"),
        ("falcon", {"head_dim": None}, "an attention fixed by its class"),
        (
            "gpt_neo",
            {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]},
            "an attention fixed by its class",
        ),
        ("gptj", {"n_embd": 16, "n_layer": 2, "n_head": 2, "rotary_dim": 4}, "an attention fixed by its class"),
        ("mamba", {}, "layers of the type linear_attention"),
        ("mpt", {"d_model": 16, "n_heads": 2, "n_layers": 2}, "an attention fixed by its class"),
        ("rwkv", {}, "an attention fixed by its class"),
        ("recurrent_gemma", {}, "layers of the type recurrent"),
        ("llama4_text", {}, "layers of the type chunked_attention"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "attention to later tokens"),
    ],
)
def test_any_other_attention_is_refused(tmp_path: Path, family: str, options: dict[str, Any], named: str) -> None:
    small = {name: value for name, value in {**SMALL, **options}.items() if value is not None}
    AutoConfig.for_model(family, **small).save_pretrained(tmp_path)
    with pytest.raises(AttentionNotSupported, match=rf"(?s)`model\.path`: .*{named}.*Set `model\.path` to a model"):
        refuse_unsupported(tmp_path)


def test_a_model_without_a_causal_class_is_refused(tmp_path: Path) -> None:
    AutoConfig.for_model("vit").save_pretrained(tmp_path)
    with pytest.raises(AttentionNotSupported, match="no causal language model in transformers"):
        refuse_unsupported(tmp_path)


def test_quantized_weights_are_refused(tmp_path: Path) -> None:
    config = AutoConfig.for_model("gpt_oss", **SMALL, quantization_config={"quant_method": "mxfp4"})
    config.save_pretrained(tmp_path)
    with pytest.raises(ModelNotSupported, match="weights are quantized"):
        refuse_unsupported(tmp_path)


def test_every_family_that_reads_images_is_rendered_trained_and_planned(tmp_path: Path) -> None:
    files = [import_module(f"{renderers.__name__}.{one.name}") for one in iter_modules(renderers.__path__)]
    rendered = {kind for file in files for kind in file.MODEL_TYPES}
    assert IMAGE_TYPES.keys() == rendered == FAMILIES.keys() == SIZES.keys()
    for family in IMAGE_TYPES:
        AutoConfig.for_model(family).save_pretrained(tmp_path)
        assert refuse_unsupported(tmp_path).model_type == family


def test_a_model_of_another_family_that_reads_images_is_refused(tmp_path: Path) -> None:
    AutoConfig.for_model("idefics3").save_pretrained(tmp_path)
    with pytest.raises(ImagesNotSupported, match=r"\(`idefics3`\) cannot be used: it reads images .*`qwen3_vl`"):
        refuse_unsupported(tmp_path)
