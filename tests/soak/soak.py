"""Run every property at full counts, one after another; the last line is a JSON summary. `make soak` calls this.

python tests/soak/soak.py --kills 80 --seeds 10
python tests/soak/soak.py --parts disturbances --minutes 4
python tests/soak/soak.py --parts proofs --methods gspo,mopps

Each proof of a method and each family of models prints one JSON line before the summary.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from turnwise.tests.envs.worlds.code.families.grade_mutants import grade_mutants
from turnwise.tests.soak import desktops
from turnwise.tests.soak.disturbances import disturb
from turnwise.tests.soak.families import NAMES as MODELS
from turnwise.tests.soak.families import agree
from turnwise.tests.soak.isolation import isolation
from turnwise.tests.soak.kills import soak_kills
from turnwise.tests.soak.proofs import NAMES, prove
from turnwise.tests.soak.quickstarts import quickstart
from turnwise.tests.soak.retention import hold

ROOT = Path(__file__).parents[2]
PARTS = (
    "kills",
    "disturbances",
    "quickstart",
    "methods",
    "proofs",
    "retention",
    "isolation",
    "desktops",
    "mutants",
    "families",
    "tests",
)
METHODS = ["-m", "soak or not soak", "tests/trainer/algorithms"]
"""Arguments of pytest for the mathematics of every method; ``proofs`` trains with each of them."""
TESTS: dict[str, tuple[list[str], dict[str, str]]] = {
    "tests": (["-m", "soak", "--ignore=tests/envs/worlds/web"], {}),
    "web": (
        ["-m", "soak or not soak", "tests/envs/worlds/web"],
        {
            "TURNWISE_SITE_SEEDS": "20",
            "TURNWISE_BROWSED_EVERY": "1",
            "TURNWISE_BROWSED_SEEDS": "20",
            "TURNWISE_BROWSERGYM_SEEDS": "20",
            "TURNWISE_MINIWOB_EVERY": "1",
            "TURNWISE_IN_PLACE_EPISODES": "5",
        },
    ),
    "frozen_engine": (
        ["-m", "chaos", "tests/sandbox/backends/test_frozen_engine.py"],
        {"TURNWISE_FROZEN_S": "60"},
    ),
}
"""Arguments of pytest and variables of its environment, per part of the soak."""


def main() -> int:
    """Run the selected parts and return 0 if all of them passed."""
    chosen = arguments()
    began = time.monotonic()
    folder = (chosen.folder or Path(tempfile.mkdtemp(prefix="turnwise-soak-"))).resolve()
    summary: dict[str, object] = {"folder": str(folder)}
    passed = True

    if "kills" in chosen.parts:
        tally = soak_kills(folder / "kills", chosen.kills, chosen.first_seed)
        passed &= not tally.problems and tally.kills.total() >= chosen.kills
        summary |= (counts := tally.json())
        report(
            f"{counts['kills']} kills in {counts['runs']} runs, tasks repeated {counts['tasks_repeated']} beyond the "
            f"{counts['tasks_played_again']} of lost updates and interrupted groups, {len(tally.problems)} problems",
            began,
        )
    if "disturbances" in chosen.parts:
        disturbed = disturb(
            folder / "disturbances",
            chosen.minutes,
            chosen.kill_interval_s,
            chosen.first_seed,
            lambda text: report(text, began),
        )
        print(json.dumps(disturbed.json()), flush=True)
        passed &= not disturbed.problems
        summary["disturbances"] = disturbed.json()
        report(f"{disturbed.kills.total()} processes killed, {len(disturbed.problems)} problems", began)
    if "quickstart" in chosen.parts:
        rows = []
        for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds):
            rows.append(row := quickstart(folder, seed))
            passed &= not row["misses"]
            report(f"quickstart, seed {seed}: {row.get('success_after')}, misses {row['misses'] or 'nothing'}", began)
        summary["quickstart"] = rows
    if "methods" in chosen.parts:
        summary["methods"] = ended = run_tests(METHODS)
        passed &= ended == 0
        report(f"methods: pytest ended with {ended}", began)
    if "proofs" in chosen.parts:
        problems = {}
        for name in chosen.methods:
            found = prove(folder / "proofs" / name, name)
            print(json.dumps(found), flush=True)
            if found["problem"]:
                problems[name] = found["problem"]
            report(f"proof of {name}: {'failed' if found['problem'] else 'ok'}", began)
        passed &= not problems
        summary["proofs"] = {"methods": len(chosen.methods), "problems": problems}
    if "isolation" in chosen.parts:
        contained = asyncio.run(isolation(chosen.sandboxes))
        print(json.dumps(contained), flush=True)
        passed &= not contained["problems"]
        summary["isolation"] = contained["problems"]
        report(f"{chosen.sandboxes} sandboxes, {len(contained['problems'])} disturbed or too large", began)
    if "desktops" in chosen.parts:
        summary["desktops"] = tasks = desktops.run(chosen.desktop_seeds, chosen.desktops)
        print(json.dumps(tasks), flush=True)
        passed &= not tasks["failed"] and not tasks["left"]
        report(f"desktops: {tasks['passed']} tasks passed, {len(tasks['failed'])} failed", began)
    if "mutants" in chosen.parts:
        summary["mutants"] = mutated = grade_mutants(chosen.mutated_seeds)
        print(json.dumps(mutated), flush=True)
        passed &= not mutated["survivors"]
        report(f"mutants of code tasks: {mutated['survivors'] or 'none'} survive", began)
    if "retention" in chosen.parts:
        kept = folder / "retention"
        kept.mkdir(parents=True, exist_ok=True)
        held = hold(kept, chosen.stored_steps, chosen.max_size_mib * 2**20)
        passed &= not held.problems
        summary["retention"] = asdict(held)
        report(f"retention: {held.steps:,} steps in {held.largest:,} bytes, {len(held.problems)} problems", began)
    if "families" in chosen.parts:
        differing = agree(folder / "families", chosen.families)
        passed &= not differing
        summary["families"] = {"families": len(chosen.families), "problems": differing}
        report(f"{len(chosen.families)} families of models, {len(differing)} problems", began)
    if "tests" in chosen.parts:
        for name, (chosen_tests, settings) in TESTS.items():
            summary[name] = ended = run_tests(chosen_tests, settings)
            passed &= ended == 0
            report(f"{name}: pytest ended with {ended}", began)
    summary |= {"ok": passed, "wall_s": round(time.monotonic() - began, 1)}
    print(json.dumps(summary))
    return 0 if passed else 1


def run_tests(chosen: Sequence[str], settings: Mapping[str, str] = MappingProxyType({})) -> int:
    """Run chosen tests, with variables of their environment, and return the exit code of pytest."""
    tests = [sys.executable, "-m", "pytest", "--timeout=0", "-q", *chosen]
    environment = {**os.environ, **settings}
    return subprocess.run(tests, cwd=ROOT, stdout=sys.stderr, env=environment, check=False).returncode


def arguments() -> argparse.Namespace:
    """Return the checked arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=PARTS, type=names(PARTS), help=f"some of {','.join(PARTS)}; default: all")
    parser.add_argument(
        "--kills", type=int, default=80, help="number of random kills; new runs start until it is reached"
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="minutes of the soak of disturbances")
    parser.add_argument("--kill-interval-s", type=float, default=20.0, help="mean seconds between two disturbances")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds of the quickstart")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--methods", default=NAMES, type=names(NAMES), help=f"methods to prove, some of {','.join(NAMES)}; default: all"
    )
    every = MODELS
    parser.add_argument(
        "--families", default=every, type=names(every), help=f"families of models, some of {','.join(every)}"
    )
    parser.add_argument("--stored-steps", type=int, default=2_000_000, help="steps of the soak of retention")
    parser.add_argument("--max-size-mib", type=int, default=1024, help="size that the soak of retention stays under")
    parser.add_argument("--sandboxes", type=int, default=40, help="sandboxes at once in the soak of isolation")
    parser.add_argument("--mutated-seeds", type=int, default=10, help="seeds of each family of code tasks to mutate")
    parser.add_argument("--desktop-seeds", type=int, default=20, help="seeds of each template of desktop tasks")
    parser.add_argument("--desktops", type=int, default=4, help="desktops at once in the soak of desktop tasks")
    parser.add_argument("--folder", type=Path, help="folder of the runs; default: a temporary folder")
    return parser.parse_args()


def names(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a parser of comma-separated names, each of which must be one of ``known``."""

    def parse(text: str) -> list[str]:
        found = text.split(",")
        if unknown := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)} not in {', '.join(known)}")
        return found

    return parse


def report(text: str, began: float) -> None:
    """Print progress to stderr."""
    print(f"{time.monotonic() - began:7.0f} s  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
