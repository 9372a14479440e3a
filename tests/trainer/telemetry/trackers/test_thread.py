"""A tracker in its thread receives the numbers of metrics.jsonl; its failure or its silence costs one warning."""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from turnwise.errors import TurnwiseError
from turnwise.trainer.telemetry.metrics import Metrics
from turnwise.trainer.telemetry.trackers import thread
from turnwise.trainer.telemetry.trackers.base import TrackedRun, check_name, numbers, tracker_class, tracker_names
from turnwise.trainer.telemetry.trackers.trackio import Trackio

RECORDING = "turnwise.tests.trainer.telemetry.trackers.recording"


def tracked(folder: Path, warnings: list[str], *trackers: str, config: object = None) -> Metrics:
    metrics = Metrics(folder)
    run = TrackedRun("colors", "colors-0a1b", str(folder))
    names = [f"{RECORDING}:{one}" for one in trackers]
    metrics.start_trackers(names, run, {"seed": 3, "key": config}, warnings.append)
    return metrics


def received(folder: Path) -> list[list[object]]:
    return [json.loads(line) for line in (folder / "received.jsonl").read_text().splitlines()]


def test_a_tracker_receives_the_numbers_of_the_records_and_the_status(tmp_path: Path) -> None:
    warnings: list[str] = []
    metrics = tracked(tmp_path, warnings, "Recording", config="sk-abcdefgh1234567890")
    metrics.write("update", 1, {"success": 0.5, "entropy": None, "waiting": "learner", "groups": {"ready": 2}})
    metrics.write("update", 2, {"success": float("nan")})
    metrics.write("evaluation", 2, {"name": "after", "success": 0.75})
    metrics.finish("stopped")
    metrics.close()
    assert warnings == []
    assert received(tmp_path) == [
        ["start", "colors", {"seed": 3, "key": "***"}],
        ["log", 1, {"update/success": 0.5, "update/groups/ready": 2}],
        ["log", 2, {"evaluation/success": 0.75}],
        ["finish", "stopped"],
    ]


@pytest.mark.parametrize(
    ("tracker", "reason"),
    [
        ("Failing", "ConnectionError: no route to the tracker"),
        ("Exiting", "SystemExit: 1"),
        ("Missing", f"TurnwiseError: the tracker `{RECORDING}:Missing` cannot be imported"),
    ],
)
def test_a_failed_tracker_costs_one_warning_and_no_other_tracker(tmp_path: Path, tracker: str, reason: str) -> None:
    warnings: list[str] = []
    metrics = tracked(tmp_path, warnings, tracker, "Recording")
    for update in (1, 2, 3):
        metrics.write("update", update, {"success": 0.5})
    metrics.finish("finished")
    metrics.close()
    (warning,) = warnings
    assert warning.startswith(f"tracker `{RECORDING}:{tracker}` was dropped: {reason}")
    assert received(tmp_path)[-1] == ["finish", "finished"]


def test_trackers_that_hang_are_waited_for_together(tmp_path: Path) -> None:
    warnings: list[str] = []
    names = ("Hanging", "HangingToo", "HangingAlso")
    metrics = tracked(tmp_path, warnings, *names)
    metrics.write("update", 1, {"success": 0.5})
    metrics.finish("stopped")
    began = time.monotonic()
    metrics.close(0.5)
    assert time.monotonic() - began < 1
    assert len(warnings) == 3
    for name, warning in zip(names, warnings, strict=True):
        assert f"`{RECORDING}:{name}` was dropped: it did not end within 0.5 s" in warning


def test_a_tracker_that_lags_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "MAX_RECORDS", 2)
    warnings: list[str] = []
    metrics = tracked(tmp_path, warnings, "Hanging")
    for update in range(9):
        metrics.write("update", update, {"success": 0.5})
    (warning,) = warnings
    assert warning.endswith("it is 2 records behind")
    metrics.finish("finished")
    began = time.monotonic()
    metrics.close()
    assert time.monotonic() - began < 1
    assert len(warnings) == 1


def test_trackio_continues_runs_by_a_name_with_the_uid(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[dict[str, Any]] = []
    monkeypatch.setitem(sys.modules, "trackio", SimpleNamespace(init=lambda **given: begun.append(given)))
    Trackio().start(TrackedRun("colors", "colors-0a1b", "runs/colors"), {})
    assert [one["name"] for one in begun] == ["colors-0a1b"]


def test_a_typo_names_the_nearest_tracker() -> None:
    assert tracker_names() == ["mlflow", "tensorboard", "trackio", "wandb"]
    with pytest.raises(ValueError, match=r"no tracker is called `tensorbord` \(did you mean 'tensorboard'"):
        check_name("tensorbord")
    with pytest.raises(TurnwiseError, match="needs the methods `start`, `log` and `finish`"):
        tracker_class("pathlib:Path")


def test_truth_values_are_no_numbers() -> None:
    assert numbers({"kind": "update", "update": 3, "skipped": True, "loss": 2}) == {"update/loss": 2}
