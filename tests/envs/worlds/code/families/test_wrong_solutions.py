"""Wrong solutions that follow almost every rule of a family fail its checks; each of these earned 1.0 before.

The programs of this file are harmless, so they run on this machine, without a sandbox.
"""

import subprocess
import sys
import textwrap
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from turnwise.envs.worlds.code.checks import call_guest
from turnwise.envs.worlds.code.instances import draw
from turnwise.envs.worlds.code.task import Case, Change, CodeTask, changed


def passes(task: CodeTask, change: Change, folder: Path) -> bool:
    """Return whether the workspace passes every check after a change."""
    files = changed(task.workspace, change)
    return all(check.passes(files) for check in task.file_checks) and all(
        case.passes(*output([*case.argv], case.stdin, {**files, **case.files}, folder / str(number)))
        for number, case in enumerate(task.cases)
    )


def output(argv: list[str], stdin: bytes, files: Mapping[str, bytes], folder: Path) -> tuple[int, bytes]:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    argv[0] = sys.executable if argv[0] == "python3" else argv[0]
    argv[-1] = argv[-1].replace(f'WORKSPACE = "{call_guest.WORKSPACE}"', f"WORKSPACE = {str(folder)!r}")
    done = subprocess.run(argv, input=stdin, capture_output=True, check=False, cwd=folder)
    return done.returncode, done.stdout


def replaced(task: CodeTask, *slips: tuple[str, str]) -> Change:
    """Return the solution of one file with some text replaced."""
    ((path, content),) = (task.solution or {}).items()
    text = (content or b"").decode()
    for old, new in slips:
        assert old in text
        text = text.replace(old, new)
    return {path: text.encode()}


def slip(pair: tuple[str, str]) -> Callable[[CodeTask], Change]:
    return lambda task: replaced(task, pair)


def renamed(task: CodeTask) -> tuple[str, str, str, dict[str, str]]:
    """Return the old name, the new one, the module and the files of the solution."""
    words = task.instruction.split()
    files = {path: (content or b"").decode() for path, content in (task.solution or {}).items()}
    return words[3], words[7].rstrip(","), words[5].removesuffix(".py"), files


def kept(hidden: str, in_module: str = "") -> Callable[[CodeTask], Change]:
    """Return a solution whose library, or another module, also runs code that keeps the old name alive."""

    def change(task: CodeTask) -> Change:
        old, new, first, files = renamed(task)
        path = f"{in_module or first}.py"
        texts = {"half": f"'{old[:3]}' '{old[3:]}'", "old": old, "new": new, "first": first, "back": repr(old[::-1])}
        files[path] = files.get(path, "") + "\n\n" + hidden.format(**texts) + "\n"
        return {path: text.encode() for path, text in files.items()}

    return change


UNSEEN = "import sys\nif not sys.flags.isolated: "
"""The grading calls functions with ``python3 -I``: code that recognizes it can hide."""
KEPT = {
    "an alias": "{old} = {new}",
    "globals": "globals()[{half}] = {new}",
    "globals, unseen by a call": UNSEEN + "globals()[{half}] = {new}",
    "an attribute of the module": "import sys; setattr(sys.modules[__name__], {back}[::-1], {new})",
    "a lookup": "def __getattr__(name):\n    return {new}",
    "a lookup, unseen by a call": UNSEEN + "__getattr__ = lambda name: {new}",
    "the name of the function": "{new}.__name__ = {half}",
    "a second function": "globals()[{half}] = lambda values: {new}(values)",
    "the code of the module": "exec({back}[::-1] + ' = {new}')",
    "builtins": "import builtins; setattr(builtins, {half}, {new})",
    "a comment": "# {old} before",
    "a docstring": '""" {old} """',
    "letters in another width": "\uff54_ = {new}",
    "another spelling": "{new}.former = ['t', 'o', 't']",
}


def kept_in_data(task: CodeTask) -> Change:
    old, new, first, files = renamed(task)
    change: dict[str, bytes | None] = {}
    for path in files:
        module = path.removesuffix(".py")
        change[f"{module}.src"] = task.workspace[path]
        change[path] = b"exec(open(__file__[:-3] + '.src').read())\n"
    change[f"{first}.py"] = (
        f"exec(open(__file__[:-3] + '.src').read())\n{new} = globals()['{old[:3]}' '{old[3:]}']\n".encode()
    )
    return change


