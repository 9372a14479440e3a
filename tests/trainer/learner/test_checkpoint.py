"""A checkpoint is complete or absent, and a broken one names the file."""

import json
from pathlib import Path

import pytest
import torch
from turnwise.agents.tiny_model import new_model
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.config.sections import LearnerConfig
from turnwise.trainer.learner import checkpoint
from turnwise.trainer.learner.backends.local import Learner


@pytest.fixture
def learner(tmp_path: Path) -> Learner:
    model = new_model(tmp_path / "model", ["a", "b"], hidden=16, heads=2)
    created = Learner(model, LearnerConfig(), DecoupledPPO(), Recompute(), 1.0)
    for parameter in created.model.parameters():
        parameter.grad = torch.randn_like(parameter)
    created.optimizer.step()
    return created


UID = "0123456789abcdef"


def save(learner: Learner, tmp_path: Path, version: int = 3, run_uid: str = UID) -> Path:
    state = {"update": 3, "version": version}
    folder, tokenizer = tmp_path / "c", tmp_path / "model"
    return checkpoint.save(folder, version, learner.save, tokenizer, state, run_uid=run_uid)


def test_a_checkpoint_restores_weights_and_optimizer(learner: Learner, tmp_path: Path) -> None:
    path = save(learner, tmp_path)
    assert checkpoint.verify(path, UID) == {"update": 3, "version": 3}
    again = Learner(path, LearnerConfig(), DecoupledPPO(), Recompute(), 1.0)
    again.load_optimizer(path)
    for one in (learner, again):
        torch.manual_seed(0)
        for parameter in one.model.parameters():
            parameter.grad = torch.randn_like(parameter)
        one.optimizer.step()
    for ours, theirs in zip(learner.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "training/optimizer/model.safetensors", "training/state.json", "tokenizer.json"]
)
@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_a_broken_file_is_named(learner: Learner, tmp_path: Path, name: str, damage: str) -> None:
    path = save(learner, tmp_path)
    data = (path / name).read_bytes()
    if damage == "remove":
        (path / name).unlink()
    else:
        cut = data[: len(data) // 2] if damage == "truncate" else data[:-1] + bytes([data[-1] ^ 1])
        (path / name).write_bytes(cut)
    with pytest.raises(checkpoint.CheckpointBroken, match=name):
        checkpoint.verify(path, UID)


def test_the_temporary_folder_of_a_killed_writer_is_not_a_checkpoint(learner: Learner, tmp_path: Path) -> None:
    path = save(learner, tmp_path)
    temporary = path.parent / ".writing-4"
    temporary.mkdir()
    (temporary / "config.json").write_text(json.dumps({}))
    with pytest.raises(checkpoint.CheckpointBroken):
        checkpoint.verify(temporary, UID)
    checkpoint.prune(path.parent, {path.name}, UID)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_checkpoint_of_another_store_is_neither_loaded_overwritten_nor_deleted(
    learner: Learner, tmp_path: Path
) -> None:
    theirs = save(learner, tmp_path, run_uid="fedcba9876543210")
    with pytest.raises(checkpoint.CheckpointBroken, match="a run of another store wrote it"):
        checkpoint.verify(theirs, UID)
    ours = save(learner, tmp_path)
    assert save(learner, tmp_path) == ours
    assert (theirs.name, ours.name) == ("3", "3-89abcdef")
    before = save(learner, tmp_path, version=2)
    checkpoint.prune(ours.parent, {ours.name}, UID)
    assert sorted(ours.parent.iterdir()) == [theirs, ours]
    assert not before.exists()
    assert checkpoint.verify(theirs, "fedcba9876543210") == checkpoint.verify(ours, UID)


@pytest.mark.parametrize("content", ["", "{}", "[]", '"text"', '{"run": 7}', '{"run": "0123456789abcdef"}'])
def test_a_broken_manifest_is_a_broken_checkpoint(learner: Learner, tmp_path: Path, content: str) -> None:
    path = save(learner, tmp_path)
    (path / checkpoint.MANIFEST).write_text(content)
    with pytest.raises(checkpoint.CheckpointBroken):
        checkpoint.verify(path, UID)
    assert save(learner, tmp_path) == path
    checkpoint.verify(path, UID)


@pytest.mark.parametrize("kibibytes", [1, 64, 130, 400])
def test_a_full_disk_is_reported_for_any_file_that_does_not_fit(
    learner: Learner, tmp_path: Path, kibibytes: int
) -> None:
    """A limit on the size of a file stands in for the full disk."""
    kept = save(learner, tmp_path, version=2)
    before = {file.name for file in kept.iterdir()}

    def limited() -> str:
        import resource
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (kibibytes << 10, hard))
        try:
            save(learner, tmp_path)
        except checkpoint.CheckpointFailed as error:
            return str(error)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        return ""

    sizes = [file.stat().st_size for file in kept.rglob("*") if file.is_file()]
    message = limited()
    assert bool(message) == (max(sizes) > kibibytes << 10), message
    if message:
        assert "could not be written" in message
        assert not (tmp_path / "c" / "3").exists()
        assert not list((tmp_path / "c").glob(".writing*"))
    assert {file.name for file in kept.iterdir()} == before
