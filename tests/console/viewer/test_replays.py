"""A replay shows the verdict on each turn, starts only from its page, and ends when the page is left."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from time import monotonic

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient
from turnwise.agents.reexecution.reexecute import Report
from turnwise.console.viewer import replays
from turnwise.console.viewer.replays import Replays
from turnwise.store.database import Database, open_database
from turnwise.store.schema import step
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.content.sealing import reseal
from turnwise.tests.store.making import sqlite_store
from turnwise.trainer.evaluation.tasks import evaluate

ENV = "turnwise/GuessNumber-v0"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    url = sqlite_store(tmp_path_factory.mktemp("played"))
    evaluate("oracle", ENV, tasks=1, samples=2, store_url=url, name="o")
    database = open_database(url)
    yield database
    database.close()


def episodes(database: Database) -> list[str]:
    with client_of(database) as client:
        return [one["id"] for one in client.get("/api/trajectories?run=o").json()["trajectories"]]


def events_of(client: TestClient, trajectory: str) -> list[tuple[str, dict[str, object]]]:
    page = client.get(f"/trajectories/{trajectory}/replay").text
    found = re.search(r'data-events="([^"]+)"', page)
    assert found, page
    text = client.get(found[1].replace("&amp;", "&"), headers={"sec-fetch-dest": "empty"}).text
    return [(name, json.loads(data)) for name, data in re.findall(r"event: (\w+)\ndata: (.*)\n\n", text)]


def test_every_turn_of_a_replay_is_compared(played: Database) -> None:
    trajectory = episodes(played)[0]
    with client_of(played) as client:
        turns = client.get(f"/api/trajectories/{trajectory}/replay").json()["turns"]
        events = events_of(client, trajectory)
    assert [data["index"] for name, data in events if name == "turn"] == list(range(len(turns) + 1))
    assert all(data["matches"] for _, data in events)
    assert (events[-1][0], str(events[-1][1]["message"])[:3]) == ("ended", "all")


def test_a_turn_that_differs_is_named(own: Database) -> None:
    evaluate("oracle", ENV, tasks=1, samples=1, store_url=str(own.engine.url), name="o")
    with own.transaction() as tx:
        tx.conn.execute(update(step).where(step.c.idx == 0).values(reward=0.5))
    reseal(own)
    with client_of(own) as client:
        events = events_of(client, episodes(own)[0])
    assert next(data["matches"] for name, data in events if name == "turn") is False
    assert str(events[0][1]["differs"]).startswith("reward was 0.5, now ")
    assert "step 0 differs" in str(events[-1][1]["message"])


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({"sec-fetch-dest": "image"}, None),
        ({"sec-fetch-dest": "document", "sec-fetch-mode": "navigate", "sec-fetch-site": "cross-site"}, None),
        ({"sec-fetch-dest": "empty"}, "other"),
        ({}, ""),
    ],
)
def test_only_the_page_starts_a_replay(played: Database, headers: dict[str, str], key: str | None) -> None:
    with client_of(played) as client:
        page = client.get(f"/trajectories/{episodes(played)[0]}/replay").text
        own = re.search(r"key=([\w-]+)", page)
        assert own
        query = f"key={own[1] if key is None else key}"
        answer = client.get(f"/trajectories/{episodes(played)[0]}/replay/events?{query}", headers=headers)
    assert answer.status_code == 403


def test_an_episode_that_cannot_be_replayed_states_why(client: TestClient) -> None:
    page = client.get("/trajectories/open-0/replay").text
    assert "no: it is still running" in page
    assert "data-events" not in page


async def started(made: Replays, trajectory: str) -> AsyncIterator[str]:
    stream = made._stream(trajectory)
    await anext(stream)
    return stream


def test_one_replay_runs_at_a_time_and_ends_with_its_page(played: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "KEEPALIVE_INTERVAL_S", 0.01)

    async def forever(database: Database, trajectory: str, put: replays.Put) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(replays, "_play", forever)

    async def scenario() -> None:
        made = Replays(played)
        first = await started(made, "x")
        second = made._stream("y")
        assert "another replay is running" in await anext(second)
        await first.aclose()  # type: ignore[attr-defined]
        assert made._running is not None
        await asyncio.wait([made._running])
        third = await started(made, "z")
        await third.aclose()  # type: ignore[attr-defined]

    asyncio.run(scenario())


def test_another_sandbox_image_is_told_with_the_verdict(played: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(database: Database, trajectory: str, put: replays.Put) -> None:
        put(Report(trajectory, True, "all 2 steps match", images=("sha256:aa", "sha256:bb")))

    monkeypatch.setattr(replays, "_play", play)
    with client_of(played) as client:
        (event,) = events_of(client, episodes(played)[0])
        page = client.get(f"/trajectories/{episodes(played)[0]}/replay").text
    assert (event[1]["matches"], event[1]["images"]) == (True, ["sha256:aa", "sha256:bb"])
    assert '<p class="notice warn" id="other-image" role="alert" hidden></p>' in page


def test_a_page_that_is_left_late_does_not_end_the_next_replay(
    played: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "KEEPALIVE_INTERVAL_S", 0.01)
    playing = asyncio.Event()

    async def play(database: Database, trajectory: str, put: replays.Put) -> None:
        await (asyncio.sleep(0.05) if trajectory == "first" else playing.wait())
        put(trajectory)

    monkeypatch.setattr(replays, "_play", play)

    async def scenario() -> str:
        made = Replays(played)
        first = await started(made, "first")
        assert made._running is not None
        await asyncio.wait([made._running])
        second = await started(made, "second")
        await first.aclose()  # type: ignore[attr-defined]
        playing.set()
        async with asyncio.timeout(5):
            return [event async for event in second][-1]

    assert "second" in asyncio.run(scenario())


def test_a_replay_that_lasts_too_long_is_ended(played: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "REPLAY_TIMEOUT_S", 0.0)
    began = monotonic()
    with client_of(played) as client:
        events = events_of(client, episodes(played)[0])
    assert "was ended after" in str(events[-1][1]["message"])
    assert monotonic() - began < 20
