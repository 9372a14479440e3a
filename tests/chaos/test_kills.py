"""``kill -9`` of every part of a run. The full count is ``make soak``'s."""

import random
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from turnwise.tests.chaos.harness import Launch, abandoned_batches, check_finished, descendants, sizes, survivors

CHECKPOINT_EVERY = 2
FAULTS = ("after_optimizer:3", "after_acknowledge:2", "checkpoint_renamed:2")


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("faults", [FAULTS[1:2], pytest.param(FAULTS, marks=pytest.mark.soak)])
def test_the_driver_dies_at_named_points_and_the_same_command_resumes(tmp_path: Path, faults: Sequence[str]) -> None:
    rows: dict[str, int] = {}
    rolled_back = 0
    for fault in faults:
        launch = Launch.of(tmp_path, fault=fault)
        below: list[psutil.Process] = []
        deadline = time.monotonic() + 150
        while launch.process.poll() is None and time.monotonic() < deadline:
            below = descendants(launch.process.pid) or below
            time.sleep(0.2)
        assert launch.wait(1) == -9, launch.log()
        assert survivors(below, 30) == []
        grown = sizes(tmp_path)
        assert all(grown[table] >= count for table, count in rows.items())
        rows = grown
    assert Launch.of(tmp_path).wait(200) == 0, (tmp_path / "log.txt").read_text()[-4000:]
    check_finished(tmp_path)
    assert all(count >= rows[table] for table, count in sizes(tmp_path).items())
    rolled_back = abandoned_batches(tmp_path)
    assert rolled_back <= CHECKPOINT_EVERY * len(faults)


@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_a_worker_an_engine_and_the_writer_die_and_the_run_goes_on(tmp_path: Path) -> None:
    launch = Launch.of(tmp_path, "max_steps=60")
    try:
        for update, part in ((2, "RolloutWorker"), (8, "Engine"), (14, "StoreWriter")):
            launch.until_update(update, 120)
            launch.part(part).kill()
        assert launch.wait(240) == 0, launch.log()
    finally:
        if launch.process.poll() is None:
            launch.kill()
    check_finished(tmp_path, updates_wanted=60)


@pytest.mark.chaos
@pytest.mark.soak
@pytest.mark.timeout(400)
def test_the_driver_dies_at_a_random_moment(tmp_path: Path) -> None:
    launch = Launch.of(tmp_path)
    launch.until_update(0, 120)
    time.sleep(random.Random(0).uniform(0.1, 2.0))
    launch.kill()
    before = sizes(tmp_path)
    assert Launch.of(tmp_path).wait(200) == 0
    check_finished(tmp_path)
    assert all(count >= before[table] for table, count in sizes(tmp_path).items())
    assert abandoned_batches(tmp_path) <= CHECKPOINT_EVERY
