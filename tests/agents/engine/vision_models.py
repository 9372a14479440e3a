"""Tiny models of the families that read images, with random weights; their words are those of ``tiny_model``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnwise.agents.tiny_model import word_tokenizer
from turnwise.agents.tiny_vision_model import END, IMAGE, MAX_PIXELS, PATCH, START, VIDEO, new_vision_model

CONTEXT = 4096
LLAVA_IMAGE = "<image>"
SIDE = 3 * PATCH
"""Pixels of an image in the tiny LLaVA along each side."""
STANDARD_DEVIATION = 0.1
"""Of random weights, and of the noise of scales and biases: every part of a layer changes the log-probabilities."""


def new_vision_family(family: str, folder: Path, vocabulary: Sequence[str], hidden: int = 128) -> Path:
    """Write a model of two layers, with its tokenizer and its image processor."""
    if family == "qwen3_vl":
        return new_vision_model(folder, vocabulary, hidden=hidden, seed=2)
    return {"qwen2_5_vl": _qwen2_5_vl, "llava": _llava}[family](folder, vocabulary, hidden)


def _qwen2_5_vl(folder: Path, vocabulary: Sequence[str], hidden: int) -> Path:
    """Windows of 2 x 2 tokens in the first layer of the tower."""
    tokenizer = word_tokenizer(vocabulary, CONTEXT, control=(START, IMAGE, VIDEO, END))
    start, image, video, end = tokenizer.convert_tokens_to_ids([START, IMAGE, VIDEO, END])
    size = hidden // 4
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [size // 4, size // 8, size // 8]}
    tower = {
        "depth": 2,
        "hidden_size": hidden // 2,
        "intermediate_size": hidden,
        "num_heads": 4,
        "out_hidden_size": hidden,
        "patch_size": PATCH,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 4 * PATCH,
        "fullatt_block_indexes": [1],
    }
    _write_model(
        folder,
        "qwen2_5_vl",
        tokenizer,
        text_config=_text(tokenizer, hidden) | {"rope_parameters": rope},
        vision_config=tower,
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )
    for kind, file in (("image", "preprocessor_config.json"), ("video", "video_preprocessor_config.json")):
        settings = {
            f"{kind}_processor_type": f"Qwen2VL{kind.title()}Processor",
            "processor_class": "Qwen2_5_VLProcessor",
            "patch_size": PATCH,
            "temporal_patch_size": 2,
            "merge_size": 2,
            "size": {"shortest_edge": (2 * PATCH) ** 2, "longest_edge": MAX_PIXELS},
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
        }
        (folder / file).write_text(json.dumps(settings))
    return folder


def _llava(folder: Path, vocabulary: Sequence[str], hidden: int) -> Path:
    """A CLIP of three layers, of which the second is read, and a Llama."""
    tokenizer = word_tokenizer(vocabulary, CONTEXT, control=(LLAVA_IMAGE,))
    tower = {
        "model_type": "clip_vision_model",
        "num_hidden_layers": 3,
        "hidden_size": hidden // 2,
        "intermediate_size": hidden,
        "num_attention_heads": 4,
        "projection_dim": hidden,
        "patch_size": PATCH,
        "image_size": SIDE,
    }
    _write_model(
        folder,
        "llava",
        tokenizer,
        text_config={"model_type": "llama", **_text(tokenizer, hidden), "head_dim": hidden // 4},
        vision_config=tower,
        image_token_index=tokenizer.convert_tokens_to_ids(LLAVA_IMAGE),
        image_seq_length=(SIDE // PATCH) ** 2,
    )
    processor = {
        "image_processor_type": "CLIPImageProcessor",
        "size": {"shortest_edge": SIDE},
        "crop_size": {"height": SIDE, "width": SIDE},
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    files = {"processor_class": "LlavaProcessor", "patch_size": PATCH, "image_token": LLAVA_IMAGE}
    files |= {"vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    (folder / "processor_config.json").write_text(json.dumps(files))
    return folder


def _text(tokenizer: Any, hidden: int) -> dict[str, Any]:
    """Return the configuration of a decoder."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def _write_model(folder: Path, family: str, tokenizer: Any, **options: Any) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText
    from transformers.utils import logging

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        config = AutoConfig.for_model(family, **options)
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for parameter in model.parameters():
                kept = parameter if parameter.ndim == 1 else torch.zeros(())
                parameter.copy_(kept + STANDARD_DEVIATION * torch.randn(parameter.shape))
    logging.disable_progress_bar()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
