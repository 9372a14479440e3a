"""The timeline of an episode: lanes, waiting, and the turns at which other weights took over."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient
from turnwise.console.viewer.pages import trajectory
from turnwise.console.viewer.pages.episode.timeline import Boundary, Segment, timeline
from turnwise.tests.store.making import records

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_turn_is_sampled_then_applied_and_the_rest_is_waiting() -> None:
    (step,), _ = records(0)
    steps = [
        replace(step, index=index, model_ms=1000.0, env_ms=500.0, created_at=START + timedelta(seconds=at))
        for index, at in enumerate((0, 2, 3.5))
    ]
    found = timeline(steps, {0: [3], 1: [3], 2: [3, 4]})
    assert found.segments == [
        Segment(0, "sampling", 0.0, 1.0),
        Segment(0, "environment", 1.0, 0.5),
        Segment(1, "waiting", 1.5, 0.5),
        Segment(1, "sampling", 2.0, 1.0),
        Segment(1, "environment", 3.0, 0.5),
        Segment(2, "sampling", 3.5, 1.0),
        Segment(2, "environment", 4.5, 0.5),
    ]
    assert (found.length_s, found.totals_s) == (5.0, {"sampling": 3.0, "environment": 1.5, "waiting": 0.5})
    assert found.boundaries == [Boundary(2, 3.5, [3, 4])]


def test_a_long_episode_has_the_time_of_the_turns_around_the_shown_ones(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectory, "TIMELINE_TURNS", 1)
    page = client.get("/api/trajectories/a-0?turn=1").json()
    assert (page["timeline_start"], {one["turn"] for one in page["timeline"]["segments"]}) == (1, {1})
    assert "turns 1 to 1 of 2: the others are left out" in client.get("/trajectories/a-0?turn=1").text
    assert client.get("/api/trajectories/a-0?turn=9").json()["timeline_start"] == 1
