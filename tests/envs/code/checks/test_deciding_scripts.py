"""A script of the task that decides on a value of the code under test does not load; one that prints the value does."""

import pytest
from turnwise.envs.code.checks.deciding_scripts import decision

HEAD = "import sys, calc\na, b = map(int, sys.argv[1:])\ne = a + b\ncoded = 4711 * a + 17 * b\n"
HELPER = """
def same(r, e):
    return r == e
def check(a, b, coded):
    import calc
    return coded if calc.add(a, b) == a + b else 0
"""
CALC = {"calc.py": b"def add(a, b):\n    return 0\n"}
SOLUTION = {"calc.py": b"def add(a, b):\n    return a + b\n"}
DECIDING = [
    "print(coded if calc.add(a, b) == e else 0)",
    "r = calc.add(a, b)\nif r != e:\n    sys.exit(1)\nprint(coded)",
    "print(coded * (calc.add(a, b) == e))",
    "import hashlib\nprint(hashlib.sha256(f'{coded} {calc.add(a, b) == e}'.encode()).hexdigest())",
    "print(sum(calc.add(n, n) == 2 * n for n in range(a)))",
    "import operator\nprint(coded * operator.eq(calc.add(a, b), e))",
    "print(coded * calc.add(a, b).__eq__(e))",
    "print({e: coded}.get(calc.add(a, b)))",
    "print({e: coded}[calc.add(a, b)])",
    "print({calc.add(a, b): coded}.get(e))",
    "print(coded if e in [calc.add(a, b)] else 0)",
    "print(coded * [calc.add(a, b)].count(e))",
    "print(coded if len({calc.add(a, b), e}) == 1 else 0)",
    "match calc.add(a, b):\n    case 42:\n        print(coded)",
    "import helper\nprint(coded if helper.same(calc.add(a, b), e) else 0)",
    "import helper\nprint(helper.check(a, b, coded))",
    "print(coded if not calc.add(a, b) - e else 0)",
    "print(coded * (calc.add(a, b) // e))",
    "from calc import *\nprint(coded if add(a, b) == e else 0)",
    "import importlib\nm = importlib.import_module('calc')\nprint(coded if m.add(a, b) == e else 0)",
    "exec(open('calc.py').read())\nprint(coded if add(a, b) == e else 0)",
    "import subprocess\nif subprocess.run(['python3', 'calc.py']).returncode == 0:\n    print(coded)",
    "def value(r):\n    return coded if r == e else 0\nprint(value(calc.add(a, b)))",
    "same = lambda r: r == e\nprint(coded * same(calc.add(a, b)))",
    "class T:\n    pass\nt = T()\nt.r = calc.add(a, b)\nprint(coded if t.r == e else 0)",
    "r = []\nr.append(calc.add(a, b))\nprint(coded if r == [e] else 0)",
    "print([coded for r in [calc.add(a, b)] if r == e][0])",
    "while calc.add(a, b) != e:\n    pass\nprint(coded)",
    "print(coded * int(str(calc.add(a, b)) == str(e)))",
    "print(coded if calc.add(a, b) else 0)",
    "import math\nprint(coded * math.isclose(calc.add(a, b), e))",
    "try:\n    {e: 1}[calc.add(a, b)]\n    print(coded)\nexcept KeyError:\n    print(0)",
    "r = calc.add(a, b)\nprint(coded if r.__class__ is int and str(r) in [str(e)] else 0)",
]
PRINTING = [
    "print(calc.add(a, b))",
    "if __name__ == '__main__' and a != b:\n    print(calc.add(a, b), f'{calc.add(b, a):d}')",
    "r = calc.add(a, b)\nif r is None:\n    print('none')\nelse:\n    print(r)",
    "total = 0\nfor r in [calc.add(a, b), calc.add(b, a)]:\n    total += r\nprint('%d' % total)",
    "import json\njson.dump({'sum': calc.add(a, b)}, sys.stdout)",
    "print({'add': calc.add, 'sub': calc.sub}[sys.argv[0]](a, b))",
    "print(getattr(calc, 'add')(a, b).real)",
    "try:\n    print(calc.add(a, b))\nexcept ValueError as error:\n    print('error', error)",
    "class App:\n    def __init__(self, n):\n        self.n = n\n    def run(self):\n        if len(self.n) != 2:\n"
    "            return 0\n        return calc.add(*self.n)\nprint(App([a, b]).run())",
    "print(calc.count([a, b]))",
]


@pytest.mark.parametrize("code", DECIDING)
def test_a_script_that_decides_is_found(code: str) -> None:
    workspace = {**CALC, "run.py": (HEAD + code).encode(), "helper.py": HELPER.encode()}
    assert decision(["run.py"], workspace, SOLUTION)
    assert decision(["run.py"], workspace, {}), "without a solution, other files are code under test"
    assert not decision(["run.py"], workspace, {**SOLUTION, "run.py": b"", "helper.py": b""}), "code of the agent"


@pytest.mark.parametrize("code", PRINTING)
def test_a_script_that_prints_is_not_found(code: str) -> None:
    assert not decision(["run.py"], {**CALC, "run.py": (HEAD + code).encode()}, SOLUTION)


@pytest.mark.parametrize(
    ("script", "decides"),
    [
        ('[ "$(python3 -c "import calc; print(calc.add($1, $2))")" = $(($1 + $2)) ] && echo $((4711 * $1))', True),
        ("python3 calc.py > out\ndiff -q out want && echo $((4711 * $1))", True),
        ("python3 calc.py || echo $((4711 * $1))", True),
        ("r=$(python3 calc.py)\ncase $r in $(($1 + $2))) echo $((4711 * $1));; esac", True),
        ("#!/usr/bin/perl\nmy $r = `python3 calc.py`;\nprint $r == $ARGV[0] ? 4711 : 0;", True),
        ('cd "$(dirname "$0")" && exec python3 calc.py "$@"', False),
        ("if [ -z $1 ]; then exit 2; fi; echo $1", False),
    ],
)
def test_a_script_of_a_shell_that_decides_is_found(script: str, decides: bool) -> None:
    assert bool(decision(["run.sh"], {**CALC, "run.sh": script.encode()}, SOLUTION)) is decides


def test_a_module_of_a_package_is_code_under_test() -> None:
    main = b"import sys\nfrom . import core\nprint(4711 * len(sys.argv[1]) * (core.add(2, 3) == 5))\n"
    workspace = {"app/__init__.py": b"", "app/__main__.py": main, "app/core.py": CALC["calc.py"]}
    assert decision(["app/__main__.py"], workspace, {"app/core.py": b"x"}) == "`app/__main__.py`, line 3,"
    honest = {**workspace, "app/__main__.py": main.replace(b" == 5", b"")}
    assert decision(["app/__main__.py"], honest, {"app/core.py": b"x"}), "a product with a value of the input"
    honest["app/__main__.py"] = b"from .core import add\nimport sys\nprint(add(int(sys.argv[1]), 3))\n"
    assert not decision(["app/__main__.py"], honest, {"app/core.py": b"x"})


def test_the_line_is_named() -> None:
    workspace = {**CALC, "run.py": b"import calc\n\nprint(calc.add(2, 3) == 5)\n"}
    assert decision(["run.py"], workspace, SOLUTION) == "`run.py`, line 3,"
