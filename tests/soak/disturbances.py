"""Train while processes of every kind are killed at random, and compare the success with that of an undisturbed run.

python tests/soak/soak.py --parts disturbances --minutes 4

The runs have a real engine, a learner on two ranks, two rollout workers, sandboxes, Ray, and a store on PostgreSQL.

* When a kill ends the driver, no process of the run stays alive, the driver's last line names the remedy, and the same
  command resumes.
* At the end of a run all counters of its store agree (``reconciliation``), and no task was repeated (``drawn_tasks``).
* Its held-out success is at most ``MARGIN`` below that of a run that nothing disturbed.
* New runs start until the minutes are over; the last one then ends without further kills.
"""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import psutil
from turnwise.tests.chaos.harness import abandoned_batches, descendants, has_tables, sizes, use_store
from turnwise.tests.chaos.signals import Program, count
from turnwise.tests.soak.reconciliation import reconcile
from turnwise.tests.store.postgres import Server
from turnwise.tests.trainer.rollout.drawn_tasks import count_draws
from turnwise.trainer.config.loading import load_config

CONFIG = Path(__file__).with_name("disturbed.toml")
ACTORS = {
    "engine": "ray::Engine",
    "rollout worker": "ray::RolloutWorker",
    "learner rank": "ray::_RankActor",
    "store writer": "ray::StoreActor",
    "sandbox node": "ray::SandboxNode",
    "raylet": "raylet",
    "GCS": "gcs_server",
}
"""Processes by the beginning of their names."""
KINDS = ("driver", "sandbox", "PostgreSQL", *ACTORS)
MARGIN = 0.1
"""Held-out success that a disturbed run may lose; one standard error of 200 tasks at a success of .9 is .02."""
EARLY_SHARE = 0.2
"""Share of the kills that do not wait until the run has recovered from the one before."""
LEFT_S = 30.0
"""Seconds that processes may outlive their driver."""
STALL_S = 600.0
"""Seconds without an update or a kill after which a run is stuck; the warm-up takes a part of them."""
POLL_S = 0.3


@dataclass
class Disturbed:
    """What was killed, how the runs ended, and the checks that failed."""

    success_undisturbed: float = 0.0
    successes: list[float] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    resumes: int = 0
    updates: int = 0
    updates_repeated: int = 0
    tasks_drawn: int = 0
    tasks_repeated: int = 0
    problems: list[str] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """Return the values for the JSON line."""
        return {"part": "disturbances", "total_kills": self.kills.total(), **vars(self), "kills": dict(self.kills)}


def disturb(folder: Path, minutes: float, interval_s: float, seed: int, report: Callable[[str], None]) -> Disturbed:
    """Kill a process every ``interval_s`` seconds on average, for ``minutes``, in one run after another."""
    found, rng, server = Disturbed(), Random(seed), Server()
    deck: list[str] = []
    number = 0
    try:
        calm = DisturbedRun(folder / "undisturbed", server, Random(seed), found, deck)
        try:
            found.success_undisturbed = calm.finish(until=0.0, interval_s=interval_s)
        finally:
            calm.end()
        report(f"undisturbed: {found.success_undisturbed:g}")
        until = monotonic() + 60 * minutes
        while monotonic() < until and len(found.problems) < 3:
            run = DisturbedRun(folder / f"disturbed-{number}", server, rng, found, deck)
            try:
                found.successes.append(run.finish(until, interval_s))
                lost = found.success_undisturbed - found.successes[-1]
                assert lost <= MARGIN, f"the held-out success is {lost:.3f} below that of the undisturbed run"
            except Exception as error:
                found.problems.append(f"{run.folder.name}: {type(error).__name__}: {error}")
            finally:
                run.end()
            report(f"{run.folder.name}: {found.successes[-1:]}, {dict(found.kills)}, {len(found.problems)} problems")
            number += 1
    except Exception as error:
        found.problems.append(f"undisturbed: {type(error).__name__}: {error}")
    finally:
        server.stop()
    if found.kills.total() >= 2 * len(KINDS) and (missing := set(KINDS) - set(found.kills)):
        found.problems.append(f"never killed: {', '.join(sorted(missing))}")
    return found


