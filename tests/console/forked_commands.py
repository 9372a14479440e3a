"""Run commands in processes that are forked from this one, after the slow imports.

Each line of stdin is a JSON object: ``arguments``, ``environment`` (null removes a variable), ``streams`` (per number a
path, ``closed``, or ``pipe`` for a pipe without a reader), ``encoding`` of the streams, ``folder``. Each line of stdout
is the exit code.
"""

import importlib
import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

MODULES = (
    "agents.reexecution.parallel",
    "agents.tiny_model",
    "console.command_line",
    "console.terminal.live",
    "envs.registry",
    "envs.tools.check",
    "sandbox.backends.registry",
    "store.exchange.importing",
    "store.exchange.parquet",
    "store.maintenance.collect",
    "store.maintenance.integrity",
    "store.migrate",
    "trainer.evaluation.branches",
    "trainer.evaluation.standalone",
    "trainer.planning.plan",
    "trainer.run.retraining.repeat",
    "trainer.run.run",
)
"""Imported once, for all commands."""


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
        Path(request["folder"]).mkdir(exist_ok=True)
        os.chdir(request["folder"])
        shutil.rmtree(request["folder"])
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        is_open = request["streams"].get(str(number)) != "closed"
        errors = "backslashreplace" if name == "stderr" else "strict"
        raw = io.FileIO(number, mode, closefd=False) if is_open else None
        buffered = raw and (io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw))
        setattr(sys, name, buffered and io.TextIOWrapper(buffered, request["encoding"], errors))
    sys.argv = ["turnwise", *request["arguments"]]
    from turnwise.console.app import main

    main()


for module in MODULES:
    importlib.import_module(f"turnwise.{module}")
for line in sys.stdin:
    process = os.fork()
    if process == 0:
        try:
            child(json.loads(line))
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (OSError, ValueError):
                    code = 120  # as the interpreter ends if it cannot write the rest
            os._exit(code)
        except BaseException:
            os._exit(99)
        os._exit(0)
    _, status = os.waitpid(process, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
