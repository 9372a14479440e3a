"""The update step on groups in a real store: observations that rewards receive, metrics, and random streams."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest
from turnwise.records import Group, GroupState
from turnwise.store.queries import load_group_heads, load_trajectory
from turnwise.tests.agents.players import Stage, group, on_stage, oracle, site
from turnwise.tests.trainer.playing import FIRST, dispatcher, update_step
from turnwise.trainer.algorithms.filters.samples.base import SampleFilter
from turnwise.trainer.algorithms.groups import TrainSample
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.evaluation.heldout import EvalResult
from turnwise.trainer.learner.update import UpdateResult, UpdateStep
from turnwise.trainer.telemetry.events import UpdateDone

DOCUMENTED = Path(__file__).parents[3] / "docs" / "metrics.md"
SITE = {"id": "turnwise/TextSite-v0", "options": {"family": "find"}}
BATCH = {"groups_per_batch": 1, "max_concurrent_groups": 4}


class Recorder(ThreadingHTTPServer):
    """An OpenAI-compatible server that records the episodes it receives, and scores them 1, 0, 1, 0 …"""

    episodes: list[dict[str, Any]]


class Handler(BaseHTTPRequestHandler):
    server: Recorder

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.episodes.append(json.loads(body["messages"][1]["content"]))
        verdict = json.dumps({"score": len(self.server.episodes) % 2})
        response = json.dumps({"choices": [{"message": {"content": verdict}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(response)))
        self.end_headers()
        self.wfile.write(response)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def judge() -> Iterator[Recorder]:
    with Recorder(("127.0.0.1", 0), Handler) as server:
        server.episodes = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def played(stage: Stage, size: int = 2) -> None:
    """Play a group of run ``r`` with its first version, and mark it ready."""
    await stage.play(oracle, group(site("find"), size))
    store = stage.store()
    await store.add_version(0, None)
    await store.close_group("g", GroupState.READY)


async def updated(step: UpdateStep) -> tuple[Sequence[Group], UpdateResult | None]:
    groups = await step.lease()
    return groups, await step.update(groups, FIRST, 0.0, 0.0)


def test_a_judge_receives_the_stored_observations(tmp_path: Path, judge: Recorder) -> None:
    url = f"http://127.0.0.1:{judge.server_address[1]}/v1"
    shaper = {"name": "llm_judge", "url": url, "model": "m", "rubric": "Was it done?"}
    config = parse_config({"name": "r", "environments": [SITE], "rollout": BATCH, "rewards": [shaper]})

    async def scenario(stage: Stage) -> list[list[dict[str, str]]]:
        await played(stage)
        _, result = await updated(update_step(stage, config, Streams(0), tmp_path / "model"))
        assert result is not None
        assert result.metrics["unscored_members"] == 0
        stored = [load_trajectory(stage.database, f"g-{member}").steps for member in range(2)]
        return [[{"observation": step.observation, "action": step.action} for step in steps] for steps in stored]

    expected = on_stage(tmp_path, scenario)
    assert all(turn["observation"] for turns in expected for turn in turns)
    assert [one["turns"] for one in judge.episodes] == expected


def test_every_recorded_metric_is_documented(tmp_path: Path) -> None:
    config = parse_config({"name": "r", "environments": [SITE], "rollout": BATCH})

    async def scenario(stage: Stage) -> set[str]:
        await played(stage)
        _, result = await updated(update_step(stage, config, Streams(0), tmp_path / "model"))
        assert result is not None
        return set(result.metrics)

    recorded = on_stage(tmp_path, scenario)
    recorded |= {field.name for event in (UpdateDone, EvalResult) for field in fields(event)}
    documented = set(re.findall(r"`(\w+)`", DOCUMENTED.read_text()))
    assert recorded - documented == set()


def test_texts_that_no_shaper_reads_are_not_loaded(tmp_path: Path) -> None:
    shaper = {"name": "turn_penalty"}
    config = parse_config({"name": "r", "environments": [SITE], "rollout": BATCH, "rewards": [shaper]})

    async def scenario(stage: Stage) -> None:
        await played(stage)
        groups = await update_step(stage, config, Streams(0), tmp_path / "model").lease()
        assert {step.observation for one in groups[0].trajectories for step in one.steps} == {""}

    on_stage(tmp_path, scenario)


DRAWN: list[float] = []


class Drawing(SampleFilter):
    """A sample filter that draws a number per sample and changes nothing."""

    def __call__(self, batch: Sequence[TrainSample], rng: Random) -> list[TrainSample]:
        DRAWN.extend(rng.random() for _ in batch)
        return list(batch)


class Never:
    """Workers whose groups never end."""

    async def play(self, *_: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    async def cancel(self, timeout_s: float = 30.0) -> None:
        """Do nothing."""


@pytest.fixture
def drawing() -> str:
    """Return the import path of the filter, and clear its draws."""
    DRAWN.clear()
    return f"{Drawing.__module__}:Drawing"


def test_the_dispatcher_and_each_filter_draw_from_independent_streams(tmp_path: Path, drawing: str) -> None:
    filters = [{"name": drawing}, {"name": drawing}]
    config = parse_config({"name": "r", "environments": [SITE], "rollout": BATCH, "sample_filters": filters})

    def tasks(folder: Path, *, updates_first: bool) -> list[int]:
        async def scenario(stage: Stage) -> list[int]:
            await played(stage)
            streams = Streams(5)
            step = update_step(stage, config, streams, folder / "model")
            rollouts = dispatcher(stage, config, streams, Never())
            if updates_first:
                await updated(step)
            rollouts.paused = False
            assert await rollouts.fill() > 1
            if not updates_first:
                await updated(step)
            await rollouts.cancel()
            with stage.database.read() as conn:
                heads = load_group_heads(conn, [f"r:{number}" for number in range(rollouts.next_group)])
            return [head.task.seed for head in heads]

        folder.mkdir()
        return on_stage(folder, scenario)

    first = tasks(tmp_path / "a", updates_first=True)
    first_draws, DRAWN[:] = list(DRAWN), []
    second = tasks(tmp_path / "b", updates_first=False)
    common = min(len(first), len(second))
    assert common > 1
    assert first[:common] == second[:common]
    assert first_draws == DRAWN
    assert len(set(DRAWN)) == len(DRAWN) == 4
