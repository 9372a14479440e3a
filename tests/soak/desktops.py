"""Every desktop task over many seeds, on several desktops at once: the oracle succeeds twice alike, near misses fail.

python -m turnwise.tests.soak.desktops --seeds 20 --desktops 4

Each result is a line of a file in ``build/soak/``, named by the hash of what was tested. After an interruption, the
same command plays only what has not passed yet. The last line is a JSON summary.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path
from time import monotonic
from typing import Any

from turnwise.envs.base import Obs
from turnwise.envs.worlds.computer.elements import resolve
from turnwise.envs.worlds.desktop.tasks import TEMPLATES, draw
from turnwise.envs.worlds.desktop.tasks.env import DesktopTasksEnv
from turnwise.sandbox import set_provider
from turnwise.sandbox.images.reference import image_reference
from turnwise.sandbox.provider import InProcessProvider

ROOT = Path(__file__).parents[2]
TESTED = ("envs/*.py", "envs/worlds/computer/**/*.py", "envs/worlds/desktop/**/*.py", "tests/soak/desktops.py")
MAX_DETAIL_CHARS = 600
Case = tuple[str, int]
"""A template and a seed."""


def play(env: DesktopTasksEnv, case: Case, acts: Sequence[str]) -> tuple[float, list[Obs]]:
    """Play actions from the start of a task; return the reward and all observations.

    Raises:
        LookupError: an action names an element that is not in view.
        ValueError: an action was refused, or another action than the last one ended the episode.
    """
    env.choice = replace(env.choice, template=case[0])
    observation, _ = env.reset(seed=case[1])
    total, seen, ended = 0.0, [observation], False
    for act in acts:
        if ended:
            raise ValueError(f"the episode ended before `{act}`")
        observation, reward, ended, _, info = env.step(resolve(act, env.nodes))
        if not info["action_valid"]:
            raise ValueError(f"`{act}` was refused: {text_of(observation)[:200]}")
        total += reward
        seen.append(observation)
    if not ended:
        raise ValueError(f"`{acts[-1]}` did not end the episode")
    return total, seen


def problem_of(env: DesktopTasksEnv, case: Case) -> str:
    """Play the oracle of a task twice and its near misses; return what is wrong, an empty text if nothing is.

    ``env`` observes text and screenshots; both must be the same in the two episodes of the oracle, turn by turn.
    """
    task = draw(*case)
    acts: Sequence[str] = task.oracle
    try:
        (reward, seen), (reward_again, seen_again) = play(env, case, acts), play(env, case, acts)
        if (reward, reward_again) != (1.0, 1.0):
            return f"the oracle got {reward} and {reward_again}: {task.goal} {text_of(seen[-1])}"[:MAX_DETAIL_CHARS]
        for turn, (one, other) in enumerate(zip(seen, seen_again, strict=True)):
            if difference := difference_of(one, other):
                return f"the episodes differ after {turn} actions of {acts}: {difference}"
        for acts in (("done()",), *task.near_misses):
            if reward := play(env, case, acts)[0]:
                return f"a near miss got {reward}: {acts}"
    except Exception as error:
        return f"{type(error).__name__} in {acts}: {error}"[: 2 * MAX_DETAIL_CHARS]
    return ""


def difference_of(one: Obs, other: Obs) -> str:
    """Return how two observations differ, an empty text if they do not."""
    if text_of(one) != text_of(other):
        lines = unified_diff(text_of(one).split("\n"), text_of(other).split("\n"), n=0, lineterm="")
        return " | ".join([*lines][3:])[:MAX_DETAIL_CHARS]
    first, second = (seen["image"] for seen in (one, other) if isinstance(seen, dict))
    if first != second:
        rows, columns = (first.pixels() != second.pixels()).any(axis=2).nonzero()
        return f"pixels x {columns.min()} to {columns.max()}, y {rows.min()} to {rows.max()}"
    return ""


def text_of(observation: Obs) -> str:
    """Return the text of an observation of text and screenshot."""
    assert isinstance(observation, dict)
    return str(observation["text"])


def tested_hash() -> str:
    """Return the hash of the tested sources and image.

    Raises:
        FileNotFoundError: the image is missing.
    """
    image = image_reference("desktop")
    found = subprocess.run(["docker", "image", "inspect", "-f", "{{.Id}}", image], capture_output=True, check=False)
    if found.returncode:
        raise FileNotFoundError(f"the image `{image}` is missing: run `turnwise sandbox build desktop`")
    digest = hashlib.sha256(found.stdout)
    for path in sorted({path for pattern in TESTED for path in ROOT.glob(pattern)}):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def soak_desktops(
    record: Path, seeds: Sequence[int], desktops: int, seconds: float = float("inf"), templates: Sequence[str] = ()
) -> dict[str, Any]:
    """Play the cases that ``record`` does not hold as passed, seed by seed, and append their results to it.

    After ``seconds``, no further case starts. ``templates`` are all by default. In the summary, ``failed`` maps a case
    to its last problem, and ``left`` counts the cases without a result.
    """
    began, lock = monotonic(), threading.Lock()
    cases: list[Case] = [(name, seed) for seed in seeds for name in templates or TEMPLATES]
    record.parent.mkdir(parents=True, exist_ok=True)
    results: dict[Case, str] = {}
    if record.exists():
        rows = map(json.loads, record.read_text().splitlines())
        results = {(row["template"], row["seed"]): row["problem"] for row in rows}
    pending: Iterator[Case] = iter([case for case in cases if results.get(case, "not played")])

    def work(_: int) -> None:
        env = DesktopTasksEnv(observation="both")
        try:
            while monotonic() - began < seconds:
                with lock:
                    case = next(pending, None)
                if case is None:
                    return
                case_began = monotonic()
                problem = problem_of(env, case)
                case_s = round(monotonic() - case_began, 1)
                row = {"template": case[0], "seed": case[1], "problem": problem, "seconds": case_s}
                with lock, record.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                    results[case] = problem
                if problem:
                    print(*case, problem, file=sys.stderr, flush=True)
        finally:
            env.close()

    with ThreadPoolExecutor(desktops) as pool:
        list(pool.map(work, range(desktops)))
    found = {case: results[case] for case in cases if case in results}
    return {
        "passed": sum(not problem for problem in found.values()),
        "failed": {f"{name}, seed {seed}": problem for (name, seed), problem in found.items() if problem},
        "left": len(cases) - len(found),
        "seeds": len(seeds),
        "seconds": round(monotonic() - began, 1),
        "record": str(record),
    }


def run(seeds: int, desktops: int, seconds: float = float("inf")) -> dict[str, Any]:
    """Continue the soak of these sources and this image, with all templates, in Docker sandboxes of this process."""
    record = ROOT / f"build/soak/desktops-{tested_hash()}.jsonl"
    provider = InProcessProvider("docker", capacity=desktops, warm=0)
    set_provider(provider)
    try:
        return soak_desktops(record, range(seeds), desktops, seconds)
    finally:
        set_provider(None)
        provider.close()


def main() -> int:
    """Run the command; return 0 if every case has passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--desktops", type=int, default=4, help="desktops at once; most of the time, each waits")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time after which no further case starts")
    chosen = parser.parse_args()
    found = run(chosen.seeds, chosen.desktops, chosen.seconds)
    print(json.dumps(found))
    return 1 if found["failed"] or found["left"] else 0


if __name__ == "__main__":
    sys.exit(main())
