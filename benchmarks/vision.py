"""Measure what screenshots cost: a policy that reads them against one of the same size that reads text, in a browser.

Each of two runs trains a new model for a few updates in Chromium: ``turnwise/TinyPixelsWeb-v0`` (screenshots) and
``turnwise/TinyWeb-v0`` (texts). Every figure is of the updates after the first two.

* ``turns_per_s``, ``tokens_per_s``: trained turns of whole runs per second, and trained tokens of the learner per
  second of its own work; ``vision_over_text`` divides them.
* ``bytes_per_turn``: bytes of pictures in the store per turn.
* ``peak_over_plan``: peak memory of the process with the learner over what ``turnwise plan`` says of it.

Prints one JSON line last.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from sqlalchemy import func, select
from turnwise.store.content.blobs import PNG
from turnwise.store.database import open_database
from turnwise.store.schema import blob, step

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PROGRAM = str(Path(sys.executable).with_name("turnwise"))
SKIPPED = 2


def run(name: str, updates: int) -> dict[str, float]:
    """Train an example for a few updates; return its figures."""
    settings = (f"max_steps={updates}", "max_seconds=600", "evaluation.tasks=0", "sft_warmup.steps=100")
    changes = [word for one in settings for word in ("--set", one)]
    with tempfile.TemporaryDirectory() as folder:
        url, config = f"sqlite:///{folder}/turnwise.db", str(EXAMPLES / f"{name}.toml")
        with (Path(folder) / "out").open("w+") as out:
            started = subprocess.Popen([PROGRAM, "train", config, "--json", "--store", url, *changes], stdout=out)
            _, status, used = os.wait4(started.pid, 0)
            out.seek(0)
            result = json.loads(out.readlines()[-1])
        if status:
            raise SystemExit(f"{name} ended with {os.waitstatus_to_exitcode(status)}: {result}")
        records = map(json.loads, (Path(result["folder"]) / "metrics.jsonl").read_text().splitlines())
        done = [one for one in records if one["kind"] == "update"][SKIPPED:]
        plan = json.loads(
            subprocess.run([PROGRAM, "plan", config, "--json"], check=True, capture_output=True, text=True).stdout
        )
        database = open_database(url, read_only=True)
        with database.read() as conn:
            turns = conn.execute(select(func.count()).select_from(step)).scalar_one()
            stored = conn.execute(select(func.sum(blob.c.size)).where(blob.c.media_type == PNG)).scalar_one()
        database.close()
    learner_s = [one["update_s"] for one in done]
    return {
        "turns_per_s": statistics.median(one["turns_per_s"] for one in done),
        "tokens_per_s": sum(one["tokens"] for one in done) / sum(learner_s),
        "bytes_per_turn": (stored or 0) / turns,
        "peak_over_plan": used.ru_maxrss * 1024 / plan["processes"][0]["bytes"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=8)
    options = parser.parse_args()
    vision, text = run("tiny_pixels_web", options.updates), run("tiny_web", options.updates)
    ratio = {name: round(vision[name] / text[name], 3) for name in ("turns_per_s", "tokens_per_s")}
    rounded = {
        kind: {name: round(value, 3) for name, value in one.items()}
        for kind, one in (("vision", vision), ("text", text))
    }
    figures = {"vision_over_text": ratio, **rounded}
    print(json.dumps({"benchmark": "vision", **figures}))


if __name__ == "__main__":
    main()
