"""Packed sequences are independent, and their attention is that of `transformers`: windows, soft caps, sinks."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from turnwise.trainer.learner.model import packed_attention
from turnwise.trainer.learner.model.packed_attention import AttentionNotSupported, packed

SMALL = {
    "vocab_size": 16,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SLIDING = {"sliding_window": 4}
MIXED = {**SLIDING, "layer_types": ["sliding_attention", "full_attention"]}
CAPPED = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 1.0}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}


def model_of(family: str, options: dict[str, Any], attention: str) -> Any:
    """Return a small model with random weights that are large enough to tell two attentions apart."""
    config = AutoConfig.for_model(family, **SMALL, **options)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, 0.0, 0.5)
    return model


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("llama", {}),
        ("mistral", SLIDING),
        ("qwen2", {"sliding_window": 4, "use_sliding_window": False}),
        ("qwen2", {"sliding_window": 4, "use_sliding_window": True, "max_window_layers": 1}),
        ("qwen3", {}),
        ("qwen3_moe", EXPERTS),
        ("gemma2", {**MIXED, **CAPPED}),
        ("gemma3_text", MIXED),
        ("glm4", {}),
        ("gpt_oss", {**MIXED, "num_local_experts": 4, "num_experts_per_tok": 2}),
        ("granite", {"attention_multiplier": 0.2, "logits_scaling": 3.0}),
        ("olmo2", {}),
        ("phi3", SLIDING),
    ],
)
def test_packed_sequences_are_independent_and_exact(family: str, options: dict[str, Any]) -> None:
    ids, lengths = torch.arange(30)[None] % 13 + 3, [11, 3, 16]
    exact, model = model_of(family, options, "eager"), model_of(family, options, packed_attention.NAME)
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    with packed(lengths):
        found = model(input_ids=ids, position_ids=positions, use_cache=False).logits
    expected = torch.cat([exact(input_ids=one).logits for one in torch.split(ids, lengths, 1)], 1)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
    for logits in (found, expected):
        logits.log_softmax(-1)[0, :, 5].mean().backward()
    for one, other in zip(model.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=2e-5)


def test_a_window_changes_the_attention() -> None:
    ids = torch.arange(12)[None]
    logits = []
    for window in (4, 12):
        with torch.no_grad(), packed([12]):
            model = model_of("mistral", {"sliding_window": window}, packed_attention.NAME)
            logits.append(model(input_ids=ids, position_ids=ids, use_cache=False).logits)
    assert torch.equal(logits[0][:, :4], logits[1][:, :4])
    assert (logits[0][:, 4:] - logits[1][:, 4:]).abs().max() > 0.1


def test_a_layer_that_hides_its_window_is_rejected() -> None:
    options = {**SLIDING, "use_sliding_window": True, "max_window_layers": 0}
    model = model_of("qwen3", options, packed_attention.NAME)
    for layer in model.model.layers:
        layer.self_attn.sliding_window = None
    ids = torch.arange(4)[None]
    with pytest.raises(AttentionNotSupported, match="passes the window None"), packed([4]):
        model(input_ids=ids, position_ids=ids, use_cache=False)
