"""The trainer's side of weight updates: the buffer holds the parameters, and ``close`` frees it."""

import mmap
from pathlib import Path
from typing import Any

import pytest
import torch
from turnwise.agents.weights.shm_writer import GENERATION_BYTES, WeightWriter, read_generation


class Tied(torch.nn.Module):
    """Two layers that share one weight, and a third layer with another dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(5, 3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight
        self.small = torch.nn.Linear(3, 7, dtype=torch.bfloat16)


def read(meta: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors that an engine reads from the buffer."""
    with Path(meta["path"]).open("r+b") as file:
        buffer = mmap.mmap(file.fileno(), 0)
    assert read_generation(buffer) == meta["generation"]
    layout = zip(meta["names"], meta["dtypes"], meta["shapes"], meta["offsets"], strict=True)
    return {
        name: torch.frombuffer(
            buffer,
            dtype=getattr(torch, dtype),
            count=torch.Size(shape).numel(),
            offset=GENERATION_BYTES + offset,
        ).view(shape)
        for name, dtype, shape, offset in layout
    }


@pytest.mark.parametrize("in_folder", [False, True])
def test_each_write_copies_the_current_parameters(tmp_path: Path, in_folder: bool) -> None:
    module = Tied()
    writer = WeightWriter(module.named_parameters(), tmp_path if in_folder else None)
    first = writer.write()
    with torch.no_grad():
        module.small.weight.add_(1)
    second = writer.write()
    assert second["generation"] == first["generation"] + 1
    found = read(second)
    expected = dict(module.named_parameters())
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_tied_weights_are_written_once() -> None:
    module = Tied()
    writer = WeightWriter(module.state_dict(keep_vars=True).items())
    assert writer.write()["names"] == ["embed.weight", "small.weight", "small.bias"]
    writer.close()


def test_closing_the_writer_frees_the_buffer() -> None:
    writer = WeightWriter(Tied().named_parameters())
    path = Path(writer.write()["path"])
    assert path.exists()
    writer.close()
    writer.close()
    assert not path.exists() or "turnwise-weights" not in str(path.readlink())