def kept_in_data_and_deleted(task: CodeTask) -> Change:
    """Keep the old source of the library as data, without an attribute of the old name."""
    old, new, first, files = renamed(task)
    hidden = f"kept = {{}}\nexec(open(__file__[:-3] + '.src').read(), kept)\n{new} = kept['{old[:3]}' '{old[3:]}']\n"
    change: dict[str, bytes | None] = {path: text.encode() for path, text in files.items()}
    return {**change, f"{first}.src": task.workspace[f"{first}.py"], f"{first}.py": hidden.encode()}


def kept_compressed(task: CodeTask) -> Change:
    """Keep the old source where no search of the text finds it."""
    _, _, first, files = renamed(task)
    change: dict[str, bytes | None] = {path: text.encode() for path, text in files.items()}
    return {**change, "notes.bin": zlib.compress(task.workspace[f"{first}.py"])}


def a_package_for_the_library(task: CodeTask) -> Change:
    """Leave the library as it was, and let Python import a package of its name."""
    _, _, first, files = renamed(task)
    change: dict[str, bytes | None] = {path: text.encode() for path, text in files.items()}
    return {
        **change,
        f"{first}.py": task.workspace[f"{first}.py"],
        f"{first}/__init__.py": files[f"{first}.py"].encode(),
    }


def constant(task: CodeTask) -> Change:
    """Return a program without the function that knows the answer of the shown length only."""
    _, new, first, files = renamed(task)
    files[f"{first}.py"] = f"def {new}(values):\n    return 6 + len(values)\n"
    return {path: text.encode() for path, text in files.items()}


def counted_from_the_front(task: CodeTask) -> Change:
    text = next(iter((task.solution or {}).values())) or b""
    name = text.decode().partition("values[-")[2].partition(":")[0]
    return replaced(task, (f"values[-{name}:]", f"values[len(values) - {name} :]"))


def three_digits(task: CodeTask) -> Change:
    word = task.instruction.split()[4]
    return {"run.sh": f"echo \"{word} $(grep -oh '[0-9][0-9][0-9]$' data/*)\"\n".encode()}


def largest_of_three_digits(task: CodeTask) -> Change:
    word = task.instruction.split()[4]
    return {"run.sh": f"echo \"{word} $(grep -oh '[0-9][0-9][0-9]$' data/* | sort | tail -n 1)\"\n".encode()}


def in_env(old: str, new: str) -> Callable[[CodeTask], Change]:
    def change(task: CodeTask) -> Change:
        solution = dict(task.solution or {})
        path = next(path for path in solution if path.endswith(".env"))
        return {**solution, path: (solution[path] or b"").decode().replace(old, new).encode()}

    return change


UNQUOTED = (
    ("if len(value) > 1 and value[0] == value[-1] == '\"':", "if True:"),
    ("value = value[1:-1]", "value = value.strip('\"')"),
)
ONE_SIDED = (("len(value) > 1 and value[0] == value[-1] == '\"'", "value[:1] == '\"'"), ("[1:-1]", "[1:].rstrip('\"')"))
QUOTED = "len(value) > 1 and value[0] == value[-1] == '\"'"
PARSERS = {
    "an empty value ends the program": (QUOTED, "value[0] == value[-1] == '\"' and len(value) > 1"),
    "a quoted empty text kept": (QUOTED, QUOTED.replace("1 and", "2 and")),
    "a lone quote removed": (QUOTED, QUOTED.replace("len(value) > 1", "value")),
    "a quote at the end is enough": (QUOTED, "len(value) > 1 and value[-1] == '\"'"),
    "spaces between quotes removed": ("value = value[1:-1]", "value = value[1:-1].strip()"),
    "every pair of quotes removed": ("value = value[1:-1]", "value = value.strip('\"')"),
    "single quotes removed": ("return key", 'value = value.strip("\'")\n    return key'),
    "values in lowercase": ("value.strip()", "value.strip().lower()"),
    "quotes of keys removed": ("key.strip()", "key.strip().strip('\"')"),
    "spaces in keys removed": ("key.strip()", "key.replace(' ', '')"),
    "comments after values removed": ("value.strip()", "value.split(' #')[0].strip()"),
    "keys up to a number sign": ("key.strip()", "key.split('#')[0].strip()"),
    "lines without a value skipped": ("value = value.strip()", "value = value.strip()\n    if not value: return None"),
    "indented comments read": ("line = line.strip()", "line = line.rstrip()"),
    "the last equals sign of several": ('partition("=")', 'rpartition("=")'),
    "equals signs around values removed": ("value.strip()", "value.strip(' =')"),
}
NO_NEGATIVES = """
most=0
for file in data/*; do
  while read -r _ amount; do
    [ "$amount" -le "$most" ] || most=$amount
  done < "$file"
done
echo "WORD $most"
"""


