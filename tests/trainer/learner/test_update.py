"""From groups played into a real store to one update: what shapers read, and which random streams are drawn from."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest
from turnwise.records import Group, GroupState
from turnwise.store.queries import load_group_heads, load_trajectory
from turnwise.tests.agents.players import Stage, group, on_stage, oracle, site
from turnwise.tests.trainer.playing import FIRST, dispatcher, learning
from turnwise.trainer.algorithms.filters.samples.base import SampleFilter
from turnwise.trainer.algorithms.groups import TrainSample
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.learner.update import Learning, Trained

SITE = {"id": "turnwise/TextSite-v0", "options": {"family": "find"}}
BATCH = {"groups_per_batch": 1, "max_concurrent_groups": 4}


class Recorder(ThreadingHTTPServer):
    """An OpenAI-compatible server that keeps the episodes it is shown, and scores them 0, 1, 0, 1 …"""

    shown: list[dict[str, Any]]


class Handler(BaseHTTPRequestHandler):
    server: Recorder

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.shown.append(json.loads(body["messages"][1]["content"]))
        verdict = json.dumps({"score": len(self.server.shown) % 2})
        answer = json.dumps({"choices": [{"message": {"content": verdict}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def judge() -> Iterator[Recorder]:
    with Recorder(("127.0.0.1", 0), Handler) as server:
        server.shown = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def played(stage: Stage, size: int = 2) -> None:
    """A ready group of run ``r``, sampled by its first version."""
    await stage.play(oracle, group(site("find"), size))
    store = stage.store()
    await store.add_version(0, None)
    await store.close_group("g", GroupState.READY)


async def updated(learns: Learning) -> tuple[Sequence[Group], Trained | None]:
    groups = await learns.lease()
    return groups, await learns.update(groups, FIRST, 0.0, 0.0)


def test_a_judge_is_shown_the_observations_that_were_stored(tmp_path: Path, judge: Recorder) -> None:
    url = f"http://127.0.0.1:{judge.server_address[1]}/v1"
    shaper = {"name": "llm_judge", "url": url, "model": "m", "rubric": "Was it done?"}
    config = parse_config({"name": "r", "environments": [SITE], "rollout": BATCH, "rewards": [shaper]})

    async def scenario(stage: Stage) -> list[list[dict[str, str]]]:
        await played(stage)
        _, trained = await updated(learning(stage, config, Streams(0), tmp_path / "model"))
        assert trained is not None
        assert trained.metrics["unscored"] == 0
        stored = [load_trajectory(stage.database, f"g-{member}").steps for member in range(2)]
        return [[{"observation": step.observation, "action": step.action} for step in steps] for steps in stored]

    expected = on_stage(tmp_path, scenario)
    assert all(turn["observation"] for turns in expected for turn in turns)
    assert [one["turns"] for one in judge.shown] == expected


def test_texts_that_no_shaper_reads_are_not_loaded(tmp_path: Path) -> None:
    shaper = {"name": "turn_penalty"}
    config = parse_config({"name": "r", "environments": [SITE], "rollout": BATCH, "rewards": [shaper]})

    async def scenario(stage: Stage) -> None:
        await played(stage)
        groups = await learning(stage, config, Streams(0), tmp_path / "model").lease()
        assert {step.observation for one in groups[0].trajectories for step in one.steps} == {""}

    on_stage(tmp_path, scenario)


DRAWN: list[float] = []


class Drawing(SampleFilter):
    """A sample filter that draws a number per sample and changes nothing."""

    def __call__(self, batch: Sequence[TrainSample], rng: Random) -> list[TrainSample]:
        DRAWN.extend(rng.random() for _ in batch)
        return list(batch)


class Never:
    """Workers that are still playing when the test ends."""

    async def play(self, *_: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    async def cancel(self, deadline: float = 30.0) -> None:
        """Nothing plays."""


@pytest.fixture
def drawing() -> str:
    """The name of the filter for a configuration."""
    DRAWN.clear()
    return f"{Drawing.__module__}:Drawing"


def test_the_draws_of_the_dispatcher_and_of_each_filter_do_not_depend_on_one_another(
    tmp_path: Path, drawing: str
) -> None:
    filters = [{"name": drawing}, {"name": drawing}]
    config = parse_config({"name": "r", "environments": [SITE], "rollout": BATCH, "sample_filters": filters})

    def tasks(folder: Path, *, learns_first: bool) -> list[int]:
        async def scenario(stage: Stage) -> list[int]:
            await played(stage)
            streams = Streams(5)
            learns = learning(stage, config, streams, folder / "model")
            plays = dispatcher(stage, config, streams, Never())
            if learns_first:
                await updated(learns)
            plays.paused = False
            assert await plays.fill() > 1
            if not learns_first:
                await updated(learns)
            await plays.cancel()
            with stage.database.read() as conn:
                heads = load_group_heads(conn, [f"r:{number}" for number in range(plays.next_group)])
            return [head.task.seed for head in heads]

        folder.mkdir()
        return on_stage(folder, scenario)

    first = tasks(tmp_path / "a", learns_first=True)
    one_way, DRAWN[:] = list(DRAWN), []
    second = tasks(tmp_path / "b", learns_first=False)
    common = min(len(first), len(second))
    assert common > 1
    assert first[:common] == second[:common]
    assert one_way == DRAWN
    assert len(set(DRAWN)) == len(DRAWN) == 4
