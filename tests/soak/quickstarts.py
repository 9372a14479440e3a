"""Run the quickstart on several seeds; each must learn."""

import json
import subprocess
from pathlib import Path
from typing import Any

from turnwise.tests.chaos.harness import PROGRAM

CONFIG = Path(__file__).parents[2] / "examples" / "quickstart.toml"
SUCCESS, ENVIRONMENT, WARMUP, WALL_S, STALENESS, STALE_SHARE = 0.85, 0.7, 0.3, 120.0, 1, 0.2


def quickstart(folder: Path, seed: int) -> dict[str, Any]:
    """Train one seed; return the last line of its output, and under `misses` the targets it did not reach."""
    here = folder / f"seed-{seed}"
    here.mkdir(parents=True)
    command = [PROGRAM, "train", str(CONFIG), "--json", "--store", f"sqlite:///{here}/turnwise.db"]
    done = subprocess.run(
        [*command, "--set", f"seed={seed}"], cwd=here, capture_output=True, text=True, timeout=1200, check=False
    )
    if done.returncode:
        return {"seed": seed, "misses": [f"exit {done.returncode}: {done.stderr[-500:]}"]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"seed": seed, **found, "misses": misses(found)}


def misses(found: dict[str, Any]) -> list[str]:
    """Return the names of the targets that a result does not reach."""
    bounds = {
        "success_after": found["success_after"] >= SUCCESS,
        "success_warmup": found["success_warmup"] <= WARMUP,
        "wall_s": found["wall_s"] <= WALL_S,
        "max_staleness": found["max_staleness"] <= STALENESS,
        "stale_share": found["stale_share"] >= STALE_SHARE,
        **{f"environment {name}": rate >= ENVIRONMENT for name, rate in found["success_after_by_environment"].items()},
    }
    return [name for name, reached in bounds.items() if not reached]
