"""Compare asynchronous with synchronous training in an environment with heavy-tailed delays and in one without delays.

Four runs of the quickstart's configuration start from one warmed-up model, with the same number of updates. They differ
in the staleness bound (0 or 2) and in the delay (mean 100 ms per turn, or none).

Prints one JSON line last:

* ``ratio``: updates per minute at staleness 2 divided by those at staleness 0, with delay;
* ``ratio_no_delay``: the same without delay;
* per run: the rate of updates, held-out success, and the utilization of learner, environments and engine.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import text
from turnwise.store.database import open_database
from turnwise.store.queries import batch_metrics
from turnwise.trainer.config.loading import load_config

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parent / "examples" / "quickstart.toml"
PROGRAM = Path(sys.executable).with_name("turnwise")
SITE = "turnwise.benchmarks.parts.delayed_site:DelayedSite-v0"
FAMILIES = {"find": 1.5, "login": 1.0, "open": 1.0}
"""Families and their weights in the quickstart."""
ROLLOUT = load_config(CONFIG).rollout
EPISODES = ROLLOUT.max_concurrent_groups * ROLLOUT.group_size
"""Limit of concurrent episodes in the quickstart."""
RUN_TIMEOUT_S = 5400


def environments(mean_ms: float) -> str:
    """Return the quickstart's mixture as TOML, with delays of ``mean_ms`` per turn."""
    one = '{{ id = "{}", weight = {}, options = {{ family = "{}", mean_ms = {} }} }}'
    return f"[{', '.join(one.format(SITE, weight, family, mean_ms) for family, weight in FAMILIES.items())}]"


def train(
    folder: Path, name: str, own: Mapping[str, Any], model: str = "", tasks: int = 200
) -> tuple[dict[str, Any], str]:
    """Run ``turnwise train --json`` with the settings ``own``, and return its result and the URL of its store."""
    store = f"sqlite:///{folder}/{name}.db"
    overrides = {
        "max_seconds": RUN_TIMEOUT_S,
        "rollout.step_timeout_s": 120,
        "evaluation.tasks": tasks,
        "checkpoint.interval": 1000,
        **own,
        **({"model.path": model} if model else {}),
    }
    command = [str(PROGRAM), "train", str(CONFIG), "--name", name, "--json", "--store", store]
    for key, value in overrides.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=RUN_TIMEOUT_S)
    return json.loads(done.stdout.splitlines()[-1]), store


def warmed_up(folder: Path) -> str:
    """Return the folder of a model after the format warm-up, trained without delay."""
    own = {"environments": environments(0.0), "rollout.max_staleness": 0, "max_steps": 1}
    result, _ = train(folder, "warmup", own, tasks=0)
    newest = max((Path(result["folder"]) / "checkpoints").iterdir(), key=lambda path: int(path.name))
    return str(newest)


def measure(folder: Path, mean_ms: float, staleness: int, updates: int, model: str) -> dict[str, Any]:
    """Return the updates per minute of one run, its success, and the utilization of each part."""
    name = f"delay{mean_ms:g}-staleness{staleness}"
    own = {
        "environments": environments(mean_ms),
        "rollout.max_staleness": staleness,
        "max_steps": updates,
        "learner.max_kl": 0.02,
    }
    result, store = train(folder, name, own, model)
    lines = (Path(result["folder"]) / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    updates_done = [record for record in records if record["kind"] == "update"]
    engines = [record for record in records if record["kind"] == "engines"]
    seconds = updates_done[-1]["seconds"] - updates_done[0]["seconds"]
    with open_database(store).read() as conn:
        batches = batch_metrics(conn, name)[1:]
        env_ms = conn.execute(
            text("SELECT sum(env_ms) FROM step JOIN trajectory t ON t.no = trajectory_no WHERE t.purpose = 'train'")
        ).scalar_one()
    return {
        "updates_per_minute": round(60 * (len(updates_done) - 1) / seconds, 2),
        "success": result["success_after"],
        "success_before": result["success_untrained"],
        "max_staleness": result["max_staleness"],
        "busy_learner": round(sum(batch["update_s"] for batch in batches) / seconds, 3),
        "busy_environments": round(env_ms / 1000 / updates_done[-1]["seconds"] / EPISODES, 3),
        "busy_engine": round(engines[-1]["busy_s"] / updates_done[-1]["seconds"], 3),
    }


def main() -> None:
    """Measure all four runs and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--updates", type=int, default=120)
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
