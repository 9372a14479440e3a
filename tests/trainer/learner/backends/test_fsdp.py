"""Two ranks equal one: updates, checkpoints in both directions, published weights; a dead rank ends the update.

A start of two ranks takes 15 s of CPU, so CI starts them once; `make soak` adds losses, an adapter and three
ranks.
"""

import mmap
import re
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from turnwise.agents.tiny_model import new_model
from turnwise.agents.weights.base import Link
from turnwise.agents.weights.collective.receiver import CollectiveReceiver
from turnwise.agents.weights.shm import read_generation
from turnwise.errors import TurnwiseError
from turnwise.tests.agents.engine.vision_models import new_vision_family
from turnwise.tests.trainer.learner.model.image_samples import image_samples
from turnwise.tests.trainer.learner.train_samples import VOCABULARY, train_samples
from turnwise.trainer.algorithms.losses.base import PolicyLoss
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.config.sections import LearnerConfig, LoraConfig
from turnwise.trainer.learner.backends import fsdp
from turnwise.trainer.learner.backends.base import RankFailed, RanksLate
from turnwise.trainer.learner.backends.fsdp import FsdpLearner
from turnwise.trainer.learner.backends.local import Learner, NonFiniteLoss
from turnwise.trainer.learner.backends.rank import LearnerRank
from turnwise.trainer.learner.provenance.recording import LogprobTrace

LOCAL = LearnerConfig(
    learning_rate=1e-2,
    lr_warmup_steps=0,
    num_minibatches=3,
    num_epochs=2,
    max_kl=1e-3,
    max_tokens_per_micro_batch=24,
    activation_checkpointing=True,
)
FSDP = LOCAL.model_copy(update={"backend": "fsdp", "num_ranks": 2})


def written(learner: Learner | FsdpLearner) -> dict[str, Any]:
    """Publish the weights and return what engines read."""
    sender = learner.weights("shm", Link())
    sender.write()
    return sender.offer(0, "")


def start(backend: type[Learner] | type[FsdpLearner], folder: Path, reference: Path) -> Any:
    loss = DecoupledPPO(entropy_coef=0.1, reference_kl_coef=0.1)
    one = backend(folder, FSDP if backend is FsdpLearner else LOCAL, loss, Recompute(), 0.7)
    one.load_reference(reference)
    return one


def saved(learner: Any, folder: Path) -> Path:
    folder.mkdir()
    learner.save(folder)
    return folder


def published(learner: FsdpLearner) -> dict[str, torch.Tensor]:
    location = written(learner)
    with Path(location["path"]).open("r+b") as file:
        buffer = mmap.mmap(file.fileno(), 0)
    assert read_generation(buffer) == location["generation"]
    found = {}
    for name, shape, offset in zip(location["names"], location["shapes"], location["offsets"], strict=True):
        count = torch.Size(shape).numel()
        found[name] = torch.frombuffer(buffer, dtype=torch.float32, count=count, offset=offset)
    return found


def broadcast(learner: FsdpLearner) -> dict[str, torch.Tensor]:
    """Send the weights by the collective and return what an engine receives."""
    sender = learner.weights("collective", Link())
    sender.write()
    with ThreadPoolExecutor() as executor:
        receiver = CollectiveReceiver(0, torch.device("cpu"))
        received = executor.submit(lambda offer: dict(receiver.receive(offer)), sender.offer(0, "first"))
        sender.send(0)
        return received.result()


def load_in_turn(rank: LearnerRank) -> tuple[float, float]:
    """Take part in a load of 0.3 s, and return its beginning and end."""

    def work() -> tuple[float, float]:
        began = time.monotonic()
        time.sleep(0.3)
        return began, time.monotonic()

    return rank._ranks.in_turn(work, "the test")


def assert_loads_in_turn(ray: Any, learner: FsdpLearner) -> None:
    """Assert that the ranks, which are on one host, load one after the other."""
    times = sorted(ray.get([one.__ray_call__.remote(load_in_turn) for one in learner.actors], timeout=60))
    assert len(times) == len(learner.actors) > 1
    for (_, ended), (began, _) in pairwise(times):
        assert ended <= began


