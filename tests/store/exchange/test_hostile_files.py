"""A file of another program costs a bounded amount of memory and time, whatever its few bytes stand for.

`make soak` has every file that is large only when it is read.
"""

import json
import os
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from turnwise.base.user_files import UnreadableFile
from turnwise.envs.runner.observations import png
from turnwise.store.errors import ExchangeError
from turnwise.store.exchange import checks, decode_parquet, parquet
from turnwise.store.exchange.atif import reading
from turnwise.store.exchange.atif.origin import TaskOrigin
from turnwise.store.exchange.atif.reading import read_atif
from turnwise.store.exchange.checks import check
from turnwise.store.exchange.images import image_problem
from turnwise.store.exchange.importing import as_expert
from turnwise.store.exchange.parquet import TrajectoryRows, read_parquet, to_row, trajectory_schema
from turnwise.tests.store.exchange.making import episode, make_id

MIB = 2**20
TASK = TaskOrigin(env_id="turnwise/TextSite-v0", env_version="0", seed=3, split="train", options={})


def document() -> dict[str, Any]:
    """Return a document of another program."""
    steps = [{"step_id": 1, "source": "user", "message": "go"}, {"step_id": 2, "source": "agent", "message": "went"}]
    return {"schema_version": "ATIF-v1.8", "agent": {"name": "x", "version": "1"}, "steps": steps}


def rows_with(change: Callable[[dict[str, Any]], None]) -> pa.Table:
    """Return a table of one ordinary row and one that was changed."""
    row = to_row(episode(1))
    change(row)
    return pa.Table.from_pylist([to_row(episode(0)), row], schema=trajectory_schema())


def many_steps(row: dict[str, Any]) -> None:
    """A text of 1 MiB, once in the dictionary, as the action of 300 steps."""
    row["steps"] = [dict(row["steps"][0], index=index, action="a" * MIB) for index in range(300)]


def many_images(row: dict[str, Any]) -> None:
    row["images"] = [{"hash": "x", "data": bytes(32 * MIB)}] * 8


def many_tokens(row: dict[str, Any]) -> None:
    """Five million tokens, which run lengths describe in some bytes."""
    row["messages"][0].update(tokens=np.zeros(5_000_000, np.int32), mask=np.zeros(5_000_000, np.uint8))


def many_values(row: dict[str, Any]) -> None:
    row["messages"][0]["tokens"] = np.zeros(2_000_000, np.int32)


