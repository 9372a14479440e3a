"""Hidden tests that give no verdict on the code are refused when the task is prepared, by name and with the reason.

CI tries a way of every kind; the soak tries all.
"""

from pathlib import Path

import pytest
from turnwise.envs.worlds.code.grading import pytest_host
from turnwise.envs.worlds.code.grading.grade import grade
from turnwise.envs.worlds.code.grading.pytest_host import BrokenTests, prepare_tests
from turnwise.envs.worlds.code.task import CodeTask, changed
from turnwise.envs.worlds.code.task_folder import load
from turnwise.sandbox import SandboxLease
from turnwise.tests.envs.soaked import soaked_but
from turnwise.tests.envs.worlds.code.small_task import BROKEN, FIXED, small_task, write

RIGHT = "import pytest, calc\n\n\ndef test_right():\n    assert calc.add(2, 3) == 5\n\n\n"
UNFIT = {
    "skip": ("@pytest.mark.skip\ndef test_odd():\n    pass", "skipped"),
    "skipif": ("@pytest.mark.skipif(True, reason='no net')\ndef test_odd():\n    pass", "skipped .*no net"),
    "skip in the body": ("def test_odd():\n    pytest.skip('later')", "skipped .*later"),
    "skip in a fixture": (
        "@pytest.fixture\ndef odd():\n    pytest.skip('later')\n\n\ndef test_odd(odd):\n    pass",
        "skipped .*later",
    ),
    "skip of a class": ("@pytest.mark.skip\nclass TestIt:\n    def test_odd(self):\n        pass", "skipped"),
    "unittest": (
        "import unittest\nclass T(unittest.TestCase):\n    @unittest.skip('x')\n    def test_odd(self):\n        pass",
        "skipped",
    ),
    "expected failure": (
        "import unittest\nclass T(unittest.TestCase):\n    @unittest.expectedFailure\n    def test_odd(self):\n"
        "        assert 0",
        "xfail",
    ),
    "xfail": ("@pytest.mark.xfail\ndef test_odd():\n    assert 0", "xfail"),
    "xfail that passes": ("@pytest.mark.xfail\ndef test_odd():\n    pass", "xfail"),
    "strict xfail that passes": ("@pytest.mark.xfail(strict=True)\ndef test_odd():\n    pass", "xfail"),
    "xfail in the body": ("def test_odd():\n    pytest.xfail('bug 3')", "xfail"),
    "async": ("async def test_odd():\n    assert 0", "async"),
    "random": (
        "import random\n@pytest.mark.parametrize('a', [random.random()])\ndef test_odd(a):\n    pass",
        "id is not the same",
    ),
    "of the agent's code": (
        "@pytest.mark.parametrize('a', [calc.add(1, 2)])\ndef test_odd(a):\n    pass",
        "id is not the same",
    ),
}


IN_CI = (
    "skipif",
    "skip in a fixture",
    "unittest",
    "expected failure",
    "xfail that passes",
    "xfail in the body",
    "async",
    "of the agent's code",
)


@pytest.mark.parametrize("kind", soaked_but(IN_CI, UNFIT))
def test_a_hidden_test_without_a_verdict_is_refused(docker: str, tmp_path: Path, kind: str) -> None:
    source, reason = UNFIT[kind]
    task = load(small_task(tmp_path / "add", hidden=RIGHT + source))[0]
    with pytest.raises(BrokenTests, match=f"hidden test `test_hidden.py::.*test_odd.*` cannot be graded: .*{reason}"):
        prepare_tests(task)


def test_it_is_refused_without_a_solution_too(docker: str, tmp_path: Path) -> None:
    folder = small_task(tmp_path / "add", hidden=RIGHT + UNFIT["skip in the body"][0])
    (folder / "solution/calc.py").unlink()
    (folder / "solution").rmdir()
    with pytest.raises(BrokenTests, match=r"test_hidden.py::test_odd` cannot be graded: it is skipped .*later"):
        prepare_tests(load(folder)[0])


def test_a_file_that_skips_itself_is_named(docker: str, tmp_path: Path) -> None:
    folder = write(small_task(tmp_path / "add"), {"tests/test_more.py": "import pytest\npytest.importorskip('nope')\n"})
    with pytest.raises(BrokenTests, match=r"test_more.py: it is skipped \(.*nope"):
        prepare_tests(load(folder)[0])


def test_conditions_that_do_not_hold_refuse_nothing(docker: str, tmp_path: Path) -> None:
    marks = "@pytest.mark.skipif(False, reason='x')\n@pytest.mark.xfail(False, reason='x')\n"
    ran = "import unittest\nclass T(unittest.IsolatedAsyncioTestCase):\n    async def test_odd(self):\n        pass\n"
    task = load(small_task(tmp_path / "add", hidden=f"{RIGHT}{marks}def test_odd():\n    pass\n\n\n{ran}"))[0]
    assert graded(task, FIXED) == (3, 3, ())
    skips = f"import pytest\n{FIXED}\npytest.skip('no need', allow_module_level=True)\n"
    assert graded(task, skips) == (0, 3, ("other tests ran than there are",))
    assert graded(task, BROKEN) == (2, 3, ())


def test_a_package_of_tests_may_import_its_own_modules(docker: str, tmp_path: Path) -> None:
    """The name of its folder is a valid name of a package in every run, not in six of sixteen."""
    hidden = "import calc\nfrom .helper import X\n\n\ndef test_right():\n    assert calc.add(2, 3) == X\n"
    folder = write(small_task(tmp_path / "add", hidden=hidden), {"tests/__init__.py": "", "tests/helper.py": "X = 5\n"})
    task = load(folder)[0]
    assert graded(task, FIXED) == (1, 1, ())
    assert all(pytest_host._new_folder().rpartition("/")[2].isidentifier() for _ in range(50))


def test_a_sandbox_without_pytest_is_named(docker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SandboxLease.exec

    def without_packages(self, argv, **other):
        return run(self, ["python3", "-S", *argv[1:]], **other)

    monkeypatch.setattr(SandboxLease, "exec", without_packages)
    task = load(small_task(tmp_path / "add", hidden=RIGHT + "# -S\n"))[0]
    with pytest.raises(BrokenTests, match=r"task add: the sandbox's python3 has no pytest.*image `code`"):
        prepare_tests(task)


def graded(task: CodeTask, program: str) -> tuple[int, int, tuple[str, ...]]:
    verdict = grade(task, changed(task.workspace, {"calc.py": program.encode()}))
    return verdict.passed, verdict.total, verdict.tamper
