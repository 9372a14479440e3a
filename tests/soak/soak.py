"""Everything at full counts, one after the other; the last line is a JSON summary. ``make soak`` runs it.

python tests/soak/soak.py --kills 80 --seeds 10
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from turnwise.tests.soak.kills import soak_kills
from turnwise.tests.soak.quickstarts import quickstart

ROOT = Path(__file__).parents[2]
TESTS: dict[str, tuple[list[str], dict[str, str]]] = {
    "tests": (["-m", "soak", "--ignore=tests/envs/web"], {}),
    "web": (
        ["-m", "soak or not soak", "tests/envs/web"],
        {
            "TURNWISE_SITE_SEEDS": "20",
            "TURNWISE_BROWSED_EVERY": "1",
            "TURNWISE_BROWSED_SEEDS": "20",
            "TURNWISE_BROWSERGYM_SEEDS": "20",
            "TURNWISE_MINIWOB_EVERY": "1",
        },
    ),
    "frozen_engine": (
        ["-m", "chaos", "tests/sandbox/backends/test_frozen_engine.py"],
        {"TURNWISE_FROZEN_SECONDS": "60"},
    ),
}
"""What pytest is asked for, with what in its environment; each ends with 0, or the soak failed."""


def main() -> int:
    """Run what was asked for; 0 if all of it held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=80, help="random kills, over as many runs as they take")
    parser.add_argument("--seeds", type=int, default=10, help="seeds of the quickstart")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--no-tests", action="store_true", help="leave out the tests at full counts")
    parser.add_argument("--folder", type=Path, help="where the runs go; a temporary folder if not given")
    chosen = parser.parse_args()
    began = time.monotonic()
    folder = (chosen.folder or Path(tempfile.mkdtemp(prefix="turnwise-soak-"))).resolve()
    summary: dict[str, object] = {"folder": str(folder)}
    good = True

    if chosen.kills:
        tally = soak_kills(folder / "kills", chosen.kills, chosen.first_seed)
        good &= not tally.problems and tally.kills.total() >= chosen.kills
        summary["kills"] = tally.kills.total()
        summary["kills_by"] = dict(tally.kills)
        summary |= {"runs": tally.runs, "updates_repeated": tally.repeated, "problems": tally.problems}
        say(f"{tally.kills.total()} kills in {tally.runs} runs, {len(tally.problems)} problems", began)
    rows = []
    for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds):
        rows.append(quickstart(folder, seed))
        good &= not rows[-1]["misses"]
        say(
            f"quickstart, seed {seed}: {rows[-1].get('success_after')}, misses {rows[-1]['misses'] or 'nothing'}", began
        )
    summary["quickstart"] = rows
    if not chosen.no_tests:
        for name, (chosen_tests, settings) in TESTS.items():
            tests = [sys.executable, "-m", "pytest", "--timeout=0", "-q", *chosen_tests]
            environment = {**os.environ, **settings}
            done = subprocess.run(tests, cwd=ROOT, stdout=sys.stderr, env=environment, check=False)
            summary[name] = done.returncode
            good &= done.returncode == 0
            say(f"{name}: pytest ended with {done.returncode}", began)
    summary |= {"ok": good, "wall_s": round(time.monotonic() - began, 1)}
    print(json.dumps(summary))
    return 0 if good else 1


def say(text: str, began: float) -> None:
    """Progress, apart from the summary."""
    print(f"{time.monotonic() - began:7.0f} s  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
