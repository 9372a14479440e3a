"""A LoRA adapter: it alone is trained, PEFT reads what is saved, and without it the model is the reference policy."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from turnwise.agents.tiny_model import new_model
from turnwise.errors import TurnwiseError
from turnwise.tests.trainer.learner.train_samples import VOCABULARY, train_samples
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.ewma import EWMA
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.config.sections import LearnerConfig, LoraConfig
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.model.adapter import verify_base
from turnwise.trainer.learner.model.loading import merge_adapter
from turnwise.trainer.learner.packing import pack

LORA = LoraConfig(rank=4)
ATTENTION = LoraConfig(rank=3, target_modules=["q_proj", "v_proj"])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_model(tmp_path_factory.mktemp("m") / "model", VOCABULARY, hidden=32, heads=2, seed=3, tie=False)


def learner(folder: Path, lora: LoraConfig | None = LORA, **changes: Any) -> Learner:
    settings = {"learning_rate": 1e-2, "lr_warmup_steps": 0, "max_tokens_per_micro_batch": 24} | changes
    loss = DecoupledPPO(reference_kl_coef=0.1)
    return Learner(folder, LearnerConfig(lora=lora, **settings), loss, Recompute(), 0.7)


def trained(folder: Path, updates: Sequence[int], lora: LoraConfig = LORA, **changes: Any) -> Learner:
    one = learner(folder, lora, **changes)
    for update in updates:
        one.update(train_samples(update), 0.0, update, Random(update))
    return one


def saved(one: Learner, folder: Path) -> Path:
    folder.mkdir()
    one.save(folder)
    return folder


def logprobs(one: Learner) -> torch.Tensor:
    return one.compute_logprobs(pack(train_samples(7), "cpu"))


def test_frozen_weights_in_bfloat16_change_no_bit(base: Path) -> None:
    """Autocast rounds them in every product anyway."""
    half, whole = (learner(base, dtype="bfloat16") for _ in range(2))
    frozen = {name: value.dtype for name, value in half.model.named_parameters() if not value.requires_grad}
    assert {name.rpartition(".")[0].rpartition(".")[2] for name, one in frozen.items() if one == torch.bfloat16} == {
        "base_layer"
    }
    assert {frozen["model.embed_tokens.weight"], frozen["lm_head.weight"], frozen["model.norm.weight"]} == {
        torch.float32
    }
    original = dict(AutoModelForCausalLM.from_pretrained(base).named_parameters())
    for name, value in whole.model.named_parameters():
        if not value.requires_grad:
            value.data = original[name.replace(".base_layer.", ".")].data.clone()
    for update in range(2):
        for one in (half, whole):
            one.update(train_samples(update), 0.0, update, Random(update))
    assert torch.equal(logprobs(half), logprobs(whole))
    assert half.weights_hash() == whole.weights_hash()


def test_a_new_adapter_changes_nothing_and_only_the_adapter_is_trained(base: Path) -> None:
    one, whole = learner(base), learner(base, None)
    assert torch.equal(logprobs(one), logprobs(whole))
    one.update(train_samples(0), 0.0, 0, Random(0))
    assert not torch.equal(logprobs(one), logprobs(whole))
    adapted = {name.replace(".base_layer", ""): value for name, value in one.model.named_parameters()}
    assert all(torch.equal(value, adapted[name]) for name, value in whole.named_parameters())
    assert all(".lora_" in name for name, _ in one.named_parameters())
    states = sum(value.numel() for state in one.optimizer.state.values() for value in state.values() if value.dim())
    assert states == 2 * sum(value.numel() for _, value in one.named_parameters())


@pytest.mark.parametrize("lora", [LORA, ATTENTION])
def test_the_merged_model_is_the_policy(base: Path, tmp_path: Path, lora: LoraConfig) -> None:
    one = trained(base, range(3), lora)
    folder = saved(one, tmp_path / "adapter")
    layers = {name.split(".")[-3] for name in load_file(folder / "adapter_model.safetensors")}
    assert layers == set(lora.target_modules or ["q_proj", "k_proj", "v_proj", "o_proj", *MLP])
    merge_adapter(folder, tmp_path / "merged")
    assert (tmp_path / "merged" / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()
    merged = learner(tmp_path / "merged", None)
    assert torch.allclose(logprobs(one), logprobs(merged), rtol=0, atol=1e-5)
    assert not torch.allclose(logprobs(one), logprobs(learner(base)), rtol=0, atol=1e-2)
    loaded = AutoModelForCausalLM.from_pretrained(folder)  # transformers reads PEFT's format
    assert type(loaded).__name__ == "Qwen3ForCausalLM"
    with pytest.raises(TurnwiseError, match="nothing to merge"):
        merge_adapter(base, tmp_path / "again")
    with pytest.raises(TurnwiseError, match="exists: choose a new folder"):
        merge_adapter(folder, tmp_path / "merged")


MLP = ("gate_proj", "up_proj", "down_proj")


@pytest.mark.parametrize("changes", [{}, {"max_kl": 1e-3, "activation_checkpointing": True}])
def test_the_reference_policy_is_the_model_without_its_adapter(base: Path, changes: dict[str, Any]) -> None:
    """A loaded copy of the model and the model without its adapter give the same updates."""
    one, other = learner(base, **changes), learner(base, **changes)
    other.load_reference(base)
    for update in range(4):
        metrics = [each.update(train_samples(update), 0.0, update, Random(update)) for each in (one, other)]
        assert metrics[0] == metrics[1]
    assert metrics[0]["reference_kl"] > 1e-4
    assert one.weights_hash() == other.weights_hash()


def test_a_checkpoint_continues_bit_for_bit(base: Path, tmp_path: Path) -> None:
    one = trained(base, range(2), num_minibatches=2)
    folder = saved(one, tmp_path / "checkpoint")
    assert sum(file.stat().st_size for file in folder.glob("*.safetensors")) < (
        (base / "model.safetensors").stat().st_size / 2
    )
    again = learner(folder, num_minibatches=2)
    again.load_optimizer(folder)
    results = [each.update(train_samples(5), 0.0, 5, Random(5)) for each in (one, again)]
    assert results[0] == results[1]
    assert one.weights_hash() == again.weights_hash() != learner(folder).weights_hash()


def test_an_average_of_weights_as_proximal_policy_averages_the_adapter(base: Path) -> None:
    config = LearnerConfig(lora=LORA, learning_rate=1e-2, lr_warmup_steps=0)
    proximal = EWMA()
    one = Learner(base, config, DecoupledPPO(), proximal, 1.0)
    for update in range(2):
        one.update(train_samples(update), 0.0, update, Random(update))
    assert sum(value.numel() for value in proximal.tensors().values()) == sum(
        value.numel() for _, value in one.named_parameters()
    )


def test_an_adapter_on_other_weights_or_with_other_settings_is_refused(base: Path, tmp_path: Path) -> None:
    model = new_model(tmp_path / "model", VOCABULARY, hidden=32, heads=2, seed=3)
    folder = saved(learner(model), tmp_path / "adapter")
    verify_base(folder)
    with pytest.raises(TurnwiseError, match=r"other layers or another rank than `learner\.lora`"):
        learner(folder, ATTENTION)
    with pytest.raises(TurnwiseError, match=r"`learner\.lora\.target_modules`: PEFT cannot adapt"):
        learner(model, LoraConfig(target_modules=["no_such_layer"]))
    other = new_model(tmp_path / "other", VOCABULARY, hidden=32, heads=2, seed=4)
    (model / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    with pytest.raises(TurnwiseError, match="trained on other weights"):
        verify_base(folder)
    model.rename(tmp_path / "moved")
    with pytest.raises(TurnwiseError, match="needs its base model"):
        learner(folder)
