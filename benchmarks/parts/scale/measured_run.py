"""Measure the costs of a turn in a short run on this machine: real engine, worker, writer, learner rank and PostgreSQL.

The run trains a new tiny model on ``long_pages`` for a few updates. The learner is a process of its own (``fsdp`` with
one rank), so the driver's processor time is that of a driver alone. Processor times are differences between two updates
of the run, over the turns that were trained on between them.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import ray
from sqlalchemy import text
from turnwise.benchmarks.parts.scale.inputs import Costs
from turnwise.benchmarks.parts.store_writes import create, write
from turnwise.records import Group, Outcome, Role, ScoredGroup
from turnwise.store import queries
from turnwise.store.database import Database, open_database
from turnwise.store.run_store import RunStore
from turnwise.store.writing.client import StoreClient
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.postgres import Server
from turnwise.trainer.cluster.runtime import start_ray, stop_ray
from turnwise.trainer.config.loading import load_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.learner.batch import assemble

NAME = "scale"
PROGRAM = Path(sys.executable).with_name("turnwise")
SITE = "turnwise.benchmarks.parts.scale.long_pages:LongPages-v0"
FIRST_UPDATE = 2
"""The update at which the measurement begins."""
GROUPS = 4
"""Groups whose stored records are weighed."""
RUN_TIMEOUT_S = 240.0
WRITTEN_TURNS = 10_240
RAY_CALLS = 2000
PROCESSES = ("driver", "worker", "store")
CONFIG = """
name = "{name}"
max_steps = {updates}
group_filters = []
environments = [{{ id = "{site}", options = {{ words = {words} }} }}]
horizon = {{ max_turns = 8, max_tokens_per_turn = 32, max_context = {context} }}
rollout = {{ groups_per_batch = 4, max_concurrent_groups = 8, max_staleness = 2 }}
engine = {{ kv_cache_memory_bytes = 134_217_728 }}
model = {{ new = {{ hidden = 32, layers = 1, heads = 1 }} }}
learner = {{ backend = "fsdp", max_tokens_per_micro_batch = 16384 }}
sft_warmup = {{ steps = 0 }}
evaluation = {{ tasks = 0 }}
checkpoint = {{ interval = 1000 }}
"""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Processor seconds by process, and what the run had done."""

    cpu_s: Mapping[str, float]
    turns: int
    assembly_s: float
    bytes: int


def measure(folder: Path, words: int, updates: int) -> Costs:
    """Return the costs of a turn whose observation has ``words`` words more than the site's."""
    config_path = folder / "scale.toml"
    context = 8 * (words + 100)
    config_path.write_text(CONFIG.format(name=NAME, updates=updates, site=SITE, words=words, context=context))
    server = Server()
    try:
        written = create(server.url(server.create()))
        writer_s = 1 / write(written, WRITTEN_TURNS, observed=words)
        written.close()
        database = open_database(server.url(server.create()), create=True)
        first, last = _run(config_path, database, updates)
        turns = last.turns - first.turns
        spent = {name: (last.cpu_s[name] - first.cpu_s[name]) / turns for name in last.cpu_s}
        shapes = asyncio.run(_shapes(database, load_config(config_path)))
        database.close()
    finally:
        server.stop()
    return Costs(
        driver_s_per_turn=spent["driver"],
        assembly_s_per_turn=(last.assembly_s - first.assembly_s) / turns,
        worker_s_per_turn=spent["worker"],
        writer_s_per_turn=writer_s,
        database_s_per_turn=spent["database"],
        database_bytes_per_turn=(last.bytes - first.bytes) / turns,
        ray_s_per_call=_ray_call_s(),
        **shapes,
    )


def _run(config: Path, database: Database, updates: int) -> tuple[_Snapshot, _Snapshot]:
    """Run the configuration, and return the snapshots after ``FIRST_UPDATE`` and before the last update."""
    command = [str(PROGRAM), "train", str(config), "--store", database.url, "--json"]
    with (config.parent / "train.log").open("w") as log:
        run = subprocess.Popen(command, stdout=log, stderr=log, cwd=config.parent)
    folder, found = config.parent / "runs" / NAME, []
    try:
        for update in (FIRST_UPDATE, updates - 1):
            lines = _wait_for(folder / "metrics.jsonl", update, run)
            found.append(_snapshot(folder, database, lines))
        run.wait(RUN_TIMEOUT_S)
    except BaseException:
        run.terminate()
        run.wait()
        raise
    return found[0], found[1]


