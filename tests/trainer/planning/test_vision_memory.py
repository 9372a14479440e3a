"""The planned memory of a vision tower against what `transformers` makes and torch keeps for the gradient."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForImageTextToText
from turnwise.agents.engine.config import FEATURES_KEPT_BYTES
from turnwise.agents.tiny_vision_model import new_vision_model
from turnwise.tests.trainer.planning.planned_runs import run_config
from turnwise.trainer.learner.model.vision_families import family_of
from turnwise.trainer.planning.learner_memory import LearnerMemory, Workload, largest_workload
from turnwise.trainer.planning.model_shape import ModelShape
from turnwise.trainer.planning.model_source import model_shape
from turnwise.trainer.planning.observed_images import NO_IMAGES, ObservedImages, observed_images
from turnwise.trainer.planning.processes import planned_processes
from turnwise.trainer.warmup.vocabulary import closed_vocabulary

SIDE = 40
"""Patches along each side of an image."""
WORK = Workload(tokens=64, trained_tokens=64, is_split=True, image_tokens=48, update_image_tokens=480)


TEXT: dict[str, Any] = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
}
SQUARES = {"num_heads": 2, "out_hidden_size": 64, "patch_size": 4}
TOWERS: dict[str, dict[str, Any]] = {
    "qwen3_vl": {"depth": 3, **SQUARES, "num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]},
    "llava": {"num_hidden_layers": 3, "num_attention_heads": 2, "patch_size": 4, "image_size": 4 * SIDE},
    "qwen2_5_vl": {"depth": 3, **SQUARES, "window_size": 16, "fullatt_block_indexes": [1]},
}


def config_of(family: str = "qwen3_vl", **vision: int) -> Any:
    tower = {"hidden_size": 64, "intermediate_size": 128, **TOWERS[family], **vision}
    text = {**TEXT, "model_type": "llama"} if family == "llava" else TEXT
    return AutoConfig.for_model(family, text_config=text, vision_config=tower)


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

    family, grids = family_of(model), torch.tensor([[1, SIDE, SIDE]])
    assert family is not None
    values = torch.randn(1, 3, 4 * SIDE, 4 * SIDE) if config.model_type == "llava" else torch.randn(SIDE**2, 96)
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


def test_the_images_of_a_run_are_those_of_its_window_and_of_its_pictures() -> None:
    """8 episodes of 5 turns with a picture each, and contexts of 2 pictures: 4 samples per episode."""
    images = ObservedImages(count=1, tokens=6)
    rollout = {"groups_per_batch": 2, "group_size": 4}
    horizon = {"max_turns": 5, "max_images": 2, "max_context": 100, "max_tokens_per_turn": 4}
    config = run_config(rollout=rollout, horizon=horizon, learner={"max_tokens_per_micro_batch": 5000})
    work = largest_workload(config, images)
    assert work == Workload(3200, 3200, is_split=False, image_tokens=32 * 12, update_image_tokens=40 * 6)
    text = largest_workload(config)
    assert text == Workload(800, 800, is_split=False)
    small = largest_workload(
        run_config(rollout=rollout, horizon=horizon, learner={"max_tokens_per_micro_batch": 200}), images
    )
    assert small == Workload(200, 200, is_split=True, image_tokens=200, update_image_tokens=240)


def test_a_new_model_that_reads_images_is_planned_with_its_tower(tmp_path: Path) -> None:
    config = run_config(environments=[{"id": "turnwise/TinyPixelsWeb-v0"}], model={"new": {"hidden": 64, "heads": 2}})
    shape = model_shape(config)
    words = closed_vocabulary(config.environments)
    made = new_vision_model(tmp_path / "model", words, hidden=64, heads=2)
    assert shape == ModelShape.of(AutoConfig.from_pretrained(made))
    assert observed_images(config, shape) == ObservedImages(count=1, tokens=16)
    assert observed_images(config, replace(shape, vision=None)) == NO_IMAGES


def test_an_image_has_tokens_by_its_size_unless_their_number_is_fixed() -> None:
    scaled, fixed = ModelShape.of(config_of()).vision, ModelShape.of(AutoConfig.for_model("llava")).vision
    assert scaled is not None
    assert fixed is not None
    assert scaled.image_tokens(81, 16) == 11 * 2
    assert fixed.image_tokens(81, 16) == fixed.image_tokens(2000, 2000) == 24**2 + 1


def test_images_that_an_engine_keeps_are_planned() -> None:
    shape = ModelShape.of(config_of())
    config = run_config()
    engine = next(one for one in planned_processes(config, shape) if one.name == "engine")
    assert engine.parts["kept images"] == FEATURES_KEPT_BYTES
    assert engine.parts["images"] == 4 * config.engine.max_num_batched_tokens * 3 * 64
    text = next(one for one in planned_processes(config, replace(shape, vision=None)) if one.name == "engine")
    assert not {"images", "kept images"} & set(text.parts)
