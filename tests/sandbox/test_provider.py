"""The process's provider serves leases, and the example of docs/sandboxes.md runs."""

import os
import re
import runpy
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.sandbox import NodeLost, SandboxError, SandboxSpec, lease, set_provider
from turnwise.sandbox.provider import InProcessProvider

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sandboxes.md"
SPEC = SandboxSpec(memory_mib=128, disk_mib=8, trusted=True)


@pytest.fixture
def provider() -> Iterator[InProcessProvider]:
    made = InProcessProvider("local", capacity=1, warm=0)
    set_provider(made)
    try:
        yield made
    finally:
        set_provider(None)
        made.close()


@pytest.mark.usefixtures("provider")
def test_example_of_the_page_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        example = tmp_path / "example.py"
        example.write_text(block)
        runpy.run_path(str(example))


def test_released_lease_is_unusable_and_its_sandbox_serves_the_next(provider: InProcessProvider) -> None:
    with lease(SPEC, timeout_s=30) as first:
        first.write({"left": b"x"}, timeout_s=10)
        names = ("image", "backend", "cpus", "memory_mib", "network")
        assert [first.facts()[name] for name in names] == [SPEC.image, "local", 1.0, SPEC.memory_mib, "none"]
    first.release()
    with pytest.raises(SandboxError, match="was released"):
        first.read(".", timeout_s=10)
    with lease(SPEC, timeout_s=30) as second:
        assert second.id == first.id
        assert second.read(".", timeout_s=10) == {}
    assert provider.pool.health().leases == 2


@pytest.mark.usefixtures("provider")
def test_a_call_without_a_timeout_is_a_type_error() -> None:
    with lease(SPEC, timeout_s=30) as held:
        with pytest.raises(TypeError, match="keyword-only argument: 'timeout_s'"):
            held.exec(["ls"])  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="takes 2 positional arguments"):
            held.exec(["ls"], 10)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="unexpected keyword argument 'timout_s'"):
            held.exec(["ls"], timout_s=1)  # type: ignore[call-arg]
    with pytest.raises(SandboxError, match="was released"):
        held.exec(["ls"])  # type: ignore[call-arg]


def test_an_interrupted_command_does_not_delay_the_close(provider: InProcessProvider) -> None:
    held = lease(SPEC, timeout_s=30)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores SIGINT
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            held.exec(["sleep", "60"], timeout_s=60)
    finally:
        signal.signal(signal.SIGINT, before)
    held.release()
    began = time.monotonic()
    provider.close()
    assert time.monotonic() - began < 5


def test_a_closed_provider_and_a_fork_of_its_process_are_reported_at_once() -> None:
    made = InProcessProvider("local", capacity=1, warm=0)
    held = made.lease(SPEC, timeout_s=30)
    made.close()
    for use in (lambda: held.exec(["true"], timeout_s=1), lambda: made.lease(SPEC, timeout_s=1)):
        with pytest.raises(NodeLost, match=r"has ended: its provider was closed, or this process is a fork"):
            use()
