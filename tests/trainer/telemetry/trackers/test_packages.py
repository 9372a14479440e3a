"""Each tracker against its real package, without a network, read back by the package's own reader.

CI has TensorBoard's alone; `tools/trackers.sh` runs all of them in an environment with the others.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from turnwise.trainer.telemetry import metrics as metrics_module
from turnwise.trainer.telemetry.metrics import Metrics
from turnwise.trainer.telemetry.trackers.base import TrackedRun, numbers

pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings("default")]

Values = list[tuple[int, float]]
"""The values of one metric by update."""


def played(folder: Path, tracker: str) -> dict[str, Values]:
    """Write the records of a run that is resumed at update 3, which it repeats; return the values of its file."""
    folder.mkdir()
    warnings: list[str] = []
    for resumed_from, first in ((None, 1), (3, 3)):
        metrics = Metrics(folder)
        if resumed_from is not None:
            metrics.rewind(resumed_from - 1)
        run = TrackedRun("colors", "colors-0a1b", str(folder), resumed_from)
        config = {"seed": 3, "rollout": {"group_size": 4}, "trackers": [tracker]}
        metrics.start_trackers([tracker], run, config, warnings.append)
        for update in range(first, first + 3):
            values = {"success": update / 8 + (resumed_from is not None), "groups": {"ready": update}, "loss": None}
            metrics.write("update", update, values)
        if resumed_from is not None:
            metrics.write("evaluation", 5, {"name": "after", "success": 0.75, "by_environment": {"a b(c)": 0.5}})
        metrics.finish("finished")
        metrics.close()
    assert warnings == []
    found: dict[str, Values] = {}
    for record in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()):
        for name, value in numbers(record).items():
            found.setdefault(name, []).append((record["update"], value))
    return found


def in_a_child(code: str) -> dict[str, Values]:
    """Return the values by metric that a program prints as JSON, without the repeated updates of before the resume."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: sorted(dict(map(tuple, values)).items()) for name, values in found.items()}


def read_tensorboard(folder: Path) -> dict[str, Values]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "run" / "tensorboard"))
    events.Reload()
    return {name: [(one.step, one.value) for one in events.Scalars(name)] for name in events.Tags()["scalars"]}


def read_wandb(folder: Path) -> dict[str, Values]:
    """Read the files that `wandb sync` uploads: records of protobuf in the log format of LevelDB."""
    return in_a_child(f"""
import json, pathlib
from wandb.proto import wandb_internal_pb2

def records(data):
    position, whole = 7, b""
    while position + 7 <= len(data):
        room = 32768 - position % 32768
        if room < 7:
            position += room
            continue
        length, kind = int.from_bytes(data[position + 4 : position + 6], "little"), data[position + 6]
        whole += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            yield whole
            whole = b""

found = {{}}
for path in sorted(pathlib.Path({str(folder)!r}).glob("run/wandb/offline-run-*/*.wandb")):
    for data in records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        row = {{"/".join(one.nested_key) or one.key: json.loads(one.value_json) for one in record.history.item}}
        for name, value in row.items():
            if not name.startswith(("_", "at_update")):
                found.setdefault(name, []).append((row["at_update"], value))
print(json.dumps(found))
""")


def read_trackio(folder: Path) -> dict[str, Values]:
    return in_a_child("""
import json
from trackio.sqlite_storage import SQLiteStorage
found = {}
for row in SQLiteStorage.get_logs("turnwise", "colors-0a1b"):
    for name, value in row.items():
        if "/" in name:
            found.setdefault(name, []).append((row["step"], value))
print(json.dumps(found))
""")


def read_mlflow(folder: Path) -> dict[str, Values]:
    found = in_a_child("""
import json
from mlflow import MlflowClient, search_runs
(run,) = search_runs(experiment_names=["turnwise"], output_format="list")
assert run.info.status == "FINISHED" and run.data.params["rollout.group_size"] == "4", run
client = MlflowClient()
histories = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
print(json.dumps({name: [(one.step, one.value) for one in history] for name, history in histories.items()}))
""")
    return {name.replace("a b_c_", "a b(c)"): values for name, values in found.items()}


READERS: dict[str, Callable[[Path], dict[str, Values]]] = {
    "tensorboard": read_tensorboard,
    "wandb": read_wandb,
    "trackio": read_trackio,
    "mlflow": read_mlflow,
}


OTHER_PACKAGES = [pytest.param(name, marks=pytest.mark.soak) for name in ("wandb", "trackio", "mlflow")]
"""Those that only `tools/trackers.sh` installs."""


@pytest.mark.parametrize("tracker", ["tensorboard", *OTHER_PACKAGES])
def test_a_package_reads_back_the_numbers_of_the_records(
    tracker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("WANDB_", "MLFLOW_", "TRACKIO_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(metrics_module, "FINISH_TIMEOUT_S", 80.0)
    expected = played(tmp_path / "run", tracker)
    assert READERS[tracker](tmp_path) == expected
