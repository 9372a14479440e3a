"""`kill -9` of every part of a run. `make soak` runs the full counts."""

import random
import time
from pathlib import Path

import pytest
from turnwise.tests.chaos.harness import Launch, abandoned_batches, check_finished, sizes

CHECKPOINT_INTERVAL = 2


@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_a_worker_an_engine_and_the_writer_die_and_the_run_goes_on(tmp_path: Path) -> None:
    launch = Launch.of(tmp_path, "max_steps=24")
    try:
        for update, part in ((2, "RolloutWorker"), (6, "Engine"), (10, "StoreWriter")):
            launch.until_update(update, 120)
            launch.part(part).kill()
        assert launch.wait(240) == 0, launch.log()
    finally:
        if launch.process.poll() is None:
            launch.kill()
    check_finished(tmp_path, updates_wanted=24)


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
    assert abandoned_batches(tmp_path) <= CHECKPOINT_INTERVAL
