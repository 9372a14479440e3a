"""Task folders load, and their errors name file and key."""

from pathlib import Path

import pytest
from turnwise.envs.code.env import CodeEnv
from turnwise.envs.code.grading.grade import grade
from turnwise.envs.code.grading.pytest_host import BrokenTests
from turnwise.envs.code.task import Case, changed
from turnwise.envs.code.task_folder import BadTask, find, load
from turnwise.tests.envs.code.small_task import HIDDEN, TOML, small_task, write


def test_a_folder_is_a_task(tmp_path: Path) -> None:
    task, split = load(small_task(tmp_path / "add"))
    assert (task.name, split) == ("add", "both")
    assert set(task.workspace) == {"calc.py", "tests/test_calc.py"}
    assert set(task.tests) == {"test_hidden.py"}
    assert task.solution is not None
    assert (task.spec.memory_mib, task.spec.pids, task.command_seconds, task.case_seconds) == (128, 64, 3, 2)


CASE = "instruction = 'x'\n[[case]]\n"
PROTECTED = "instruction = 'x'\nprotected = ['tests/*']\n[[case]]\n"
JUDGE = PROTECTED.replace("tests/*", "judge.py")
JUDGE_PY = "import calc\n\n\ndef check():\n    return 'sums agree' if calc.add(2, 3) == 5 else 17\n"
GUESSED = "case: every case expects a result that code without an answer can give"


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("", "instruction: Field required"),
        ("instruction = 'x'\nanswer = 3", "answer: unknown key"),
        ("instruction = 'x'\n[limits]\nmemory_mib = 10", "limits.memory_mib: .*64"),
        ("instruction = 'x'\n[limits]\nmemory_mib = 80", "limits: .*is too small for"),
        ("instruction = 'x'\n[[case]]\nargv = []", "case.0: a case needs `call` and `returns`"),
        (CASE + 'argv = ["sh", "run.sh"]', "case.0: the case compares no answer"),
        (CASE + 'argv = ["sh", "run.sh"]\nexit_code = 3', "an exit code alone proves nothing"),
        (CASE + 'argv = ["sh", "run.sh"]\nstdout = "4 passed"', "is a verdict"),
        (CASE + 'argv = ["sh", "run.sh"]\nstdout = "  OK\\n"', "is a verdict"),
        (CASE + 'argv = ["python3", "-m", "pytest", "checks"]\nstdout = "x"', "runs tests in one process"),
        (CASE + 'argv = ["python3", "-c", "assert 1 == 1; print(3)"]\nstdout = "3"', "asserts in the sandbox"),
        (CASE + 'argv = ["python3", "a.py"]\nstdout = "3"\nfiles = {"a.py" = "assert 1"}', "asserts in the sandbox"),
        (CASE + 'argv = ["sh", "run.sh"]\nstdout = "ok\\nok\\nok"', "is a verdict"),
        (CASE + 'argv = ["sh", "run.sh"]\nstdout = "Tests passed: 3"', "is a verdict"),
        (CASE + 'argv = ["sh", "run.sh"]\nstdout = "exit 0"', "is a verdict"),
        (CASE + 'argv = ["sh", "run.sh"]\nstdout = "None"', "compares no answer"),
        (CASE + 'argv = ["sh", "a.sh"]\nstdout = "x"\nfiles = {"a.sh" = "python3 -m unittest a"}', "runs tests in one"),
        (CASE + 'argv = ["sh", "run.sh"]\nstdout = "True"', GUESSED),
        (CASE + 'argv = ["sh", "run.sh"]\nstdout = "0\\n0"', GUESSED),
        (CASE + 'call = "judge.check()"\nreturns = "None"', GUESSED),
        (CASE + 'call = "judge.same()"\nreturns = "True"\n[[case]]\ncall = "judge.check()"\nreturns = "None"', GUESSED),
        (CASE + 'call = "calc.add(1)"\nraises = "TypeError"', GUESSED),
        (PROTECTED + 'argv = ["python3", "tests/test_calc.py"]\nstdout = "3 cases checked"', "asserts in the sandbox"),
        (PROTECTED + 'call = "tests.test_calc.test_add()"\nreturns = "[3]"', "asserts in the sandbox"),
        (CASE + 'call = "calc.find(1)"\nreturns = "[]"\n[[case]]\ncall = "calc.find(2)"\nreturns = "[]"', GUESSED),
        (CASE + 'argv = ["sh", "run.sh"]\nstdout = "5/5 hold"', "is a verdict"),
        (
            CASE + """argv = ["python3", "-c", "import a; print('right' if a.f() == 5 else '')"]\nstdout = "right\"""",
            GUESSED,
        ),
        (CASE + 'argv = ["python3", "j.py"]\nstdout = "all hold"\nfiles = {"j.py" = "print(\'all hold\')"}', GUESSED),
        (JUDGE + 'call = "judge.check()"\nreturns = "\'sums agree\'"', GUESSED),
        (JUDGE + 'call = "judge.check()"\nreturns = "17"\n[[case]]\ncall = "judge.check()"\nreturns = "17"', GUESSED),
        (CASE + 'call = "calc.add(2, 3)"', "needs either `returns`"),
        (CASE + 'call = "calc.add(2, 3)"\nreturns = "5"\nraises = "E"', "needs either `returns`"),
        (CASE + 'call = "calc.add(2, 3)"\nreturns = "five"', "not a Python literal"),
        (CASE + 'call = "calc.add(2, x)"\nreturns = "5"', "write one call with literal arguments"),
        (CASE + 'call = "add(2, 3)"\nreturns = "5"', "begins with its module"),
        (CASE + 'call = "random.add(2, 3)"\nreturns = "5"', "Python's own module random hides"),
        (CASE + 'call = "calc.add(2, 3)"\nstdout = "5"', "either `call` or `argv`"),
        ("instruction = ", "task.toml: Invalid value"),
    ],
)
def test_errors_name_file_and_key(tmp_path: Path, toml: str, message: str) -> None:
    folder = write(small_task(tmp_path / "add", toml=toml), {"workspace/judge.py": JUDGE_PY})
    with pytest.raises(BadTask, match=message):
        load(folder)