def large_extras(row: dict[str, Any]) -> None:
    row["extras"] = json.dumps({"x": "a" * 40 * MIB})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(many_steps, "a row needs too much memory", marks=pytest.mark.soak),
        pytest.param(many_images, "a row needs too much memory", marks=pytest.mark.soak),
        pytest.param(large_extras, "a row needs too much memory", marks=pytest.mark.soak),
        (many_values, r"trajectory 1 has [\d,]+ values; the limit is 1,048,576"),
    ],
)
def test_a_small_file_that_stands_for_much_is_refused_within_the_memory(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    path = tmp_path / "bomb.parquet"
    pq.write_table(rows_with(change), path, compression="zstd", row_group_size=2)
    assert path.stat().st_size < MIB
    script = (  # a process of its own, whose peak is not that of the writing; the limits are a 16th
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from turnwise.store.exchange import parquet\n"
        "from turnwise.store.exchange.parquet import read_parquet\n"
        "for name in ('MAX_ROW_BYTES', 'MAX_ROW_VALUES', 'DECODER_BYTES'):\n"
        "    setattr(parquet, name, getattr(parquet, name) // 16)\n"
        "try:\n"
        "    for number, one in enumerate(read_parquet(Path(sys.argv[1]))): print(number)\n"
        "except Exception as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split('\\n')[0].strip())\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    *_, message, decoder, mine = done.stdout.splitlines()
    assert re.fullmatch(f"`{path}` cannot be read as trajectories: {reason}", message)
    assert int(mine.removesuffix("kB")) >> 10 < 350
    assert int(decoder) >> 10 < 350


def test_the_bytes_of_a_row_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "row.parquet"
    pq.write_table(rows_with(lambda row: row.update(extras=json.dumps({"x": "a" * 9000}))), path)
    monkeypatch.setattr(parquet, "MAX_ROW_BYTES", 9000)
    rows = read_parquet(path)
    next(rows)
    with pytest.raises(ExchangeError, match=r"trajectory 1 has [\d,]+ bytes; the limit is 9,000"):
        next(rows)


def test_the_tokens_of_a_trajectory_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "tokens.parquet"
    pq.write_table(rows_with(many_tokens), path)
    _, large = read_parquet(path)
    with pytest.raises(ExchangeError, match=r"has 5,000,005 tokens; the limit is 4,194,304"):
        check(large)


def test_sizes_that_the_file_itself_understates_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of the decoder holds for each allocation, not for the sum of what the metadata names."""
    path = tmp_path / "large.parquet"
    pq.write_table(rows_with(lambda row: row.update(extras=json.dumps({"x": "a" * 64 * MIB}))), path)
    assert len(list(read_parquet(path))) == 2
    monkeypatch.setattr(parquet, "DECODER_BYTES", 48 * MIB)
    with pytest.raises(ExchangeError, match="a row needs too much memory"):
        list(read_parquet(path))


def test_a_damaged_file_yields_no_part_of_itself_as_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    rows = TrajectoryRows(path)
    for number in range(70):
        rows.add(episode(number))
    rows.close()
    content = bytearray(path.read_bytes())
    second = pq.ParquetFile(path).metadata.row_group(1).column(0)
    start = second.dictionary_page_offset or second.data_page_offset
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)
    found: list[Any] = []
    with pytest.raises(ExchangeError, match="cannot be read as trajectories"):
        found.extend(read_parquet(path))
    assert len(found) <= 64


def test_a_killed_decoder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.parquet"
    pq.write_table(rows_with(lambda row: None), path)
    program = tmp_path / "decoder.py"
    program.write_text("import os; os.kill(os.getpid(), 9)")
    monkeypatch.setattr(decode_parquet, "__file__", str(program))
    with pytest.raises(ExchangeError, match="the decoding ended with signal 9"):
        list(read_parquet(path))


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def test_an_import_that_stops_early_leaves_no_process(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    pq.write_table(rows_with(lambda row: None), path)
    before = children()
    with closing(cast(Generator[Any, None, None], read_parquet(path))) as rows:
        next(rows)
        assert children() != before
    assert children() == before


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".parquet"])
def test_a_pipe_or_device_is_refused_by_name(tmp_path: Path, suffix: str) -> None:
    pipe, device = tmp_path / f"pipe{suffix}", tmp_path / f"zero{suffix}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(UnreadableFile, match=f"`{path}` cannot be read: it is not a regular file"):
            list(read_parquet(path) if suffix == ".parquet" else read_atif(path, TASK))


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_documents_are_limited(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_DOCUMENT", 10_000)
    path = tmp_path / f"large{suffix}"
    path.write_text(json.dumps(document()) + "\n" + " " * 20_000 + "\n")
    with pytest.raises((ExchangeError, UnreadableFile), match="more than 10,000 bytes"):
        list(read_atif(path, TASK))


@pytest.mark.parametrize("depth", [100_000, 900])
def test_deep_nesting_in_a_row_is_one_line(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "deep.parquet"
    deep = f'{{"a": {"[" * depth}{"]" * depth}}}'
    for change in (lambda row: row.update(extras=deep), lambda row: row["task"].update(options=deep)):
        pq.write_table(rows_with(change), path)
        with pytest.raises(ExchangeError, match="cannot be read as trajectories: recursion limit exceeded"):
            list(read_parquet(path))


@pytest.mark.parametrize("opened", ["[", '{"a":', '{"subagent_trajectories":[', '{"extra":{"a":['])
@pytest.mark.parametrize("field", ["extra", "steps", "notes", None])
def test_deep_nesting_is_one_line(tmp_path: Path, opened: str, field: str | None) -> None:
    deep = opened * 100_000
    path = tmp_path / "deep.json"
    path.write_text(deep if field is None else f'{{"{field}": {deep}')
    with pytest.raises(ExchangeError, match="is not ATIF") as refused:
        list(read_atif(path, TASK))
    assert len(str(refused.value)) < 500


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def claimed(width: int, height: int) -> bytes:
    """Return a PNG whose header names a size that its pixels do not have."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")
    )


