"""An agent that slows down every part of its grading at once earns 0 before its step times out."""

import asyncio
from pathlib import Path

import pytest
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.runner.step_result import StepResult
from turnwise.tests.envs.worlds.code.small_task import FIXED, small_task

pytestmark = pytest.mark.soak

STEP_S = 30.0
CASES = "".join(f'\n[[case]]\ncall = "calc.add({number}, 2)"\nreturns = "{number + 2}"' for number in range(5))
TOML = f'instruction = "Repair add of calc.py."\n{CASES}\n'
LORIS = """
import os, time
def wide(top):
    for number in range(40):
        os.makedirs(f"{top}/{number}", exist_ok=True)
        for link in range(100):
            os.symlink("x", f"{top}/{number}/{link}")
def move(top):
    number = 0
    while True:
        for each in range(40):
            names = [f"{top}/{each}", f"{top}/z{each}"]
            try:
                os.rename(names[number % 2], names[1 - number % 2])
            except OSError:
                pass
        number += 1
for top in ("/tmp/wide", "/workspace/wide"):
    wide(top)
    if os.fork() == 0:
        os.setsid()
        move(top)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            while True:
                try:
                    if os.fork() == 0:
                        time.sleep(90)
                        os._exit(0)
                except OSError:
                    time.sleep(0.001)
    except OSError:
        os._exit(0)
"""


@pytest.mark.parametrize("attempt", range(2))
def test_a_slow_loris_gets_an_outcome(docker: str, tmp_path: Path, attempt: int) -> None:
    async def play() -> StepResult:
        thread = EnvThread("turnwise/Code-v0", {"folder": str(small_task(tmp_path / "add", toml=TOML, hidden=""))})
        await thread.make(10)
        await thread.reset(0, "train", 60)
        await thread.step(f"write calc.py\nimport time\ntime.sleep(4.8)\n{FIXED}", STEP_S)
        await thread.step(
            f"bash\ncat > /tmp/loris.py <<'END'\n{LORIS}\nEND\npython3 /tmp/loris.py > /dev/null 2>&1", STEP_S
        )
        last = await thread.step("submit", STEP_S)
        await thread.close(10)
        return last

    last = asyncio.run(play())
    assert last.terminated
    assert (last.reward, last.success) == (0.0, False)
    assert last.extras["tamper"] or last.extras["timed_out"]
