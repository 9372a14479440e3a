import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from turnwise.agents.tiny_model import new_model
from turnwise.errors import TurnwiseError
from turnwise.trainer.learner.model.loading import load_model


def test_weights_that_would_be_unpickled_are_refused(tmp_path: Path) -> None:
    folder = new_model(tmp_path / "model", ["a", "b"])
    model = load_model(folder, "cpu")
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(TurnwiseError, match="safetensors"):
        load_model(folder, "cpu")


def test_files_of_weights_that_engine_and_learner_would_read_differently_are_refused(tmp_path: Path) -> None:
    folder = new_model(tmp_path / "model", ["a", "b"])
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    tensors = load_file(single)

    def refusal() -> str:
        with pytest.raises(TurnwiseError) as refused:
            load_model(folder, "cpu")
        assert "\n" not in str(refused.value)
        return str(refused.value)

    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    load_model(folder, "cpu")
    for name in ("weights.safetensors", "model-1.safetensors", "consolidated.safetensors"):
        save_file(tensors, folder / name, metadata={"format": "pt"})
        assert f"has `model.safetensors` and `{name}`, and the engine would read them all" in refusal()
        (folder / name).unlink()
    index.write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(tensors, "model-1.safetensors")}))
    assert "has `model.safetensors` and `model.safetensors.index.json`" in refusal()

    single.unlink()
    twice = min(tensors)
    save_file(tensors, folder / "model-1.safetensors", metadata={"format": "pt"})
    # The engine reads the files that the index names, and no other.
    save_file(tensors, folder / "consolidated.safetensors", metadata={"format": "pt"})
    load_model(folder, "cpu")
    save_file({twice: tensors[twice] + 1}, folder / "model-2.safetensors", metadata={"format": "pt"})
    index.write_text(
        json.dumps(
            {"metadata": {}, "weight_map": {name: f"model-{1 + (name == twice)}.safetensors" for name in tensors}}
        )
    )
    assert f"model-2.safetensors` holds `{twice}`, as another shard does" in refusal()


def test_a_quantized_model_ends_in_one_line(tmp_path: Path) -> None:
    folder = new_model(tmp_path / "model", ["a", "b"])
    config = json.loads((folder / "config.json").read_text())
    for method in ({"quant_method": "gptq", "bits": 4}, {"quant_method": "awq", "bits": 4}):
        (folder / "config.json").write_text(json.dumps({**config, "quantization_config": method}))
        with pytest.raises(TurnwiseError, match="the model cannot be loaded: ") as refused:
            load_model(folder, "cpu")
        assert "\n" not in str(refused.value)
