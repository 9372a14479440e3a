"""Run commands in processes that are forked from this one, after the slow imports.

Each line of stdin is a JSON object: ``arguments``, ``environment`` (null removes a variable), ``streams`` (per number a
path, ``closed``, or ``pipe`` for a pipe without a reader), ``encoding`` of the streams, ``folder``, and ``deleted``, a
folder that is deleted once the command is in it. Each line of stdout is the exit code.

``ForkedCommands`` starts it from a test: a command then takes a tenth of the time of one in a new interpreter. The
fixture ``forked_commands`` holds one for all tests of a pytest process.
"""

import importlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

MODULES = (
    "agents.reexecution.reexecute",
    "agents.tiny_model",
    "console.command_line",
    "console.terminal.live",
    "envs.registry",
    "envs.authoring.check",
    "sandbox.backends.registry",
    "store.exchange.importing",
    "store.exchange.parquet",
    "store.maintenance.collect",
    "store.maintenance.integrity",
    "store.migrate",
    "trainer.evaluation.branch",
    "trainer.evaluation.tasks",
    "trainer.planning.plan",
    "trainer.run.run",
)
"""Imported once, for all commands, next to ``alembic.command``, which takes half of the time of an ``eval``."""
SLOW_MODULES = ("trainer.learner.model.loading", "trainer.run.retraining")
"""Imported before the first of ``SLOW_COMMANDS``: they import torch, which takes longer than all others together."""
SLOW_COMMANDS = ("model", "plan", "runs retrain")


@dataclass(frozen=True)
class Ended:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


class ForkedCommands:
    """A process that forks commands."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(
        self,
        output: Path,
        *arguments: str,
        streams: Mapping[int, str] | None = None,
        encoding: str = "utf-8",
        environment: Mapping[str, str | None] | None = None,
        folder: str = "",
        deleted: str = "",
    ) -> Ended:
        """Run a command whose streams are files in ``output``, by default, and return its end."""
        out, err = output / "out.txt", output / "err.txt"
        for file in (out, err):
            file.write_bytes(b"")
        request = {
            "arguments": arguments,
            "streams": {0: os.devnull, 1: str(out), 2: str(err), **(streams or {})},
            "encoding": encoding,
            "environment": dict(environment or {}),
            "folder": folder,
            "deleted": deleted,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return Ended(code, out.read_text(encoding), err.read_text(encoding))


def child(request: dict[str, Any]) -> None:
    """Become the command as if the interpreter had started with these streams and variables."""
    for number in (0, 1, 2):
        os.close(number)
    for number, name in sorted(request["streams"].items()):
        if name == "pipe":
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer, int(number))
            if writer != int(number):
                os.close(writer)
        elif name != "closed":
            opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            if opened != int(number):
                os.dup2(opened, int(number))
                os.close(opened)
    for name, value in request["environment"].items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    if request["folder"]:
        os.chdir(request["folder"])
    if request["deleted"]:
        Path(request["deleted"]).mkdir(exist_ok=True)
        os.chdir(request["deleted"])
        shutil.rmtree(request["deleted"])
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        is_open = request["streams"].get(str(number)) != "closed"
        errors = "backslashreplace" if name == "stderr" else "strict"
        raw = io.FileIO(number, mode, closefd=False) if is_open else None
        buffered = raw and (io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw))
        stream = buffered and io.TextIOWrapper(buffered, request["encoding"], errors)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = ["turnwise", *request["arguments"]]
    from turnwise.console.app import main

    main()


def import_all(modules: Iterable[str]) -> None:
    for module in modules:
        importlib.import_module(f"turnwise.{module}")


def serve() -> None:
    """Run the commands of stdin."""
    import_all(MODULES)
    importlib.import_module("alembic.command")
    for line in sys.stdin:
        request = json.loads(line)
        if " ".join(request["arguments"]).startswith(SLOW_COMMANDS):
            import_all(SLOW_MODULES)
        process = os.fork()
        if process == 0:
            try:
                child(request)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
                for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
                    try:
                        if stream is not None and not stream.closed:
                            stream.flush()
                    except (OSError, ValueError):
                        if stream in (sys.stdout, sys.stderr):
                            code = 120  # as the interpreter ends if it cannot write the rest
                os._exit(code)
            except BaseException:
                os._exit(99)
            os._exit(0)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    os._exit(0)  # the interpreter takes a second to free the modules


if __name__ == "__main__":
    serve()