def encoded(kind: str, **options: Any) -> bytes:
    out = BytesIO()
    Image.new("RGB", (8, 6), (1, 2, 3)).save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_an_image_is_decoded(kind: str) -> None:
    assert image_problem(encoded(kind)) is None
    assert image_problem(encoded(kind)[: len(encoded(kind)) // 2]) is not None


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(99), "is neither PNG"),
        (b"\xff\xd8\xff" + bytes(99), "is neither PNG"),
        (b"GIF89a" + bytes(99), "is neither PNG"),
        (b"RIFF\x00\x00\x00\x00WEBP" + bytes(99), "is neither PNG"),
        (b"", "is neither PNG"),
        (b"text", "is neither PNG"),
        (encoded("BMP"), "is neither PNG"),
        (encoded("TIFF"), "is neither PNG"),
        (claimed(40_000, 40_000), "has more than 33,554,432 pixels, which are the limit"),
        (claimed(6000, 6000), "has more than 33,554,432 pixels"),
        (claimed(8000, 4000), "cannot be decoded"),
        (png(np.zeros((2, 3, 3), np.uint8))[:-30], "is neither PNG"),
        (encoded("JPEG")[:-200], "cannot be decoded"),
    ],
)
def test_what_is_no_image_is_refused(data: bytes, problem: str) -> None:
    found = image_problem(data)
    assert found is not None
    assert re.match(problem, found)


def test_an_import_of_either_format_decodes_the_images(tmp_path: Path) -> None:
    fake = b"\x89PNG\r\n\x1a\n" + bytes(99)
    name = sha256(fake).hexdigest()
    one = episode()
    steps = [replace(step, images=(name,)) for step in one.trajectory.steps]
    trajectory = replace(one.trajectory, steps=steps)
    given = replace(one, trajectory=trajectory, images={**one.images, name: fake})
    with pytest.raises(ExchangeError, match=f"the image {name[:12]} (is neither|cannot be decoded)"):
        as_expert(given, "import-x", make_id, None)


def with_image(path: str) -> dict[str, Any]:
    part = {"type": "image", "source": {"media_type": "image/png", "path": path}}
    made = document()
    next(step for step in made["steps"] if step["source"] == "user")["message"] = [part]
    return made


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pipe.png", "it is not a regular file"),
        ("folder", "Is a directory"),
        ("loop.png", "Too many levels of symbolic links"),
        ("zero.png", "is outside of the folder"),
        ("/proc/self/environ", "is outside of the folder"),
        ("a\x00b.png", "a path has no NUL character"),
        ("missing.png", "does not exist"),
        ("x" * 300 + ".png", "File name too long"),
    ],
)
def test_an_image_next_to_a_document_is_a_regular_file(tmp_path: Path, name: str, reason: str) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop.png").symlink_to("loop.png")
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    file = tmp_path / "document.json"
    file.write_text(json.dumps(with_image(name)))
    with pytest.raises(ExchangeError, match=reason) as refused:
        list(read_atif(file, TASK))
    assert len(str(refused.value).splitlines()) == 1


def test_the_images_of_a_document_are_limited_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_IMAGE_BYTES", len(encoded("PNG")) + 1)
    assert checks.MAX_IMAGE_BYTES == 512 * MIB
    (tmp_path / "a.png").write_bytes(encoded("PNG"))
    (tmp_path / "b.png").write_bytes(encoded("PNG", pnginfo=None, compress_level=0))
    made = with_image("a.png")
    user = next(step for step in made["steps"] if step["source"] == "user")
    user["message"] = [*user["message"], *user["message"]]
    file = tmp_path / "document.json"
    file.write_text(json.dumps(made))
    assert len(list(read_atif(file, TASK))) == 1
    user["message"] = [*user["message"], {"type": "image", "source": {"media_type": "image/png", "path": "b.png"}}]
    file.write_text(json.dumps(made))
    with pytest.raises(ExchangeError, match="its images have more than"):
        list(read_atif(file, TASK))
