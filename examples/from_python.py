"""Train, evaluate and read from Python: ``python examples/from_python.py [CONFIG.toml]``."""

import sys
from collections.abc import Mapping
from typing import Any

import turnwise
from turnwise.store import queries


class StopAt(turnwise.Callback):
    """Prints each update, and stops the run at a success."""

    def __init__(self, success: float) -> None:
        self.success = success

    def on_update(self, update: turnwise.UpdateDone) -> None:
        print(f"update {update.update}: success {update.success:.2f}, loss {update.metrics['loss']:.4f}")
        if update.success >= self.success:
            raise turnwise.StopRun(f"success {update.success:.2f}")

    def on_evaluation(self, evaluation: turnwise.EvalResult) -> None:
        print(f"{evaluation.name}: {evaluation.success:.2f} ({evaluation.low:.2f} to {evaluation.high:.2f})")

    def on_end(self, end: turnwise.RunEnded) -> None:
        print(f"run {end.run} {end.status} {end.error}")


def main(config: str | Mapping[str, Any], store: str | None = None, success: float = 0.95) -> turnwise.RunResult:
    """Train a run, evaluate the random policy, and list the runs and one episode of the store."""
    result = turnwise.train(config, callbacks=[StopAt(success)], store=store)
    chance = turnwise.evaluate("random", "turnwise/TextSite-v0", tasks=20, options={"family": "find"}, store=store)
    print(f"random policy: {chance.success:.2f} of {chance.tasks} tasks")
    with turnwise.open_store(store) as reader:
        for run in reader.read(queries.list_runs, limit=5):
            print(run.id, run.kind, run.status)
        (row,) = reader.read(queries.list_trajectories, limit=1, run=chance.run)
        print(row.id, row.status, row.reward)
    return result


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "examples/quickstart.toml")
