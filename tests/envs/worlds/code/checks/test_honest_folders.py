"""Honest task folders load: ordinary command lines, other languages, helper modules, and data that a program reads."""

import random
import time

import pytest
from turnwise.envs.worlds.code.checks.calls import CallCase
from turnwise.envs.worlds.code.checks.readable_answers import holders, positions
from turnwise.envs.worlds.code.task import Case, CodeTask
from turnwise.sandbox import Tree
from turnwise.tests.envs.worlds.code.checks.honest_programs import PROGRAMS

BANK = {
    "bank/__init__.py": "from .api import transfer\n",
    "bank/api.py": "from .calc import fee\n\ndef transfer(a):\n    cost = fee(a)\n    if cost > a:\n"
    "        raise ValueError\n    return a - cost\n",
    "bank/calc.py": "def fee(a):\n    return 0\n",
}
SCRIPTS = {
    "main.js": "const { solve } = require('./calc.js');\nif (process.argv.length < 3) process.exit(2);\n"
    "console.log(solve());\n",
    "main.rb": "require_relative 'calc'\nabort 'usage' if ARGV.empty?\nif ARGV[0] == '-h'\n  exit\nend\n"
    "puts solve(ARGV[0])\n",
    "main.pl": "require './calc.pl';\nif (@ARGV < 1) { die 'usage' }\nprint solve($ARGV[0]);\n",
    "main.sh": 'while read -r line; do\n  ./calc.sh "$line"\ndone\n[ $# -eq 1 ] || exit 2\n',
}
INTERPRETERS = {"js": "node", "rb": "ruby", "pl": "perl", "sh": "sh"}
STOCK = {"apple": 431, "pear": 977, "plum": 1203, "quince": 5519, "cherry": 872}
INVENTORY = "name,stock,price\n" + "".join(f"{name},{count},{count % 97}\n" for name, count in STOCK.items())


def check(files: dict[str, str], solution: dict[str, str], cases: tuple[Case | CallCase, ...]) -> None:
    """Check the cases of a task."""
    workspace = Tree.of({path: text.encode() for path, text in files.items()})
    changed = {path: text.encode() for path, text in solution.items()}
    CodeTask("t", "Do it.", workspace, cases, solution=changed).check_cases()


def runs(*argv: str) -> tuple[Case, ...]:
    """Return cases of a program."""
    return tuple(Case((*argv, given), answer) for given, answer in (("2311", b"64231"), ("31", b"13337")))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_an_honest_task_loads(name: str) -> None:
    files = {"calc.py": "", "main.py": PROGRAMS[name], "config.json": "{}", **BANK}
    check(
        files, {"calc.py": "x = 1\n", "bank/calc.py": "x = 1\n", "prog.c": "int main(){}"}, runs("python3", "main.py")
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_another_language_is_not_judged(script: str) -> None:
    suffix = script.rpartition(".")[2]
    check({script: SCRIPTS[script], f"calc.{suffix}": ""}, {f"calc.{suffix}": "x"}, runs(INTERPRETERS[suffix], script))


def test_a_module_behind_a_call_is_not_judged() -> None:
    cases = (CallCase("bank.transfer(5000)", "4850"), CallCase("bank.transfer(12000)", "11640"))
    check(BANK, {"bank/calc.py": "def fee(a):\n    return a * 3 // 100\n"}, cases)
    check(BANK, {}, cases)


@pytest.mark.parametrize("names", ["solution", "program", "case"])
def test_data_that_a_program_reads_holds_no_answers(names: str) -> None:
    program = "import sys, stock\nprint(stock.of({}, sys.argv[1]))\n"
    files = {"inventory.csv": INVENTORY, "main.py": program.format("'inventory.csv'" if names == "program" else "0")}
    solution = {"stock.py": "def of(path, name):\n    return open({}).read()\n"}
    solution["stock.py"] = solution["stock.py"].format("'inventory.csv'" if names == "solution" else "path")
    argv = ["python3", "main.py", *(["inventory.csv"] if names == "case" else [])]
    cases = tuple(Case((*argv, name), str(STOCK[name]).encode()) for name in ("apple", "pear", "quince"))
    check(files, solution, cases)
    unnamed = {"other.csv": INVENTORY, **{path: text for path, text in files.items() if path != "inventory.csv"}}
    with pytest.raises(ValueError, match=r"`workspace/other.csv` holds the answers of 3 of 3 cases"):
        check(unnamed, solution, cases)


def grid(stream: random.Random, size: int) -> list[str]:
    return [stream.choice("01") for _ in range(size * size)]


@pytest.mark.parametrize("size", [6, 12, 70])
def test_a_grid_of_few_words_holds_no_answer_by_chance_and_takes_no_time(size: int) -> None:
    stream = random.Random(5)
    cases = [(grid(stream, size), grid(stream, size)) for _ in range(6)]
    began = time.process_time()
    assert holders(cases, {"example": positions(grid(stream, 70))}) == [""] * 6
    assert time.process_time() - began < 2


def test_rows_of_digits_hold_no_answer_by_chance() -> None:
    stream = random.Random(5)
    rows = [[str(stream.randint(0, 9)) for _ in range(4)] for _ in range(8)]
    data = [str(stream.randint(0, 9)) for _ in range(1200)]
    assert holders([(row, sorted(row)[:2]) for row in rows], {"data": positions(data)}) == [""] * 8
    table = [word for row in rows for word in (*row, *sorted(row)[:2])]
    assert holders([(row, sorted(row)[:2]) for row in rows], {"data": positions(table)}) == ["data"] * 8


def test_a_search_that_takes_too_long_finds_nothing() -> None:
    words = [f"{number % 50:04d}" for number in range(60_000)]
    given = [f"{number % 50:04d}" for number in range(200)]
    began = time.process_time()
    assert holders([(given, ["0000"])], {"data": positions(words)}) == [""]
    assert time.process_time() - began < 5
