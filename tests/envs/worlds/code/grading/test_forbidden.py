"""Files that configure or replace what grades a submission are refused in every spelling; honest files are not."""

import importlib.machinery
import time

import pytest
from turnwise.envs.worlds.code.checks.calls import CallCase
from turnwise.envs.worlds.code.grading.forbidden import (
    MAX_TOML_BYTES,
    MODULE_SUFFIXES,
    forbidden,
    sanitize,
    tampering_outside,
)
from turnwise.envs.worlds.code.grading.grade import grade
from turnwise.envs.worlds.code.task import Case, CodeTask
from turnwise.sandbox import Entry, Kind, Tree

TASK = CodeTask(
    name="add",
    instruction="add",
    workspace=Tree.of({"calc.py": b"", "judge.py": b"", "lib/fixed.py": b""}),
    cases=(
        CallCase("judge.twice(20)", "40"),
        Case(("python3", "run_it.py"), b"51", files={"run_it.py": b"import driver", "driver.py": b"print(51)"}),
    ),
    protected=("judge.py", "lib/*"),
)

PYTEST = (
    "[tool.pytest.ini_options]\naddopts = '--co'",
    "[tool . pytest . ini_options]\naddopts = '--co'",
    "[ tool.'pytest' ]\nini_options = {addopts = '--co'}",
    '["tool"."pytest"."ini_options"]\naddopts = "--co"',
    '["\\u0074ool".pytest.ini_options]\naddopts = "--co"',
    "[tool]\npytest = {ini_options = {addopts = '--co'}}",
    "[tool]\npytest.ini_options.addopts = '--co'",
    "tool.pytest.ini_options.addopts = '--co'",
    "tool = {pytest = {ini_options = {addopts = '--co'}}}",
    "[tool.pytest]\naddopts = ['--co']",
    "[[tool.pytest]]",
)


@pytest.mark.parametrize("content", PYTEST)
def test_every_spelling_of_pytests_section_is_refused(content: str) -> None:
    assert forbidden("pyproject.toml", content.encode(), {}, {}) == "configuration of the test runner"


def test_a_large_file_is_refused() -> None:
    content = b"#" * (MAX_TOML_BYTES + 1)
    assert forbidden("sub/pyproject.toml", content, {}, {}) == "configuration that is too large"


