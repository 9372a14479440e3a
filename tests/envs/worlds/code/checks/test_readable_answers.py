"""Cases whose answers stand in the workspace, in the instruction or at one place of the input do not load."""

from collections.abc import Sequence

import pytest
from turnwise.envs.worlds.code.checks.calls import CallCase
from turnwise.envs.worlds.code.task import Case, CodeTask
from turnwise.sandbox import Entry, Kind, Tree

PAIRS = ((31, 968), (45, 2032), (57, 3256))
MAIN = b"print(0)\n"


def check(cases: Sequence[Case | CallCase], files: dict[str, bytes] | None = None, instruction: str = "x") -> None:
    """Check the cases of a task in which the agent writes `main.py`."""
    workspace = Tree.of({"main.py": MAIN, **(files or {})})
    task = CodeTask("t", instruction, workspace, tuple(cases), solution={"main.py": b"print(input())\n"})
    task.check_cases()


def case(stdin: str, answer: object, *argv: str, **files: str) -> Case:
    data = {name.replace("_", "."): text.encode() for name, text in files.items()}
    return Case(("python3", "main.py", *argv), str(answer).encode(), stdin.encode(), files=data)


CALLS: Sequence[Case | CallCase] = [CallCase(f"main.f({given})", str(answer)) for given, answer in PAIRS]
TABLES = {
    "CSV": "in,out\n31,968\n45,2032\n57,3256\n",
    "CSV with more columns": "31,a,b,968\n45,a,b,2032\n57,a,b,3256\n",
    "CSV with the answer first": "968,31\n2032,45\n3256,57\n",
    "floats": "31.0;968.0\n45.0;2032.0\n57.0;3256.0\n",
    "JSON by input": '{"31": 968, "45": 2032, "57": 3256}',
    "JSON objects": '[{"in": 31, "out": 968},\n {"in": 45, "out": 2032},\n {"in": 57, "out": 3256}]',
    "JSON columns": '{"in": [31, 45, 57], "out": [968, 2032, 3256]}',
    "Markdown": "| x | f(x) |\n|---|---|\n| 31 | 968 |\n| 45 | 2032 |\n| 57 | 3256 |\n",
    "doctest": ">>> f(31)\n968\n>>> f(45)\n2032\n>>> f(57)\n3256\n",
    "asserts": "assert f(57) == 3256\nassert f(45) == 2032\nassert f(31) == 968\n",
    "XML": "<c><in>31</in><out>968</out></c><c><in>45</in><out>2032</out></c><c><in>57</in><out>3256</out></c>",
    "answers alone": "3256\n2032\n968\n",
}


@pytest.mark.parametrize("table", TABLES)
def test_a_file_with_all_answers_is_refused(table: str) -> None:
    check(CALLS)
    programs: Sequence[Case | CallCase] = [case(str(given), answer) for given, answer in PAIRS]
    for cases in (CALLS, programs):
        with pytest.raises(ValueError, match="`workspace/data/x` holds the answers of 3 of 3 cases"):
            check(cases, {"data/x": TABLES[table].encode()})
        with pytest.raises(ValueError, match="the instruction holds the answers of 3 of 3 cases"):
            check(cases, instruction=TABLES[table])


def test_examples_do_not_count_and_other_cases_do() -> None:
    examples = {"README.md": b"f(31) is 968, and f(45) is 2032."}
    check(CALLS, examples)
    with pytest.raises(ValueError, match=r"the answers of 2 of 3 cases.*; without these: every case"):
        check([*CALLS[:2], CallCase("main.f(2)", "'no'")], examples)


def test_numbers_that_stand_near_each_other_by_chance_do_not_count() -> None:
    data = " ".join(str(number * 7919 % 1000) for number in range(3000)).encode()
    check([CallCase(f"main.f([{n}, {n + 1}, {n + 5}])", str(n * n % 997)) for n in (123, 456, 789)], {"data.txt": data})