def no_negatives(task: CodeTask) -> Change:
    return {"run.sh": NO_NEGATIVES.replace("WORD", task.instruction.split()[4]).encode()}


ORDER = "-int(record[1])"
READINGS = "[int(line) for line in sys.stdin if line.strip()]"
AMOUNT = "found[-1][1] += int(word)"
WRONG: dict[str, tuple[str, Callable[[CodeTask], Change]]] = {
    **{f"the old name by {how}": ("rename", kept(code)) for how, code in KEPT.items()},
    "the old name from main": ("rename", kept("{first}.__dict__[{half}] = {first}.{new}", "main")),
    "the old name in a new module": ("rename", kept("from {first} import {new} as {old}", "legacy")),
    "the old source compressed": ("rename", kept_compressed),
    "a package for the library": ("rename", a_package_for_the_library),
    "a constant for the function": ("rename", constant),
    "old sources executed": ("rename", kept_in_data),
    "the old library executed": ("rename", kept_in_data_and_deleted),
    "quotes without a pair removed": ("parsing", lambda task: replaced(task, *UNQUOTED)),
    "a quote at the beginning is enough": ("parsing", lambda task: replaced(task, *ONE_SIDED)),
    **{what: ("parsing", slip(pair)) for what, pair in PARSERS.items()},
    "empty sections left out": ("state", slip(("return found", "return [each for each in found if each[1]]"))),
    "numbers without their sign": ("ordering", slip((ORDER, "-abs(int(record[1]))"))),
    "as many records as are asked for": ("ordering", slip(("in records[:", "in [records[i] for i in range(4)][:"))),
    "an answer without readings": ("boundary", slip((READINGS, f"{READINGS} or [9] * 9"))),
    "readings without their sign": ("boundary", slip((READINGS, READINGS.replace("int(line)", "abs(int(line))")))),
    "a label without words": ("formula", slip((".join(words)", ".join(words) or '-'"))),
    "empty lines left out": ("formula", slip(("in sys.stdin:", "in filter(str.strip, sys.stdin):"))),
    "the first command skipped": ("container", slip(("for line in sys.stdin:", "for line in [*sys.stdin][1:]:"))),
    "amounts below 0": ("command", no_negatives),
    "the one amount of three digits": ("command", three_digits),
    "the largest of three digits": ("command", largest_of_three_digits),
    "negative numbers as zero": ("state", lambda task: replaced(task, (AMOUNT, f"{AMOUNT} if word.isdigit() else 0"))),
    "negative numbers as positive": ("state", lambda task: replaced(task, ("int(word)", "abs(int(word))"))),
    "ties by the first letter": ("ordering", lambda task: replaced(task, ("record[0])", "record[0][0])"))),
    "one line by vertical tabs": ("setting", in_env("\n", "\v")),
    "values that begin with a special space": ("setting", in_env("=", "=\u00a0")),
    "spaces around equals signs": ("setting", in_env("=", " = ")),
    "a space before equals signs": ("setting", in_env("=", " =")),
    "a space after equals signs": ("setting", in_env("=", "= ")),
    "indented lines": ("setting", in_env("\n", "\n  ")),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_solution_fails(tmp_path: Path, what: str) -> None:
    family, wrong = WRONG[what]
    for seed in range(2):
        task = draw(seed, "train", family)
        assert not passes(task, wrong(task), tmp_path / f"wrong{seed}")


def test_every_input_of_an_ordering_has_another_answer() -> None:
    """The example by heart was the answer of every case for seed 721."""
    for seed in [*range(100), 721, 9380]:
        task = draw(seed, "train", "ordering")
        answers = {case.stdout.decode() for case in task.cases if isinstance(case, Case)}
        assert len(answers) == len(task.cases)
        assert not any(textwrap.indent(answer, "    ") in task.instruction for answer in answers)


def test_a_window_counted_from_the_front_fails(tmp_path: Path) -> None:
    tasks = [task for task in (draw(seed, "train", "boundary") for seed in range(30)) if "window" in task.name]
    for number, task in enumerate(tasks[:2]):
        assert not passes(task, counted_from_the_front(task), tmp_path / str(number))
    assert tasks


@pytest.mark.parametrize("family", sorted({"boundary", *(family for family, _ in WRONG.values())}))
def test_the_solution_passes(tmp_path: Path, family: str) -> None:
    task = draw(1, "train", family)
    assert passes(task, task.solution or {}, tmp_path)
    assert not passes(task, {}, tmp_path / "untouched")
