"""The colors of a PNG file: no hidden ones, none that are cut."""

import numpy as np
import pytest
from PIL import Image
from turnwise.base.pictures import has_second_header, is_deep, on_white
from turnwise.tests.agents.pictures import READABLE, chunk, claimed, png


def test_a_second_header_is_found_wherever_it_is() -> None:
    plain, header = png(8, 8), claimed(9, 9)[8:33]
    end = len(plain) - 12
    assert not any(
        map(has_second_header, (plain, chunk(b"IDAT", b"IHDR").join((plain[:33], plain[33:])), *READABLE.values()))
    )
    for bad in (plain[:8] + header + plain[8:], plain[:33] + header + plain[33:], plain[:end] + header + plain[end:]):
        assert has_second_header(bad)
    assert not any(map(has_second_header, (b"", plain[:8], plain[:20])))


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_16_bits_are_deep(bits: int) -> None:
    assert is_deep(claimed(4, 4, bits, 0)) == (bits == 16)
    assert not is_deep(b"")


@pytest.mark.parametrize(
    ("mode", "pixel", "seen"),
    [
        ("RGBA", (255, 0, 0, 0), [255, 255, 255]),
        ("RGBA", (255, 0, 0, 51), [255, 204, 204]),
        ("RGBA", (255, 0, 0, 255), [255, 0, 0]),
        ("LA", (0, 0), [255, 255, 255]),
        ("L", 7, [7, 7, 7]),
        ("1", 1, [255, 255, 255]),
    ],
)
def test_transparent_parts_are_on_white(mode: str, pixel: int | tuple[int, ...], seen: list[int]) -> None:
    assert np.asarray(on_white(Image.new(mode, (1, 1), pixel))).tolist() == [[seen]]
