"""No forgery earns anything: its reward is 0 and it is recorded, or no run trains on its task. A soak runs all."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.envs.errors import NotTrainable
from turnwise.envs.worlds.code.env import CodeEnv
from turnwise.envs.worlds.code.instances import FAMILIES, draw
from turnwise.tests.envs.worlds.code.grading.forgeries import ALL, REVIEWED, put, solution
from turnwise.tests.envs.worlds.code.small_task import FIXED, small_task, write

TOML = """
instruction = "add of calc.py must add. Repair it."
protected = ["tests/*"]

[limits]
command_seconds = 3
case_seconds = 2

[[case]]
call = "calc.add(20, 31)"
returns = "51"

[[case]]
call = "calc.add(200, 31)"
returns = "231"

[[case]]
argv = ["python3", "main.py"]
stdin = "7 90"
stdout = "97"

[[case]]
argv = ["python3", "main.py"]
stdin = "210 100"
stdout = "310"
"""


MAIN = "from calc import add\n\nprint(add(*map(int, input().split())))\n"


@pytest.fixture(scope="module")
def by_cases(docker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeEnv]:
    folder = small_task(tmp_path_factory.mktemp("tasks") / "add", toml=TOML, hidden="")
    write(folder, {"solution/main.py": MAIN})
    env = CodeEnv(folder=str(folder))
    yield env
    env.close()


def outcome(env: CodeEnv, script: str, *more: str) -> tuple[float, bool, list[str]]:
    env.reset(seed=0)
    env.step(f"bash\n{script}")
    for action in more:
        env.step(action)
    _, reward, terminated, _, info = env.step("submit")
    assert terminated
    return reward, info["success"], info["extras"].get("tamper", [])


def test_an_honest_solution_passes_the_cases(by_cases: CodeEnv) -> None:
    by_cases.check_trainable()
    assert outcome(by_cases, put("main.py", MAIN), f"write calc.py\n{FIXED}") == (1.0, True, [])


@pytest.mark.parametrize("forgery", ALL)
def test_a_forgery_fails_the_cases(by_cases: CodeEnv, forgery: str) -> None:
    reward, success, tamper = outcome(by_cases, put("main.py", MAIN) + ALL[forgery])
    assert (reward, success) == (0.0, False)
    assert tamper


@pytest.mark.soak
def test_hidden_tests_can_be_forged_so_no_run_trains_on_them(docker: str, tmp_path: Path) -> None:
    """The frames hold the nonce: this forgery earns 1.0, and only its text is found."""
    env = CodeEnv(folder=str(small_task(tmp_path / "add")))
    reward, _, tamper = outcome(env, REVIEWED["frames"])
    assert reward == 1.0
    assert tamper[0].startswith("aims at its grader (_getframe, f_locals")
    with pytest.raises(NotTrainable):
        env.check_trainable()


SPARES_CANARY = """
from _pytest import reports
made = reports.TestReport.from_item_and_call.__func__
def forged(cls, item, call):
    report = made(cls, item, call)
    if not item.nodeid.rpartition("/")[2].startswith("test_t"):
        report.outcome = "passed"
    return report
reports.TestReport.from_item_and_call = classmethod(forged)
def add(one, two):
    return 0
"""
EQUAL_TO_ALL = """
class Equal:
    def __eq__(self, other):
        return True
def add(one, two):
    return Equal()
