"""The hash of weights names their bits, not their order or layout."""

import torch
from turnwise.trainer.learner.provenance.recording import weights_hash


def test_each_bit_name_type_and_shape_counts() -> None:
    a, b = torch.tensor([[1.0, 2.0]]), torch.tensor(3.0, dtype=torch.bfloat16)
    whole = weights_hash([("a", a), ("b", b)])
    assert len(whole) == 64
    assert weights_hash([("b", b.clone()), ("a", a.clone().requires_grad_())]) == whole
    others = [
        [("a", torch.nextafter(a, a + 1)), ("b", b)],
        [("a", a.reshape(2)), ("b", b)],
        [("a", a), ("c", b)],
        [("a", a), ("b", b.float())],
        [("a", -a), ("b", b)],
        [("a", a)],
    ]
    assert len({whole, *map(weights_hash, others)}) == 1 + len(others)


def test_a_transposed_matrix_counts_as_its_values() -> None:
    matrix = torch.arange(6.0).reshape(2, 3)
    assert weights_hash([("a", matrix.t().contiguous().t())]) == weights_hash([("a", matrix)])
