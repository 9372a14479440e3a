"""``envs check`` finds what an environment shares with its process and with other instances, and names it."""

import json
import subprocess
import sys
import warnings

import pytest
from turnwise.envs.tools.process_state import changes, process_state
from turnwise.tests.envs.tools.shares import CHANGES, LEAVES, SHARES, STREAMS

CODE = """
import json, os, sys
from turnwise.envs.tools.check import check
report = check(sys.argv[1], json.loads(sys.argv[2]))
failed = {one.check: one.detail for one in report.findings if one.verdict == "failed"}
os.write(2, json.dumps(failed).encode())
os._exit(0)
"""


def failed(**options: str) -> dict[str, str]:
    """Return what a check in another process finds: the environments change their process."""
    command = [sys.executable, "-c", CODE, SHARES, json.dumps(options)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0
    found: dict[str, str] = json.loads(ran.stderr.splitlines()[-1])
    return found


@pytest.mark.parametrize("way", CHANGES)
def test_a_change_of_the_process_is_named(way: str) -> None:
    found = failed(way=way)
    assert set(found) == {"process"}
    assert CHANGES[way][1] in found["process"]


@pytest.mark.parametrize("where", ["make", "reset"])
def test_a_change_is_found_in_every_call(where: str) -> None:
    assert "the working directory" in failed(way="folder", where=where)["process"]
    assert "`OMP_NUM_THREADS`" in failed(way="variable", where=where)["process"]


@pytest.mark.parametrize("way", LEAVES)
def test_a_process_or_thread_that_stays_is_named(way: str) -> None:
    found = failed(way=way, where="make")
    assert set(found) == {"process"}
    assert LEAVES[way][1] in found["process"]


@pytest.mark.parametrize("way", STREAMS)
def test_a_global_random_stream_is_named(way: str) -> None:
    assert STREAMS[way][1] in failed(way=way)["random streams"]


@pytest.mark.parametrize(("way", "name"), [("class attribute", "Shares.total"), ("module global", "shares.SEEN")])
def test_state_shared_between_instances_is_named(way: str, name: str) -> None:
    found = failed(way=way)
    assert set(found) == {"shared state"}
    assert f"{name}`" in found["shared state"]
    assert "`reward` was" in found["shared state"]


def test_an_environment_that_shares_nothing_passes() -> None:
    assert failed() == {}


def test_a_library_may_filter_its_own_warnings() -> None:
    class OfALibrary(UserWarning):
        """The category of a library that an environment imports late."""

    with warnings.catch_warnings():
        before = process_state()
        warnings.simplefilter("ignore", OfALibrary)
        assert changes(before, process_state()) == []
        warnings.simplefilter("ignore", DeprecationWarning)
        assert changes(before, process_state()) == ["filters of warnings for all modules"]