SUMS = ((17, 25), (31, 12), (55, 21), (61, 18))
HELD: dict[str, Sequence[Case | CallCase]] = {
    "standard input": [case(f"{a} {b} {a + b}", a + b) for a, b in SUMS],
    "first word": [case(f"{a + b} {a} {b}", a + b) for a, b in SUMS],
    "argument": [case("", a + b, str(a), str(b), str(a + b)) for a, b in SUMS],
    "file": [case("", a + b, in_txt=f"{a} {b}", want_txt=str(a + b)) for a, b in SUMS],
    "files in another order": [
        case("", a + b, **dict(sorted({"a_txt": f"{a} {b}", "want_txt": str(a + b)}.items(), reverse=a > 40)))
        for a, b in SUMS
    ],
    "last word": [case(text, text.split()[-1]) for text in ("12 34 56 78 91", "11 35 57", "19 37 59 71", "8 4 99 1")],
    "last line": [case(text, text.split("\n")[-1]) for text in ("a b\nc d e", "k\nl m", "o p\nq r\ns", "u\nv w x y z")],
    "key": [
        case(text, answer)
        for text, answer in (
            ('{"want": 42, "a": 17, "b": 25}', 42),
            ('{"a": 31, "want": 43, "b": 12}', 43),
            ('{"a": 55, "b": 21, "want": 76}', 76),
            ('{"b": 61, "want": 79, "a": 18}', 79),
        )
    ],
    "count": [case(str(count), f"{count} {count}") for count in (317, 4241, 5557)],
    "call": [CallCase(f"main.f({a}, {b}, {a + b})", str(a + b)) for a, b in SUMS],
    "keyword": [CallCase(f"main.f({a}, want={a + b}, b={b})", str(a + b)) for a, b in SUMS],
}


@pytest.mark.parametrize("place", HELD)
def test_answers_at_one_place_of_the_input_are_refused(place: str) -> None:
    with pytest.raises(ValueError, match=r"the answers of . of . cases stand at one place of their inputs"):
        check(HELD[place])


@pytest.mark.parametrize(
    "cases",
    [
        [
            case(text, max(map(int, text.split())))
            for text in ("12 34 56 78", "91 23 45", "11 95 57", "19 71 5 8", "9 8")
        ],
        [case(text, " ".join(sorted(text.split()))) for text in ("teal amber rose", "plum mint oak", "fig ash elm")],
    ],
)
def test_answers_that_are_selected_load(cases: Sequence[Case | CallCase]) -> None:
    check(cases)


CODED = b"""#!/usr/bin/python3
import sys, main
a, b = map(int, sys.argv[1:])
print(4711 * a * (main.add(a, b) == a + b))
"""
VERDICTS = tuple(Case(("./run", str(a), str(b)), str(4711 * a).encode()) for a, b in SUMS)


def test_a_script_that_decides_is_refused_through_a_link_and_in_a_solution_that_does_not_change_it() -> None:
    solution = {"main.py": b"def add(a, b):\n    return a + b\n", "run.py": CODED}
    link = Tree({**Tree.of({"main.py": MAIN, "run.py": CODED}).entries, "run": Entry(Kind.LINK, b"./run.py")})
    with pytest.raises(ValueError, match=r"a case runs `run`, and `run.py`, line 4, decides on a result"):
        CodeTask("t", "x", link, VERDICTS, solution=solution).check_cases()


def test_a_program_may_be_a_link() -> None:
    for target in (b"main.py", b"./main.py", b"/workspace/main.py"):
        link = Tree({**Tree.of({"main.py": MAIN}).entries, "run": Entry(Kind.LINK, target)})
        CodeTask("t", "x", link, VERDICTS, solution={"main.py": b"x"}).check_cases()
        with pytest.raises(ValueError, match=r"a case runs `main.py`, which is `protected`"):
            CodeTask("t", "x", link, VERDICTS, protected=("main.py",)).check_cases()
    outside = Tree({"run": Entry(Kind.LINK, b"../run")})
    with pytest.raises(ValueError, match="neither workspace/ nor solution/ has `run`"):
        CodeTask("t", "x", outside, VERDICTS).check_cases()
