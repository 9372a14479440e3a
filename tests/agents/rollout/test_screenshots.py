"""Screenshots of episodes whose observations are texts: which ones a run keeps, and what a failed one changes."""

from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from turnwise.agents.reexecution.reexecute import reexecute
from turnwise.agents.rollout import screenshots
from turnwise.agents.rollout.timeouts import Timeouts
from turnwise.envs.base import Image
from turnwise.envs.spaces import Png
from turnwise.envs.tasks import make_task
from turnwise.records import Screenshots, Status, Trajectory
from turnwise.sandbox.errors import SandboxLost
from turnwise.store.queries import load_trajectory
from turnwise.tests.agents.players import QUICK, Stage, always, group, on_stage
from turnwise.tests.agents.worlds import CLOCK, PICTURE, Clock


def played(tmp_path: Path, keep: Screenshots, world: str = CLOCK, timeouts: Timeouts = QUICK) -> list[Trajectory]:
    """Play two episodes, one after the other; the first is executed again and must match."""

    async def scenario(stage: Stage) -> list[Trajectory]:
        stage.screenshots, stage.concurrency = keep, {world: 1}
        await stage.play(lambda *_: always("go"), group(make_task(world, 0, "train", {}), size=2), timeouts)
        both = [load_trajectory(stage.database, f"g-{member}") for member in range(2)]
        if both[0].status is Status.COMPLETED:
            assert (await reexecute(stage.database, "g-0")).matches
        with stage.database.read() as conn:
            assert all(
                int(Png(stage.database.blobs.get(conn, name)).pixels().max()) == turn
                for one in both
                for turn, name in enumerate([*(step.screenshot for step in one.steps), one.final_screenshot])
                if name
            )
        return both

    trajectories: list[Trajectory] = on_stage(tmp_path, scenario)
    return trajectories


@pytest.mark.parametrize(
    ("keep", "world", "kept"),
    [
        ("end", CLOCK, [False, False, False, True]),
        ("all", CLOCK, [True] * 4),
        ("none", CLOCK, [False] * 4),
        ("all", PICTURE, [False, False]),
    ],
)
def test_the_run_keeps_the_chosen_screenshots(tmp_path: Path, keep: Screenshots, world: str, kept: list[bool]) -> None:
    for one in played(tmp_path, keep, world):
        assert [bool(name) for name in (*(step.screenshot for step in one.steps), one.final_screenshot)] == kept
        assert bool(one.final_images) == (world == PICTURE)
        assert (one.status, one.extras.get("screenshot_error")) == (Status.COMPLETED, None)


def failing(error: Exception) -> Any:
    def screenshot(_: Clock) -> Image:
        raise error

    return screenshot


@pytest.mark.parametrize(
    ("keep", "error", "status", "reason"),
    [
        ("end", ValueError("no light"), Status.COMPLETED, "ValueError: no light"),
        ("all", ValueError("no light"), Status.COMPLETED, "ValueError: no light"),
        ("end", SandboxLost("the host died"), Status.COMPLETED, "the host died"),
        ("all", SandboxLost("the host died"), Status.ENV_ERROR, "the host died"),
    ],
)
def test_a_failed_screenshot_fails_no_episode_that_can_continue(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keep: Screenshots,
    error: Exception,
    status: Status,
    reason: str,
) -> None:
    monkeypatch.setattr(Clock, "screenshot", failing(error))
    for one in played(tmp_path, keep):
        noted = one.extras.get("screenshot_error", "")
        assert one.status is status
        assert reason in (noted if status is Status.COMPLETED else one.error)
        assert not one.final_screenshot


@pytest.mark.parametrize(("keep", "status"), [("end", Status.COMPLETED), ("all", Status.ENV_ERROR)])
def test_after_a_screenshot_that_hung_none_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: Screenshots, status: Status
) -> None:
    """That of an end has a timeout of its own, shorter than a step's."""
    taken = []

    def screenshot(clock: Clock) -> None:
        taken.append(clock)
        sleep(0.4)

    monkeypatch.setattr(Clock, "screenshot", screenshot)
    monkeypatch.setattr(screenshots, "_hung", set())
    monkeypatch.setattr(screenshots, "END_TIMEOUT_S", 0.2 if keep == "end" else 9.0)
    first, second = played(tmp_path, keep, timeouts=QUICK if keep == "end" else replace(QUICK, step_s=0.2))
    assert (first.status, second.status, len(taken)) == (status, Status.COMPLETED, 1)
    assert "did not return within 0.2 s" in first.error + first.extras.get("screenshot_error", "")
    assert second.extras["screenshot_error"] == "an earlier screenshot of this environment timed out"
