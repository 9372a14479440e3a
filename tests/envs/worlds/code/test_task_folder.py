"""Task folders load, and their errors name file and key."""

import re
import shutil
from pathlib import Path

import pytest
from turnwise.envs.worlds.code.env import CodeEnv
from turnwise.envs.worlds.code.grading.grade import grade
from turnwise.envs.worlds.code.grading.pytest_host import BrokenTests
from turnwise.envs.worlds.code.task import Case, changed
from turnwise.envs.worlds.code.task_folder import BadTask, find, has_forgeable_tests, load, read_tree
from turnwise.tests.envs.worlds.code.small_task import HIDDEN, TOML, small_task, write


def test_a_folder_is_a_task(tmp_path: Path) -> None:
    task, split = load(small_task(tmp_path / "add"))
    assert (task.name, split) == ("add", "both")
    assert set(task.workspace) == {"calc.py", "tests/test_calc.py"}
    assert set(task.tests) == {"test_hidden.py"}
    assert task.solution is not None
    assert (task.spec.memory_mib, task.spec.pids, task.command_seconds, task.case_seconds) == (128, 64, 3, 2)


FOUR_DIGITS = '[[case]]\ncall = "calc.add(1200, 34)"\nreturns = "1234"\n'
CASE = "instruction = 'x'\n[[case]]\n"


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("", "instruction: is missing"),
        ("instruction = ' '", "instruction: empty"),
        ("instruction = 'x'\nanswer = 3", "answer: unknown key"),
        ("instruction = 'x'\nimage = ''", "image: '' is empty or has white space inside"),
        ("instruction = 'x'\nimage = ' code'", "image: ' code' is empty or has white space inside"),
        ("instruction = 'x'\n[limits]\nmemory_mib = 10", "limits.memory_mib: .*64"),
        ("instruction = 'x'\n[limits]\nmemory_mib = 80", "limits: .*is too small for"),
        ("instruction = 'x'\n[[case]]\nargv = []", "case.0: a case needs `call` and `returns`"),
        (CASE + 'call = "calc.add(2, 3)"', "needs either `returns`"),
        (CASE + 'call = "calc.add(2, 3)"\nreturns = "5"\nraises = "E"', "needs either `returns`"),
        (CASE + 'call = "calc.add(2, 3)"\nreturns = "five"', "not a Python literal"),
        (CASE + 'call = "calc.add(2, x)"\nreturns = "5"', "write one call with literal arguments"),
        (CASE + 'call = "add(2, 3)"\nreturns = "5"', "begins with its module"),
        (CASE + 'call = "random.add(2, 3)"\nreturns = "5"', "Python's own module random hides"),
        (CASE + 'call = "calc.add(2, 3)"\nstdout = "5"', "either `call` or `argv`"),
        ("instruction = ", "task.toml` is not valid TOML: Invalid value"),
    ],
)
def test_errors_name_file_and_key(tmp_path: Path, toml: str, message: str) -> None:
    with pytest.raises(BadTask, match=message):
        load(small_task(tmp_path / "add", toml=toml))


def test_lines_end_in_a_newline() -> None:
    case = Case(("sh", "run.sh"), b"one\ntwo\nthree")
    assert case.passes(0, b"one\r\ntwo \nthree\n\n")
    for other in (b"one\rtwo\rthree", b"one\ntwo\rthree", b"one\vtwo\nthree", b"one two\nthree"):
        assert not case.passes(0, other)


def test_the_example_of_the_docs_loads_and_passes(docker: str, tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs/shipped_environments/code_tasks.md").read_text()
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


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        ("docs", "docs/*"),
        ("docs/", "docs/*"),
        ("./docs/*", "docs/*"),
        ("/workspace/docs/*", "docs/*"),
        ("DOCS/*", "docs/a.md"),
        ("./later.py", "later.py"),
    ],
)
def test_a_pattern_that_does_not_protect_what_it_means_is_refused(tmp_path: Path, pattern: str, instead: str) -> None:
    def task(protected: str) -> Path:
        toml = TOML.replace('"tests/*"', repr(protected))
        return write(small_task(tmp_path, toml=toml), {"workspace/docs/a.md": "a\n"})

    with pytest.raises(BadTask, match=re.escape(f"{pattern!r} matches no file of workspace/: write {instead!r}")):
        load(task(pattern))
    for right in ("docs/*", "docs/a.md", "later.py"):
        assert load(task(right))[0].protected == (right,)


