"""Random ``kill -9`` of every part of many small runs, at named points and at random moments.

After each death of the driver nothing of the run may be left alive and no row gone; at most one checkpoint interval
of updates is repeated by the resume; and every run is seen to its end, where the invariants of the chaos tests hold.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from turnwise.tests.chaos.harness import (
    Launch,
    abandoned_batches,
    check_finished,
    descendants,
    sizes,
    survivors,
    updates,
)
from turnwise.trainer.failpoints import FAILPOINTS

PARTS = ("Engine", "RolloutWorker", "StoreWriter")
UPDATES = 60
CHECKPOINT_EVERY = 2
KILLS_A_RUN = 8
PATIENCE = 300.0
"""Seconds anything may take on a busy machine."""


@dataclass
class Tally:
    """What was killed, and what did not hold."""

    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    repeated: int = 0
    problems: list[str] = field(default_factory=list)


def soak_kills(folder: Path, count: int, seed: int) -> Tally:
    """Kill ``count`` times, over as many runs as that takes."""
    rng, tally, in_vain = Random(seed), Tally(), 0
    while tally.kills.total() < count and len(tally.problems) < 5:
        before = tally.kills.total()
        victim = Victim(folder / f"run-{tally.runs}", rng, tally)
        tally.runs += 1
        try:
            victim.suffer(min(KILLS_A_RUN, count - before))
        except AssertionError as error:
            tally.problems.append(f"{victim.folder.name}: {error}")
        finally:
            victim.end()
        # A fault point that the small run never passes lets it finish: only a row of such runs is a problem.
        in_vain = in_vain + 1 if tally.kills.total() == before else 0
        if in_vain == 5:
            tally.problems.append(f"{in_vain} runs in a row ended before they could be killed")
            break
    return tally


class Victim:
    """One run, killed and resumed until it has had enough, then seen to its end."""

    def __init__(self, folder: Path, rng: Random, tally: Tally) -> None:
        self.folder = folder
        self._rng = rng
        self._tally = tally
        self._launch: Launch | None = None
        self._rows: dict[str, int] = {}
        self._repeated = 0

    def suffer(self, kills: int) -> None:
        """Be killed, then finish.

        Raises:
            AssertionError: an invariant did not hold.
        """
        for _ in range(kills):
            what = self._rng.choice(("fault", "driver", *PARTS))
            alive = self._fault() if what == "fault" else self._driver() if what == "driver" else self._part(what)
            if not alive:
                break
        launch = self._running()
        assert launch.wait(2 * PATIENCE) == 0, f"did not finish:\n{launch.log()}"
        self._nothing_lost()
        check_finished(self.folder, updates_wanted=UPDATES)

    def end(self) -> None:
        """Leave nothing running."""
        if self._launch is not None and self._launch.process.poll() is None:
            self._launch.kill()

    def _running(self, fault: str = "") -> Launch:
        if self._launch is None or self._launch.process.poll() not in (None, 0):
            self._launch = Launch.of(self.folder, f"max_steps={UPDATES}", fault=fault)
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

    def _fault(self) -> bool:
        if self._launch is not None and self._launch.process.poll() is None:
            below = descendants(self._launch.process.pid)
            self._launch.kill()
            self._died("driver", below)
        point = f"{self._rng.choice(FAILPOINTS)}:{self._rng.randint(1, 4)}"
        launch = self._running(fault=point)
        below = []
        deadline = time.monotonic() + PATIENCE
        while launch.process.poll() is None and time.monotonic() < deadline:
            below = descendants(launch.process.pid) or below
            time.sleep(0.2)
        code = launch.wait(1)
        assert code in (-9, 0), f"ended with {code} at {point}:\n{launch.log()}"
        if code == -9:
            self._died(f"at {point.partition(':')[0]}", below)
        return code == -9

    def _reaches(self, launch: Launch, update: int) -> bool:
        """Wait for an update; whether the run is still under way."""
        deadline = time.monotonic() + PATIENCE
        while updates(self.folder) < update:
            if (code := launch.process.poll()) is not None:
                assert code == 0, f"ended with {code} before update {update}:\n{launch.log()}"
                return False
            assert time.monotonic() < deadline, f"no update {update} within {PATIENCE:g} s:\n{launch.log()}"
            time.sleep(0.1)
        return launch.process.poll() is None

    def _died(self, how: str, below: list) -> None:
        self._tally.kills[how] += 1
        left = survivors(below, 60)
        assert left == [], f"outlived their driver: {left}"
        if (self.folder / "turnwise.db").exists():
            self._nothing_lost()

    def _nothing_lost(self) -> None:
        rows = sizes(self.folder)
        lost = {table: (count, rows[table]) for table, count in self._rows.items() if rows[table] < count}
        assert lost == {}, f"rows are gone: {lost}"
        repeated = abandoned_batches(self.folder)
        assert repeated - self._repeated <= CHECKPOINT_EVERY, f"{repeated - self._repeated} updates repeated at once"
        self._tally.repeated += repeated - self._repeated
        self._rows, self._repeated = rows, repeated