class DisturbedRun:
    """One run that is killed in part or as a whole, resumed, and driven to its end."""

    def __init__(self, folder: Path, server: Server, rng: Random, found: Disturbed, deck: list[str]) -> None:
        """``deck`` holds the kinds of this round that were not killed yet; several runs share it."""
        folder.mkdir(parents=True)
        use_store(folder, f"{server.url(server.create())}&blobs={folder}/turnwise.blobs")
        self.folder = folder
        self._server, self._rng, self._found, self._deck = server, rng, found, deck
        self._updates = load_config(CONFIG, []).max_steps or 0
        self._killed: list[str] = []
        self._resumes = 0
        self._rows: dict[str, int] = {}
        self._interval_s = 0.0
        self._program = self._start()

    def finish(self, until: float, interval_s: float) -> float:
        """Drive the run to its end, with kills before ``until``, and return its held-out success.

        Args:
            until: on the monotonic clock.

        Raises:
            AssertionError: a property of this soak does not hold.
        """
        self._interval_s = interval_s
        progressed, seen = monotonic(), 0
        due, wanted = self._next_kill(0)
        while (code := self._program.process.poll()) != 0:
            now = monotonic()
            made = max(seen, count(self.folder, "train_batch"))
            if code is not None:
                self._check_end(code)
                self._found.resumes += 1
                self._resumes += 1
                self._program = self._start()
                progressed = now
            elif made > seen:
                seen, progressed = made, now
            assert now - progressed < STALL_S, f"no update for {STALL_S:g} s after {self._killed[-3:]}:\n{self._tail()}"
            self._program.below = descendants(self._program.process.pid) or self._program.below
            if now < until and made >= wanted and now >= due and code is None and self._kill():
                progressed = monotonic()
                due, wanted = self._next_kill(made)
            sleep(POLL_S)
        assert self._program.left(LEFT_S) == [], "processes outlived the run"
        # A rank that dies takes the run back to its last checkpoint without ending it.
        reconcile(self.folder, "disturbed", self._updates, self._resumes + self._killed.count("learner rank"))
        draws = count_draws(self.folder, load_config(CONFIG, []), resumed_at=None)
        assert draws.problems == (), draws.problems
        self._found.tasks_drawn += draws.drawn
        self._found.tasks_repeated += draws.repeated
        self._found.updates += self._updates
        self._found.updates_repeated += abandoned_batches(self.folder)
        ended: dict[str, Any] = json.loads(self._program.out().splitlines()[-1])
        assert ended["status"] == "finished", ended
        return float(ended["success_after"])

    def end(self) -> None:
        """Kill the driver if it is alive; its watchdog ends the others."""
        if self._program.process.poll() is None:
            self._program.kill()

    def _start(self) -> Program:
        return Program.of(self.folder, "train", str(CONFIG), "--json")

    def _next_kill(self, made: int) -> tuple[float, int]:
        """Return the time of the next kill, and the batches that must be trained before it; ``made`` are now."""
        early = self._rng.random() < EARLY_SHARE
        return monotonic() + self._interval_s * self._rng.uniform(0.3, 1.7), made + (0 if early else 1)

    def _kill(self) -> bool:
        """Kill one process of the next kind that is alive; return whether there was one."""
        if not self._deck:
            self._deck[:] = self._rng.sample(KINDS, len(KINDS))
        for kind in list(self._deck):
            if kind == "PostgreSQL":
                self._server.restart()
            elif alive := self._alive(kind):
                with suppress(psutil.NoSuchProcess):
                    self._rng.choice(alive).kill()
            else:
                continue
            self._deck.remove(kind)
            self._killed.append(kind)
            self._found.kills[kind] += 1
            return True
        return False

    def _alive(self, kind: str) -> list[psutil.Process]:
        if kind == "driver":
            return [psutil.Process(self._program.process.pid)]
        below = descendants(self._program.process.pid)
        if kind == "sandbox":
            below = [one for node in _named(below, ACTORS["sandbox node"]) for one in descendants(node.pid)]
            return _named(below, "bwrap")
        return _named(below, ACTORS[kind])

    def _check_end(self, code: int) -> None:
        """Check a driver that ended before its run did: by a kill, with a message, without orphans or lost rows."""
        after = f"after {self._killed[-3:]}"
        assert self._killed, f"ended with {code} undisturbed:\n{self._tail()}"
        expected = (1, 2, -9) if "driver" in self._killed[-2:] else (1, 2)
        assert code in expected, f"ended with {code} {after}:\n{self._tail()}"
        assert self._program.left(LEFT_S) == [], f"processes outlived the driver {after}"
        assert "same command" in self._program.err(), f"no remedy {after}:\n{self._tail()}"
        if has_tables(self.folder):
            rows = sizes(self.folder)
            lost = {table: (there, rows[table]) for table, there in self._rows.items() if rows[table] < there}
            assert lost == {}, f"rows were lost {after}: {lost}"
            self._rows = rows

    def _tail(self) -> str:
        return f"{self._program.out()[-2000:]}\n{self._program.err()[-2000:]}"


def _named(processes: list[psutil.Process], prefix: str) -> list[psutil.Process]:
    found = []
    for one in processes:
        with suppress(psutil.Error):
            if one.name().startswith(prefix) and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found
