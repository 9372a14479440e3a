"""Honest task folders load: ordinary command lines, other languages, helper modules, and data that a program reads."""

import random
import time

import pytest
from turnwise.envs.code.checks.calls import CallCase
from turnwise.envs.code.checks.readable_answers import holders, positions
from turnwise.envs.code.task import Case, CodeTask
from turnwise.sandbox import Tree

PROGRAMS = {
    "dispatch table membership": """\
import sys, calc
COMMANDS = {"add": calc.add, "mul": calc.mul}
name, a, b = sys.argv[1:]
if name not in COMMANDS:
    sys.exit("unknown command")
print(COMMANDS[name](int(a), int(b)))
""",
    "argparse choices sorted": """\
import argparse, calc
COMMANDS = {"add": calc.add, "mul": calc.mul}
p = argparse.ArgumentParser()
p.add_argument("op", choices=sorted(COMMANDS))
p.add_argument("a", type=int); p.add_argument("b", type=int)
args = p.parse_args()
print(COMMANDS[args.op](args.a, args.b))
""",
    "argparse subcommands set_defaults": """\
import argparse, calc
def add(args): return calc.add(args.a, args.b)
def mul(args): return calc.mul(args.a, args.b)
p = argparse.ArgumentParser()
sub = p.add_subparsers()
for n, f in (("add", add), ("mul", mul)):
    q = sub.add_parser(n); q.add_argument("a", type=int); q.add_argument("b", type=int); q.set_defaults(func=f)
args = p.parse_args()
print(args.func(args))
""",
    "write_text": """\
import sys, calc
from pathlib import Path
r = calc.add(int(sys.argv[2]), int(sys.argv[3])) if sys.argv[1]=='add' else calc.mul(int(sys.argv[2]), int(sys.argv[3]))
Path("out.txt").write_text(str(r))
print(r)
""",
    "type name": """\
import sys, calc
r = getattr(calc, sys.argv[1])(int(sys.argv[2]), int(sys.argv[3]))
print(type(r).__name__, r)
""",
    "reused variable": """\
import sys, calc
for line in sys.stdin:
    line = line.strip()
    if not line:
        continue
    line = calc.add(*map(int, line.split()))
    print(line)
""",
    "def show label": """\
import sys, calc
def show(value, label=""):
    if label:
        print(label, end=": ")
    print(value)
show(getattr(calc, sys.argv[1])(int(sys.argv[2]), int(sys.argv[3])), "result")
""",
    "logging": """\
import sys, calc, logging
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
logging.info("%s", getattr(calc, sys.argv[1])(int(sys.argv[2]), int(sys.argv[3])))
""",
    "hasattr": """\
import sys, calc
if not hasattr(calc, sys.argv[1]):
    sys.exit("no such operation")
print(getattr(calc, sys.argv[1])(int(sys.argv[2]), int(sys.argv[3])))
""",
    "dataclass lookups": """\
import sys, calc
inv = calc.Inventory()
for line in sys.stdin:
    cmd, *rest = line.split()
    if cmd == "add":
        inv.add(rest[0], int(rest[1]))
    elif cmd == "remove":
        inv.remove(rest[0])
    elif cmd == "count":
        print(inv.count(rest[0]))
    elif cmd == "find":
        print(inv.find(rest[0]))
""",
    "percent formatting name": """\
import sys, calc
FMT = "%d"
print(FMT % getattr(calc, sys.argv[1])(int(sys.argv[2]), int(sys.argv[3])))
""",
    "for-else unit": """\
import sys, calc
total = 0
for n in map(int, sys.argv[2:]):
    total += calc.add(n, 0)
print(total / len(sys.argv))
""",
    "threadpool": """\
import sys, calc
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor() as pool:
    print(pool.submit(calc.add, int(sys.argv[2]), int(sys.argv[3])).result())
""",
    "config into solver, then branch on config": """\
import sys, calc, json
config = json.load(open('config.json'))
config = calc.validate(config)
if config['verbose']: print('v')
print(calc.f(sys.argv))
""",
    "f-string nested width": """\
import sys, calc
w = 10
r = calc.f(sys.argv)
print(f'{r:>{w}}', r.total / 2, -r.total, r.total // w)
""",
    "print bytes": """\
import sys, calc
sys.stdout.buffer.write(bytes(calc.f(sys.argv)))
""",
    "hex": """\
import sys, calc
print(hex(calc.f(sys.argv)))
""",
    "isinstance tuple": """\
import sys, calc
r = calc.f(sys.argv)
print(r if isinstance(r, str) else list(r))
""",
    "gather": """\
import sys, calc, asyncio
async def main():
    rs = await asyncio.gather(*(calc.f(a) for a in sys.argv[1:]))
    print(rs)
asyncio.run(main())
""",
    "Decimal": """\
import sys, calc
from decimal import Decimal
print(Decimal(calc.f(sys.argv)))
""",
    "a parameter of a class": """\
import sys, calc
class App:
    def __init__(self, solver, args):
        self.solver = solver
        self.args = args
    def run(self):
        if len(self.args) < 2:
            sys.exit(2)
        print(self.solver.solve(self.args[1]))
App(calc.Solver(), sys.argv).run()
""",
    "a predicate": """\
import sys, calc
n = int(sys.argv[1])
if calc.is_prime(n):
    print(n, 'is prime')
else:
    print(n, 'is not')
""",
    "a filter": """\
import sys, calc
for line in sys.stdin:
    if calc.is_valid(line):
        print(line)
""",
    "two words": """\
import sys, calc
a, b = map(int, sys.argv[1:])
print('yes' if calc.gcd(a, b) == b else 'no')
""",
    "the best of many": """\
import sys, calc
best = 0
for word in sys.argv:
    if calc.score(word) > calc.score(sys.argv[best]):
        best = sys.argv.index(word)
print(best)
""",
    "a search": """\
import sys, calc
n, limit = 0, int(sys.argv[1])
while calc.f(n) < limit:
    n += 1
print(n)
""",
    "a result that is cut": """\
import sys, calc
limit = int(sys.argv[1])
r = calc.f(sys.argv[2])
if len(r) > limit:
    r = r[:limit]
print(r)
""",
    "an error": """\
import sys, calc
if not calc.is_valid(sys.argv):
    sys.exit('invalid')
print(calc.f(sys.argv))
""",
    "a game": """\
import calc
g = calc.Game()
while not g.is_over():
    g.move(input())
print(g.score())
""",
    "a new syntax": """\
import sys, calc
def first[T](xs: list[T]) -> T:
    return xs[0]
if len(first([sys.argv])) < 2: sys.exit(2)
print(calc.add(*map(int, sys.argv[1:])))
""",
    "import of *": """\
import sys, calc
from math import *
if sqrt(len(sys.argv)) > 5: sys.exit(2)
print(calc.add(*map(int, sys.argv[1:])))
""",
    "eval": """\
import calc
n = eval(input())
if n > 10: n = 10
print(calc.add(n, 4100))
""",
    "a helper": """\
import sys, bank
for line in sys.stdin:
    r = bank.transfer(line)
    if r > 100: r = r // 10 * 10
    print(r)
""",
    "a comparison that is printed beside the result": """\
import sys, calc
r = calc.f(sys.argv[1])
print(r, 'over' if r > len(sys.argv[1]) else 'under')
""",
    "a program that is built": """\
import subprocess, sys
build = subprocess.run(['gcc', '-o', 'prog', 'prog.c'])
if build.returncode: sys.exit('broken')
print(subprocess.run(['./prog'], capture_output=True, text=True).stdout)
""",
}
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
