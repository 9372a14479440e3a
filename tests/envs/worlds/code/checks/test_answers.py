"""Cases that code can pass without a solution do not load, and the message names what to write; honest cases load."""

import json
from pathlib import Path

import pytest
from turnwise.envs.worlds.code.task_folder import BadTask, load
from turnwise.tests.envs.worlds.code.small_task import small_task, write

WORKSPACE = {
    "workspace/check.py": "import calc\nprint('sums agree' if calc.add(2, 3) == 5 else 'sums differ')\n",
    "workspace/check.sh": "python3 calc.py; echo rc=$?\n",
    "workspace/judge.py": "import calc\n\ndef verify(how):\n    return how + ': good' if calc.add(2, 3) == 5 else ''\n",
    "workspace/names.py": "import sys, calc\nprint(sys.argv[1] + ': ' + ('holds' if calc.add(2, 3) == 5 else ''))\n",
    "workspace/expected.txt": "violet 7421\namber 993\n",
    "workspace/suite.py": "import calc, sys\nassert calc.add(2, 3) == 5\nprint(len(sys.argv[1]), 'hold')\n",
    "workspace/suite.sh": "python3 -m pytest -q pkg\n",
    "workspace/expected/1.txt": "6211\n",
    "workspace/expected/2.txt": "6212\n",
    "workspace/locked/check.py": "import calc\nprint(calc.add(2000, 345))\n",
    "workspace/pkg/__init__.py": "",
    "workspace/pkg/locked.py": "",
    "workspace/cli/__main__.py": "print(input()[::-1])\n",
    "workspace/main.py": "import sys\nfor line in sys.stdin:\n    print(line)\n",
    "workspace/slug.py": "def of(text):\n    return text\n",
}
HEAD = "instruction = 'Sort the 88 words of calc.py.'\nprotected = ['locked/*', 'pkg/locked.py']\n"
TESTS = "asserts or runs tests"
COMMAND, SCRIPT, PLACE, PROTECTED = "neither runs a program", "holds the script", "neither workspace/", "is `protected`"
SAME, GUESSED, NOTHING = "expects the same answer", "can be guessed", "compares no answer"


def command(*argv: str, out: str = "7421", stdin: str = "", **more: object) -> str:
    keys = {"argv": [*argv], "stdout": out, "stdin": stdin, **more}
    return "[[case]]\n" + "".join(f"{key} = {inline(value)}\n" for key, value in keys.items())


