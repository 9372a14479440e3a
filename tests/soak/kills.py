"""Random `kill -9` of every part of many small runs, at named points and at random moments.

* After the driver's death no process of the run is alive, and no row is lost.
* A resume repeats at most one checkpoint interval of updates: one update in half of the runs, two in the others.
* Every run reaches its last update, and the invariants of the chaos tests hold.
* Every draw of the task sampler has one surviving group: no task is repeated, except those of lost updates.
* Every second run has its store on a PostgreSQL server.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from turnwise.tests.chaos.harness import (
    CONFIG,
    Launch,
    abandoned_batches,
    check_finished,
    descendants,
    has_tables,
    sizes,
    survivors,
    updates,
    use_store,
)
from turnwise.tests.store.postgres import Server
from turnwise.tests.trainer.rollout.drawn_tasks import Draws, count_draws
from turnwise.trainer.config.loading import load_config
from turnwise.trainer.failpoints import FAILPOINTS

PARTS = ("Engine", "RolloutWorker", "StoreActor")
UPDATES = 60
CHECKPOINT_INTERVALS = (1, 2)
"""Updates from one checkpoint to the next: those of a run, in turns of two."""
KILLS_PER_RUN = 8
STEP_TIMEOUT_S = 300.0
"""Limit of one step of the soak on a busy machine."""


@dataclass
class Tally:
    """The part that was killed, and the checks that failed."""

    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    repeated: int = 0
    """Updates that were lost with the last checkpoint and made again."""
    draws: list[Draws] = field(default_factory=list)
    """The draws of each finished run."""
    problems: list[str] = field(default_factory=list)

    def json(self) -> dict[str, object]:
        """Return the counts and the problems as JSON values."""
        return {
            "kills": self.kills.total(),
            "kills_by": dict(self.kills),
            "runs": self.runs,
            "updates_repeated": self.repeated,
            "tasks_drawn": sum(one.drawn for one in self.draws),
            "tasks_played_again": sum(one.replayed for one in self.draws),
            "tasks_repeated": sum(one.repeated for one in self.draws),
            "problems": self.problems,
        }


def soak_kills(folder: Path, count: int, seed: int) -> Tally:
    """Kill `count` times; start new runs until that number is reached."""
    server = Server()
    try:
        return _kill(folder, count, Random(seed), server)
    finally:
        server.stop()


def _kill(folder: Path, count: int, rng: Random, server: Server) -> Tally:
    tally, unharmed = Tally(), 0
    while tally.kills.total() < count and len(tally.problems) < 5:
        before = tally.kills.total()
        interval = CHECKPOINT_INTERVALS[tally.runs // 2 % 2]
        victim = Victim(folder / f"run-{tally.runs}", rng, tally, interval)
        if tally.runs % 2:
            victim.folder.mkdir(parents=True)
            use_store(victim.folder, f"{server.url(server.create())}&blobs={victim.folder}/turnwise.blobs")
        tally.runs += 1
        try:
            victim.kill(min(KILLS_PER_RUN, count - before))
        except AssertionError as error:
            tally.problems.append(f"{victim.folder.name}: {error}")
        finally:
            victim.end()
        # A run ends unharmed if it never reaches its failpoint; only several such runs in sequence are a problem.
        unharmed = unharmed + 1 if tally.kills.total() == before else 0
        if unharmed == 5:
            tally.problems.append(f"{unharmed} consecutive runs ended before they could be killed")
            break
    return tally


class Victim:
    """One run that is killed and resumed several times, then runs to its end."""

    def __init__(self, folder: Path, rng: Random, tally: Tally, checkpoint_interval: int) -> None:
        self.folder = folder
        self._checkpoint_interval = checkpoint_interval
        self._rng = rng
        self._tally = tally
        self._launch: Launch | None = None
        self._rows: dict[str, int] = {}
        self._repeated = 0
        self._started = datetime.now(UTC)

    def kill(self, kills: int) -> None:
        """Kill the run `kills` times, then let it finish.

        Raises:
            AssertionError: an invariant did not hold.
        """
        for _ in range(kills):
            target = self._rng.choice(("failpoint", "driver", *PARTS))
            match target:
                case "failpoint":
                    alive = self._failpoint()
                case "driver":
                    alive = self._driver()
                case _:
                    alive = self._part(target)
            if not alive:
                break
        launch = self._running()
        assert launch.wait(2 * STEP_TIMEOUT_S) == 0, f"did not finish:\n{launch.log()}"
        self._check_rows()
        check_finished(self.folder, updates_wanted=UPDATES)
        draws = count_draws(self.folder, load_config(CONFIG), self._started)
        self._tally.draws.append(draws)
        assert draws.problems == (), draws.problems

    def end(self) -> None:
        """Kill the driver if it is alive."""
        if self._launch is not None and self._launch.process.poll() is None:
            self._launch.kill()

    def _running(self, fault: str = "") -> Launch:
        if self._launch is None or self._launch.process.poll() not in (None, 0):
            keys = [f"max_steps={UPDATES}", f"checkpoint.interval={self._checkpoint_interval}"]
            self._started = datetime.now(UTC)
            self._launch = Launch.of(self.folder, *keys, fault=fault)
        return self._launch

    def _part(self, name: str) -> bool:
        launch = self._running()
        target = max(updates(self.folder), 0) + self._rng.randint(1, 3)
        if target >= UPDATES or not self._reaches(launch, target):
            return False
        launch.part(name).kill()
        self._tally.kills[name] += 1
        return self._reaches(launch, min(target + 1, UPDATES))

    def _driver(self) -> bool:
        launch = self._running()
        if not self._reaches(launch, 0):
            return False
        time.sleep(self._rng.uniform(0.0, 4.0))
        if launch.process.poll() is not None:
            return False
        below = descendants(launch.process.pid)
        launch.kill()
        self._died("driver", below)
        return True

    def _failpoint(self) -> bool:
        if self._launch is not None and self._launch.process.poll() is None:
            below = descendants(self._launch.process.pid)
            self._launch.kill()
            self._died("driver", below)
        point = f"{self._rng.choice(FAILPOINTS)}:{self._rng.randint(1, 4)}"
        launch = self._running(fault=point)
        below = []
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while launch.process.poll() is None and time.monotonic() < deadline:
            below = descendants(launch.process.pid) or below
            time.sleep(0.2)
        code = launch.wait(1)
        assert code in (-9, 0), f"ended with {code} at {point}:\n{launch.log()}"
        if code == -9:
            self._died(f"at {point.partition(':')[0]}", below)
        return code == -9

    def _reaches(self, launch: Launch, update: int) -> bool:
        """Wait for an update; return whether the run is still alive."""
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while updates(self.folder) < update:
            if (code := launch.process.poll()) is not None:
                assert code == 0, f"ended with {code} before update {update}:\n{launch.log()}"
                return False
            assert time.monotonic() < deadline, f"no update {update} within {STEP_TIMEOUT_S:g} s:\n{launch.log()}"
            time.sleep(0.1)
        return launch.process.poll() is None

    def _died(self, how: str, below: list) -> None:
        self._tally.kills[how] += 1
        left = survivors(below, 60)
        assert left == [], f"processes outlived the driver: {left}"
        if has_tables(self.folder):
            self._check_rows()

    def _check_rows(self) -> None:
        rows = sizes(self.folder)
        lost = {table: (count, rows[table]) for table, count in self._rows.items() if rows[table] < count}
        assert lost == {}, f"rows were lost: {lost}"
        repeated = abandoned_batches(self.folder)
        assert repeated - self._repeated <= self._checkpoint_interval, (
            f"{repeated - self._repeated} updates repeated by one resume"
        )
        self._tally.repeated += repeated - self._repeated
        self._rows, self._repeated = rows, repeated
