"""The transport ``collective`` over gloo: exact weights, and an end in bounded time when a side is lost."""

import multiprocessing
import os
import signal
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import pytest
import torch
from torch import Tensor
from turnwise.agents.weights.base import EngineLost, Link
from turnwise.agents.weights.collective import group
from turnwise.agents.weights.collective.group import TransferFailed
from turnwise.agents.weights.collective.receiver import CollectiveReceiver
from turnwise.agents.weights.collective.sender import CollectiveSender
from turnwise.agents.weights.source import ParameterSource

BUCKET_BYTES = 4096
CPU = torch.device("cpu")
SPAWN = multiprocessing.get_context("spawn")
"""A fork of this process, which has gloo's threads, may find a lock of theirs taken, and wait without end."""


@pytest.fixture
def weights() -> dict[str, Tensor]:
    """Parameters of many sizes: several in a bucket, one larger than a bucket, and a scalar."""
    generator = torch.Generator().manual_seed(1)
    shapes = [(7, 5), (64,), (300, 11), (2, 3, 4), (), (40, 20), (1,)]
    values = {f"p{index}": torch.randn(shape, generator=generator) for index, shape in enumerate(shapes)}
    return {**values, "low": torch.randn(9, 9, generator=generator).bfloat16(), "transposed": values["p0"].t()}


@pytest.fixture
def sender(weights: dict[str, Tensor]) -> Iterator[CollectiveSender]:
    found = CollectiveSender(ParameterSource(weights.items()), Link(), BUCKET_BYTES)
    yield found
    found.close()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as found:
        yield found


def receive(receiver: CollectiveReceiver, offer: dict[str, Any]) -> dict[str, Tensor]:
    return dict(receiver.receive(offer))


def die_as_the_engine(offer: dict[str, Any], cause: signal.Signals, ready: Connection) -> None:
    """Receive one bucket, then die."""
    received = CollectiveReceiver(0, CPU).receive(offer)
    ready.send("ready")
    next(received)
    os.kill(os.getpid(), cause)


