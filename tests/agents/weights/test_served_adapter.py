"""Adapters merged into the weights of an engine on a CPU."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from turnwise.agents.weights.served_adapter import merged_folder, merged_weights

NAME = "model.layers.0.q_proj"
WEIGHT = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
FIRST, SECOND = torch.tensor([[1.0, -1.0]]), torch.tensor([[1.0], [0.0], [2.0]])
SETTINGS = {"r": 1, "lora_alpha": 0.5}
MERGED = torch.tensor([[1.5, 1.5], [3.0, 4.0], [6.0, 5.0]])
"""``WEIGHT + 0.5 * SECOND FIRST``, worked out by hand."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    save_file({"other.weight": torch.ones(1)}, folder / "model-00001-of-00002.safetensors")
    save_file({f"{NAME}.weight": WEIGHT}, folder / "model-00002-of-00002.safetensors")
    return folder


def parts(layer: str = NAME) -> dict[str, torch.Tensor]:
    return {f"base_model.model.{layer}.lora_A.weight": FIRST, f"base_model.model.{layer}.lora_B.weight": SECOND}


def test_an_adapter_is_added_to_the_weights_of_its_model(model: Path) -> None:
    for _ in range(2):  # each time to the weights in the file
        [(name, merged)] = merged_weights(model, parts().items(), SETTINGS)
        assert name == f"{NAME}.weight"
        assert torch.equal(merged, MERGED)


def test_the_folder_of_an_adapter_names_its_model(model: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    save_file(parts(), adapter / "adapter_model.safetensors")
    (adapter / "adapter_config.json").write_text(json.dumps(SETTINGS | {"base_model_name_or_path": str(model)}))
    assert torch.equal(dict(merged_folder(adapter))[f"{NAME}.weight"], MERGED)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (parts("model.layers.1.q_proj"), "no tensor `model.layers.1.q_proj.weight`"),
        (dict(list(parts().items())[:1]), "one of the two parts"),
        ({"base_model.model.embed.lora_embedding_A": FIRST}, "not a part of a LoRA adapter"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(model: Path, tensors: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(merged_weights(model, tensors.items(), SETTINGS))
