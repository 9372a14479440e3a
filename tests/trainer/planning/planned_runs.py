"""Configurations and shapes for the tests of plans."""

import json
from pathlib import Path
from typing import Any

from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.planning.model_shape import ModelShape

QWEN3 = {"model_type": "qwen3", "head_dim": 128, "num_key_value_heads": 8, "vocab_size": 151_936}
PUBLIC = {
    "qwen3-0.6b": QWEN3
    | {
        "hidden_size": 1024,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "intermediate_size": 3072,
        "tie_word_embeddings": True,
    },
    "qwen3-4b": QWEN3
    | {
        "hidden_size": 2560,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "intermediate_size": 9728,
        "tie_word_embeddings": True,
    },
}
"""Published sizes, as in ``config.json``."""


def small_shape(**changes: Any) -> ModelShape:
    sizes: dict[str, Any] = {
        "model_type": "qwen3",
        "hidden": 256,
        "layers": 4,
        "heads": 8,
        "kv_heads": 4,
        "head_dim": 32,
        "intermediate": 768,
        "vocabulary": 4000,
        "is_tied": True,
    }
    return ModelShape(**sizes | changes)


def run_config(**sections: Any) -> RunConfig:
    return parse_config({"name": "planned", "environments": [{"id": "turnwise/TextSite-v0"}], **sections})


def model_folder(name: str, folder: Path) -> Path:
    """Write the ``config.json`` of a public model, as a download of that file alone would."""
    path = folder / name
    path.mkdir()
    (path / "config.json").write_text(json.dumps(PUBLIC[name]))
    return path
