"""The planned bytes are those that torch keeps, counted on tensors without storage; `make soak` counts more cases."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import AutoConfig, AutoModelForCausalLM
from turnwise.trainer.algorithms.losses.base import Need
from turnwise.trainer.learner.model import LOGITS_PER_CHUNK, packed_attention
from turnwise.trainer.learner.model.token_scores import TokenScorer
from turnwise.trainer.learner.packing import MicroBatch
from turnwise.trainer.planning.learner_memory import ComputeDtype, layer_bytes, logit_chunks, logits_bytes
from turnwise.trainer.planning.model_shape import ModelShape

TOKENS = 2048


def config_of(family: str, layers: int, vocabulary: int = 64, hidden: int = 128) -> object:
    return AutoConfig.for_model(
        family,
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        tie_word_embeddings=True,
    )


def counted_bytes(config: object, tokens: int, low: bool, weights: torch.dtype, need: Need | None = None) -> int:
    zeros, positions = torch.zeros(tokens - 1, dtype=torch.int64), torch.arange(tokens)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = AutoModelForCausalLM.from_config(config, dtype=weights, attn_implementation=packed_attention.NAME)
        scorer = TokenScorer(model.eval(), 1.0, torch.bfloat16 if low else torch.float32)
        ids = torch.zeros(1, tokens, dtype=torch.int64)
        batch = MicroBatch(ids, positions[None], [tokens], positions[:-1], *[zeros] * 11)
        tracker = MemTracker()
        tracker.track_external(scorer)
        with tracker:
            scores = scorer(batch, need)
            total = scores.logprobs.sum()
            if scores.entropies is not None:
                total = total + scores.entropies.sum()
            total.backward()
        own = sum(one.numel() * one.element_size() for one in scorer.parameters())
    return sum(one["Total"] for one in tracker.get_tracker_snapshot("peak").values()) - own


@pytest.mark.parametrize(
    ("family", "low", "sharded"),
    [
        pytest.param("qwen3", False, False, marks=pytest.mark.soak),
        ("qwen3", True, False),
        ("llama", True, True),
    ],
)
def test_a_layer_keeps_the_planned_bytes(family: str, low: bool, sharded: bool) -> None:
    weights = torch.bfloat16 if sharded else torch.float32
    small, large = (counted_bytes(config_of(family, layers), TOKENS, low, weights) for layers in (1, 3))
    shape = ModelShape.of(config_of(family, 1))
    planned = layer_bytes(shape, ComputeDtype(low, sharded)) * TOKENS
    if low and not sharded:
        planned += 2 * sum(inputs * outputs for inputs, outputs in shape.linear_layers)
    assert planned == pytest.approx((large - small) / 2, rel=0.01)


@pytest.mark.parametrize(
    ("tokens", "need"),
    [
        (501, None),
        pytest.param(501, Need.ENTROPY, marks=pytest.mark.soak),
        (2001, Need.ENTROPY_GRADIENT),
    ],
)
def test_the_output_head_holds_the_planned_bytes(tokens: int, need: Need | None) -> None:
    config = config_of("qwen3", 1, vocabulary=40_000, hidden=32)
    counted = counted_bytes(config, tokens, False, torch.float32, need)
    assert logits_bytes(ModelShape.of(config), tokens - 1, need) == pytest.approx(counted, rel=0.1)


def test_logits_are_chunked() -> None:
    shape = ModelShape.of(config_of("qwen3", 1, vocabulary=1 << 15))
    assert logit_chunks(shape, LOGITS_PER_CHUNK >> 15) == 1
    assert logit_chunks(shape, (LOGITS_PER_CHUNK >> 15) + 1) == 2
