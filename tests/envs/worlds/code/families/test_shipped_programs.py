"""Every program, script and settings file that a family puts before the agent is read and run by what it is for.

CI runs the programs of one seed per family; the soak runs more.
``show.py`` of the family ``setting`` had a syntax error in every instance, and the instruction names it.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from turnwise.envs.worlds.code.checks.file_checks import settings
from turnwise.envs.worlds.code.instances import FAMILIES, draw
from turnwise.envs.worlds.code.task import CodeTask, changed
from turnwise.sandbox import Tree
from turnwise.tests.envs.worlds.code.families.test_wrong_solutions import output

SEEDS = 12
"""Enough for each kind of each family."""
INTENDED = ("NotImplementedError",)
"""Exceptions of the programs that the agent has to write."""


def trees(task: CodeTask) -> list[Tree]:
    """Return the files as the agent gets them, and after the solution and each wrong solution."""
    changes = [{}, task.solution or {}, *task.mutations.values()]
    return [changed(task.workspace, change) for change in changes]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_file_of_a_family_is_valid(family: str) -> None:
    for seed in range(SEEDS):
        for files in trees(draw(seed, "train", family)):
            for path, content in files.items():
                if path.endswith(".py"):
                    compile(content, path, "exec")
                elif path.endswith(".sh"):
                    subprocess.run(["sh", "-n"], input=content, check=True)
                elif path.endswith((".ini", ".json", ".env")):
                    assert settings(path, content)
                else:
                    assert path.endswith((".txt", ".md")), f"no test reads {path}"


@pytest.mark.parametrize("seeds", [1, pytest.param(3, marks=pytest.mark.soak)])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_program_of_a_family_runs(tmp_path: Path, family: str, seeds: int) -> None:
    """As the agent gets it, a program reads the example and ends as intended, whatever it prints."""
    for seed in range(seeds):
        task = draw(seed, "train", family)
        named = re.findall(r"`(python3|sh) ([\w/.]+)`", task.instruction)
        programs = {path for path in task.workspace if path.endswith((".py", ".sh"))}
        assert programs
        assert {path for _, path in named} <= programs
        stdin = next((case.stdin for case in task.cases if "main.py" in case.argv or "sh" in case.argv), b"")
        stdin = stdin or example(task.instruction)
        for path in sorted(programs):
            command = "sh" if path.endswith(".sh") else sys.executable
            folder = tmp_path / str(seed) / path.replace("/", "-")
            code, _ = output([command, path], stdin, dict(task.workspace), folder)
            errors = subprocess.run([command, path], input=stdin, capture_output=True, cwd=folder, check=False).stderr
            is_intended = any(name in errors.decode() for name in INTENDED) or family in ("command", "parsing")
            assert code == 0 or is_intended, errors.decode()


def example(instruction: str) -> bytes:
    """Return the input that an instruction shows."""
    shown = instruction.partition("For example, from\n\n")[2].partition("\nit must make")[0]
    return "".join(f"{line.removeprefix('    ')}\n" for line in shown.splitlines()).encode()


@pytest.mark.parametrize("seeds", [1, pytest.param(4, marks=pytest.mark.soak)])
def test_the_ports_are_shown_as_the_checker_reads_them(tmp_path: Path, seeds: int) -> None:
    for seed in range(seeds):
        task = draw(seed, "train", "setting")
        for number, files in enumerate(trees(task)):
            code, said = output(["python3", "show.py"], b"", files, tmp_path / f"{seed}-{number}")
            expected = []
            for path in (path for path in files if path.startswith("config/")):
                name, found = path.removeprefix("config/"), settings(path, files[path])
                if path.endswith(".env"):
                    ports = {key.removesuffix("_PORT").lower(): port for key, port in found.items() if "_PORT" in key}
                else:
                    services = found["services"] if path.endswith(".json") else found
                    ports = {service: values["port"] for service, values in services.items() if values}
                expected += [f"{name} {service} {port}" for service, port in ports.items()]
            assert (code, said.decode().splitlines()) == (0, sorted(expected))
            assert len(expected) == 9
