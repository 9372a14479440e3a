"""Files that configure or replace what grades a submission are refused in every spelling; honest files are not."""

import importlib.machinery

import pytest
from turnwise.envs.code.grading.forbidden import MAX_TOML_BYTES, MODULE_SUFFIXES, forbidden

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
UNPARSABLE = (b"[tool.", b"\xff\xfe", b"a = " + b"[" * 5000, b"a = " + b"1" * 5000, b"#" * (MAX_TOML_BYTES + 1))


@pytest.mark.parametrize("content", PYTEST)
def test_every_spelling_of_pytests_section_is_refused(content: str) -> None:
    assert forbidden("pyproject.toml", content.encode(), {}, {}) == "configuration of the test runner"


@pytest.mark.parametrize("content", UNPARSABLE, ids=range(len(UNPARSABLE)))
def test_a_file_that_does_not_parse_is_refused(content: bytes) -> None:
    assert forbidden("sub/pyproject.toml", content, {}, {}) == "configuration that cannot be parsed"


@pytest.mark.parametrize("content", ["", "tool = 3", "[project]\nname = 'pytest'", "[tool.ruff]\nline-length = 3"])
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
