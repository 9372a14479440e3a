"""A tracker in its process receives the numbers of metrics.jsonl; its failure or its silence costs one warning."""

import json
import shutil
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from turnwise.errors import TurnwiseError
from turnwise.trainer.telemetry import metrics as metrics_module
from turnwise.trainer.telemetry.metrics import Metrics
from turnwise.trainer.telemetry.trackers.base import TrackedRun, check_name, numbers, tracker_class, tracker_names
from turnwise.trainer.telemetry.trackers.trackio import Trackio

RECORDING = "turnwise.tests.trainer.telemetry.trackers.recording"


def tracked(folder: Path, tracker: str, warnings: list[str], config: object = None) -> Metrics:
    metrics = Metrics(folder)
    run = TrackedRun("colors", "colors-0a1b", str(folder))
    metrics.start_trackers([f"{RECORDING}:{tracker}"], run, {"seed": 3, "key": config}, warnings.append)
    return metrics


def received(folder: Path) -> list[list[object]]:
    return [json.loads(line) for line in (folder / "received.jsonl").read_text().splitlines()]


def test_a_tracker_receives_the_numbers_of_the_records_and_the_status(tmp_path: Path) -> None:
    warnings: list[str] = []
    metrics = tracked(tmp_path, "Recording", warnings, config="sk-abcdefgh1234567890")
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


def test_a_failed_tracker_costs_one_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    metrics = tracked(tmp_path, "Failing", warnings)
    metrics.write("update", 1, {"success": 0.5})
    metrics._trackers[0]._process.wait(20)
    for update in (2, 3):
        metrics.write("update", update, {"success": 0.5})
    metrics.finish("finished")
    metrics.close()
    (warning,) = warnings
    assert f"tracker `{RECORDING}:Failing` failed, and the run goes on without it" in warning
    assert "ConnectionError: no route to the tracker" in warning


def test_a_tracker_that_hangs_is_killed_after_the_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "FINISH_TIMEOUT_S", 1.0)
    warnings: list[str] = []
    metrics = tracked(tmp_path, "Hanging", warnings)
    metrics.write("update", 1, {"success": 0.5})
    metrics.finish("finished")
    began = time.monotonic()
    metrics.close()
    assert time.monotonic() - began < 5
    (warning,) = warnings
    assert "did not end within 1 s of the run and was killed" in warning
    assert metrics._trackers[0]._process.returncode == -9


def test_trackers_that_hang_are_waited_for_together(tmp_path: Path) -> None:
    warnings: list[str] = []
    metrics = Metrics(tmp_path)
    names = [f"{RECORDING}:{name}" for name in ("Hanging", "HangingToo", "HangingAlso")]
    metrics.start_trackers(names, TrackedRun("colors", "colors-0a1b", str(tmp_path)), {}, warnings.append)
    metrics.write("update", 1, {"success": 0.5})
    metrics.finish("stopped")
    began = time.monotonic()
    metrics.close(0.5)
    assert time.monotonic() - began < 1
    assert [text.partition(" did not end within 0.5 s")[0] for text in warnings] == [
        f"tracker `{one}`" for one in names
    ]


@pytest.mark.parametrize("broken", ["folder", "log", "process"])
def test_a_tracker_that_does_not_start_costs_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    warnings: list[str] = []
    if broken == "folder":
        (tmp_path / "logs").touch()
    elif broken == "log":
        (tmp_path / "logs" / f"tracker-{RECORDING}-Recording.log").mkdir(parents=True)
    else:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    metrics = tracked(tmp_path, "Recording", warnings)
    metrics.write("update", 1, {"success": 0.5})
    metrics.finish("finished")
    metrics.close()
    (warning,) = warnings
    assert warning.startswith(f"tracker `{RECORDING}:Recording` did not start, and the run goes on without it: [Errno")


def test_a_failed_tracker_without_a_log_costs_one_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    metrics = tracked(tmp_path, "Missing", warnings)
    metrics._trackers[0]._process.wait(20)
    shutil.rmtree(tmp_path / "logs")
    metrics.write("update", 1, {"success": 0.5})
    metrics.finish("finished")
    metrics.close()
    (warning,) = warnings
    assert "failed, and the run goes on without it: exit 1" in warning


def test_trackio_continues_runs_by_a_name_with_the_uid(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[dict[str, Any]] = []
    monkeypatch.setitem(sys.modules, "trackio", SimpleNamespace(init=lambda **given: begun.append(given)))
    Trackio().start(TrackedRun("colors", "colors-0a1b", "runs/colors"), {})
    assert [one["name"] for one in begun] == ["colors-0a1b"]


def test_the_death_of_the_driver_ends_the_run_at_the_tracker(tmp_path: Path) -> None:
    metrics = tracked(tmp_path, "Recording", [])
    metrics.write("update", 1, {"success": 0.5})
    metrics._trackers[0]._stdin.close()
    assert metrics._trackers[0]._process.wait(20) == 0
    metrics.finish("failed")
    assert received(tmp_path)[-1] == ["finish", "failed"]


def test_a_typo_names_the_nearest_tracker() -> None:
    assert tracker_names() == ["mlflow", "tensorboard", "trackio", "wandb"]
    with pytest.raises(ValueError, match=r"no tracker is called `tensorbord` \(did you mean 'tensorboard'"):
        check_name("tensorbord")
    with pytest.raises(TurnwiseError, match="needs the methods `start`, `log` and `finish`"):
        tracker_class("pathlib:Path")


def test_truth_values_are_no_numbers() -> None:
    assert numbers({"kind": "update", "update": 3, "skipped": True, "loss": 2}) == {"update/loss": 2}
