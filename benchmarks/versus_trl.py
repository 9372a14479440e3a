"""Compare the time that turnwise and TRL take to learn the quick start's tasks, with and without slow environments.

Both start from one warmed-up model, train on the same mixture of tasks on the same two processors, save their weights
every few updates, and are evaluated afterwards by the same program on the same held-out tasks. A time counts training
only: no start-up, no evaluation. The time of saving counts for turnwise, whose rollouts go on meanwhile, and not for
TRL. TRL runs in an environment that ``bash tools/trl.sh`` creates, with as many episodes per update as turnwise.

Each system uses the recipe that suits it, so the comparison is of recipes as well as of loops:

* turnwise has the settings of the quick start, which were chosen on these tasks: returns per turn, tasks chosen by what
  they teach, a horizon that grows, a tenth of the weight for negative advantages, three optimizer steps per batch.
* TRL has its ``GRPOTrainer`` with one reward per episode and the settings that were best for it without delay, most of
  them tried on one seed (``parts/peer_programs/trl_peer.py``). An update of TRL takes less time than one of turnwise,
  which needs fewer.
* With delays, turnwise has settings for them (``SLOW``): more groups in flight, of a greater staleness, groups that do
  not wait for their last members, and a trust region. ``GRPOTrainer`` waits for its slowest episode. TRL's
  experimental asynchronous trainer sends its weights by NCCL, so it does not run on a CPU as it is.

Prints one JSON line last:

* ``instant_ratio``: TRL's median seconds to 85 % held-out success divided by ours, in an environment without delay;
* ``slow_ratio``: the same with heavy-tailed delays per turn;
* ``capped``: the runs that did not reach it; their time is the limit, which is longer for TRL with delays. A ratio with
  only TRL among them is a lower bound; it is null if the median of turnwise is such a limit;
* per run: seconds to .85 and .95, the updates, and the curve.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from async_vs_sync import CONFIG, HERE, environments, train, warmed_up
from turnwise.trainer.config.loading import load_config
from turnwise.trainer.evaluation.heldout import held_out

PYTHON = HERE.parent / ".venv-trl" / "bin" / "python"
PEER = HERE / "parts" / "peer_programs" / "trl_peer.py"
GOALS = (0.85, 0.95)
EVERY = 2
"""Updates between the saved weights of turnwise; an update is a batch, in either system."""
TRL_EVERY, TRL_EVERY_SLOW = 5, 1
"""The same for TRL, without and with delays. Without delays, five of its updates take as long as two of turnwise."""
SLOW_MEAN_MS = 100.0
SLOW = {
    "rollout.max_concurrent_groups": 40,
    "rollout.max_staleness": 3,
    "rollout_control.name": "april",
    "rollout_control.extra": 2,
    "learner.max_kl": 0.012,
}
"""Settings of turnwise for environments with delays."""


def peer(*arguments: str, given: str = "") -> list[str]:
    """Run the program of TRL and return its lines."""
    done = subprocess.run(
        [str(PYTHON), str(PEER), *arguments],
        input=given,
        capture_output=True,
        text=True,
        env={**os.environ, "TRL_EXPERIMENTAL_SILENCE": "1"},
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the program of TRL failed:\n{done.stderr[-2000:]}")
    return done.stdout.splitlines()


def run_trl(folder: Path, model: str, seed: int, mean_ms: float, seconds: float) -> list[dict[str, Any]]:
    """Train with TRL; return the update, training seconds and folder of the saved weights."""
    out = folder / f"trl-{mean_ms:g}-{seed}"
    rollout = load_config(CONFIG).rollout
    every = TRL_EVERY_SLOW if mean_ms else TRL_EVERY
    lines = peer(
        "train",
        *("--model", model, "--out", str(out), "--seed", str(seed), "--every", str(every)),
        *("--seconds", str(seconds), "--mean-ms", str(mean_ms)),
        *("--groups", str(rollout.groups_per_batch), "--group-size", str(rollout.group_size)),
    )
    saved: list[dict[str, Any]] = json.loads(lines[-1])
    return saved


def run_turnwise(folder: Path, model: str, seed: int, mean_ms: float, seconds: float) -> list[dict[str, Any]]:
    """Train with turnwise; return the update, training seconds and folder of the saved weights."""
    own = {
        "seed": seed,
        "max_seconds": seconds,
        "max_steps": 100_000,
        "checkpoint.interval": EVERY,
        "checkpoint.keep_last": 100_000,
        **({"environments": environments(mean_ms), **SLOW} if mean_ms else {}),
    }
    result, _ = train(folder, f"turnwise-{mean_ms:g}-{seed}", own, model, tasks=0)
    run = Path(result["folder"])
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    updates = [record for record in records if record["kind"] == "update"]
    folders = ((update, run / "checkpoints" / str(update["version"])) for update in updates)
    saved = [(one, path, path.stat().st_mtime) for one, path in folders if path.exists()]
    # The run's own clock stops while it saves.
    return [
        {"update": one["update"], "seconds": saved[0][0]["seconds"] + at - saved[0][2], "folder": str(path)}
        for one, path, at in saved
    ]


def curve(saved: Sequence[dict[str, Any]], tasks: Path) -> list[tuple[float, float]]:
    """Return the training seconds and held-out success of all saved weights."""
    given = "".join(json.dumps({"folder": one["folder"]}) + "\n" for one in saved)
    lines = peer("evaluate", "--tasks", str(tasks), given=given)
    return [(round(one["seconds"], 1), json.loads(line)["success"]) for one, line in zip(saved, lines, strict=True)]


def reached(points: Sequence[tuple[float, float]], goal: float) -> float | None:
    """Return the seconds at which a curve first reaches ``goal``; None if it does not."""
    return next((seconds for seconds, success in points if success >= goal), None)


def main() -> None:
    """Measure all runs and print."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=150.0, help="training time")
    options.add_argument("--slow-seconds", type=float, default=450.0, help="training time of TRL with delays")
    options.add_argument("--worlds", nargs="+", choices=("instant", "slow"), default=("instant", "slow"))
    args = options.parse_args()
    if not PYTHON.exists():
        raise SystemExit("TRL is not installed: run `bash tools/trl.sh` first")
    worlds = {"instant": (0.0, args.seconds), "slow": (SLOW_MEAN_MS, args.slow_seconds)}
    systems = {"turnwise": run_turnwise, "trl": run_trl}
    runs: dict[str, Any] = {}
    ratios: dict[str, float | None] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tasks = folder / "tasks.json"
        tasks.write_text(
            json.dumps([[one.options["family"], one.seed] for one in held_out(load_config(CONFIG).environments, 200)])
        )
        model = warmed_up(folder)
        for world in args.worlds:
            mean_ms, trl_limit = worlds[world]
            limits = {"turnwise": args.seconds, "trl": trl_limit}
            times: dict[str, list[float]] = {name: [] for name in systems}
            for seed in range(args.seeds):
                for system, start in systems.items():
                    limit = limits[system]
                    saved = start(folder, model, seed, mean_ms, limit)
                    points = curve(saved, tasks)
                    found = {f"seconds_to_{goal}": reached(points, goal) for goal in GOALS}
                    runs[f"{world}_{system}_{seed}"] = {
                        "updates": saved[-1]["update"] if saved else 0,
                        **found,
                        "curve": points,
                    }
                    times[system].append(found[f"seconds_to_{GOALS[0]}"] or math.inf)
            ours, theirs = (statistics.median(times[name]) for name in ("turnwise", "trl"))
            ratios[world] = None if ours == math.inf else round(min(theirs, limits["trl"]) / ours, 2)
    capped = [one for one, run in runs.items() if run[f"seconds_to_{GOALS[0]}"] is None]
    summary = {f"{world}_ratio": ratio for world, ratio in ratios.items()}
    print(json.dumps({"benchmark": "versus_trl", **summary, "capped": capped, **runs}))


if __name__ == "__main__":
    main()