@pytest.mark.parametrize(
    "cases",
    [
        'call = "calc.even(2)"\nreturns = "True"\n[[case]]\ncall = "calc.even(3)"\nreturns = "False"',
        'call = "calc.find(2)"\nreturns = "None"\n[[case]]\ncall = "calc.find(3)"\nreturns = "30"',
        'call = "calc.find(2)"\nraises = "KeyError"\n[[case]]\ncall = "calc.find(3)"\nreturns = "30"',
        'argv = ["sh", "run.sh"]\nstdin = "2"\nstdout = "yes"\n[[case]]\nargv = ["sh", "run.sh"]\nstdout = "no"',
        'argv = ["python3", "calc.py"]\nstdout = "ok\\n3 of 8"',
        'call = "calc.clamp(5, 0, 10)"\nreturns = "5"',
        """argv = ["python3", "-c", "import calc; print(calc.clamp(5, 0, 10))"]\nstdout = "5"
[[case]]\nargv = ["python3", "-c", "import calc; print(calc.clamp(-5, 0, 10))"]\nstdout = "0\"""",
    ],
)
def test_honest_cases_are_accepted(tmp_path: Path, cases: str) -> None:
    assert load(small_task(tmp_path / "add", toml=PROTECTED + cases, hidden=""))[0].cases


def test_lines_end_in_a_newline() -> None:
    case = Case(("sh", "run.sh"), b"one\ntwo\nthree")
    assert case.passes(0, b"one\r\ntwo \nthree\n\n")
    for other in (b"one\rtwo\rthree", b"one\ntwo\rthree", b"one\vtwo\nthree", b"one two\nthree"):
        assert not case.passes(0, other)


def test_the_example_of_the_docs_loads_and_passes(docker: str, tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/shipped_environments/code_tasks.md").read_text()
    toml = page.partition("```toml\n# task.toml\n")[2].partition("```")[0]
    task = load(small_task(tmp_path / "add", toml=toml, hidden=""))[0]
    assert len(task.cases) == 3
    assert grade(task, changed(task.workspace, task.solution or {})).success
    assert grade(task, task.workspace).passed == 0


def test_missing_parts_are_reported(tmp_path: Path) -> None:
    folder = write(tmp_path / "bare", {"task.toml": "instruction = 'x'"})
    with pytest.raises(BadTask, match="the task has no checks"):
        load(folder)
    write(folder, {"tests/test_a.py": ""})
    with pytest.raises(BadTask, match="no folder workspace/"):
        load(folder)
    with pytest.raises(BadTask, match="neither a task nor a set of tasks"):
        CodeEnv(folder=str(tmp_path / "nowhere"))


def test_sets_of_tasks_and_their_splits(tmp_path: Path) -> None:
    for name, split in (("a", "train"), ("b", "test"), ("c", "both")):
        small_task(tmp_path / name, toml=f'split = "{split}"\n{TOML}')
    assert [path.name for path in find(tmp_path, "train")] == ["a", "c"]
    assert [path.name for path in find(tmp_path, "test")] == ["b", "c"]
    for name in ("b", "c"):
        (tmp_path / name / "task.toml").write_text('split = "train"\n' + TOML)
    with pytest.raises(BadTask, match="no task has the split 'test'"):
        find(tmp_path, "test")


def test_the_oracle_of_a_folder_is_its_solution(docker: str, tmp_path: Path) -> None:
    env = CodeEnv(folder=str(small_task(tmp_path / "add")))
    env.reset(seed=3, options={"split": "test"})
    env.step(env.oracle())
    assert env.oracle() == "submit"
    assert env.step(env.oracle())[4]["success"]


def test_tests_that_import_missing_code_are_counted_on_the_solution(docker: str, tmp_path: Path) -> None:
    hidden = HIDDEN.replace("import add", "import add, twice") + "\n\ndef test_twice():\n    assert twice(2) == 4\n"
    folder = small_task(tmp_path / "add", hidden=hidden)
    write(
        folder,
        {"solution/calc.py": "def add(one, two):\n    return one + two\n\n\ndef twice(one):\n    return 2 * one\n"},
    )
    task = load(folder)[0]
    assert grade(task, task.workspace).share == 0
    verdict = grade(task, changed(task.workspace, task.solution or {}))
    assert (verdict.passed, verdict.total, verdict.tamper) == (5, 5, ())


def test_broken_hidden_tests_are_reported_as_a_bad_task(docker: str, tmp_path: Path) -> None:
    folder = small_task(tmp_path / "add", hidden="import no_such_module\n")
    task = load(folder)[0]
    with pytest.raises(BrokenTests, match=r"(?s)task add: .*pristine.*no_such_module"):
        grade(task, task.workspace)


def test_some_tests_passing_is_a_share(docker: str, tmp_path: Path) -> None:
    task = load(small_task(tmp_path / "add"))[0]
    verdict = grade(task, task.workspace)
    assert (verdict.passed, verdict.total, verdict.success) == (1, 4, False)