def _wait_for(path: Path, update: int, run: "subprocess.Popen[bytes]") -> list[dict[str, Any]]:
    """Return the metrics of the updates once there are ``update`` of them."""
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while True:
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        done = [one for one in map(json.loads, whole.splitlines()) if one["kind"] == "update"]
        if len(done) >= update:
            return done
        if run.poll() is not None or time.monotonic() > deadline:
            log = (path.parents[2] / "train.log").read_text()
            raise RuntimeError(f"the measured run did not reach update {update}: {log[-2000:]}")
        time.sleep(0.05)


def _snapshot(folder: Path, database: Database, updates: list[dict[str, Any]]) -> _Snapshot:
    cpu = {name: sum(map(_cpu_s, _processes(folder, name))) for name in PROCESSES}
    with database.read() as conn:
        backend = conn.execute(text("SELECT pg_backend_pid()")).scalar_one()
        size = conn.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
    server = psutil.Process(backend).parent()
    assert server is not None
    cpu["database"] = sum(map(_cpu_s, [server, *server.children()]))
    turns, assembly_s = (sum(update[name] for update in updates) for name in ("turns", "assembly_s"))
    return _Snapshot(cpu, turns, assembly_s, size)


def _processes(folder: Path, name: str) -> list[psutil.Process]:
    """Return the processes of a kind, which their log files name."""
    return [psutil.Process(int(path.stem.rpartition("-")[2])) for path in (folder / "logs").glob(f"{name}-*.jsonl")]


def _cpu_s(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


async def _shapes(database: Database, config: RunConfig) -> dict[str, float]:
    """Return the tokens and turns of the stored episodes, and the bytes of what Ray carries."""
    writer = CommitQueue(database)
    store = RunStore(NAME, database, StoreClient(writer.run))
    with database.read() as conn:
        ids = conn.execute(text("SELECT id FROM rollout_group WHERE state = 'consumed' LIMIT :n"), {"n": GROUPS})
        names = list(ids.scalars())
    scored = await store.load_scored(names)
    outcomes = [await store.members(name) for name in names]
    versions = await store.read(queries.versions)
    await asyncio.to_thread(writer.close)
    episodes = [trajectory for found in scored for trajectory in found.group.trajectories]
    turns = sum(len(episode.steps) for episode in episodes)
    observed, sampled = (
        sum(
            len(message.tokens)
            for episode in episodes
            for message in episode.messages
            if (message.role is Role.ASSISTANT) == own
        )
        for own in (False, True)
    )
    batch = _assembled(scored, versions, config)
    return {
        "turns_per_episode": turns / len(episodes),
        "observed_tokens_per_turn": observed / turns,
        "sampled_tokens_per_turn": sampled / turns,
        "group_bytes": sum(map(_call_bytes, scored, outcomes)) / len(scored),
        "batch_bytes_per_turn": len(ray.cloudpickle.dumps(batch)) / turns,
    }


def _assembled(scored: list[ScoredGroup], versions: Mapping[int, Any], config: RunConfig) -> Any:
    latest = max(version.update for version in versions.values())
    batch = assemble(
        scored, versions, latest, latest + 1, advantage=config.advantage, filters=(), loss=config.loss, streams=()
    )
    return batch.samples


def _call_bytes(scored: ScoredGroup, outcomes: list[Outcome]) -> int:
    """Return the bytes of the call that plays a group, and of its answer."""
    played = scored.group
    group = Group(played.id, played.run, played.task, played.horizon, played.size, played.purpose)
    return len(ray.cloudpickle.dumps(group)) + len(ray.cloudpickle.dumps(outcomes))


def _ray_call_s() -> float:
    """Return the processor seconds of this process per call of an actor that does nothing, many at once."""

    class Idle:
        async def call(self) -> None:
            """Do nothing."""

    async def calls() -> None:
        await asyncio.gather(*(actor.call.remote() for _ in range(RAY_CALLS)))

    start_ray()
    try:
        actor = ray.remote(Idle).options(num_cpus=0).remote()
        ray.get(actor.call.remote())
        before = time.process_time()
        asyncio.run(calls())
        return (time.process_time() - before) / RAY_CALLS
    finally:
        stop_ray()
