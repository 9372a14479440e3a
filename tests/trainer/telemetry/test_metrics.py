"""The metrics file of a resumed run contains only its surviving history."""

import json
from pathlib import Path

from turnwise.trainer.telemetry.metrics import Metrics


def records(folder: Path) -> list[tuple[str, int, float]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [(one["kind"], one["update"], one["loss"]) for one in map(json.loads, lines)]


def test_a_resume_drops_the_records_of_abandoned_updates(tmp_path: Path) -> None:
    killed = Metrics(tmp_path)
    killed.write("evaluation", 0, {"loss": 9.0})
    for update in range(1, 6):
        killed.write("update", update, {"loss": float(update)})
    killed.finish("stopped")
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "update", "upd')
    resumed = Metrics(tmp_path)
    resumed.rewind(2)
    resumed.write("update", 3, {"loss": 30.0})
    resumed.finish("finished")
    assert records(tmp_path) == [("evaluation", 0, 9.0), ("update", 1, 1.0), ("update", 2, 2.0), ("update", 3, 30.0)]


def test_a_run_resumed_at_its_beginning_has_no_records(tmp_path: Path) -> None:
    killed = Metrics(tmp_path)
    killed.write("evaluation", -1, {"loss": 1.0})
    killed.finish("stopped")
    resumed = Metrics(tmp_path)
    resumed.rewind(None)
    resumed.finish("finished")
    assert records(tmp_path) == []
