"""Asynchronous against synchronous training, on a world with heavy-tailed delays and on the same world without any.

Four runs of one configuration that differ in the staleness bound (0 or 2) and the delay (mean 100 ms a turn, or
none). The same ``max_running``, batch and number of updates. Prints one JSON line last: ``ratio`` is updates per
minute, staleness 2 over staleness 0, with delay; ``ratio_no_delay`` the same without; each run with its rate, its
held-out success and its utilisation.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sqlalchemy import text
from turnwise.store.database import open_database
from turnwise.store.totals import batch_metrics

HERE = Path(__file__).resolve().parent
PROGRAM = Path(sys.executable).with_name("turnwise")
MAX_RUNNING = 16
GROUP_SIZE = 4
CONFIG = """
name = "{name}"

[[environments]]
id = "delayed_site:DelayedSite-v0"
options = {{ family = "find", mean_ms = {mean_ms} }}

[budget]
updates = {updates}

[rollout]
groups_per_batch = 8
max_running = {max_running}
staleness = {staleness}
step_deadline = 120

[rollout_budget]
group_size = {group_size}

[horizon]
turns = 6
tokens_turn = 4
context = 256

[engine]
max_context = 256
kv_cache_mib = 64

[learner]
learning_rate = 2e-3
max_kl = 0.012

[advantage]
name = "turn_return"

[loss]
behaviour_cap = 2.0
reject = "truncate"
entropy_bonus = 0.005

[model]
{model}

[warmup]
steps = 800
batch = 6
observation_weight = 0.1

[evaluation]
tasks = {tasks}

[checkpoint]
every = 1000
"""


def train(
    folder: Path, name: str, mean_ms: float, staleness: int, updates: int, model: str = "", tasks: int = 200
) -> tuple[dict[str, Any], str]:
    """One run: what its last line says, and its store."""
    config, store = folder / f"{name}.toml", f"sqlite:///{folder}/{name}.db"
    config.write_text(
        CONFIG.format(
            name=name,
            mean_ms=mean_ms,
            staleness=staleness,
            updates=updates,
            max_running=MAX_RUNNING,
            group_size=GROUP_SIZE,
            model=model,
            tasks=tasks,
        )
    )
    environment = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [str(PROGRAM), "train", str(config), "--json", "--store", store]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment, timeout=1200)
    return json.loads(done.stdout.splitlines()[-1]), store


def warmed_up(folder: Path) -> str:
    """The configuration's line for a model that knows the format, made in the world without delay."""
    said, _ = train(folder, "warmup", 0.0, 0, 1, tasks=0)
    newest = max((Path(said["folder"]) / "checkpoints").iterdir(), key=lambda path: int(path.name))
    return f'path = "{newest}"'


def measure(folder: Path, mean_ms: float, staleness: int, updates: int, model: str) -> dict[str, Any]:
    """One run; its rate from the first update to the last, its success, and how busy each part was meanwhile."""
    name = f"delay{mean_ms:g}-staleness{staleness}"
    said, store = train(folder, name, mean_ms, staleness, updates, model)
    lines = (Path(said["folder"]) / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    made = [one for one in records if one["kind"] == "update"]
    engines = [one for one in records if one["kind"] == "engines"]
    seconds = made[-1]["seconds"] - made[0]["seconds"]
    with open_database(store).read() as conn:
        batches = batch_metrics(conn, name)[1:]
        waited = conn.execute(
            text("SELECT sum(env_ms) FROM step JOIN trajectory t ON t.id = trajectory_id WHERE t.purpose = 'train'")
        ).scalar_one()
    return {
        "updates_per_minute": round(60 * (len(made) - 1) / seconds, 2),
        "success": said["success_after"],
        "success_before": said["success_untrained"],
        "max_staleness": said["max_staleness"],
        "busy_learner": round(sum(one["learn_s"] for one in batches) / seconds, 3),
        "busy_environments": round(waited / 1000 / made[-1]["seconds"] / (MAX_RUNNING * GROUP_SIZE), 3),
        "busy_engine": round(engines[-1]["busy_s"] / made[-1]["seconds"], 3),
    }


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--updates", type=int, default=30)
    updates = options.parse_args().updates
    with tempfile.TemporaryDirectory() as folder:
        model = warmed_up(Path(folder))
        runs = {
            f"delay_{mean_ms:g}_ms_staleness_{staleness}": measure(Path(folder), mean_ms, staleness, updates, model)
            for mean_ms in (100.0, 0.0)
            for staleness in (0, 2)
        }
    rate = {name: one["updates_per_minute"] for name, one in runs.items()}
    print(
        json.dumps(
            {
                "benchmark": "async_vs_sync",
                "ratio": round(rate["delay_100_ms_staleness_2"] / rate["delay_100_ms_staleness_0"], 2),
                "ratio_no_delay": round(rate["delay_0_ms_staleness_2"] / rate["delay_0_ms_staleness_0"], 2),
                "updates": updates,
                **runs,
            }
        )
    )


if __name__ == "__main__":
    main()