def die_as_the_learner(names: list[str], offers: Connection) -> None:
    """Die while the second bucket is gathered."""
    values = {name: torch.zeros(BUCKET_BYTES // 4) for name in names}
    gathered = []

    def whole(value: Tensor) -> Tensor:
        gathered.append(value)
        if len(gathered) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    sender = CollectiveSender(ParameterSource(values.items(), whole), Link(), BUCKET_BYTES)
    offers.send(sender.offer(0, "first"))
    sender.send(0)


def equal(found: dict[str, Tensor], weights: dict[str, Tensor]) -> bool:
    return found.keys() == weights.keys() and all(torch.equal(found[name], weights[name]) for name in weights)


def test_the_learner_holds_one_gathered_parameter_of_a_bucket(
    weights: dict[str, Tensor], executor: ThreadPoolExecutor
) -> None:
    gathered: list[weakref.ref[Any]] = []
    held: list[int] = []

    def whole(value: Tensor) -> Tensor:
        held.append(sum(one() is not None for one in gathered))
        memory = value.numpy().copy()
        gathered.append(weakref.ref(memory))
        return torch.from_numpy(memory)

    small = {name: value for name, value in weights.items() if name not in ("p2", "low")}
    sender = CollectiveSender(ParameterSource(small.items(), whole), Link(), bucket_bytes=1 << 16)
    receiving = executor.submit(receive, CollectiveReceiver(0, CPU), sender.offer(0, "a"))
    sender.send(0)
    assert equal(receiving.result(), small)
    assert max(held) == 1
    sender.close()


def test_engines_receive_every_version(
    weights: dict[str, Tensor], sender: CollectiveSender, executor: ThreadPoolExecutor
) -> None:
    engines = [CollectiveReceiver(0, CPU) for _ in range(2)]
    for _ in range(3):
        for value in weights.values():
            value += 1
        sender.write()
        for number, engine in enumerate(engines):
            received = executor.submit(receive, engine, sender.offer(number, "first"))
            sender.send(number)
            assert equal(received.result(), weights)


def test_all_workers_of_an_engine_receive_the_weights(weights: dict[str, Tensor], executor: ThreadPoolExecutor) -> None:
    sender = CollectiveSender(ParameterSource(weights.items()), Link(workers_per_engine=2), BUCKET_BYTES)
    offer = sender.offer(0, "first")
    workers = [executor.submit(receive, CollectiveReceiver(worker, CPU), offer) for worker in range(2)]
    sender.send(0)
    assert all(equal(one.result(), weights) for one in workers)
    sender.close()


def test_other_ranks_gather_and_join_no_group(weights: dict[str, Tensor]) -> None:
    gathered: list[int] = []

    def whole(value: Tensor) -> Tensor:
        gathered.append(id(value))
        return value

    sender = CollectiveSender(ParameterSource(weights.items(), whole), Link(rank=1), BUCKET_BYTES)
    assert sender.offer(0, "first") == {}
    sender.send(0)
    assert gathered == [id(value) for value in weights.values()]


def test_the_learner_gathers_one_bucket_ahead(executor: ThreadPoolExecutor) -> None:
    """The engine stops at its first parameter: it has a bucket and receives another; the learner packs a third."""
    gathered: list[str] = []
    values = {f"p{index}": torch.full((512,), float(index)) for index in range(20)}
    names = {id(value): name for name, value in values.items()}

    def whole(value: Tensor) -> Tensor:
        gathered.append(names[id(value)])
        return value

    sender = CollectiveSender(ParameterSource(values.items(), whole), Link(), bucket_bytes=2048)
    received = CollectiveReceiver(0, CPU).receive(sender.offer(0, "first"))
    sending = executor.submit(sender.send, 0)
    first = next(received)
    assert first[0] == "p0"
    time.sleep(0.2)
    assert not sending.done()
    assert len(gathered) <= 4
    assert equal(dict([first, *received]), values)
    sending.result()
    sender.close()


def test_a_receiver_refuses_another_transfer_than_offered(
    sender: CollectiveSender, executor: ThreadPoolExecutor
) -> None:
    stale = sender.offer(0, "first")
    sender.offer(0, "first")
    received = executor.submit(receive, CollectiveReceiver(0, CPU), stale)
    with pytest.raises(EngineLost, match="engine 0 did not receive the weights"):
        sender.send(0)
    with pytest.raises(RuntimeError, match="the learner sends transfer 2, not 1"):
        received.result()


def lost(act: Callable[[], None]) -> float:
    """Return the seconds until the engine counts as lost."""
    start = time.monotonic()
    with pytest.raises(EngineLost, match=r"engine 0 did not receive the weights: .* (failed|more than)"):
        act()
    return time.monotonic() - start


@pytest.mark.parametrize("cause", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.chaos
def test_a_lost_engine_ends_the_transfer_and_its_next_incarnation_is_served(
    monkeypatch: pytest.MonkeyPatch, executor: ThreadPoolExecutor, cause: signal.Signals
) -> None:
    monkeypatch.setattr(group, "BUCKET_TIMEOUT_S", 1.0)
    values = {f"p{index}": torch.full((1 << 20,), float(index)) for index in range(16)}
    gathered: list[float] = []

    def whole(value: Tensor) -> Tensor:
        gathered.append(float(value[0]))
        return value

    sender = CollectiveSender(ParameterSource(values.items(), whole), Link(), bucket_bytes=4 << 20)

    near, far = SPAWN.Pipe()
    engine = SPAWN.Process(target=die_as_the_engine, args=(sender.offer(0, "first"), cause, far))
    engine.start()
    far.close()
    assert near.recv() == "ready"
    assert lost(lambda: sender.send(0)) < 10
    assert gathered == [float(index) for index in range(16)], "other ranks wait for this one to gather"
    engine.kill()
    engine.join(10)
    received = executor.submit(receive, CollectiveReceiver(0, CPU), sender.offer(0, "second"))
    sender.send(0)
    assert equal(received.result(), values)
    sender.close()


def test_an_engine_that_never_joins_is_lost(monkeypatch: pytest.MonkeyPatch, sender: CollectiveSender) -> None:
    monkeypatch.setattr(group, "CONNECT_TIMEOUT_S", 0.2)
    sender.offer(0, "first")
    assert lost(lambda: sender.send(0)) < 5


@pytest.mark.chaos
def test_the_death_of_the_learner_ends_the_receipt(monkeypatch: pytest.MonkeyPatch, weights: dict[str, Tensor]) -> None:
    near, far = SPAWN.Pipe()
    learner = SPAWN.Process(target=die_as_the_learner, args=(list(weights), far))
    learner.start()
    far.close()
    offer = near.recv()
    start = time.monotonic()
    with pytest.raises(TransferFailed, match="failed, or took more than 60 s"):
        receive(CollectiveReceiver(0, CPU), offer)
    assert time.monotonic() - start < 10
    learner.join(10)
    monkeypatch.setattr(group, "CONNECT_TIMEOUT_S", 0.2)
    with pytest.raises(TransferFailed, match=r"the connection to the learner at 127\.0\.0\.1"):
        receive(CollectiveReceiver(0, CPU), offer)