@pytest.mark.slow
def test_two_ranks_equal_one_and_a_dead_rank_ends_the_update(tmp_path: Path, ray: Any) -> None:
    model = new_model(tmp_path / "model", VOCABULARY, hidden=32, heads=2, seed=3)
    one = start(Learner, model, model)
    one.update(train_samples(9), 0.0, 0, Random(0))
    first = saved(one, tmp_path / "of-one-rank")
    two = start(FsdpLearner, first, model)
    two.load_optimizer(first)
    for update in range(3):
        samples = train_samples(update, 3 if update == 1 else 8)  # three: one rank is idle in each minibatch
        traces = LogprobTrace(), LogprobTrace()
        expected, found = (
            learner.update(samples, 0.0, update, Random(update), trace)
            for learner, trace in zip((one, two), traces, strict=True)
        )
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
        assert traces[0].current.keys() == traces[1].current.keys() == set(range(len(samples)))
        assert traces[0].first_step == traces[1].first_step
        assert 0 < len(traces[0].first_step) < len(samples)
        for index, values in traces[0].current.items():
            assert traces[1].current[index] == pytest.approx(values, abs=1e-5)
        weights = published(two)
        assert all(torch.equal(value.flatten(), weights[name]) for name, value in broadcast(two).items())
        assert weights.keys() == dict(one.named_parameters()).keys()
        for name, parameter in one.named_parameters():
            assert torch.allclose(weights[name], parameter.detach().flatten(), rtol=0, atol=1e-5)
    assert expected["step_scale"] < 1

    second = saved(two, tmp_path / "of-two-ranks")
    again = start(Learner, second, model)
    again.load_optimizer(second)
    assert all(torch.equal(value.flatten(), weights[name]) for name, value in again.named_parameters())
    moments = [
        load_file(saved(learner, tmp_path / name) / "training/optimizer/model.safetensors")
        for learner, name in ((one, "a"), (again, "b"))
    ]
    assert moments[0].keys() == moments[1].keys()
    assert all(torch.allclose(value, moments[1][name], rtol=0, atol=1e-5) for name, value in moments[0].items())

    assert_loads_in_turn(ray, two)

    location = written(two)
    with Path(location["path"]).open("r+b") as file:
        buffer = mmap.mmap(file.fileno(), 0)
    sender = two.weights("shm", Link())
    log = Path(two._logs[1])
    assert log.is_file()
    assert log != Path(two._logs[0])
    ray.kill(two.actors[1])
    died = re.escape(f"rank 1 of 2 of the learner died during `update`; on its node, {log} may show why")
    with pytest.raises(RankFailed, match=died):
        two.update(train_samples(0), 0.0, 6, Random(0))
    with pytest.raises(RankFailed, match="died during `write_weights`"):
        sender.write()
    assert read_generation(buffer) == location["generation"]


