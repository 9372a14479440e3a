"""Failures of the world at a rate read from a file: a failed member is absent and changes nothing else.

In CI the run of ``test_endings.py`` survives an outage of its world.
"""

import json
from pathlib import Path

import pytest
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.tests.chaos.flaky_world import check_members, flaky_world, outage, set_rate, until
from turnwise.tests.chaos.harness import Launch, check_finished, command, updates, url

pytestmark = pytest.mark.timeout(400)


def launch(folder: Path, monkeypatch: pytest.MonkeyPatch, rate: float, updates_wanted: int, tasks: int = 0) -> Launch:
    world = flaky_world(folder, monkeypatch, rate)
    return Launch.of(folder, world, f"max_steps={updates_wanted}", f"evaluation.tasks={tasks}")


@pytest.mark.soak
@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_failed_members_change_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
    run = launch(tmp_path, monkeypatch, rate, 6)
    assert run.wait(300) == 0, run.log()
    check_finished(tmp_path, updates_wanted=6)
    check_members(tmp_path)


@pytest.mark.soak
def test_some_members_fail_then_all_fail_and_the_run_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = launch(tmp_path, monkeypatch, 0.2, 200)
    try:
        run.until_update(3, 120)
        outage(tmp_path, run.log, lambda: run.process.poll() is None)
        assert command(tmp_path, "runs", "stop", "small").returncode == 0
        assert run.wait(120) == 0, run.log()
    finally:
        if run.process.poll() is None:
            run.kill()
    assert json.loads(run.log().splitlines()[-1])["status"] == "stopped"
    with open_database(url(tmp_path)).read() as conn:
        assert queries.find_run(conn, "small").status == "stopped"
        saved = queries.latest_checkpoint(conn, "small")
    assert saved is not None
    assert saved.update == updates(tmp_path)
    check_members(tmp_path)


@pytest.mark.soak
def test_an_outage_during_the_last_evaluation_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = launch(tmp_path, monkeypatch, 0.0, 4, tasks=200)
    try:
        run.until_update(4, 120)
        set_rate(tmp_path, 1.0)
        until(lambda: "episodes failed; again in" in run.log(), "the wait", lambda: run.process.poll() is None)
        set_rate(tmp_path, 0.0)
        assert run.wait(240) == 0, run.log()
    finally:
        if run.process.poll() is None:
            run.kill()
    check_finished(tmp_path, updates_wanted=4)
