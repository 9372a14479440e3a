"""``turnwise view`` as a process of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def served(store: str, *options: str) -> Iterator[str]:
    """Run the command on a free port; yield its address, without a path, and end it by Ctrl-C."""
    command = [sys.executable, "-m", "turnwise", "view", "--store", store, "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        found = re.match(r"the viewer is at (http://[^/]+)/", process.stdout.readline())
        assert found
        yield found[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
    finally:
        process.kill()
        process.communicate()