def inline(value: object) -> str:
    """Return a value as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {json.dumps(text)}" for key, text in value.items()) + "}"
    return json.dumps(value)


def call(source: str, returns: object = None, raises: str = "") -> str:
    outcome = f"raises = {json.dumps(raises)}" if raises else f"returns = {json.dumps(repr(returns))}"
    return f"[[case]]\ncall = {json.dumps(source)}\n{outcome}\n"


PRINT = "import calc; print({})"
ONE_OF_TWO = "'right' if calc.add(2, 3) == 5 else 'wrong'"
FORGEABLE = {
    "an exit code": (command("python3", "main.py", out=""), NOTHING),
    "an exit code other than 0": (command("python3", "main.py", out=" \n", exit_code=3), NOTHING),
    "a comparison by diff": (command("diff", "out.txt", "expected.txt", out="x"), COMMAND),
    "an exit code that a shell prints": (command("sh", "-c", "python3 calc.py; echo rc=$?", out="rc=0"), COMMAND),
    "an exit code that a script prints": (command("sh", "check.sh", out="rc=0"), SAME),
    "exit codes that a script prints": (
        command("sh", "check.sh", out="rc=0") + command("sh", "check.sh", out="rc=3", stdin="a"),
        GUESSED,
    ),
    "one of two words": (command("python3", "-c", PRINT.format(ONE_OF_TWO), out="right"), COMMAND),
    "one of two words in parts": (command("python3", "-c", PRINT.format("'ri' + 'ght'"), out="right"), COMMAND),
    "options before the code": (command("python3", "-I", "-c", PRINT.format(ONE_OF_TWO), out="right"), COMMAND),
    "code on the standard input": (command("python3", "-", stdin=PRINT.format(ONE_OF_TWO), out="right"), COMMAND),
    "an interpreter alone": (command("sh", stdin="python3 check.py", out="right"), COMMAND),
    "a command before the interpreter": (command("env", "python3", "-c", "print(1)", out="right"), COMMAND),
    "a test runner": (command("pytest", "locked/check.py", out="3 passed"), COMMAND),
    "a module of Python": (command("python3", "-m", "pytest", "pkg", out="3 passed"), PLACE),
    "a build tool": (command("make", "check", out="42 hold"), COMMAND),
    "an absolute path": (command("/usr/bin/python3", "check.py", out="42 hold"), PLACE),
    "a script of the case": (command("python3", "t.py", files={"t.py": "print(1)"}), SCRIPT),
    "a script of the case with a plain name": (command("./t", files={"t": "#!/bin/sh\necho 42 hold\n"}), SCRIPT),
    "a script of the case without a mark": (command("python3", "t.txt", files={"t.txt": "print(1)"}), SCRIPT),
    "a program that the case replaces": (command("cat", "expected.txt", files={"expected.txt": "7421"}), SCRIPT),
    "a module of the case": (command("python3", "main.py", files={"helper.py": "x = 1"}), SCRIPT),
    "a protected script": (command("python3", "locked/check.py", out="2345"), PROTECTED),
    "a protected script by another path": (command("python3", "./locked/check.py", out="2345"), PROTECTED),
    "a protected module": (call("pkg.locked.verify()", 7421), PROTECTED),
    "a check script that the agent may edit": (command("python3", "check.py", out="sums agree"), SAME),
    "a check script with names and a count": (
        "".join(command("python3", "names.py", name, out=f"{name}: 17 hold") for name in ("amber", "violet", "teal")),
        GUESSED,
    ),
    "a check script with a count": (command("python3", "check.py", out="17 of 17 sums agree"), SAME),
    "a check script with names": (
        "".join(command("python3", "names.py", name, out=f"{name}: holds") for name in ("amber", "violet")),
        SAME,
    ),
    "a check script with names on its input": (
        "".join(command("python3", "names.py", stdin=name, out=f"{name}: holds") for name in ("amber", "violet")),
        SAME,
    ),
    "a check function": (call("judge.verify('a')", "a: good") + call("judge.verify('b')", "b: good"), SAME),
    "a function of an installed module": (call("pytest.main(['pkg'])", 0), PLACE),
    "an expected file in the workspace": (command("cat", "expected.txt", out="violet 7421\namber 993"), SAME),
    "verdicts": (command("python3", "check.py", out="OK\n\nAll tests pass"), SAME),
    "two verdicts": (command("sh", "check.sh", out="pass") + command("sh", "check.sh", "x", out="ok"), GUESSED),
    "one constant": (call("calc.add(2, 3)", 51) + call("calc.add(2, 4)", 51), SAME),
    "one case of one digit": (call("calc.add(2, 3)", 5), SAME),
    "one case without arguments": (call("calc.total()", 51), SAME),
    "one case with a word": (call("calc.name(20)", "violet"), SAME),
    "a printed comparison": (command("python3", "-c", "import calc; print(calc.add(2, 3) == 5)", out="True"), COMMAND),
    "a printed call of another's result": (command("python3", "-c", PRINT.format("calc.add(calc.x)")), COMMAND),
    "a printed call after other code": (
        command("python3", "-c", "import calc; calc.add = int; print(calc.add(51))", out="51"),
        COMMAND,
    ),
    "a printed verdict": (command("python3", "-c", "import judge; print(judge.verify('a'))", out="a: good"), SAME),
    "a printed call of Python": (command("python3", "-c", "import os; print(os.getpid())", out="4711"), PLACE),
    "an exception": (call("calc.add(2)", raises="TypeError"), SAME),
    "None": (call("calc.find(1)") + call("calc.find(2)"), SAME),
    "empty results": (call("calc.find(1)", []) + call("calc.find(2)", []), SAME),
    "True and False": (call("calc.even(2)", True) + call("calc.even(3)", False), GUESSED),
    "yes and no": (
        command("python3", "main.py", stdin="2", out="yes") + command("python3", "main.py", stdin="3", out="no"),
        GUESSED,
    ),
    "the input again": (
        command("python3", "main.py", stdin="violet 31", out="violet 31")
        + command("python3", "main.py", stdin="teal 52", out="teal 52"),
        SAME,
    ),
}


@pytest.mark.parametrize("shape", FORGEABLE)
def test_a_case_that_proves_nothing_is_refused(tmp_path: Path, shape: str) -> None:
    cases, message = FORGEABLE[shape]
    folder = write(small_task(tmp_path / "add", toml=HEAD + cases, hidden=""), WORKSPACE)
    with pytest.raises(BadTask, match=message):
        load(folder)
    trusted = HEAD.replace("\n", "\ntrusted = true\n", 1)
    load(write(folder, {"task.toml": trusted + cases}))


BIG = "".join(f"{number}\n" for number in range(100, 130))
HONEST = {
    "sums": call("calc.add(2, 3)", 5) + call("calc.add(20, 22)", 42),
    "one sum": call("calc.add(20, 31)", 51),
    "one printed sum": command("python3", "-c", PRINT.format("calc.add(20, 22)"), out="42"),
    "printed sums": command("python3", "-c", "from calc import add; print(add(2, 3), add(b=4, a=5))", out="5 9")
    + command("python3", "-c", "import calc; print(calc.add(20, 31)); print(calc.add(1, 1))", out="51\n2"),
    "a missing value": call("calc.find(2)") + call("calc.find(3)", 371),
    "an exception": call("calc.find(2)", raises="KeyError") + call("calc.find(3)", 371),
    "a predicate": "".join(call(f"calc.is_prime({number})", number in (2, 3, 5, 7)) for number in range(2, 10)),
    "a filter": command("python3", "main.py", stdin=BIG, out=BIG[:40])
    + command("python3", "main.py", stdin=BIG, out=BIG[44:80]),
    "sorted words": command("python3", "main.py", stdin="teal\namber\nrose\n", out="amber\nrose\nteal\n")
    + command("python3", "main.py", stdin="plum\nmint\noak\n", out="mint\noak\nplum\n"),
    "a module": command("python3", "-m", "cli", stdin="b", out="61") + command("python3", "-m", "cli", out="98"),
    "a program to be written": command("./calc.py", "20", out="61") + command("./calc.py", "21", out="98"),
    "a long text without an input": command("python3", "main.py", out=BIG),
    "text in another form": call("slug.of('Good Morning')", "good-morning")
    + call("slug.of(' A  new Day ')", "a-new-day"),
    "text in capitals": call("slug.up('good')", "GOOD") + call("slug.up('new day, old day')", "NEW DAY, OLD DAY"),
    "a greeting": command("python3", "main.py", "Ada", out="Welcome back, Ada!")
    + command("python3", "main.py", "Bob", out="Welcome back, Bob!"),
    "a file that the agent writes": command("cat", "calc.py", out="7421 9931"),
    "a data file": command("python3", "main.py", out="61", files={"data.csv": "1,2"})
    + command("python3", "main.py", out="98", files={"data.csv": "3,4"}),
    "a method of a package": call("pkg.Sum.of(2)", 61) + call("pkg.Sum.of(3)", 98),
}


@pytest.mark.parametrize("shape", HONEST)
def test_honest_cases_load(tmp_path: Path, shape: str) -> None:
    assert load(write(small_task(tmp_path / "add", toml=HEAD + HONEST[shape], hidden=""), WORKSPACE))[0].cases
