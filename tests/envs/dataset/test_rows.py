"""Rows have an identity: the hash of their whole content; and files that lose a value are refused."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from gymnasium.spaces import Box
from PIL import Image
from pyarrow import parquet
from turnwise.envs import EnvironmentBroken
from turnwise.envs.dataset.rows import content_hash
from turnwise.envs.spaces import Png
from turnwise.tests.envs.dataset.capitals import CAPITALS, Capitals, correct, kind


def test_a_parquet_file_with_two_columns_of_a_name_is_refused(tmp_path: Path) -> None:
    columns = [pyarrow.array([text]) for text in ("?", "first", "second")]
    table = pyarrow.Table.from_arrays(columns, names=["question", "answer", "answer"])
    parquet.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(EnvironmentBroken, match=r"rows\.parquet` has two columns `answer`"):
        kind(tmp_path / "rows.parquet").tasks("train")


def test_a_date_that_python_cannot_hold_is_named_with_its_row(tmp_path: Path) -> None:
    day = pyarrow.array([0, 2**52], pyarrow.timestamp("ms"))
    parquet.write_table(pyarrow.table({"question": ["a", "b"], "day": day}), tmp_path / "rows.parquet")
    with pytest.raises(EnvironmentBroken, match="row 1 has a value that cannot be read"):
        kind(tmp_path / "rows.parquet").tasks("train")


def test_the_seed_of_a_task_is_refused_when_its_row_is_another_one() -> None:
    first, second = kind().tasks("train")
    edited = [CAPITALS[0], {**CAPITALS[1], "letters": 5}]
    assert kind(edited).tasks("train")[0] == first
    assert kind().reset(seed=second)[0] == "Capital of Peru?"
    for rows in (edited, CAPITALS[::-1], CAPITALS[:1]):
        assert second not in kind(rows).tasks("train")
        with pytest.raises(EnvironmentBroken, match="row 1 of `train` is not the row of this task: the rows were edit"):
            kind(rows).reset(seed=second)


def picture(shade: int, middle: bool = True) -> Any:
    pixels = np.zeros((56, 56, 3), np.uint8)
    pixels[(slice(20, 36),) * 2 if middle else -1] = shade
    return pixels


@dataclass
class Held:
    pixels: Any


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda pixels: pixels,
        Png.encode,
        lambda pixels: [{"image": pixels.astype(object)}],
        lambda pixels: {"parts": ("?", Held(pixels))},
        lambda pixels: {bytes(pixels)},
        lambda pixels: Image.fromarray(pixels),
        lambda pixels: deque([pixels]),
    ],
    ids=["array", "png", "objects", "dataclass", "bytes", "pillow", "deque"],
)
def test_a_hash_is_of_all_pixels(wrapped: Callable[[Any], Any]) -> None:
    shades = [content_hash(wrapped(picture(*one))) for one in ((10,), (11,), (10, False), (10,))]
    assert len(set(shades)) == 3
    assert shades[0] == shades[3]


def test_a_hash_is_the_same_for_another_order_of_columns_and_of_a_set() -> None:
    assert content_hash({"a": {"x", "y"}, "b": len}) == content_hash({"b": len, "a": {"y", "x"}})
    assert "0x" in repr(correct)
    palettes = [Image.new("P", (2, 2)) for _ in range(2)]
    palettes[1].putpalette([9, 9, 9])
    assert content_hash(palettes[0]) != content_hash(palettes[1])


def test_the_state_key_is_of_the_whole_picture() -> None:
    class Shaded(Capitals):
        observation_space = Box(0, 255, (56, 56, 3), np.uint8)

        def load(self, split: str) -> Any:
            return [{"shade": shade, "answer": "?", "letters": 1} for shade in (10, 11)]

        def first_observation(self, row: dict[str, Any]) -> Any:
            return picture(row["shade"])

    env = Shaded()
    keys = [env.reset(seed=seed)[1]["state_key"] for seed in (0, 1, 0)]
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize("value", [{1: "a", "b": 2}, {(1, 2): "a"}, 10**5000], ids=["mixed", "tuples", "digits"])
def test_a_value_that_cannot_be_hashed_is_named(value: Any) -> None:
    with pytest.raises(EnvironmentBroken, match="a row has a value that cannot be hashed"):
        content_hash(value)
