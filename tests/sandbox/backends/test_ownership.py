"""A sandbox with a live, foreign or unreadable owner is never reaped."""

import os
import subprocess
import sys
import time

from hypothesis import example, given, settings
from hypothesis import strategies as st
from turnwise.sandbox.backends.ownership import (
    EXPIRES,
    EXPIRY_GRACE_S,
    HOST,
    LABEL,
    PID,
    RUN,
    STARTED,
    labels,
    reap_reason,
    start_time,
    this_host,
)

NOW = 1_800_000_000.0
HERE = "boot/4026531836"
hosts = st.sampled_from([HERE, "boot/1", "other/4026531836", ""])
pids = st.integers(0, 5)
starts = st.sampled_from(["100", "101", "", "x"])
"""Few values each, so that examples collide as reused pids do."""
offsets = st.floats(-1e4, 1e4)
texts = st.text(max_size=8)


def written(host: str, pid: object, started: str, expires: object) -> dict[str, str]:
    return {LABEL: "1", RUN: "r", HOST: host, PID: str(pid), STARTED: started, EXPIRES: str(expires)}


@settings(max_examples=1000)
@given(host=hosts, pid=pids, started=starts, offset=offsets, running=st.dictionaries(pids, starts.filter(bool)))
@example(host=HERE, pid=1, started="100", offset=100.0, running={1: "101"})
def test_only_dead_and_expired_have_a_reap_reason(
    host: str, pid: int, started: str, offset: float, running: dict[int, str]
) -> None:
    why = reap_reason(written(host, pid, started, NOW + offset), NOW, HERE, running.get)
    over = offset < -EXPIRY_GRACE_S and bool(started)
    gone = host == HERE and bool(started) and running.get(pid) != started
    assert bool(why) == (over or gone)
    if why and not over:
        assert str(pid) in why


@settings(max_examples=1000)
@given(
    found=st.dictionaries(st.sampled_from([LABEL, RUN, HOST, PID, STARTED, EXPIRES]) | texts, texts),
    changed=st.sampled_from([LABEL, HOST, PID, STARTED, EXPIRES]),
    junk=texts,
)
def test_unreadable_labels_have_no_reap_reason(found: dict[str, str], changed: str, junk: str) -> None:
    whole = written(HERE, 1, "100", NOW + 60)
    assert reap_reason(found, NOW, HERE, lambda pid: None) == "" or set(found) >= {LABEL, HOST, PID, STARTED, EXPIRES}
    assert reap_reason({**whole, changed: junk}, NOW, HERE, {1: "100"}.get) == "" or changed in (PID, STARTED, EXPIRES)
    lacking = {name: value for name, value in whole.items() if name != changed}
    assert reap_reason(lacking, NOW, HERE, lambda pid: None) == ""


def test_invalid_expiry_has_no_reap_reason() -> None:
    for expires in ("nan", "", "soon"):
        assert reap_reason(written("other/1", 1, "100", expires), NOW, HERE, lambda pid: None) == ""
    assert reap_reason(written("other/1", 1, "100", "-inf"), NOW, HERE, lambda pid: None)


def test_own_sandbox_is_kept_until_it_expires() -> None:
    mine = labels("run", 30.0)
    assert reap_reason(mine, time.time(), this_host()) == ""
    assert reap_reason(mine, time.time() + 30 + EXPIRY_GRACE_S + 2, this_host()).startswith("its time to live ended")


def test_ended_owner_is_dead_even_as_a_zombie() -> None:
    child = subprocess.Popen(["sleep", "600"])
    mine = {**labels("run", 600.0), PID: str(child.pid), STARTED: start_time(child.pid) or ""}
    assert reap_reason(mine, time.time(), this_host()) == ""
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert reap_reason(mine, time.time(), this_host()) == f"its owner, process {child.pid}, is dead"
    child.wait()
    assert reap_reason(mine, time.time(), this_host()) == f"its owner, process {child.pid}, is dead"


def test_reused_pid_is_another_process() -> None:
    mine = {**labels("run", 600.0), STARTED: "1"}
    assert reap_reason(mine, time.time(), this_host()) == f"its owner, process {os.getpid()}, is dead"


def test_the_name_of_an_owner_need_not_be_text() -> None:
    script = "import ctypes; ctypes.CDLL(None).prctl(15, bytes([255, 254]), 0, 0, 0); print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        assert (start_time(child.pid) or "").isdigit()
    finally:
        child.communicate(b"\n")
    assert start_time(child.pid) is None