"""


@pytest.mark.soak
@pytest.mark.parametrize("forgery", [SPARES_CANARY, EQUAL_TO_ALL])
def test_forgeries_of_hidden_tests_leave_no_trace_so_no_run_trains_on_them(
    docker: str, tmp_path: Path, forgery: str
) -> None:
    env = CodeEnv(folder=str(small_task(tmp_path / "add")))
    assert outcome(env, solution(forgery)) == (1.0, True, [])
    with pytest.raises(NotTrainable):
        env.check_trainable()


PROGRAMS = "for file in $(find . -name '*.py' -o -name run.sh); do {}; done"
SCRIPTS = {
    "leaves": PROGRAMS.format("echo 'import os; os._exit(0)' > $file"),
    "prints a verdict": PROGRAMS.format("echo 'print(\"3 passed\")' > $file")
    + "; [ ! -e run.sh ] || echo 'echo 3 passed' > run.sh",
    "replaces modules": "for name in pathlib json configparser ast sys os re io; do"
    " cp /lib/x86_64-linux-gnu/libm.so.6 $name.cpython-311-x86_64-linux-gnu.so;"
    " mkdir $name; cp /lib/x86_64-linux-gnu/libm.so.6 $name/__init__.abi3.so; done",
    "replaces commands": "for name in sh cut sort tail python3; do printf '#!/bin/sh\\necho 5' > $name;"
    " chmod +x $name; done; touch .bashrc sitecustomize.py conftest.py",
    "answers what is shown": PROGRAMS.format("sed -n 's/^    //p' README.md > $file"),
    "changes everything": PROGRAMS.format("sed -i 's/[0-9]/7/g' $file") + "; sed -i 's/[0-9]/7/g' config/* 2>/dev/null",
    "removes everything": "rm -rf ./*",
}
TRACELESS = frozenset({"leaves", "answers what is shown", "changes everything", "removes everything"})


def pairs() -> list[object]:
    """Return each family with each script; outside of a soak, each family with one script."""
    return [
        pytest.param(family, script, marks=[] if number % len(SCRIPTS) == place else pytest.mark.soak)
        for number, family in enumerate(FAMILIES)
        for place, script in enumerate(SCRIPTS)
    ]


@pytest.mark.parametrize(("family", "script"), pairs())
def test_a_forgery_fails_a_family(docker: str, family: str, script: str) -> None:
    env = CodeEnv(family=family)
    reward, success, tamper = outcome(env, SCRIPTS[script])
    assert (reward, success) == (0.0, False)
    assert tamper or script in TRACELESS or family == "setting"
    env.close()


def test_the_oracle_passes_after_a_forgery(docker: str) -> None:
    env = CodeEnv(family="rename")
    env.reset(seed=0)
    env.step(f"bash\n{SCRIPTS['replaces modules']}")
    action = ""
    while action != "submit":
        action = env.oracle()
        info = env.step(action)[4]
    assert info["success"]
    assert any(line.startswith("replaces a module") for line in info["extras"]["tamper"])
    env.close()


KEPT = {
    "rename": (
        'for file in *.py; do sed -i "s/$OLD/$NEW/g" $file; done; echo "$WIDE = $NEW" >> $FIRST.py',
        "for file in *.py; do sed -i \"s/$OLD/$NEW/g\" $file; done; printf '# coding: utf-7\\nx = 1\\n' > extra.py",
    ),
    "setting": (
        "sed -i 's/[0-9]\\{4\\}/'$NEW'/' config/*",
        "for file in config/*; do grep -v -e host -e LOG $file > x; cp x $file; done",
    ),
}


@pytest.mark.parametrize("family", KEPT)
def test_a_half_done_change_fails(docker: str, family: str) -> None:
    """The old name in another spelling, and the ports alone, earned 1.0 before."""
    task = draw(0, "train", family)
    names = task.instruction.split()
    where = next(iter(task.workspace)).removesuffix(".py")
    old, new = (names[3], names[7].rstrip(",")) if family == "rename" else ("", names[6].rstrip("."))
    wide = "".join(chr(ord(each) + 0xFEE0) if each.isalpha() else each for each in old)
    env = CodeEnv(family=family)
    whole = 'sed -i "s/$OLD/$NEW/g" *.py'
    scripts = dict.fromkeys(KEPT[family], 0.0) | ({whole: 1.0} if family == "rename" else {})
    for script, wanted in scripts.items():
        assignments = f"OLD={old} NEW={new} WIDE={wide} FIRST={where}\n"
        reward, success, _ = outcome(env, assignments + script)
        assert (reward, success) == (wanted, bool(wanted)), script
    env.close()
