"""Socket buffers have a limit under cgroup v1, and a process that cannot set it logs a warning."""

import logging
import os
from pathlib import Path

import pytest
from turnwise.sandbox.backends.container import _warn, limit_socket_memory


def test_a_process_of_another_container_is_left_alone_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    version_1 = ":memory:" in Path("/proc/self/cgroup").read_text()
    _warn.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert limit_socket_memory("0" * 64, os.getpid()) is not version_1
    assert len([one for one in caplog.messages if "not limited" in one]) == (1 if version_1 else 0)
