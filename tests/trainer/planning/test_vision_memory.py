"""The planned memory of a vision tower against what `transformers` makes and torch keeps for the gradient."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForImageTextToText
from turnwise.tests.trainer.planning.planned_runs import run_config
from turnwise.trainer.learner.model.vision_families import family_of
from turnwise.trainer.planning.learner_memory import LearnerMemory, Workload
from turnwise.trainer.planning.model_shape import ModelShape

SIDE = 40
"""Patches along each side of an image."""
WORK = Workload(tokens=64, trained_tokens=64, is_split=True)


TEXT = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
}
SQUARES = {"num_heads": 2, "out_hidden_size": 64, "patch_size": 4}
TOWERS = {
    "qwen3_vl": {"depth": 3, **SQUARES, "num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]},
    "qwen2_5_vl": {"depth": 3, **SQUARES, "window_size": 16, "fullatt_block_indexes": [1]},
}


def config_of(family: str = "qwen3_vl", **vision: int) -> Any:
    tower = {"hidden_size": 64, "intermediate_size": 128, **TOWERS[family], **vision}
    return AutoConfig.for_model(family, text_config=TEXT, vision_config=tower)


@pytest.mark.parametrize("family", TOWERS)
@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_counted_as_the_class_makes_them(family: str, tied: bool) -> None:
    config = config_of(family)
    config.tie_word_embeddings = tied
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    assert ModelShape.of(config).parameters == sum(one.numel() for one in model.parameters())


def kept_bytes(config: Any) -> int:
    """Return the bytes that the tower keeps of one image for its gradient, and of its result."""
    model, kept = AutoModelForImageTextToText.from_config(config), dict[int, int]()
    own = {one.untyped_storage().data_ptr() for one in model.parameters()}

    def count(value: torch.Tensor) -> torch.Tensor:
        storage = value.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return value

    values, grids = torch.randn(SIDE**2, 96), torch.tensor([[1, SIDE, SIDE]])
    family = family_of(model)
    assert family is not None
    with torch.autograd.graph.saved_tensors_hooks(count, lambda value: value):
        features = family.features(model.base_model, values, grids)
    return sum(kept.values()) + sum(one.nbytes for layer in features for one in layer)


@pytest.mark.parametrize("family", TOWERS)
@pytest.mark.parametrize("vision", [{}, {"hidden_size": 96}, {"intermediate_size": 256}])
def test_a_trained_tower_keeps_about_the_planned_bytes(family: str, vision: dict[str, int]) -> None:
    torch.set_num_threads(1)
    config = config_of(family, **vision)
    shape = ModelShape.of(config).vision
    assert shape is not None
    planned = shape.image_bytes(is_trained=True, is_bfloat16=False, is_checkpointed=False) * SIDE**2 / shape.merged
    assert 1.0 <= planned / kept_bytes(config) < 1.15


def test_a_frozen_tower_has_no_gradient_and_keeps_less() -> None:
    shape = ModelShape.of(config_of())
    assert shape.vision is not None
    parts = {
        name: LearnerMemory(shape, run_config(learner=learner), WORK)
        for name, learner in {
            "trained": {},
            "frozen": {"vision": "frozen"},
            "checkpointed": {"activation_checkpointing": True},
            "adapter": {"lora": {"rank": 2}},
        }.items()
    }
    assert parts["trained"].trained - parts["frozen"].trained == shape.vision.parameters
    images = {name: one._images() for name, one in parts.items()}
    assert images["adapter"] == images["frozen"] < images["checkpointed"] < images["trained"]
    assert parts["frozen"].parts["weights"] == parts["trained"].parts["weights"] == 4 * shape.parameters
