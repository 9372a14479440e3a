"""The transport ``shm``: the buffer holds the parameters, a mixture is refused, and ``close`` frees the buffer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from turnwise.agents.weights.base import Link
from turnwise.agents.weights.shm import ShmReceiver, ShmSender
from turnwise.agents.weights.source import ParameterSource


class Tied(torch.nn.Module):
    """Two layers that share one weight, and a third layer with another dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(5, 3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight
        self.small = torch.nn.Linear(3, 7, dtype=torch.bfloat16)


@pytest.fixture
def module() -> Tied:
    return Tied()


@pytest.fixture
def sender(module: Tied) -> Iterator[ShmSender]:
    found = ShmSender(ParameterSource(module.named_parameters()), Link())
    yield found
    found.close()


def written(sender: ShmSender) -> dict[str, Any]:
    """Write, and return the offer."""
    sender.write()
    return sender.offer(0, "")


def read(offer: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in ShmReceiver(0, torch.device("cpu")).receive(offer)}


def test_each_write_copies_the_current_parameters(module: Tied, sender: ShmSender) -> None:
    receiver = ShmReceiver(0, torch.device("cpu"))
    first = written(sender)
    assert dict(receiver.receive(first)).keys() == dict(module.named_parameters()).keys()
    with torch.no_grad():
        module.small.weight.add_(1)
    second = written(sender)
    assert second["generation"] == first["generation"] + 1
    for found in (dict(receiver.receive(second)), read(second)):
        assert all(torch.equal(found[name], value) for name, value in module.named_parameters())


def test_tied_weights_are_written_once(module: Tied) -> None:
    sender = ShmSender(ParameterSource(module.state_dict(keep_vars=True).items()), Link())
    assert written(sender)["names"] == ["embed.weight", "small.weight", "small.bias"]
    sender.close()


def test_a_receiver_refuses_another_write_than_offered(sender: ShmSender) -> None:
    stale = written(sender)
    fresh = written(sender)
    with pytest.raises(RuntimeError, match="holds write 2, not 1: the learner must not write"):
        read(stale)
    receiver = ShmReceiver(0, torch.device("cpu"))
    values = receiver.receive(fresh)
    next(values)
    written(sender)
    with pytest.raises(RuntimeError, match="holds write 3, not 2"):
        list(values)


def test_a_receiver_follows_a_learner_to_its_next_buffer(module: Tied) -> None:
    """The next buffer may have the path and the generation of the one before it."""
    receiver = ShmReceiver(0, torch.device("cpu"))
    for value in (1.0, 2.0):
        with torch.no_grad():
            module.embed.weight.fill_(value)
        sender = ShmSender(ParameterSource(module.named_parameters()), Link())
        offer = written(sender)
        assert offer["generation"] == 1
        assert float(dict(receiver.receive(offer))["embed.weight"].mean()) == value
        sender.close()


def test_closing_the_sender_frees_the_buffer(module: Tied) -> None:
    sender = ShmSender(ParameterSource(module.named_parameters()), Link())
    sender.write()
    path = Path(sender.offer(0, "")["path"])
    assert path.exists()
    sender.close()
    sender.close()
    assert not path.exists() or "turnwise-weights" not in str(path.readlink())


def test_other_ranks_gather_and_offer_nothing(module: Tied) -> None:
    gathered: list[int] = []

    def whole(value: torch.Tensor) -> torch.Tensor:
        gathered.append(id(value))
        return value

    sender = ShmSender(ParameterSource(module.named_parameters(), whole), Link(rank=1))
    sender.write()
    assert len(gathered) == 3
    assert sender.offer(0, "") == {}
    sender.close()
