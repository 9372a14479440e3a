"""``envs check`` finds what an environment shares with its process and with other instances, and names it."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from turnwise.envs.authoring.process_state import changes, settings, variables
from turnwise.tests.envs.authoring.shares import CHANGES, DIFFERS, LEAVES, SHARES, STREAMS

SEEDED = {
    "__init__": "reseeds numpy",
    "tasks": "reseeds random",
    "close": "reseeds numpy",
    "vocabulary": "reseeds random",
}
"""Ways to seed a global stream, by the call that does it."""
CASES: list[dict[str, str]] = [
    *({"way": "+".join(CHANGES), "where": where} for where in ("make", "reset", "step", "close", "tasks")),
    *({"way": way, "where": "make" if way in ("process", "thread") else "reset"} for way in LEAVES),
    *({"way": way} for way in ("", *STREAMS, *DIFFERS, "class attribute", "module global")),
    *({"way": way, "where": where.replace("__init__", "make")} for where, way in SEEDED.items()),
]
CODE = """
import gc, json, os, sys
from turnwise.envs.authoring import check as module
env_id, cases, differs = json.loads(sys.argv[1])
gc.freeze()  # each check searches for garbage twice, and need not search the modules
results = os.dup(1)
os.dup2(2, 1)
for case in cases:
    child = os.fork()
    if child == 0:
        if case["way"] and case["way"] not in differs:
            del module.CHECKS["another process"]  # which takes a second
        report = module.check(env_id, case)
        failed = {one.check: one.detail for one in report.findings if one.verdict == "failed"}
        os.write(results, json.dumps([case, failed]).encode() + b"\\n")
        os._exit(0)
    os.waitpid(child, 0)
"""

Failed = Callable[..., dict[str, str]]


@pytest.fixture(scope="module")
def failed() -> Failed:
    """Return a function that returns the failures of a case, each checked in a process of its own.

    The environments change their process, and starting an interpreter for each of them takes longer than the checks.
    """
    request = json.dumps([SHARES, CASES, list(DIFFERS)])
    ran = subprocess.run([sys.executable, "-c", CODE, request], stdout=-1, stderr=-1, text=True, timeout=300)
    results = [(case, found) for case, found in map(json.loads, ran.stdout.splitlines())]
    assert [case for case, _ in results] == CASES, ran.stderr
    return lambda **options: next(found for case, found in results if case == options)


@pytest.mark.parametrize("where", ["make", "reset", "step", "close", "tasks"])
def test_every_change_of_the_process_is_named(where: str, failed: Failed) -> None:
    found = failed(way="+".join(CHANGES), where=where)
    assert set(found) == {"process"}
    assert [way for way, (_, name) in CHANGES.items() if name not in found["process"]] == []


@pytest.mark.parametrize("way", LEAVES)
def test_a_process_thread_or_file_that_stays_is_named(way: str, failed: Failed) -> None:
    found = failed(way=way, where="make" if way in ("process", "thread") else "reset")
    assert set(found) == {"process"}
    assert LEAVES[way][1] in found["process"]


@pytest.mark.parametrize("way", STREAMS)
def test_a_global_random_stream_is_named(way: str, failed: Failed) -> None:
    assert STREAMS[way][1] in failed(way=way)["random streams"]


@pytest.mark.parametrize("where", SEEDED)
def test_the_call_that_seeds_a_global_random_stream_is_named(where: str, failed: Failed) -> None:
    found = failed(way=SEEDED[where], where=where.replace("__init__", "make"))
    assert found["random streams"].startswith(f"`{where}` {STREAMS[SEEDED[where]][1]}")


@pytest.mark.parametrize("way", DIFFERS)
def test_a_value_that_differs_between_processes_is_named(way: str, failed: Failed) -> None:
    found = failed(way=way)
    assert set(found) == {"another process"}
    assert DIFFERS[way] in found["another process"]


@pytest.mark.parametrize(("way", "name"), [("class attribute", "Shares.total"), ("module global", "shares.SEEN")])
def test_state_shared_between_instances_is_named(way: str, name: str, failed: Failed) -> None:
    found = failed(way=way)
    assert set(found) == {"shared state"}
    assert f"{name}`" in found["shared state"]
    assert "`reward` was" in found["shared state"]


def test_an_environment_that_shares_nothing_passes(failed: Failed) -> None:
    assert failed(way="") == {}


def test_a_handler_of_a_signal_is_named() -> None:
    before = settings() | variables()
    former = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        assert changes(before) == ["the handlers of signals"]
    finally:
        signal.signal(signal.SIGUSR2, former)
    assert changes(before) == []
