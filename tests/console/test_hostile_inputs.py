"""Every command of the program, with inputs that nobody planned for: the answer is one line, never a traceback.

The commands and their parameters are read from the program, so a new command is driven too. A new required parameter
needs a value in ``VALUES``. In CI every command meets a twelfth of the values;
``make soak`` runs all.
"""

import io
import os
import signal
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import pytest
import typer
from turnwise.console.command_line import app

from .conftest import ENV, Turnwise

pytestmark = pytest.mark.slow

TIMEOUT_S = 30
LONG = "x" * 100_000
HUGE = "9" * 30
NUMBERS = {
    int: [HUGE, f"-{HUGE}", "-1", "nan", "1.5", ""],
    float: ["nan", "inf", "-inf", "1e400", "1e300", "-1", "-1e300", ""],
}
TEXTS = ["", " ", LONG, "\udcff", "\x1b[31mred", "a\x00b", "../../..", "%s{0}", "\N{SNOWMAN}", "-"]
STORES = [
    "",
    "foo://x",
    "sqlite:///",
    "sqlite:////dev/null",
    "sqlite:////proc/self/mem",
    f"sqlite:///{LONG}",
    "postgresql://h:99999/x",
]
STORES += [
    "postgresql+psycopg2://127.0.0.1:1/x",
    "mysql://x/y",
    "sqlite:///{folder}",
    "sqlite:///{fifo}",
    "sqlite:///{latin1}",
    "\udcff",
]
VALUES: dict[str, str] = {
    "config": "{config}",
    "paths": "{missing}.json",
    "out": "{missing}.parquet",
    "file": "{missing}.json",
    "path": "{missing}",
    "checkpoint": "{folder}",
    "env": ENV,
    "env_id": ENV,
    "run": "demo",
    "origin": "demo",
    "runs": "demo",
    "trajectory": "t0",
    "at": "1",
    "number": "1",
    "query": "page",
    "name": "t0",
    "rewards": "again",
    "envs new name": "my_envs",
    "reward": "turn_penalty",
}
"""A value for each required parameter, by its name, or by the command and the name."""
PATHS = ["", LONG, "/dev/full", "/dev/zero", "/proc/self/mem", "a\x00b", "\udcff"]
OPTIONS: dict[str, list[str]] = {
    "eval": ["--tasks", "1", "--turns", "1"],
    "envs check": ["--option", "nonsense=1"],
    "sandbox build": ["--backend", "none"],
    "sandbox check": ["--backend", "none"],
    "sandbox list": ["--backend", "local"],
    "sandbox reap": ["--backend", "local"],
    "envs new": ["--in", "{empty}"],
    "view": ["--host", "192.0.2.1"],
}
"""Options that keep a command short."""


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command of a group with its words."""
    if not hasattr(command, "commands"):
        yield path, command
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, f"{path} {name}".strip())


COMMANDS = dict(commands(typer.main.get_command(app)))
SHARES = [12, pytest.param(1, marks=pytest.mark.soak)]
"""One value of so many is tried with each command."""
T = TypeVar("T")


def drawn(values: Sequence[T], share: int, command: str, parameter: int = 0) -> Sequence[T]:
    """Return one value of ``share``, other ones for the next command and the next parameter."""
    return values[(list(COMMANDS).index(command) + parameter) % share :: share]


def kind_of(parameter: Any) -> Any:
    """Return the type of one value of a parameter."""
    found = parameter.type_descriptor.annotation
    while get_origin(found) in (list, types.UnionType) or "Union" in str(get_origin(found)):
        found = next(one for one in get_args(found) if one is not type(None))
    return found


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Return paths of odd files by name."""
    config = f'name = "odd"\npreset = "tiny"\nmax_steps = 1\n[[environments]]\nid = "{ENV}x"\n'
    contents: dict[str, bytes] = {
        "config": config.encode(),
        "bom": b"\xef\xbb\xbf" + config.encode(),
        "latin1": f"# für\n{config}".encode("latin-1"),
        "utf16": config.encode("utf-16"),
        "utf32": config.encode("utf-32"),
        "nul": config.encode() + b"\0",
        "deep": b"a = " + b"[" * 100_000,
        "deep_keys": b"a" + b".a" * 100_000 + b" = 1",
        "deep_json": b'{"a":' * 100_000,
        "long_number": b"a = " + b"9" * 10_000,
        "numbers": config.encode() + b"[learner]\nlearning_rate = nan\n",
        "bare_cr": config.replace("\n", "\r").encode(),
        "no_bytes": b"",
    }
    found = {}
    for name, content in contents.items():
        found[name] = str(tmp_path / f"{name}.toml")
        Path(found[name]).write_bytes(content)
    sparse = tmp_path / "sparse.toml"
    with sparse.open("wb") as file:
        file.truncate(2**40)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    names = ("fifo", "folder", "empty", "loop", "missing")
    return {**found, "sparse": str(sparse), **{name: str(tmp_path / name) for name in names}}


