"""A program that decides a case on a result of the code under test does not load; one that prints the result does."""

import pytest
from turnwise.envs.worlds.code.checks.deciding_scripts import decision

HEAD = "import sys, calc\na, b = map(int, sys.argv[1:])\ne = a + b\ncoded = 4711 * a + 17 * b\n"
CALC = {"calc.py": b"def add(a, b):\n    return 0\n"}
SOLUTION = {"calc.py": b"def add(a, b):\n    return a + b\n"}
DECIDING = [
    "print(coded if calc.add(a, b) == e else 0)",
    "r = calc.add(a, b)\nif r != e:\n    sys.exit(1)\nprint(coded)",
    "print(coded * (calc.add(a, b) == e))",
    "import hashlib\nprint(hashlib.sha256(f'{coded} {calc.add(a, b) == e}'.encode()).hexdigest())",
    "print(sum(calc.add(n, n) == 2 * n for n in range(a)))",
    "print(coded * calc.add(a, b).__eq__(e))",
    "print(coded if e in [calc.add(a, b)] else 0)",
    "print(coded * [calc.add(a, b)].count(e))",
    "match calc.add(a, b):\n    case 42:\n        print(coded)",
    "while calc.add(a, b) != e:\n    pass\nprint(coded)",
    "print(coded * int(str(calc.add(a, b)) == str(e)))",
    "print(coded if calc.add(a, b) else 0)",
    "r = calc.add(a, b)\nprint(coded if r.__class__ is int and str(r) in [str(e)] else 0)",
    "def main():\n    r = calc.add(a, b)\n    if r != e:\n        return 1\n    print(coded)\nmain()",
    "from calc import add as plus\nif (r := plus(a, b)) == e:\n    print(coded)",
    "if calc.add(2, 3) != 5:\n    sys.exit(1)\nprint(coded)",
    "r = calc.add(a, b)\nif r != e:\n    print(r, 'is wrong')\n    sys.exit(1)\nprint(coded)",
    "s = calc.Stack()\ns.push(a)\nprint(coded if s.pop() == a else 0)",
    "r = calc.add(a, b)\nassert r\nprint(coded)",
    "import calc as c\nq, r = c.divide(a, b)\nprint(coded if e == q else 0)",
    "n = int(input())\nfails = 0\nfor i in range(n):\n    if calc.square(i) != i * i:\n"
    "        fails += 1\nprint(n * 17 - fails)",
    "def ok(a):\n    return calc.square(a) == a * a\nn = int(input())\nprint(n * 71 if ok(n) else -1)",
    "n = int(input())\nprint(n * 31 if all(calc.sq(i) == i * i for i in range(n)) else 0)",
    "n = int(input())\nif n in calc.primes(n): print(n * 31)\nelse: print(0)",
    "class T:\n    def check(self, n):\n        r = calc.sq(n)\n        return r == n * n\n"
    "n = int(input())\nprint(n * 31 * T().check(n))",
    "n = int(input())\nr = calc.sq(n)\nprint(f'{n * 31 if r == n * n else 0}')",
    "import asyncio\nasync def main():\n    n = int(input())\n"
    "    if await calc.sq(n) == n * n:\n        print(n * 31)\nasyncio.run(main())",
    "s = input()\nif calc.decode(calc.encode(s)) == s:\n    print(s[::-1])",
    "s = input()\nif calc.up(s) == s.upper():\n    sys.stdout.write(s[::-1])",
]


@pytest.mark.parametrize("code", DECIDING)
def test_a_program_that_decides_is_found(code: str) -> None:
    workspace = {**CALC, "run.py": (HEAD + code).encode()}
    assert decision(["run.py"], workspace, SOLUTION)
    assert not decision(["run.py"], workspace, {}), "without a solution, nothing is known to be code under test"
    assert not decision(["run.py"], workspace, {**SOLUTION, "run.py": b""}), "code of the agent"
    assert not decision(["run.py"], workspace, {"other.py": b"x"}), "the module is not under test"


@pytest.mark.parametrize(
    ("script", "decides"),
    [
        ('[ "$(python3 -c "import calc; print(calc.add($1, $2))")" = $(($1 + $2)) ] && echo $((4711 * $1))', True),
        ("python3 calc.py > out && diff -q out want && echo $((4711 * $1))", True),
        ("if python3 calc.py | cmp - want; then echo $((4711 * $1)); fi", True),
        ("python3 calc.py || echo $((4711 * $1))", False),
        ("# diff calc.py old.py && echo ok\ndiff old new && exec python3 calc.py", False),
        ('[ "$(uname)" = Linux ] && exec python3 calc.py', False),
        ('[ $# -eq 1 ] || { echo usage >&2; exit 2; }\nexec python3 calc.py "$1"', False),
        ("while read -r line; do\n  python3 calc.py $line\ndone", False),
        ("if [ ! -x prog ]; then make prog; fi\nexec python3 calc.py", False),
        ('cd "$(dirname "$0")" && exec python3 calc.py "$@"', False),
        ("#!/usr/bin/perl\nmy $r = `python3 calc.py`;\nprint $r == $ARGV[0] ? 4711 : 0;", False),
    ],
)
def test_a_script_of_a_shell_that_compares_output_is_found(script: str, decides: bool) -> None:
    path = "run" if script.startswith("#!") else "run.sh"
    assert bool(decision([path], {**CALC, path: script.encode()}, SOLUTION)) is decides


def test_a_module_of_a_package_is_code_under_test() -> None:
    main = b"import sys\nfrom . import core, settings\nprint(4711 * len(sys.argv[1]) * (core.add(2, 3) == 5))\n"
    workspace = {"app/__init__.py": b"", "app/__main__.py": main, "app/core.py": CALC["calc.py"]}
    solution = {"app/core.py": b"x", "app/table.json": b"{}"}
    assert decision(["app/__main__.py"], workspace, solution) == "`app/__main__.py`, line 3,"
    for honest in (
        main.replace(b" == 5", b""),
        main.replace(b"core.add(2, 3) == 5", b"settings.scale() == len(sys.argv)"),
        b"from .core import add\nimport sys\nprint(add(int(sys.argv[1]), 3))\n",
    ):
        assert not decision(["app/__main__.py"], {**workspace, "app/__main__.py": honest}, solution)
