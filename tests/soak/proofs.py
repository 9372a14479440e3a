"""Prove a published method: a small run whose driver is killed in the middle, and which the same command resumes.

* The run finishes with every update once, and the method's metrics are in the record of each.
* The method left its traces in the store.
* The states of the components follow from one checkpoint to the next (``component_states``).
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from sqlalchemy import text
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.store.project import run_folder
from turnwise.tests.chaos.harness import (
    CONFIG,
    Launch,
    abandoned_batches,
    command,
    descendants,
    survivors,
    updates,
    url,
)
from turnwise.tests.soak.component_states import check_states
from turnwise.tests.soak.methods import METHODS, Method
from turnwise.tests.store.making import double_consumed
from turnwise.tests.trainer.algorithms.dropped_files import drop_files
from turnwise.trainer.algorithms.algorithm_set import SLOTS
from turnwise.trainer.config.loading import load_config

RUN = "small"
DROPPED_FILES = "dropped_files"
"""The proof that a method is one file: a file for each slot, in a package outside turnwise."""
NAMES = (*METHODS, DROPPED_FILES)
UPDATES = 20
KILLED_AFTER = 12
"""The update after which the driver is killed: the resume continues from the checkpoint of update 10."""
COMMON = (
    f"max_steps={UPDATES}",
    f"checkpoint={{interval=5,keep_last={UPDATES}}}",
    "evaluation.tasks=4",
    'environments.0.options.family="open"',
    "sft_warmup.steps=200",
)
"""Keys of every run: tasks and a warm-up with which some episodes succeed, because some methods learn from success."""
TIMEOUT_S = 900.0
"""Limit of each half of a run on a busy machine."""


def prove(folder: Path, name: str) -> dict[str, Any]:
    """Run the proof of a method; return what was counted, and under `problem` the check that failed."""
    started = time.monotonic()
    folder.mkdir(parents=True)
    found: dict[str, Any] = {"method": name}
    try:
        method = dropped_files(folder) if name == DROPPED_FILES else METHODS[name]
        keys = [*COMMON, *method.keys]
        for before in method.before:
            done = command(folder, *before)
            assert done.returncode == 0, f"{before} failed:\n{done.stderr[-2000:]}"
        found |= killed_and_resumed(folder, keys)
        found |= check_record(folder, method)
        found |= check_states(folder, RUN, load_config(CONFIG, keys), method.state)
        problem = ""
    except AssertionError as error:
        problem = str(error) or repr(error)
    return {**found, "wall_s": round(time.monotonic() - started, 1), "problem": problem}


def dropped_files(folder: Path) -> Method:
    """Write a package with a file per slot and make it importable; return the method that selects all of them."""
    package = "dropped_methods"
    chosen = drop_files(folder, package)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))
    keys = [f"{slot}={toml(value)}" for slot, value in chosen.items()]
    limits = ("horizon.max_tokens_per_turn=4", "horizon.max_context=256")
    counts = [f"{base.slot}/calls" if base.default else f"{base.slot}.0/calls" for base in SLOTS]
    # One call per update: the count of the killed process was restored.
    whole = {f"{slot}/calls": UPDATES for slot in ("advantage", "sample_filters.0", "replay_buffer")}
    return Method((*keys, *limits), ("loss", "grad_norm", "dropped", *counts), "task_sampler", last=whole)


def toml(component: Any) -> str:
    """Return a component, or a list of components, as a value in TOML."""
    if isinstance(component, list):
        return f"[{', '.join(map(toml, component))}]"
    return f"{{{', '.join(f'{key}={json.dumps(value)}' for key, value in component.items())}}}"


def killed_and_resumed(folder: Path, keys: list[str]) -> dict[str, Any]:
    """Kill the driver after ``KILLED_AFTER`` updates and resume the run to its end; no process outlives the driver."""
    launch = Launch.of(folder, *keys)
    try:
        launch.until_update(KILLED_AFTER, TIMEOUT_S)
        below = descendants(launch.process.pid)
    finally:
        launch.kill()
    assert (left := survivors(below, 60)) == [], f"processes outlived the driver: {left}"
    reached = updates(folder)
    with open_database(url(folder)).read() as conn:
        newest = queries.latest_checkpoint(conn, RUN)
    assert newest is not None
    launch = Launch.of(folder, *keys)
    assert launch.wait(TIMEOUT_S) == 0, f"the resumed run ended with {launch.process.returncode}:\n{launch.log()}"
    with open_database(url(folder)).read() as conn:
        assert queries.find_run(conn, RUN).status == "finished"
        surviving = [one for one in queries.versions(conn, RUN).values() if not one.abandoned]
        assert double_consumed(conn, RUN) == []
    (next_one,) = [one for one in surviving if one.update == newest.update + 1]
    assert next_one.parent == newest.id, "the resume did not continue from the newest checkpoint"
    assert abandoned_batches(folder) == reached - newest.update
    return {"killed_at": reached, "resumed_at": newest.update}


def check_record(folder: Path, method: Method) -> dict[str, Any]:
    """Check the record of each update and the method's traces in the store."""
    database = open_database(url(folder))
    lines = (run_folder(database, RUN) / "metrics.jsonl").read_text().splitlines()
    records = [record for record in map(json.loads, lines) if record["kind"] == "update"]
    assert [record["update"] for record in records] == list(range(1, UPDATES + 1))
    for record in records:
        missing = [name for name in method.metrics if record.get(name) is None]
        assert missing == [], f"update {record['update']} has no {missing}"
    last = {name: records[-1][name] for name in method.metrics if "/" in name}
    assert {name: last[name] for name in method.last} == method.last
    if not method.effect:
        return {"metrics": last}
    with database.read() as conn:
        count = method.effect(conn) if callable(method.effect) else conn.execute(text(method.effect)).scalar_one()
    assert count > 0, f"no rows: {method.effect}"
    return {"metrics": last, "effect": count}
