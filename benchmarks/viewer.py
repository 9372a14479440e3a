"""Measure the viewer over a large store: its pages and its API over HTTP, its memory, and its cost for a writing run.

``parts/viewed_store.py`` fills the store: 100,000 trajectories with 1,000,000 steps (``--trajectories``), on SQLite, or
in the empty database of ``--store URL``; ``--keep`` uses the store at that URL as an earlier call filled it. The viewer
is ``turnwise view`` in its own process, and every figure is that of its clients:

1. ``pages``, ``api``: median and 95th percentile of the milliseconds of each page, and ``cpu_ms`` of its server;
   ``page_p95_ms`` and ``api_p95_ms`` are those of the slowest one (at most 300 and 150 asked). ``load`` is the load of
   the machine before, per core: above 1, compare ``cpu_ms``.
2. ``memory_mib``: the server's peak after all pages (at most 300 asked).
3. ``live_bytes``: bytes that the page of a run fetches per update (at most 20 KB asked).
4. ``write_rate``, ``write_rate_read``: steps per second of a process that writes up to 1,000 of them, alone, and with a
   reader who opens one page after the other and follows a run (a loss of less than 5 % asked).

Prints one JSON line last.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

from turnwise.benchmarks.parts.store_writes import write
from turnwise.benchmarks.parts.viewed_store import Filler
from turnwise.console.viewer.pages.listing import PAGES
from turnwise.store import queries
from turnwise.store.database import Database, open_database
from turnwise.store.maintenance.search_index import update_index
from turnwise.store.run_lock import hold_run

STEPS_PER_S = 1_000
READ_INTERVAL_S = 0.2
"""Between two pages of the reader."""


def paths(database: Database) -> list[str]:
    """Return the addresses that are measured: those of every page, with its filters and deep in its lists."""
    with database.read() as conn:
        main = queries.list_trajectories(conn, run="main", limit=500)
        deep = queries.list_groups(conn, run="main", limit=500)[-1].id
        runs = [one.id for one in queries.list_runs(conn) if one.id.startswith("small-")]
        update = queries.update_numbers(conn, "main")[-1]
    whole = next(one.id for one in main if one.pruned_at is None and one.max_version and ":eval" not in one.id)
    found = [
        *("/runs", "/runs?kind=train", "/runs?status=running", "/runs/main", "/runs/small-0", "/runs/eval-0"),
        *("/runs/main/groups", f"/runs/main/groups?after={deep}", "/runs/main/groups?state=failed"),
        *(
            "/runs/main/groups?purpose=eval",
            "/runs/main/failures",
            "/runs/eval-0/failures",
            "/runs/main/tasks",
            "/runs/main/now",
            "/runs/main/logs",
        ),
        *(
            f"/runs/main/updates/{update}",
            f"/runs/main/updates/{update // 2}",
            "/groups/main:100",
            "/groups/main:large",
        ),
        *(
            "/groups/main:large?members=0,20",
            f"/trajectories/{whole}",
            f"/trajectories/{whole}?view=tokens",
            f"/trajectories/{whole}/replay",
        ),
        *(
            "/trajectories",
            f"/trajectories?after={main[-1].id}",
            "/trajectories?run=main",
            "/trajectories?success=false",
        ),
        *(f"/trajectories?run=main&sort={sort}" for sort in ("reward", "n_steps")),
        *("/trajectories?status=timeout", "/trajectories?run=main&status=env_error&sort=reward", "/search"),
        *("/trajectories?env=turnwise/Code-v0&purpose=eval", "/search?q=bario", "/search?q=bario%20-delum"),
        *("/search?q=%22answer%20in%22&run=main", "/compare", "/compare?runs=main,small-0"),
        "/compare?runs=" + ",".join(["main", *runs[:7]]),
    ]
    known = [re.sub(r"{\w+(:path)?}", "[^/]+", page.path) for page in PAGES if page.template]
    missing = [one for one in known if not any(re.fullmatch(one, path.split("?")[0]) for path in found)]
    assert not missing, f"add an address of {missing} here"
    return found


@contextmanager
def viewer(url: str) -> Iterator[tuple[HTTPConnection, int]]:
    """Start the viewer of a store; yield a connection to it, and its process id."""
    command = [sys.executable, "-m", "turnwise", "view", "--store", url, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address is not None
        yield HTTPConnection(urlsplit(address[0]).netloc, timeout=120), process.pid
    finally:
        process.terminate()
        process.wait(timeout=30)


def get(connection: HTTPConnection, path: str) -> int:
    """Return the bytes of an answer, which is no error."""
    connection.request("GET", path)
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200, f"{path}: {answer.status} {content[-500:]!r}"
    return len(content)


def measured(connection: HTTPConnection, process: int, path: str, rounds: int) -> dict[str, float]:
    """Return the milliseconds of a page, after a first request that does not count."""
    size = get(connection, path)
    times, before = [], cpu_s(process)
    for _ in range(rounds):
        start = time.perf_counter()
        get(connection, path)
        times.append(1000 * (time.perf_counter() - start))
    times.sort()
    cpu_ms = 1000 * (cpu_s(process) - before) / rounds
    p95 = times[min(rounds - 1, int(0.95 * rounds))]
    return {
        "p50_ms": round(statistics.median(times), 1),
        "p95_ms": round(p95, 1),
        "cpu_ms": round(cpu_ms),
        "kb": size >> 10,
    }


def cpu_s(process: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(process: int) -> int:
    """Return the largest resident size of a process so far."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) >> 10


