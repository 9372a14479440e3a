"""The disk fills while a run trains: it ends with a clear message, and goes on once there is room.

In CI ``tests/store/operations/test_faults.py`` fills the disk of a store.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MEGABYTES = 48
INSIDE = """
import json, os, signal, sys
from pathlib import Path
from turnwise.store.database import open_database
from turnwise.store.maintenance.integrity import check_store
from turnwise.tests.chaos.harness import Launch, sizes, updates, url
disk, log = Path(sys.argv[1]), Path(sys.argv[2])
(disk / "log.txt").symlink_to(log)  # what it prints must not need the disk that is full
changes = ("max_steps=4000",)
launch = Launch.of(disk, *changes)
launch.until_update(2, 200)
ballast = os.open(disk / "ballast", os.O_CREAT | os.O_WRONLY)
for size in (1 << 20, 1 << 12, 1):
    try:
        while os.write(ballast, bytes(size)):
            pass
    except OSError:
        continue
os.close(ballast)
code = launch.wait(200)
full = log.read_text()
rows, reached = sizes(disk), updates(disk)
(disk / "ballast").unlink()
launch = Launch.of(disk, *changes)
launch.until_update(reached + 2, 200)
launch.process.send_signal(signal.SIGTERM)
again = launch.wait(120)
kept = all(count >= rows[table] for table, count in sizes(disk).items())
history = list(check_store(open_database(url(disk))))
print(json.dumps({"code": code, "full": full, "again": again, "kept": kept, "rows": rows, "history": history}))
"""


@pytest.mark.soak
@pytest.mark.timeout(800)
def test_a_full_disk_ends_the_run_with_a_message_and_it_goes_on_once_there_is_room(tmp_path: Path) -> None:
    disk, log = tmp_path / "disk", tmp_path / "printed.txt"
    disk.mkdir()
    program = f'exec {sys.executable} -c "$INSIDE" {disk} {log}'
    mount = f"mount -t tmpfs -o size={MEGABYTES}m tmpfs {disk} && {program}"
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", mount],
        env={**os.environ, "INSIDE": INSIDE},
        capture_output=True,
        text=True,
        timeout=750,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr[-3000:]}\n{log.read_text()[-3000:]}"
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert seen["code"] == 2, seen["full"][-4000:]
    assert "no room" in seen["full"]
    assert "free some space" in seen["full"]
    assert "Traceback" not in seen["full"], seen["full"][-4000:]
    assert seen["rows"]["step"] > 0
    assert seen["kept"] is True
    assert seen["history"] == []
    assert seen["again"] == 128 + signal.SIGTERM, log.read_text()[-4000:]
    assert "resuming run small" in log.read_text()
