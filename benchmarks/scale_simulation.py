"""Simulate runs of up to 10,000 sandboxes, 512 engines and 64 ranks, fed by costs that are measured in the same run.

**Measured here**, within a minute or two: processor time per turn of driver, rollout worker and PostgreSQL, bytes per
turn of the store, of Ray's calls and of a batch, in a short run with a real engine (``parts/scale/measured_run.py``);
the rate of a store writer (``parts/store_writes.py``); the cost of a call by Ray. A turn of the simulated runs has the
tokens of the measured ones, and an episode their number of turns. ``--costs FILE`` reads the costs from the last line
of an earlier run instead.

**Assumed**, because this machine cannot measure it, each by an option and printed under ``assumed``: the duration of an
environment's step, the tokens per second of an engine and of a rank of the learner, the size of the model, the network
of the sending rank, and the cores of the database's server. The defaults are round numbers of a model with 4 billion
parameters on GPUs of 80 GiB, and of web pages; nobody has measured them for this benchmark.

``parts/scale/system.py`` states what is simulated and what is left out. Each size has engines, ranks, workers and nodes
in proportion to the full one, and updates on as many groups as its sandboxes hold. All sizes are simulated twice:
``as_built``: engines load new weights one after the other; and ``one_per_rank``, which is not built: all ranks
of the learner send at the same time, each to one engine. Every rank has each whole parameter while it is gathered.

Prints one JSON line last. Per size: turns per second, ``linear_share`` (turns per second and sandbox over those of the
smallest size), the busy share of each station, and ``carried``: what the store, the driver and Ray carry. Of a sweep:
``linear_up_to``, the largest size whose linear share is at least .9 (with all smaller ones); ``first_saturated``, the
busiest of driver, database and weight transport at the next size; ``alone_up_to``, the size at which each of them is
always busy, with the turns per sandbox of the smallest size and its work per turn at the largest.
"""

import argparse
import json
import os
import tempfile
from dataclasses import asdict, fields
from pathlib import Path

from turnwise.benchmarks.parts.scale.inputs import Assumptions, Costs
from turnwise.benchmarks.parts.scale.measured_run import measure
from turnwise.benchmarks.parts.scale.sweep import sweep

SIZES = (156, 312, 625, 1250, 2500, 5000, 10_000)


def read_costs(path: Path) -> Costs:
    """Return the costs that an earlier run measured, from the last line of its output."""
    return Costs(**json.loads(path.read_text().splitlines()[-1])["costs"])


def main() -> None:
    """Measure, simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sandboxes", type=int, nargs="+", default=SIZES, help="sizes, from the smallest on")
    parser.add_argument(
        "--words", type=int, default=240, help="words that a measured observation has beyond the site's"
    )
    parser.add_argument("--updates", type=int, default=12, help="updates of the measured run")
    parser.add_argument("--costs", type=Path, help="file with the output of an earlier run, whose costs are used")
    for field in fields(Assumptions):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    options = parser.parse_args()
    assumed = Assumptions(**{field.name: getattr(options, field.name) for field in fields(Assumptions)})
    if options.costs:
        costs = read_costs(options.costs)
    else:
        with tempfile.TemporaryDirectory() as folder:
            costs = measure(Path(folder), options.words, options.updates)
    print(json.dumps(asdict(costs)), flush=True)
    print(
        json.dumps(
            {
                "benchmark": "scale_simulation",
                "as_built": sweep(options.sandboxes, costs, assumed, lambda size: 1),
                "one_per_rank": sweep(options.sandboxes, costs, assumed, lambda size: size.ranks),
                "costs": asdict(costs),
                "assumed": asdict(assumed),
                "cores": os.cpu_count(),
            }
        )
    )


if __name__ == "__main__":
    main()