def live_bytes(database: Database, connection: HTTPConnection, updates: int = 3) -> int:
    """Return the bytes per update that the page of a run which learns receives."""
    connection.request("GET", "/api/runs/main/series")
    cursor = json.loads(connection.getresponse().read())["cursor"]
    cursor = ".".join(str(cursor[name] + one) for name, one in (("update", 1), ("version", 1), ("evaluations", 0)))
    stream = HTTPConnection(connection.host, connection.port, timeout=60)
    stream.request("GET", f"/runs/main/events?cursor={cursor}")
    answer = stream.getresponse()
    sizes = [_until(answer, b"event: series")]  # the state at the beginning
    for _ in range(updates):
        Filler(database, 0).update("main")
        sizes.append(_until(answer, b"event: series"))
    stream.close()
    return max(sizes[1:])


def _until(answer: Any, mark: bytes) -> int:
    """Return the bytes of a stream up to the end of the next event that begins with ``mark``."""
    size, inside = 0, False
    while line := answer.readline():
        size += len(line)
        inside = inside or line.startswith(mark)
        if inside and line == b"\n":
            return size
    raise AssertionError("the stream ended")


def write_rates(url: str, connection: HTTPConnection, addresses: Sequence[str], seconds: float) -> dict[str, float]:
    """Return the steps per second of a writing process, alone and with a reader."""
    alone = _writer(url, "alone", seconds)
    done = Event()

    def read() -> None:
        reading = HTTPConnection(connection.host, connection.port, timeout=120)
        while not done.is_set():
            for path in addresses:
                get(reading, path)
                if done.wait(READ_INTERVAL_S):
                    return

    stream = HTTPConnection(connection.host, connection.port, timeout=60)
    stream.request("GET", "/runs/main/events")
    reader = Thread(target=read)
    reader.start()
    try:
        read_by = _writer(url, "read", seconds)
    finally:
        done.set()
        reader.join()
        stream.close()
    loss = round(1 - read_by / alone, 3)
    return {"write_rate": round(alone), "write_rate_read": round(read_by), "write_loss": loss}


def _writer(url: str, prefix: str, seconds: float) -> float:
    command = [sys.executable, __file__, "--writer", prefix, "--store", url, "--seconds", str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


def write_paced(database: Database, prefix: str, seconds: float) -> float:
    """Write at most ``STEPS_PER_S`` steps per second of run ``r`` for about ``seconds``, and return their rate."""
    start, written, turn = time.perf_counter(), 0, 512
    while (passed := time.perf_counter() - start) < seconds:
        if written > passed * STEPS_PER_S:
            time.sleep(0.005)
            continue
        write(database, turn, f"{prefix}{written}-")
        written += turn
    return written / (time.perf_counter() - start)


def measure(url: str, trajectories: int | None, rounds: int, seconds: float) -> dict[str, Any]:
    """Return the figures of a store, which is filled before unless ``trajectories`` is None."""
    database = open_database(url, create=True)
    start = time.perf_counter()
    if trajectories is not None:
        Filler(database, trajectories).fill()
        while not update_index(database):
            pass
    fill_s, load = time.perf_counter() - start, os.getloadavg()[0] / (os.cpu_count() or 1)
    addresses = paths(database)
    with hold_run(database, "main"), viewer(url) as (connection, process):
        html = {path: measured(connection, process, path, rounds) for path in addresses}
        api = {path: measured(connection, process, f"/api{path}", rounds) for path in addresses}
        return {
            "fill_s": round(fill_s),
            "load": round(load, 1),
            "page_p95_ms": max(one["p95_ms"] for one in html.values()),
            "api_p95_ms": max(one["p95_ms"] for one in api.values()),
            "memory_mib": peak_mib(process),
            "live_bytes": live_bytes(database, connection),
            **write_rates(url, connection, addresses, seconds),
            "pages": html,
            "api": api,
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", help="URL of an empty database; by default an SQLite file in a temporary folder")
    parser.add_argument("--keep", action="store_true", help="the store at `--store` is filled already")
    parser.add_argument("--trajectories", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20, help="requests per page")
    parser.add_argument("--seconds", type=float, default=20, help="duration of each measurement of the writer")
    parser.add_argument("--writer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.writer:
        print(write_paced(open_database(options.store), options.writer, options.seconds))
        return
    with tempfile.TemporaryDirectory() as folder:
        url = options.store or f"sqlite:///{folder}/viewed.db"
        os.chdir(folder)  # a PostgreSQL store keeps the files of runs in the folder in which a command starts
        figures = measure(url, None if options.keep else options.trajectories, options.rounds, options.seconds)
    print(json.dumps({"benchmark": "viewer", "trajectories": options.trajectories, **figures}))


if __name__ == "__main__":
    main()
