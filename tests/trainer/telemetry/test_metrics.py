"""The metrics files of a resumed run contain only its surviving history."""

import json
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from turnwise.trainer.telemetry.metrics import Metrics


def records(folder: Path) -> list[tuple[str, int, float]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [(one["kind"], one["update"], one["loss"]) for one in map(json.loads, lines)]


def tensorboard_values(folder: Path) -> list[tuple[int, float]]:
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [(one.step, one.value) for one in events.Scalars("update/loss")]


def test_a_resume_drops_the_records_of_abandoned_updates(tmp_path: Path) -> None:
    killed = Metrics(tmp_path, tensorboard=True)
    killed.write("evaluation", 0, {"loss": 9.0})
    for update in range(1, 6):
        killed.write("update", update, {"loss": float(update)})
    killed.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "update", "upd')
    resumed = Metrics(tmp_path, tensorboard=True)
    resumed.rewind(2)
    resumed.write("update", 3, {"loss": 30.0})
    resumed.close()
    assert records(tmp_path) == [("evaluation", 0, 9.0), ("update", 1, 1.0), ("update", 2, 2.0), ("update", 3, 30.0)]
    assert tensorboard_values(tmp_path) == [(1, 1.0), (2, 2.0), (3, 30.0)]


def test_a_run_resumed_at_its_beginning_has_no_records(tmp_path: Path) -> None:
    killed = Metrics(tmp_path)
    killed.write("evaluation", -1, {"loss": 1.0})
    killed.close()
    resumed = Metrics(tmp_path)
    resumed.rewind(None)
    resumed.close()
    assert records(tmp_path) == []