@pytest.mark.parametrize("name", ["tests", "solution", "workspace"])
def test_what_is_in_the_place_of_a_folder_is_refused_by_name(tmp_path: Path, name: str) -> None:
    folder = small_task(tmp_path / "add", toml=TOML + FOUR_DIGITS)
    (tmp_path / "shared").mkdir()
    shutil.move(folder / name, tmp_path / "shared" / name)
    place, elsewhere = folder / name, f"../shared/{name}"
    place.symlink_to(elsewhere)
    assert load(folder)[0].tests.entries, "a link to a folder is that folder"
    for target in ("../nowhere", "task.toml", name):
        place.unlink()
        place.symlink_to(target)
        with pytest.raises(BadTask, match=f"add/{name} is a link to `{target}`, which is no folder"):
            load(folder)
    place.unlink()
    place.write_text(elsewhere)
    with pytest.raises(BadTask, match=f"add/{name} is a file and not a folder.*core.symlinks"):
        load(folder)
    place.unlink()
    (place / "inner").mkdir(parents=True)
    if name != "workspace":
        with pytest.raises(BadTask, match=f"add/{name} holds no file"):
            load(folder)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Tests", "tests/"),
        ("test", "tests/"),
        ("solutions", "solution/"),
        ("Solution", "solution/"),
        ("solution.py", "solution/"),
        ("workspaces", "workspace/"),
        ("work_space", "workspace/"),
        ("tests ", "tests/"),
        ("Task.toml", "task.toml"),
    ],
)
def test_a_name_that_is_nearly_a_known_one_is_refused(tmp_path: Path, name: str, meant: str) -> None:
    folder = write(small_task(tmp_path / "add"), {"README.md": "", "solution.bak/x": "", "notes/test_a.py": ""})
    load(folder)
    (folder / name).mkdir()
    with pytest.raises(BadTask, match=f"add/{name} is not read: did you mean `{meant}`"):
        load(folder)


@pytest.mark.parametrize("target", ["../shared/test_a.py", "../shared", "/tests/test_hidden.py", "gone", "test_b.py"])
def test_a_link_that_leaves_the_tests_is_refused_by_name(tmp_path: Path, target: str) -> None:
    folder = small_task(tmp_path / "add")
    (folder / "tests/inside.py").symlink_to("test_hidden.py")
    load(folder)
    write(tmp_path / "add/shared", {"test_a.py": ""})
    (folder / "tests/test_b.py").symlink_to(target)
    with pytest.raises(BadTask, match=f"tests/test_b.py is a link to `{target}`, which is not in tests/.*put a copy"):
        load(folder)
    (folder / "tests/inside.py").unlink()
    (folder / "tests/test_hidden.py").unlink()
    assert has_forgeable_tests(folder)


@pytest.mark.parametrize(
    "target", ["../../other.py", "sub/../../other.py", "/etc/passwd", "/workspacex/a.py", "../task.toml"]
)
def test_a_link_that_leaves_the_solution_is_refused_by_name(tmp_path: Path, target: str) -> None:
    folder = small_task(tmp_path / "add")
    (folder / "solution/sub").mkdir(parents=True, exist_ok=True)
    for name, inside in {
        "a.py": "calc.py",
        "sub/b.py": "../calc.py",
        "c.py": "/workspace/calc.py",
        "d": "later",
    }.items():
        (folder / "solution" / name).symlink_to(inside)
    load(folder)
    (folder / "solution/link.py").symlink_to(target)
    with pytest.raises(BadTask, match=f"solution/link.py is a link to `{target}`, which is not in the workspace"):
        load(folder)


def test_sets_of_tasks_and_their_splits(tmp_path: Path) -> None:
    for name, split in (("a", "train"), ("b", "test"), ("c", "both")):
        small_task(tmp_path / name, toml=f'split = "{split}"\n{TOML}')
    assert [path.name for path in find(tmp_path, "train")] == ["a", "c"]
    assert [path.name for path in find(tmp_path, "test")] == ["b", "c"]
    for name in ("b", "c"):
        (tmp_path / name / "task.toml").write_text('split = "train"\n' + TOML)
    with pytest.raises(BadTask, match="no task has the split 'test'"):
        find(tmp_path, "test")


def test_a_set_leaves_out_hidden_folders_and_nothing_else_in_silence(tmp_path: Path) -> None:
    for name in ("a", ".ipynb_checkpoints", ".git"):
        small_task(tmp_path / name)
    write(tmp_path, {"shared/data.txt": "", "README.md": ""})
    assert [path.name for path in find(tmp_path, "train")] == ["a"]
    (tmp_path / "b").symlink_to("../nowhere")
    with pytest.raises(BadTask, match=r"b is a link to `../nowhere`, which does not exist"):
        find(tmp_path, "train")
    (tmp_path / "b").unlink()
    write(tmp_path, {"b/Task.toml": TOML})
    with pytest.raises(BadTask, match=r"b/Task.toml is not read: did you mean `task.toml`"):
        find(tmp_path, "train")
    (tmp_path / "b/Task.toml").unlink()
    (tmp_path / "b/task.toml").symlink_to("gone.toml")
    with pytest.raises(BadTask, match=r"b/task.toml"):
        find(tmp_path, "train")


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


def test_the_owner_may_edit_a_workspace_that_was_copied_read_only(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    script = source / "inner" / "run.sh"
    script.write_text("echo hi\n")
    script.chmod(0o555)
    (source / "inner").chmod(0o555)
    source.chmod(0o555)
    entries = read_tree(source).entries
    assert {path: oct(entry.mode) for path, entry in entries.items()} == {"inner": "0o755", "inner/run.sh": "0o755"}
    source.chmod(0o755)
    assert read_tree(source).entries["inner/run.sh"].mode == 0o555, "one file that may not be written"
    (source / "inner").chmod(0o755)
