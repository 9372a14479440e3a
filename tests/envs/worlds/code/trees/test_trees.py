"""A tree reaches the agent and the grading as it was made, and each loss is named. The soak loses more."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.envs.worlds.code.env import CodeEnv
from turnwise.envs.worlds.code.grading.forbidden import sanitize
from turnwise.envs.worlds.code.task import CodeTask
from turnwise.envs.worlds.code.task_folder import BadTask, load, read_tree
from turnwise.envs.worlds.code.workspace_env import pack
from turnwise.sandbox import Entry, Kind, SandboxSpec, Tree, lease
from turnwise.sandbox.transport.tree import parents
from turnwise.tests.envs.worlds.code.small_task import FIXED, small_task

SHOW = """
import os, stat
for top, folders, files in sorted(os.walk(b".")):
    for name in sorted(folders + files):
        path = os.path.join(top, name)
        one = os.lstat(path)
        if not path.startswith(b"./show"):
            print(path, oct(one.st_mode), os.readlink(path) if os.path.islink(path) else one.st_nlink)
print(os.stat("old").st_mtime_ns < os.stat("a-new").st_mtime_ns)
"""
MAKE = """set -e
echo x > 'a b'; echo '#!/bin/sh' > run; chmod +x run; echo old > old; touch -d '2001-01-01' old; echo new > a-new
mkdir -p empty/in pkg; chmod 700 empty/in; echo y > pkg/y; ln -s pkg folder; ln -s run link; ln -s /workspace/run abs
ln -s gone dangling; ln -s ../run pkg/up; ln run hard; printf 'a\\r\\n\\377' > $'\\377\\n-'
chmod 444 old; echo z > ./-rf; chmod u+s run; chmod 500 pkg
"""
ODD = {"tamper": ["odd name: ?\\n-"]}
"""A name that is not text is on record, and costs nothing by default."""
TOML = """instruction = "Make the tree."
trusted = true
[[case]]
argv = ["python3", "show.py"]
stdout = '''
{shown}
'''
"""


def made(folder: Path) -> str:
    """Make the tree in a folder with the shell and return what the program prints of it."""
    folder.mkdir(parents=True)
    subprocess.run(["bash", "-c", MAKE], cwd=folder, check=True)
    return subprocess.run(
        ["python3", "-c", SHOW], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def task(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "task"
    shown = made(folder / "solution")
    (folder / "task.toml").write_text(TOML.format(shown=shown))
    (folder / "workspace").mkdir()
    (folder / "workspace/show.py").write_text(SHOW)
    yield folder
    shutil.rmtree(folder)


def finished(env: CodeEnv, *actions: str) -> tuple[float, dict[str, list[str]]]:
    env.reset(seed=0)
    for action in (*actions, "submit"):
        _, reward, _, _, info = env.step(action)
    env.close()
    return reward, info["extras"]


def test_a_submission_is_graded_as_it_was_made(sandboxes: str, task: Path) -> None:
    env = CodeEnv(folder=str(task), trusted=True)
    assert finished(env, f"bash\n{MAKE}") == (1.0, ODD)
    assert finished(env, f"bash\n{MAKE}\nrm link; ln -s ./run link")[0] == 0.0


def test_a_workspace_arrives_as_it_is(sandboxes: str, task: Path) -> None:
    (task / "solution").rename(task / "solved")
    shutil.copytree(task / "workspace", task / "solution")
    made_again = task / "workspace"
    (made_again / "show.py").unlink()
    made_again.rmdir()
    made(made_again)
    (made_again / "show.py").write_text(SHOW)
    toml = (task / "task.toml").read_text()
    (task / "task.toml").write_text(f"protected = ['*']\n{toml}")
    assert finished(CodeEnv(folder=str(task), trusted=True)) == (1.0, {})


def test_a_snapshot_keeps_the_tree(sandboxes: str, task: Path) -> None:
    env = CodeEnv(folder=str(task), trusted=True)
    env.reset(seed=0)
    env.step(f"bash\n{MAKE}")
    snapshot = env.snapshot()
    assert snapshot is not None
    env.reset(seed=0)
    env.restore(snapshot)
    _, reward, _, _, info = env.step("submit")
    assert (reward, info["extras"]) == (1.0, ODD)
    env.close()


def test_a_socket_has_no_snapshot(any_sandboxes: str) -> None:
    with lease(SandboxSpec(trusted=True), timeout_s=30) as box:
        assert pack(box) is not None
        box.exec(["python3", "-c", "import socket; socket.socket(socket.AF_UNIX).bind('end')"], timeout_s=10)
        assert pack(box) is None


def test_the_oracle_makes_every_tree(sandboxes: str, task: Path) -> None:
    (task / "solution/large.bin").write_bytes(bytes(range(256)) * 500)
    (task / "solution/tag.py").write_text("a = '</think>'")
    wanted = read_tree(task / "solution")
    (task / "task.toml").write_text(TOML.format(shown="x y"))
    env = CodeEnv(folder=str(task), trusted=True)
    env.reset(seed=0)
    for _ in range(40):
        action = env.oracle()
        if action == "submit":
            break
        _, _, _, _, info = env.step(action)
        assert info["action_valid"], action
    assert env.oracle() == "submit"
    found = {path: env.episode.files.entries[path] for path in wanted.entries}
    kinds = {path: (entry.kind, entry.content, entry.mode & 0o7700) for path, entry in found.items()}
    assert kinds == {path: (entry.kind, entry.content, entry.mode & 0o7700) for path, entry in wanted.entries.items()}
    assert env.episode.files.entries["run"].same_as == "hard"
    env.close()


CLOSED_FOLDER = ("mkdir closed; touch closed/x; chmod 0 closed", "permission denied: closed")
LINKED_FOLDER = (
    "mkdir -p d/e; ln -s .. d/e/up; ln -s d/e/up/../.. out",
    "leads out of the work folder: out -> d/e/up/../..",
)
RELATIVE_LINK = ("mkdir d; ln -s ../../tmp d/out", "leads out of the work folder: d/out -> ../../tmp")


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("mkfifo pipe", "a named pipe: pipe"),
        ("python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('end')\"", "a socket: end"),
        ("echo x > closed; chmod 0 closed", "permission denied: closed"),
        pytest.param(*CLOSED_FOLDER, marks=pytest.mark.soak),
        ("ln -s /tmp/x out", "leads out of the work folder: out -> /tmp/x"),
        LINKED_FOLDER,
        pytest.param(*RELATIVE_LINK, marks=pytest.mark.soak),
        ("mkdir -p d/__pycache__; touch d/__pycache__/x.pyc d/__pycache__/y.pyc", "not graded: d/__pycache__"),
        ("git init -q . ", "not graded: .git"),
    ],
)
def test_each_loss_of_a_submission_is_named(any_sandboxes: str, task: Path, script: str, line: str) -> None:
    _, extras = finished(CodeEnv(folder=str(task)), f"bash\n{script}")
    assert extras["left_out"] == [line]


@pytest.mark.parametrize("script", ["chmod 0 show.py", "rm show.py; mkfifo show.py", "ln -sf /etc/passwd show.py"])
def test_an_initial_file_that_cannot_be_read_is_tampering(any_sandboxes: str, task: Path, script: str) -> None:
    assert finished(CodeEnv(folder=str(task)), f"bash\n{script}")[1]["tamper"] == [
        "not a readable file any more: show.py"
    ]


def test_a_task_keeps_its_links_out_of_the_work_folder(any_sandboxes: str, tmp_path: Path) -> None:
    folder = small_task(tmp_path / "add", hidden="")
    (folder / "workspace/venv").mkdir()
    (folder / "workspace/venv/python").symlink_to("/usr/bin/python3")
    (folder / "workspace/data.csv").symlink_to("../../common/data.csv")
    (folder / "task.toml").write_text(
        'instruction = "Repair add."\n'
        '[[case]]\ncall = "calc.add(20, 31)"\nreturns = "51"\n'
        '[[case]]\ncall = "calc.add(410, 31)"\nreturns = "441"\n'
    )
    env = CodeEnv(folder=str(folder), tamper_cost=0.5)
    for extra, reward, extras in (
        ("true", 1.0, {}),
        ("ln -sf ../../common/other.csv data.csv", 0.5, {"tamper": ["not a readable file any more: data.csv"]}),
        ("ln -s ../workspace/calc.py back", 1.0, {}),
    ):
        env.reset(seed=0)
        env.step(f"write calc.py\n{FIXED}")
        env.step(f"bash\n{extra}")
        _, found, _, _, info = env.step("submit")
        assert (found, info["extras"]) == (reward, extras)
    env.close()


def test_names_of_one_file_in_hidden_tests_are_no_change(any_sandboxes: str, tmp_path: Path) -> None:
    folder = small_task(tmp_path / "add")
    (folder / "tests/unit").mkdir()
    (folder / "tests/unit/__init__.py").write_text("")
    os.link(folder / "tests/unit/__init__.py", folder / "tests/z_init.py")
    env = CodeEnv(folder=str(folder))
    env.reset(seed=0)
    env.step(f"write calc.py\n{FIXED}")
    _, reward, _, _, info = env.step("submit")
    env.close()
    assert (reward, info["extras"]) == (1.0, {})


def test_git_history_of_the_task_is_kept(any_sandboxes: str, task: Path) -> None:
    git = task / "workspace/.git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    toml = (task / "task.toml").read_text().partition("[[case]]")[0]
    case = '[[case]]\nargv = ["cat", ".git/HEAD"]\nstdout = "ref: refs/heads/mine"\n'
    (task / "task.toml").write_text(toml + case)
    assert finished(CodeEnv(folder=str(task)), "bash echo 'ref: refs/heads/mine' > .git/HEAD") == (1.0, {})


def test_a_task_below_a_folder_of_any_name_keeps_its_files(tmp_path: Path) -> None:
    folder = tmp_path / ".git/__pycache__/task"
    made(folder / "workspace")
    (folder / "task.toml").write_text(TOML.format(shown="x y"))
    workspace = load(folder)[0].workspace
    assert len(workspace.entries) == 16
    assert {path: entry.kind for path, entry in workspace.entries.items()}["empty/in"] is Kind.FOLDER


def denied(path: Path) -> bytes:
    """Fail as for a user without rights; root, who runs the tests in CI, may read every file."""
    raise PermissionError(13, "Permission denied", str(path))


@pytest.mark.parametrize("special", ["pipe", "closed", "large", "many", "written", "entered", "listed"])
def test_a_task_that_cannot_be_kept_is_refused_by_name(
    tmp_path: Path, special: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwise.envs.worlds.code.task_folder.MAX_TREE_ENTRIES", 3)
    match special:
        case "pipe":
            os.mkfifo(tmp_path / special)
        case "closed":
            (tmp_path / special).touch(mode=0)
            monkeypatch.setattr(Path, "read_bytes", denied)
        case "written":
            (tmp_path / special).touch(mode=0o266)
        case "entered":
            (tmp_path / special).mkdir(mode=0o311)
        case "listed":
            (tmp_path / special).mkdir(mode=0o477)
        case "large":
            with (tmp_path / special).open("wb") as file:
                file.truncate(1 << 40)
        case "many":
            for number in range(4):
                (tmp_path / f"{number}").touch()
    with pytest.raises(BadTask, match=f"{tmp_path}(/{special})? (is|cannot|has the mode 0[234])"):
        read_tree(tmp_path)


def link(target: str) -> Entry:
    return Entry(Kind.LINK, target.encode())


PRISTINE = Tree.of({"main.py": b"import calc", "calc.py": b"", "tests/test.py": b"1", "pyproject.toml": b"[a]"})
TASK = CodeTask("links", "x", PRISTINE, protected=("tests/*",))


@pytest.mark.parametrize(
    ("entries", "tamper"),
    [
        ({"json": link("pkg"), "pkg/__init__.py": Entry.file(b"")}, ["replaces a module: json"]),
        ({"json.py": link("calc.py")}, ["replaces a module: json.py"]),
        ({"conftest.py": link("calc.py")}, ["configuration of the interpreter or the test runner: conftest.py"]),
        ({"tox.ini": link("/etc/tox")}, ["configuration of the test runner: tox.ini"]),
        ({"tox.ini": link("a"), "a": Entry.file(b"[pytest]")}, ["configuration of the test runner: tox.ini"]),
        ({"tox.ini": link("a"), "a": Entry.file(b"[tox]")}, []),
        ({"bin": link("b"), "b/x.py": Entry.file(b"")}, []),
        ({"pyproject.toml": Entry.file(b"[pytest]")}, ["configuration of the test runner: pyproject.toml"]),
        ({"tests": link("mine"), "mine/test.py": Entry.file(b"2")}, ["removed: tests/test.py"]),
        ({"tests/test.py": link("../calc.py")}, ["protected: tests/test.py"]),
        ({"tests/test.py": Entry(Kind.FILE, b"1", 0o600)}, ["protected: tests/test.py"]),
        ({"tests/test.py/x": Entry.file(b"2")}, ["protected: tests/test.py/x", "removed: tests/test.py"]),
        ({"tests/empty": Entry(Kind.FOLDER)}, []),
        ({"tests/test.py": Entry(Kind.FOLDER, b"", 0o755)}, ["removed: tests/test.py"]),
    ],
)
def test_a_link_is_judged_by_that_to_which_it_leads(entries: dict[str, Entry], tamper: list[str]) -> None:
    above = {parent for path in entries for parent in parents(path)}
    left = {path: entry for path, entry in PRISTINE.entries.items() if entries.keys().isdisjoint(parents(path))}
    left = {path: entry for path, entry in left.items() if path not in above}
    found = sanitize(TASK, Tree({**left, **entries}))
    assert list(found.tamper) == tamper
    graded = found.files
    assert graded["tests/test.py"] == b"1"
    assert graded.entries["tests/test.py"].mode == 0o644
    for folder in {parent for path in graded.entries for parent in parents(path)}:
        assert folder not in graded.entries or graded.entries[folder].kind is Kind.FOLDER


def test_links_lead_to_places_in_the_tree_only() -> None:
    links = {
        "up": "a/../a/./b",
        "out": "../a/b",
        "abs": "/a/b",
        "loop": "loop",
        "folder": "a",
        "deep": "folder/b",
        "back": "../w/a/b",
        "whole": "//top/./w/folder/b",
        "higher": "/../top/w/back",
        "all": "../w",
        "above": "..",
        "through": "/usr/../top/w/a/b",
    }
    tree = Tree({"a/b": Entry.file(b"x"), "none": link("c"), **{path: link(target) for path, target in links.items()}})
    found = {path: tree.target(path, "/top/w") for path in tree.entries}
    nowhere = dict.fromkeys(("out", "abs", "loop", "none", "above", "through"))
    there = dict.fromkeys(("a/b", "up", "deep", "back", "whole", "higher"), "a/b")
    assert found == {"folder": "a", "all": "", **there, **nowhere}


def test_a_step_up_from_a_linked_folder_leads_above_its_target() -> None:
    links = {"a/b/up": "../../top", "near": "deep/..", "deep": "a/b", "out": "a/b/up/../..", "loop": "loop"}
    tree = Tree(
        {"a/b/x": Entry.file(b"x"), "top/y": Entry.file(b"y"), **{path: link(to) for path, to in links.items()}}
    )
    assert {path for path in tree.entries if tree.leaves(path, "/work")} == {"out"}
    assert tree.target("near", "/work") == "a"