def test_a_key_of_many_parts_takes_linear_time() -> None:
    """A TOML parser takes a second for each of these files, which an agent can leave by the hundred."""
    content = b"a" + b".a" * (MAX_TOML_BYTES // 2 - 4) + b"=1"
    began = time.process_time()
    files = {**TASK.workspace, **{f"p{number}/pyproject.toml": content for number in range(60)}}
    assert sanitize(TASK, files).files == files
    assert tampering_outside(Tree.of(files)) == ()
    assert time.process_time() - began < 1


@pytest.mark.parametrize("entry", [Entry(Kind.LINK, b"/workspace/x"), Entry(Kind.LOST, b"permission denied")])
def test_what_is_not_a_file_is_reported_outside_the_work_folder_too(entry: Entry) -> None:
    tree = Tree({".bashrc": entry, "notes": entry, ".local/bin/python3": entry, ".local": Entry(Kind.FOLDER)})
    assert tampering_outside(tree) == (
        "configuration of the shell, outside the work folder: .bashrc",
        "replaces a command, outside the work folder: .local/bin/python3",
    )


@pytest.mark.parametrize("content", ["", "tool = 3", "[tool.", "[tool.ruff]\nline-length = 3"])
def test_other_configuration_is_allowed(content: str) -> None:
    assert forbidden("pyproject.toml", content.encode(), {}, {}) == ""


@pytest.mark.parametrize("name", ["pytest.toml", ".pytest.toml", "pytest.ini", "conftest.py", "a.pth"])
def test_pytests_own_files_are_refused(name: str) -> None:
    assert forbidden(name, b"", {}, {})


TAGGED = (".cpython-39-aarch64-linux-gnu.so", ".pypy310-pp73-x86_64-linux-gnu.so")
SUFFIXES = (*importlib.machinery.all_suffixes(), *TAGGED)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("form", ["pathlib{}", "pathlib/__init__{}", "checks/pathlib{}"])
def test_a_module_of_the_standard_library_is_refused_under_any_suffix(suffix: str, form: str) -> None:
    path = form.format(suffix)
    assert forbidden(path, b"", {path: b""}, {})
    assert suffix.endswith(MODULE_SUFFIXES)


def test_a_module_inside_a_package_is_allowed() -> None:
    tree = {"mine/__init__.py": b"", "mine/types.py": b""}
    assert forbidden("mine/types.py", b"", tree, {}) == ""
    assert forbidden("mine/types.py", b"x", tree, tree) == ""
    assert forbidden("mine/__pycache__/types.cpython-311.pyc", bytes(16), tree, tree) == ""
    assert forbidden("mine/json/__init__.py", b"", {**tree, "mine/json/__init__.py": b""}, {}) == ""


def test_a_folder_of_scripts_does_not_become_a_package() -> None:
    pristine = {"checks/run.py": b"import json"}
    left = {**pristine, "checks/__init__.py": b"", "checks/json.py": b""}
    assert forbidden("checks/json.py", b"", left, pristine) == "replaces a module"
    assert forbidden("checks/mine.py", b"", left, pristine) == ""


@pytest.mark.parametrize(
    "path",
    ["judge/__init__.py", "judge.abi3.so", "judge/__init__.abi3.so", "driver/__init__.py", "lib/fixed/__init__.py"],
)
def test_a_script_of_the_grading_is_not_hidden_by_a_package(path: str) -> None:
    found = sanitize(TASK, {**TASK.workspace, path: b"twice = lambda x: 2 * x"})
    assert found.files == TASK.workspace
    assert len(found.tamper) == 1


BODY = Entry.file(b"twice = lambda x: 2 * x")
PACKAGE = {"pkg/__init__.py": BODY, "pkg/__init__.txt": BODY}


def link(target: str) -> Entry:
    return Entry(Kind.LINK, target.encode())


WAYS = (
    "pkg ./pkg /workspace/pkg ../workspace/pkg //workspace/./pkg other top/pkg /workspace/top/pkg linked "
    "/proc/self/cwd/pkg ../proc/self/cwd/pkg /usr/../workspace/pkg /bin/../../workspace/pkg"
)


@pytest.mark.parametrize("target", WAYS.split())
@pytest.mark.parametrize("name", ["judge", "driver", "json", "lib/fixed"])
def test_a_link_to_a_package_is_that_package_on_any_way(name: str, target: str) -> None:
    more = {"other": link("/workspace/pkg"), "top": link("/workspace"), "linked/__init__.py": link("../mine.py")}
    target = target if target.startswith("/") or "/" not in name else f"../{target}"
    left = {**TASK.workspace.entries, **PACKAGE, **more, "mine.py": BODY}
    found = sanitize(TASK, Tree({**left, name: link(target)}))
    assert found.files.entries == left
    assert found.tamper in ((f"replaces a module: {name}",), (f"protected: {name}",))


def test_a_link_to_the_work_folder_is_a_package_if_that_is_one() -> None:
    left = {**TASK.workspace.entries, "judge": link(".")}
    assert sanitize(TASK, Tree(left)).tamper == ()
    assert sanitize(TASK, Tree({**left, "__init__.py": BODY})).tamper == ("replaces a module: judge",)


@pytest.mark.parametrize("target", ["/workspace/pkg", "../workspace/pkg", "/usr/share/x", "gone", "/workspace/lib"])
def test_a_link_of_another_name_is_kept(target: str) -> None:
    left = Tree({**TASK.workspace.entries, **PACKAGE, "mine": link(target), "data.csv": link(target)})
    assert sanitize(TASK, left).files == left
    assert sanitize(TASK, left).tamper == ()


@pytest.mark.parametrize("target", ["a", "/workspace/a", "../workspace/a"])
def test_a_linked_configuration_is_judged_by_its_content(target: str) -> None:
    for content, tamper in ((b"[tox]", ()), (b"[pytest]", ("configuration of the test runner: tox.ini",))):
        left = Tree({**TASK.workspace.entries, "a": Entry.file(content), "tox.ini": link(target)})
        assert sanitize(TASK, left).tamper == tamper


@pytest.mark.parametrize("path", ["driver.py", "sub/judge.py", "fixed.py", "judges/__init__.py"])
def test_a_module_of_another_place_is_kept(path: str) -> None:
    assert path in sanitize(TASK, {**TASK.workspace, path: b""}).files


def test_files_that_use_up_the_time_fail_without_a_sandbox() -> None:
    """A lease would raise after the end of the step, which would count as a failure of the environment."""
    verdict = grade(TASK, TASK.workspace, until=time.monotonic() - 1)
    assert (verdict.passed, verdict.total, verdict.timed_out) == (0, 2, True)
