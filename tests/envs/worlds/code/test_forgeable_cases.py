"""No run trains on a case that a file outside of the solution answers, unless the task is trusted."""

from pathlib import Path

import pytest
from turnwise.envs.errors import NotTrainable
from turnwise.envs.worlds.code.checks.calls import CallCase
from turnwise.envs.worlds.code.instances import Instances
from turnwise.envs.worlds.code.task import Case, CodeTask
from turnwise.sandbox import Entry, Kind, Tree
from turnwise.tests.envs.worlds.code.small_task import TOML, small_task, write

FIXED = dict.fromkeys(
    ("judge.py", "check.sh", "pkg/__init__.py", "pkg/fixed.py", "cli/__init__.py", "both/__init__.py", "locked/a.py"),
    b"fixed",
)
WRITTEN = ("calc.py", "run", "bin/run.sh", "pkg/part.py", "cli/__main__.py", "both.py", "locked/a.py", "new/main.js")
LINKS = {"linked": b"calc.py", "to_judge": b"./judge.py", "tools": b"bin", "outside": b"/bin/sh", "gone": b"nowhere"}
WORKSPACE = Tree(
    {
        **Tree.of({**FIXED, "calc.py": b"old", "run": b"old"}).entries,
        **{path: Entry(Kind.LINK, target) for path, target in LINKS.items()},
    }
)


def fault(case: Case | CallCase, *, trusted: bool = False) -> str:
    """Return why the agent can forge the case of a task."""
    solution = dict.fromkeys(WRITTEN, b"new") | {"judge.py": FIXED["judge.py"]}
    cases = (CallCase("calc.add(2, 3)", "5"), case)
    task = CodeTask("t", "x", WORKSPACE, cases, solution=solution, protected=("locked/*",), trusted=trusted)
    return task.forgeable_case()


def runs(command: str, stdout: bytes = b"7421", **files: bytes) -> Case:
    return Case(tuple(command.split()), stdout, files={name.replace("_", "."): text for name, text in files.items()})


SAFE: dict[str, Case | CallCase] = {
    "a function": CallCase("calc.add(2, 3)", "5"),
    "a function of a package": CallCase("pkg.part.add(2, 3)", "5"),
    "a method": CallCase("calc.Sum.of(2, 3)", "5"),
    "an exception": CallCase("calc.add(2)", raises="TypeError"),
    "a program": runs("python3 calc.py --fast"),
    "a program by its absolute path": runs("python3 /workspace/calc.py"),
    "a program alone": runs("./run data.txt"),
    "a script": runs("sh ./bin/run.sh"),
    "a program of another language": runs("node new/main.js"),
    "a module": runs("python3 -m cli"),
    "a module that is a file": runs("python3 -m pkg.part"),
    "a file": runs("cat calc.py"),
    "a link": runs("python3 linked"),
    "a link to a folder": runs("tools/run.sh"),
    "data of the case": runs("python3 calc.py", data_csv=b"1,2"),
}
FORGEABLE: dict[str, Case | CallCase] = {
    "a function of a script of the task": CallCase("judge.verify(1)", "True"),
    "a function of a module that the solution leaves": CallCase("pkg.fixed.verify(1)", "7421"),
    "a function of an installed module": CallCase("pytest.main(['pkg'])", "0"),
    "a function of a file behind a package": CallCase("both.add(2, 3)", "5"),
    "a function of a protected file": CallCase("locked.a.verify()", "7421"),
    "a script of the task": runs("python3 judge.py"),
    "a script of the task, alone": runs("./check.sh"),
    "a script by another path": runs("sh bin/../check.sh"),
    "a protected script": runs("python3 locked/a.py"),
    "a link to a script": runs("python3 to_judge"),
    "a link outside": runs("outside calc.py"),
    "a link to nothing": runs("python3 gone"),
    "no such program": runs("python3 main.py"),
    "a script of the case": runs("python3 t.py", t_py=b"print(1)"),
    "a program that the case replaces": runs("python3 calc.py", calc_py=b"print(1)"),
    "a link that the case replaces": runs("python3 linked", linked=b"print(1)"),
    "code in the command": Case(("python3", "-c", "import calc; print(calc.add(2, 3) == 5)"), b"True"),
    "code of a shell": Case(("sh", "-c", "python3 calc.py; echo rc=$?"), b"rc=0"),
    "options before the program": runs("python3 -I calc.py"),
    "an interpreter alone": runs("sh"),
    "a test runner": runs("pytest calc.py"),
    "a module of Python": runs("python3 -m pytest"),
    "a command on the path": runs("run"),
    "a command before the program": runs("env python3 calc.py"),
}


@pytest.mark.parametrize("shape", SAFE)
def test_a_case_that_the_solution_answers_is_safe(shape: str) -> None:
    assert not fault(SAFE[shape])


@pytest.mark.parametrize("shape", FORGEABLE)
def test_another_case_is_forgeable_unless_the_task_is_trusted(shape: str) -> None:
    message = fault(FORGEABLE[shape])
    assert message.startswith("case.1: `call` names no module" if "func" in shape else "case.1: `argv` runs no program")
    assert "`trusted = true`" in message
    assert not fault(FORGEABLE[shape], trusted=True)


def test_a_command_without_an_answer_is_forgeable() -> None:
    assert "compares no answer" in fault(runs("python3 calc.py", b" \n"))


def test_without_a_solution_every_case_is_forgeable() -> None:
    assert CodeTask("t", "x", WORKSPACE, (SAFE["a function"],)).forgeable_case()


def test_a_forgeable_task_is_evaluated_and_not_trained_on(tmp_path: Path) -> None:
    case = '[[case]]\nargv = ["sh", "check.sh"]\nstdout = "rc=0"\n'
    folder = write(small_task(tmp_path / "add", toml=TOML + case, hidden=""), {"workspace/check.sh": "echo rc=$?\n"})
    tasks = Instances(folder=str(folder))
    assert tasks.draw(0, "test").cases
    with pytest.raises(NotTrainable, match=r"add/task.toml: case.0: `argv` runs no program .* `turnwise eval`"):
        tasks.check_trainable()
    write(folder, {"task.toml": "trusted = true\n" + TOML + case})
    Instances(folder=str(folder)).check_trainable()
