"""Clone an oracle: train a new model, after its format warm-up, on stored episodes of TextSite's reference solution.

Two steps, as a user would take them: ``turnwise eval --policy oracle --split train`` records the demonstrations, and a
run with ``loss = "behavior_cloning"`` and ``replay_buffer = "demonstrations"`` trains on them. The policy's own
episodes are played and are not trained on.

Prints one JSON line last: held-out success before and after cloning (``gain`` with its 95 % interval), and that of the
oracle on its own tasks.
"""

import argparse
import json
import tempfile

from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.evaluation.tasks import evaluate
from turnwise.trainer.run.run import train

SITE = "turnwise/TextSite-v0"


def main() -> None:
    """Record the demonstrations, train, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--demonstrations", type=int, default=1000)
    options.add_argument("--updates", type=int, default=100)
    options.add_argument("--tasks", type=int, default=200, help="Held-out tasks per evaluation.")
    options.add_argument("--family", default="mix", help="Family of TextSite.")
    options.add_argument("--store", help="URL of the store; by default, a temporary one.")
    chosen = options.parse_args()
    environment = {"id": SITE, "options": {"family": chosen.family}}
    with tempfile.TemporaryDirectory() as folder:
        store = chosen.store or f"sqlite:///{folder}/turnwise.db"
        oracle = evaluate(
            "oracle", SITE, tasks=chosen.demonstrations, split="train", store_url=store, options=environment["options"]
        )
        config = parse_config(
            {
                "name": "behavior-cloning",
                "preset": "tiny",
                "max_steps": chosen.updates,
                "environments": [environment],
                "group_filters": [],
                "horizon": {"max_turns": 12, "max_context": 512},
                "rollout": {"groups_per_batch": 1, "group_size": 2, "max_concurrent_groups": 4},
                "learner": {"max_kl": 0},
                "loss": {"name": "behavior_cloning"},
                "replay_buffer": {"name": "demonstrations", "run": oracle.run, "count": 32},
                "evaluation": {"tasks": chosen.tasks},
                "checkpoint": {"interval": 1000},
            }
        )
        result = train(config, store_url=store)
    print(
        json.dumps(
            {
                "benchmark": "behavior_cloning",
                "demonstrations": oracle.tasks,
                "success_oracle": round(oracle.success, 4),
                "success_untrained": result.success_untrained,
                "success_warmup": result.success_warmup,
                "success_cloned": result.success_after,
                "gain": result.gain,
                "gain_low": result.gain_low,
                "gain_high": result.gain_high,
                "updates": result.updates,
                "wall_s": result.wall_s,
            }
        )
    )


if __name__ == "__main__":
    main()
