"""Chunked scores are those of the model's own logits: values, gradients and memory."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModelForCausalLM
from turnwise.tests.trainer.learner.train_samples import train_samples
from turnwise.trainer.algorithms.losses.base import Need
from turnwise.trainer.learner.model import packed_attention, token_scores
from turnwise.trainer.learner.model.token_scores import TokenScorer, score_with
from turnwise.trainer.learner.packing import pack

TOKENS = pack(train_samples(1))
VOCABULARY, HIDDEN = 67, 32
TEMPERATURE = 0.7
FULL = {"layer_types": ["full_attention"] * 2}
HEADS: dict[str, dict[str, Any]] = {
    "qwen3": {"tie_word_embeddings": True},
    "llama": {},
    "gemma2": {"final_logit_softcapping": 2.0, "attn_logit_softcapping": None} | FULL,
    "granite": {"logits_scaling": 3.0},
    "cohere": {"logit_scale": 0.3},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
}


def model_of(name: str) -> Any:
    """Return a small model with random weights."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        name,
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=1,
        **HEADS[name],
    )
    model = AutoModelForCausalLM.from_config(config, attn_implementation=packed_attention.NAME).eval()
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.1)
    return model


def plain_scores(model: Any) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies from the logits of one whole forward pass."""
    with packed_attention.packed(TOKENS.lengths):
        logits = model(input_ids=TOKENS.token_ids, position_ids=TOKENS.position_ids, use_cache=False).logits[0]
    distributions = (logits[TOKENS.logit_positions] / TEMPERATURE).log_softmax(-1)
    entropies = -(distributions.exp() * distributions).sum(-1)
    return distributions.gather(-1, TOKENS.targets[:, None])[:, 0], entropies


def gradients(model: Any, objective: Tensor) -> list[Tensor]:
    model.zero_grad()
    objective.backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("rows", [3, 10_000])
@pytest.mark.parametrize("name", HEADS)
def test_scores_and_gradients_are_those_of_whole_logits(name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_scores, "LOGITS_PER_CHUNK", rows * VOCABULARY)
    model = model_of(name)
    scorer = TokenScorer(model, TEMPERATURE)
    logprobs, entropies = plain_scores(model)
    scores = scorer(TOKENS, Need.ENTROPY_GRADIENT)
    assert torch.allclose(scores.logprobs, logprobs, rtol=1e-6, atol=1e-6)
    assert torch.allclose(scores.entropies, entropies, rtol=1e-6, atol=1e-6)
    assert torch.equal(score_with(scorer, TOKENS), scores.logprobs)
    objectives = [(one * TOKENS.advantages + 0.1 * two).mean() for one, two in ((logprobs, entropies), scores)]
    for expected, found in zip(*(gradients(model, one) for one in objectives), strict=True):
        assert torch.allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_an_entropy_without_gradient_adds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_scores, "LOGITS_PER_CHUNK", 3 * VOCABULARY)
    scorer = TokenScorer(model_of("qwen3"), TEMPERATURE)
    scores = scorer(TOKENS, Need.ENTROPY)
    assert torch.allclose(scores.entropies, plain_scores(scorer.model)[1], rtol=1e-6, atol=1e-6)
    assert not scores.entropies.requires_grad
    assert scorer(TOKENS).entropies is None


class _Rows(TorchDispatchMode):
    """Records the largest number of rows of any tensor with one column per token of the vocabulary."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [one for one in tree_leaves(result) if isinstance(one, Tensor) and one.shape[-1:] == (VOCABULARY,)]
        self.largest = max([self.largest, *(one.numel() // VOCABULARY for one in tensors)])
        return result


def test_no_tensor_holds_the_logits_of_more_than_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_scores, "LOGITS_PER_CHUNK", 3 * VOCABULARY)
    model = model_of("llama")
    with _Rows() as plain:
        torch.stack(plain_scores(model)).sum().backward()
    with _Rows() as chunked:
        scores = TokenScorer(model, TEMPERATURE)(TOKENS, Need.ENTROPY_GRADIENT)
        (scores.logprobs + scores.entropies).sum().backward()
    assert plain.largest == TOKENS.token_ids.numel() > HIDDEN
    assert chunked.largest == HIDDEN  # the matrix of the head, transposed
