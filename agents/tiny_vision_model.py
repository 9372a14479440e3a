"""Tiny local policies that read images: ``new_vision_model`` writes a Hugging Face folder, as ``tiny_model`` does.

The model is a Qwen3-VL with a vision tower of two layers. Its tokenizer and its chat template are those of
``tiny_model``, with the control tokens of images.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .tiny_model import initialize, word_tokenizer

START, IMAGE, VIDEO, END = "<|vision_start|>", "<|image_pad|>", "<|video_pad|>", "<|vision_end|>"
PATCH = 14
"""Pixels of a patch along each side, unless a model has another size; a token has 2 x 2 patches."""
MAX_PIXELS = 448 * 448


def new_vision_model(
    path: str | Path,
    vocabulary: Sequence[str],
    *,
    hidden: int = 128,
    layers: int = 2,
    heads: int = 4,
    seed: int = 0,
    max_context: int = 4096,
    patch_size: int = PATCH,
) -> Path:
    """Write a randomly initialized float32 model, its word-level tokenizer and its image processor to ``path``.

    ``patch_size`` is the side of an image's patch, in pixels; a token of an image has 2 x 2 patches.

    Raises:
        ValueError, FileExistsError: as ``tiny_model.new_model``.
    """
    import torch
    from transformers import Qwen3VLForConditionalGeneration
    from transformers.utils import logging

    path = Path(path)
    if (path / "config.json").exists():
        raise FileExistsError(f"{path} already holds a model; choose another folder, or delete it first")
    tokenizer = _tokenizer(vocabulary, max_context)
    config = _config(tokenizer, hidden, layers, heads, max_context, patch_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3VLForConditionalGeneration(config).to(torch.float32)
        initialize(model.model.language_model, model.model.language_model.layers)
        _initialize_vision(model.model.visual)
    logging.disable_progress_bar()
    path.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(path)
    return _write_processors(path, tokenizer, patch_size)


def new_vision_tokenizer(path: Path, vocabulary: Sequence[str], max_context: int, patch_size: int = PATCH) -> Path:
    """Write the tokenizer, the image processor and a configuration, without weights.

    Raises:
        ValueError: as ``new_vision_model``.
    """
    tokenizer = _tokenizer(vocabulary, max_context)
    _config(tokenizer, 32, 1, 1, max_context, patch_size).save_pretrained(path)
    return _write_processors(path, tokenizer, patch_size)


def vision_model_config(
    vocabulary: Sequence[str],
    *,
    hidden: int = 128,
    layers: int = 2,
    heads: int = 4,
    max_context: int = 4096,
    patch_size: int = PATCH,
) -> Any:
    """Return the configuration of the model that ``new_vision_model`` makes.

    Raises:
        ValueError: as ``new_vision_model``.
    """
    return _config(_tokenizer(vocabulary, max_context), hidden, layers, heads, max_context, patch_size)


def _tokenizer(vocabulary: Sequence[str], max_context: int) -> Any:
    return word_tokenizer(vocabulary, max_context, control=(START, IMAGE, VIDEO, END))


def _config(tokenizer: Any, hidden: int, layers: int, heads: int, max_context: int, patch_size: int) -> Any:
    from transformers import Qwen3VLConfig

    if hidden % heads:
        raise ValueError(f"hidden ({hidden}) must be a multiple of heads ({heads})")
    size, (start, image, video, end) = hidden // heads, tokenizer.convert_tokens_to_ids([START, IMAGE, VIDEO, END])
    return Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": hidden,
            "intermediate_size": 2 * hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "head_dim": size,
            "max_position_embeddings": max_context,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e6,
                "mrope_section": [size // 4, size // 8, size // 8],
                "mrope_interleaved": True,
            },
            "tie_word_embeddings": True,
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            "depth": 2,
            "hidden_size": hidden // 2,
            "intermediate_size": hidden,
            "num_heads": heads,
            "out_hidden_size": hidden,
            "patch_size": patch_size,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )


def _initialize_vision(tower: Any) -> None:
    """Initialize the tower so that a token depends on what it shows and on its place together, not on their sum: the
    average over an image then says what is where, before attention has learned to look."""
    import torch

    with torch.no_grad():
        tower.pos_embed.weight.normal_(0, 1)
        for parameter in tower.blocks.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, 0.08)
        for parameter in tower.merger.parameters():
            if parameter.ndim == 2:
                torch.nn.init.orthogonal_(parameter)


def _write_processors(path: Path, tokenizer: Any, patch_size: int) -> Path:
    tokenizer.save_pretrained(path)
    for kind, processor in (("image", "Qwen2VLImageProcessor"), ("video", "Qwen3VLVideoProcessor")):
        settings = {
            f"{kind}_processor_type": processor,
            "processor_class": "Qwen3VLProcessor",
            "patch_size": patch_size,
            "temporal_patch_size": 2,
            "merge_size": 2,
            "size": {"shortest_edge": (2 * patch_size) ** 2, "longest_edge": MAX_PIXELS},
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
        }
        name = "preprocessor_config.json" if kind == "image" else "video_preprocessor_config.json"
        (path / name).write_text(json.dumps(settings, indent=2))
    return path
