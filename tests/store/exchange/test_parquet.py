"""Parquet holds every field of the records, and returns the records that were written."""

import hashlib
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from turnwise.records import Message, Step, Trajectory
from turnwise.store.errors import ExchangeError, MissingPackage
from turnwise.store.exchange import parquet
from turnwise.store.exchange.columns import codec_of, record_columns
from turnwise.store.exchange.parquet import FORMAT_KEY, ROW_GROUP, TrajectoryRows, read_parquet, trajectory_schema
from turnwise.store.exchange.step_rows import StepRows, step_schema
from turnwise.tests.store.exchange.making import PICTURE, episode, plain


def written(folder: Path, *episodes: Any, kind: Callable[[Path], Any] = TrajectoryRows) -> Path:
    path = folder / "out.parquet"
    rows = kind(path)
    for one in episodes:
        rows.add(one)
    rows.close()
    return path


def test_a_file_returns_the_records_that_were_written(tmp_path: Path) -> None:
    given = [
        episode(0),
        episode(1, success=None, uid=episode(1).trajectory.uid, branched_from="r:0-1", branched_at=1),
        replace(episode(2, steps=(), messages=(), images=False), final_observation=None),
    ]
    assert [plain(one) for one in read_parquet(written(tmp_path, *given))] == [plain(one) for one in given]


def row_groups(path: Path) -> list[int]:
    found = pq.ParquetFile(path).metadata
    return [found.row_group(index).num_rows for index in range(found.num_row_groups)]


def test_row_groups_bound_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, *(episode(number) for number in range(ROW_GROUP + 2)))
    assert row_groups(path) == [ROW_GROUP, 2]
    assert [one.group.task.seed for one in read_parquet(path)] == list(range(5, ROW_GROUP + 7))
    monkeypatch.setattr(parquet, "IMAGE_BYTES", 3 * sum(map(len, episode().images.values())))
    assert row_groups(written(tmp_path, *(episode(number) for number in range(5)))) == [3, 2]


@pytest.mark.parametrize("kind", [Trajectory, Step, Message])
def test_every_field_has_a_column(kind: type) -> None:
    assert list(record_columns(kind)) == [one.name for one in fields(kind)]


@pytest.mark.parametrize(
    ("schema", "layout", "columns"),
    [(trajectory_schema, b"trajectories 3", "ef77953457ad2508"), (step_schema, b"steps 3", "76daa551a92ee5dc")],
)
def test_other_columns_need_another_layout(schema: Callable[[], pa.Schema], layout: bytes, columns: str) -> None:
    """After a change of the columns, raise the number of ``LAYOUT`` and enter both here."""
    found = schema()
    text = "\n".join(f"{field.name}: {field.type}" for field in found)
    assert (found.metadata[FORMAT_KEY], hashlib.sha256(text.encode()).hexdigest()[:16]) == (layout, columns)


def test_a_field_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(TypeError, match="`when` of type"):
        codec_of("when", complex)


def test_steps_are_flat_rows(tmp_path: Path) -> None:
    path = written(tmp_path, episode(0), episode(1), kind=StepRows)
    rows = pq.read_table(path).to_pylist()
    assert [(row["trajectory"], row["index"], row["action"]) for row in rows] == [
        ("r:0-1", 0, 'click "next"'),
        ("r:0-1", 1, "stop"),
        ("r:1-1", 0, 'click "next"'),
        ("r:1-1", 1, "stop"),
    ]
    assert [row["action_tokens"] for row in rows[:2]] == [[5, 6], [9, 2]]
    assert rows[0]["action_versions"] == [7, 7]
    assert rows[0]["episode_reward"] == 0.1 + 0.2
    assert step_schema().equals(pq.read_schema(path))


def nulled(table: pa.Table, name: str, member: str = "") -> pa.Table:
    """Return the table with a null in a column, or in a member of the structs in it."""
    rows = table.to_pylist()
    if member:
        rows[0][name][0][member] = None
    else:
        rows[0][name] = None
    return pa.Table.from_pylist(rows, schema=table.schema)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda table: table.replace_schema_metadata({}), "`turnwise trajectories export` did not write it"),
        (lambda table: table.drop_columns(["reward"]), "its columns are not those that `turnwise"),
        (
            lambda table: table.replace_schema_metadata({FORMAT_KEY: b"trajectories 1"}),
            "its layout is `trajectories 1`; this turnwise reads `trajectories 3`",
        ),
        (lambda table: table.set_column(5, "status", pa.array(["lost"])), "'lost' is not a valid Status"),
        (lambda table: table.set_column(0, "id", pa.nulls(1, pa.string())), "cannot be read as trajectories"),
        (lambda table: nulled(table, "member"), "a value is null"),
        (lambda table: nulled(table, "deterministic"), "a value is null"),
        (lambda table: nulled(table, "steps"), "cannot be read as trajectories"),
        (lambda table: nulled(table, "messages", "logprobs"), "a value is null"),
        (lambda table: nulled(table, "images", "data"), "a value is null"),
    ],
)
def test_a_file_that_is_not_ours_is_refused(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], reason: str
) -> None:
    table = pa.Table.from_pylist(pq.read_table(written(tmp_path, episode())).to_pylist(), schema=trajectory_schema())
    assert table.column_names[5] == "status"
    pq.write_table(change(table), tmp_path / "changed.parquet")
    with pytest.raises(ExchangeError, match=reason):
        list(read_parquet(tmp_path / "changed.parquet"))


def test_a_file_with_a_row_per_step_is_not_imported(tmp_path: Path) -> None:
    path = written(tmp_path, episode(), kind=StepRows)
    with pytest.raises(ExchangeError, match="it has a row per step; export it again with `--format parquet`"):
        list(read_parquet(path))


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, episode())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ExchangeError, match="cannot be read as trajectories"):
        list(read_parquet(path))


def test_a_missing_package_is_named_with_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackage, match=r'run `pip install "turnwise\[exchange\]"`'):
        TrajectoryRows(tmp_path / "x.parquet")


@pytest.mark.parametrize("kind", [TrajectoryRows, StepRows])
def test_datasets_loads_the_file(tmp_path: Path, kind: Callable[[Path], Any]) -> None:
    import datasets

    path = written(tmp_path, episode(0), episode(1), kind=kind)
    loaded = datasets.load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))
    if kind is StepRows:
        assert loaded.num_rows == 4
        assert loaded[1]["action"] == "stop"
        return
    assert loaded.num_rows == 2
    first = loaded[0]
    assert [step["action"] for step in first["steps"]] == ['click "next"', "stop"]
    assert first["messages"][1]["tokens"] == [5, 6]
    assert first["task"]["env_id"] == "turnwise/TextSite-v0"
    assert first["images"][0]["data"] == PICTURE
