"""Parameters are divided into bounded buckets, and leave them as they were."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from turnwise.agents.weights.source import ParameterSource, as_bytes, divide, metadata_of

SHAPES = st.lists(st.lists(st.integers(1, 9), max_size=3), min_size=1, max_size=12)
DTYPES = (torch.float32, torch.bfloat16, torch.int8, torch.float64)


@given(SHAPES, st.integers(64, 4096))
def test_parameters_survive_buckets_of_bounded_size(shapes: list[list[int]], limit: int) -> None:
    values = {f"p{index}": torch.randn(shape).to(DTYPES[index % len(DTYPES)]) for index, shape in enumerate(shapes)}
    source = ParameterSource(values.items())
    metadata = source.metadata()
    assert metadata_of(source.layout()) == metadata
    buckets = divide(metadata, limit)
    assert [one.name for bucket in buckets for one in bucket.parameters] == list(values)
    for bucket in buckets:
        assert bucket.nbytes <= limit or len(bucket.parameters) == 1
        buffer = torch.empty(max(limit, bucket.nbytes), dtype=torch.uint8)
        packed = bucket.pack([values[one.name] for one in bucket.parameters], buffer)
        assert packed.shape == (bucket.nbytes,)
        for name, value in bucket.unpack(packed.clone()):
            assert value.dtype == values[name].dtype
            assert torch.equal(value, values[name])


def test_bytes_of_a_transposed_parameter_are_in_its_order() -> None:
    value = torch.arange(6.0).view(2, 3).t()
    assert torch.equal(as_bytes(value).view(torch.float32).view(3, 2), value)
    assert as_bytes(torch.tensor(1.0)).shape == (4,)
