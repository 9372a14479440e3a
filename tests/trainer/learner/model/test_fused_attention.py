"""The attention for GPUs and the attention by sequence agree; here without the kernel, which only GPUs have.

``make test-gpu`` compares them on a GPU, gradients included.
"""

import pytest
import torch
from torch.nn.attention.flex_attention import create_mask
from turnwise.trainer.learner.model import attention_by_sequence
from turnwise.trainer.learner.model.attention_by_sequence import AttentionScheme, attend_by_sequence
from turnwise.trainer.learner.model.fused_attention import attend_fused, block_mask

LENGTHS = [30, 1, 80, 9]
UNFUSED = "ignore:flex_attention called without torch.compile:UserWarning"


def tensors(heads: int = 4) -> list[torch.Tensor]:
    """Return queries, keys, values and sinks."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(1, heads, sum(LENGTHS), 16), *[(1, 2, sum(LENGTHS), 16)] * 2, (heads,)]
    return [2 * torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.filterwarnings(UNFUSED)
@pytest.mark.parametrize("window", [None, 1, 20])
@pytest.mark.parametrize("softcap", [None, 3.0])
@pytest.mark.parametrize("with_sinks", [False, True])
def test_both_attentions_agree(
    monkeypatch: pytest.MonkeyPatch, window: int | None, softcap: float | None, with_sinks: bool
) -> None:
    monkeypatch.setattr(attention_by_sequence, "QUERIES_PER_BLOCK", 13)
    query, key, value, sinks = tensors()
    scheme = AttentionScheme(0.3, window, softcap, sinks if with_sinks else None)
    separate, fused = (attend(query, key, value, LENGTHS, scheme) for attend in (attend_by_sequence, attend_fused))
    torch.testing.assert_close(separate, fused, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("window", [None, 5])
def test_the_mask_of_blocks_shows_a_token_its_own_sequence_only(window: int | None) -> None:
    lengths = (3, 130, 7)
    mask = block_mask(lengths, window, torch.device("cpu"))
    found = create_mask(mask.mask_mod, 1, 1, sum(lengths), sum(lengths), device="cpu")[0, 0]
    blocks = [torch.ones(length, length, dtype=torch.bool).tril() for length in lengths]
    expected = torch.block_diag(*[block if window is None else block.triu(1 - window) for block in blocks]).bool()
    assert torch.equal(found, expected)
    assert mask.to_dense()[0, 0].tolist() == [[1, 0], [1, 1]]