def odd_values(parameter: Any, files: dict[str, str]) -> list[str]:
    """Return odd values of a parameter."""
    if parameter.name == "help":
        return []
    kind = kind_of(parameter)
    if parameter.name == "store":
        return [value.format(**files) if "{" in value else value for value in STORES]
    if kind in NUMBERS:
        return NUMBERS[kind]
    if kind is Path:
        paths = [path for name, path in files.items() if name not in ("config", "bom", "empty")]
        return [*paths, f"{files['missing']}.json", f"{files['config']}/below", *PATHS]
    if kind is bool:
        return []
    if get_origin(kind) is Literal or kind is not str:
        return ["", "nonsense", LONG]
    return TEXTS


def line_of(command: str, odd: Any, value: str, files: dict[str, str]) -> list[str]:
    """Return a command line with one odd value."""
    words = command.split()
    for one in COMMANDS[command].params:
        if one is odd:
            words += [value] if type(one).__name__ == "TyperArgument" else [one.opts[0], value]
        elif one.required:
            key = next(name for name in (f"{command} {one.name}", one.name) if name in VALUES)
            value_of = VALUES[key].format(**files)
            words += [value_of] if type(one).__name__ == "TyperArgument" else [one.opts[0], value_of]
    given = [one.format(**files) for one in OPTIONS.get(command, [])]
    return words if odd.opts[0] in given else [*words, *given]


class Hangs(BaseException):
    """A command took too long."""


@pytest.fixture
def bounded() -> Iterator[Callable[[], None]]:
    """Return a function that starts a time limit of ``TIMEOUT_S``; it ends with the test, or with the next call."""

    def stop(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield lambda: signal.setitimer(signal.ITIMER_REAL, TIMEOUT_S) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_odd_value_of_any_parameter_is_answered_in_one_line(
    command: str,
    share: int,
    turnwise: Turnwise,
    store: str,
    files: dict[str, str],
    bounded: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TURNWISE_STORE", store)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(files["empty"])
    monkeypatch.setattr("sys.stdin", io.StringIO())
    wrong = []
    for number, parameter in enumerate(COMMANDS[command].params):
        for value in drawn(odd_values(parameter, files), share, command, number):
            line = line_of(command, parameter, value, files)
            bounded()
            if problem := _problem(turnwise, line):
                wrong.append(f"turnwise {' '.join(word[:60] for word in line)!r}: {problem}")
    assert not wrong, "\n".join(wrong)


def _problem(turnwise: Turnwise, line: list[str]) -> str:
    """Return what is wrong with the end of a command; empty if it ended as it should."""
    try:
        ended = turnwise(*line)
    except Hangs:
        return f"no end within {TIMEOUT_S} s"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if ended.code not in (0, 1, 2) or "Traceback" in ended.err or "sqlalche.me" in ended.err:
        return f"exit code {ended.code}: {ended.err[:400]}"
    if ended.code == 2 and not ended.err.startswith("turnwise: "):
        return f"no line about the cause: {ended.err[:400]}"
    return "" if ended.code != 1 or ended.err or ended.out else "exit code 1 without a word"
