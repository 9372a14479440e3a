"""Ordinary programs of a workspace that call `calc`, the module under test, and that must load."""

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
    "a special result": """\
import sys, calc
r = calc.solve(sys.stdin.read())
if r == -1:
    print('IMPOSSIBLE')
    sys.exit()
print(r)
""",
    "a result of two parts": """\
import sys, calc
code, text = calc.run(sys.argv[1:])
print(text)
if code != 0: print('exit', code)
""",
    "a sort": """\
import sys, calc
xs = sys.argv[1:]
for i in range(len(xs)):
    for j in range(len(xs) - 1):
        if calc.key(xs[j]) > calc.key(xs[j + 1]):
            xs[j], xs[j + 1] = xs[j + 1], xs[j]
print(xs)
""",
    "the smaller one": """\
import sys, calc
a, b = sys.argv[1:]
print(a if calc.less(a, b) else b)
""",
    "a comparison of two results": """\
import sys, calc
a, b = sys.argv[1:]
print('same' if calc.norm(a) == calc.norm(b) else 'different')
""",
    "a cache": """\
import sys, calc
cache = {}
for n in sys.argv[1:]:
    if n not in cache: cache[n] = calc.f(n)
    print(cache[n])
""",
    "a loop that ends": """\
import sys, calc
g = calc.Game()
for line in sys.stdin:
    g.play(line)
    if g.winner() == line[0]:
        print('winner', line[0])
        break
print(g.board())
""",
    "arguments that the code parses": """\
import sys, calc
args = calc.parse_args(sys.argv[1:])
if args.mode == 'sum':
    print(sum(args.numbers))
else:
    print(max(args.numbers))
""",
    "a comparison in JSON": """\
import sys, calc
import json
r = calc.f(sys.argv[1])
out = {'n': sys.argv[1], 'ok': r == sys.argv[2], 'value': r}
json.dump(out, sys.stdout)
""",
    "a function that returns": """\
import sys, calc
def run(argv):
    r = calc.f(argv)
    if r == argv:
        return 'unchanged'
    return r
print(run(sys.argv[1]))
""",
    "changed lines": """\
import sys, calc
for line in sys.stdin:
    r = calc.f(line)
    if r != line: print(r)
""",
    "a count": """\
import sys, calc
n = 0
for w in sys.argv[1:]:
    if calc.category(w) == 'noun': n += 1
print(n)
""",
    "more output": """\
import sys, calc
r = calc.f(sys.argv[1])
if r.warnings:
    print('warnings:', len(r.warnings))
print(r.text)
""",
}
