"""The size of a write is that of its content."""

from turnwise.store.content.blobs import PNG, NewBlob
from turnwise.store.content.rows import rows_of
from turnwise.store.operations import append
from turnwise.store.writing.client import size_of
from turnwise.tests.store.making import records


def test_the_content_of_a_write_is_counted() -> None:
    assert size_of({"a": b"123", "b": ["four", ("five", b"")], "c": [1, 2, 3], "d": None}) == 3 + 8 + 24 + 8
    small, large = rows_of(*records(0, text="x" * 10)), rows_of(*records(0, text="x" * 1010))
    large.blobs["0" * 64] = NewBlob.of(b"i" * 5000, PNG)
    arguments = [append.bind(trajectory="t", rows=rows).record for rows in (small, large)]
    added = size_of(arguments[1]) - size_of(arguments[0])
    assert 6000 < added < 6200
