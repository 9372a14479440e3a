from pathlib import Path

import pytest
import torch
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