@pytest.mark.slow
def test_ranks_without_their_gpus_end_with_what_to_check(
    tmp_path: Path, ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ray.cluster_resources().get("GPU"):
        pytest.skip("this machine has GPUs")
    monkeypatch.setattr(fsdp, "START_TIMEOUT_S", 1.0)
    model = new_model(tmp_path / "model", VOCABULARY, hidden=32, heads=2, seed=3)
    config = FSDP.model_copy(update={"device": "cuda"})
    with pytest.raises(RanksLate, match=r"within 1 s: .*Check with `ray status` that the cluster has 2 free GPUs"):
        FsdpLearner(model, config, DecoupledPPO(), Recompute(), 0.7)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_a_model_that_cannot_be_loaded_is_not_the_death_of_a_rank(tmp_path: Path, ray: Any, ranks: int) -> None:
    model = new_model(tmp_path / "model", VOCABULARY, hidden=32, heads=2, seed=3)
    (model / "config.json").write_text(
        (model / "config.json").read_text().replace('"hidden_size": 32', '"hidden_size": 48')
    )
    with pytest.raises(TurnwiseError) as caught:
        FsdpLearner(model, FSDP.model_copy(update={"num_ranks": ranks}), DecoupledPPO(), Recompute(), 0.7)
    assert not isinstance(caught.value, RankFailed)


@pytest.mark.soak
def test_two_ranks_train_and_save_the_adapter_that_one_does(tmp_path: Path, ray: Any) -> None:
    """Without a loaded reference policy: it is the model without its adapter."""
    model = new_model(tmp_path / "model", VOCABULARY, hidden=32, heads=2, seed=3)
    loss = DecoupledPPO(entropy_coef=0.1, reference_kl_coef=0.1)
    changes = {"lora": LoraConfig(rank=4)}
    one = Learner(model, LOCAL.model_copy(update=changes), loss, Recompute(), 0.7)
    one.update(train_samples(9), 0.0, 0, Random(0))
    first = saved(one, tmp_path / "of-one-rank")
    two = FsdpLearner(first, FSDP.model_copy(update=changes), loss, Recompute(), 0.7)
    two.load_optimizer(first)
    for update in range(3):
        samples = train_samples(update, 3 if update == 2 else 8)  # three: one rank is idle in each minibatch
        expected, found = (each.update(samples, 0.0, update, Random(update)) for each in (one, two))
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert expected["reference_kl"] > 0
    weights = published(two)
    second = saved(two, tmp_path / "of-two-ranks")
    again = Learner(second, one.config, loss, Recompute(), 0.7)
    again.load_optimizer(second)
    pairs = zip(written(one)["names"], one.named_parameters(), again.named_parameters(), strict=True)
    for name, (_, expected_value), (_, loaded) in pairs:
        assert torch.allclose(weights[name], expected_value.detach().flatten(), rtol=0, atol=1e-5)
        assert torch.equal(weights[name], loaded.detach().flatten())
    two.close()


@pytest.mark.soak
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", ["decoupled_ppo", "gspo", "vcpo"])
def test_every_loss_trains_the_same_weights_on_several_ranks(tmp_path: Path, ray: Any, name: str, ranks: int) -> None:
    model = new_model(tmp_path / "model", VOCABULARY, hidden=32, heads=2, layers=3, seed=4, tie=False)
    config = LOCAL.model_copy(update={"num_epochs": 2, "max_kl": 0.0})
    sharded = config.model_copy(update={"backend": "fsdp", "num_ranks": ranks})
    one = Learner(model, config, PolicyLoss.build({"name": name}), Recompute(), 1.0)
    several = FsdpLearner(model, sharded, PolicyLoss.build({"name": name}), Recompute(), 1.0)
    for update in range(10):
        samples = train_samples(update, 2 + update)
        expected, found = (each.update(samples, 0.5, update, Random(update)) for each in (one, several))
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-4)
    # AdamW amplifies rounding: after 60 steps, one process with another split differs from itself by 1.6e-4 as well.
    weights = published(several)
    for parameter_name, parameter in one.named_parameters():
        assert torch.allclose(weights[parameter_name], parameter.detach().flatten(), rtol=0, atol=1e-3)
    broken = train_samples(0)
    for sample in broken:
        sample.advantages[:] = float("nan")
    for each in (one, several):
        with pytest.raises(NonFiniteLoss, match="optimizer step 1 of 6 of the batch"):
            each.update(broken, 0.5, 10, Random(0))


@pytest.mark.soak
def test_three_ranks_of_one_host_load_one_after_the_other(tmp_path: Path, ray: Any) -> None:
    model = new_model(tmp_path / "model", VOCABULARY, hidden=32, heads=2, seed=3)
    config = FSDP.model_copy(update={"num_ranks": 3})
    learner = FsdpLearner(model, config, DecoupledPPO(), Recompute(), 1.0)
    assert_loads_in_turn(ray, learner)
    learner.close()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("family", "vision"),
    [("qwen3_vl", "trained"), ("qwen3_vl", "frozen"), ("qwen2_5_vl", "trained"), ("llava", "trained")],
)
def test_two_ranks_train_a_model_that_reads_images_as_one_does(
    tmp_path: Path, ray: Any, family: str, vision: str
) -> None:
    """In the second update no sample has images, and in the third one rank is idle."""
    model = new_vision_family(family, tmp_path / "model", VOCABULARY, hidden=64)
    changes = {"vision": vision, "learning_rate": 1e-3, "max_tokens_per_micro_batch": 48}
    samples = image_samples(model)
    loss = DecoupledPPO(entropy_coef=0.1, reference_kl_coef=0.1)
    one = Learner(model, LOCAL.model_copy(update=changes), loss, Recompute(), 1.0)
    two = FsdpLearner(model, FSDP.model_copy(update=changes), loss, Recompute(), 1.0)
    for each in (one, two):
        each.load_reference(model)
    for update, batch in enumerate((samples, samples[2:3] * 2, samples[:1], samples)):
        expected, found = (each.update(batch, 0.0, update, Random(update)) for each in (one, two))
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
    weights = published(two)
    assert weights.keys() == dict(one.named_parameters()).keys()
    assert any(".visual." in name or ".vision_tower." in name for name in weights) == (vision == "trained")
    for name, parameter in one.named_parameters():
        assert torch.allclose(weights[name], parameter.detach().flatten(), rtol=0, atol=1e-4)
    two.close()
