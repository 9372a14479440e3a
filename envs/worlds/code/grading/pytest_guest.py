"""Run hidden tests inside the grading sandbox, as a script under ``python3 -I -c``.

Reads ``[nonce, folder of the tests, "collect" or "run"]`` from its standard input before any other import, and writes
one line, the nonce and a JSON object, to the original standard error. The standard output and error of later imports
are discarded. Exits with ``NO_PYTEST`` if pytest cannot be imported.
"""

import json
import os
import sys

WORKSPACE = "/workspace"
NO_PYTEST = 86


def watch(folder: str, seen: list[str]) -> None:
    """Record when code of the workspace opens a test file. An audit hook cannot be removed."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event not in ("open", "os.listdir", "os.scandir", "os.remove", "os.rename"):
            return
        path = arguments[0] if arguments else None
        if not isinstance(path, (str, bytes)) or not os.fsdecode(path).startswith(folder):
            return
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code.co_filename.startswith(WORKSPACE + "/"):
                seen.append("the code under test opened a test file")
                return
            frame = frame.f_back  # type: ignore[assignment]

    sys.addaudithook(hook)


def unfit(report) -> str:  # type: ignore[no-untyped-def]
    """Return why the outcome of a test is no verdict on the code under test; empty if it is one."""
    text = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    if "async def function" in text:
        return "it is `async`, and no plugin of pytest that runs such tests is loaded"
    if hasattr(report, "wasxfail") or text.startswith("[XPASS(strict)]"):
        return "it is expected to fail (xfail)"
    return f"it is skipped ({' '.join(text.split())[:100]})" if report.skipped else ""


class Collector:
    """The tests that pytest collected, and their results."""

    def __init__(self, package: str) -> None:
        self.prefix = f"{package}/"
        self.collected: list[str] = []
        self.results: dict[str, str] = {}
        self.unfit: dict[str, str] = {}
        self.errors: list[str] = []
        self.interrupted = False

    def name(self, named) -> str:  # type: ignore[no-untyped-def]
        """Return the id of a test or file, relative to the folder of the tests."""
        return str(named.nodeid).removeprefix(self.prefix)

    def pytest_collection_finish(self, session) -> None:  # type: ignore[no-untyped-def]
        """Record the ids of all tests."""
        self.collected = [self.name(item) for item in session.items]

    def pytest_collectreport(self, report) -> None:  # type: ignore[no-untyped-def]
        """Record a test file that cannot be imported, or that skips itself."""
        if report.failed:
            self.errors.append(str(report.longrepr))
        elif report.skipped:
            self.unfit[self.name(report)] = unfit(report)

    def pytest_keyboard_interrupt(self, excinfo) -> None:  # type: ignore[no-untyped-def]
        """Record that the code under test raised KeyboardInterrupt, which ends the run; so does ``pytest.exit``."""
        self.interrupted = excinfo.type is KeyboardInterrupt

    def pytest_runtest_logreport(self, report) -> None:  # type: ignore[no-untyped-def]
        """Record the worst outcome over the phases of a test."""
        if reason := unfit(report):
            self.unfit.setdefault(self.name(report), reason)
        worst = self.results.get(self.name(report), "passed")
        if worst == "passed":
            self.results[self.name(report)] = report.outcome


def main() -> None:
    """Read the request, run pytest and write the report."""
    nonce, folder, mode = json.loads(sys.stdin.read())
    out = os.dup(2)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.dont_write_bytecode = True
    try:
        import pytest
    except ImportError as error:
        os.write(out, f"{error}\n".encode())
        sys.exit(NO_PYTEST)

    # Relative imports need the package that the folder is; its name differs in each run, so no other module has it.
    parent, package = os.path.split(folder)
    sys.path += [WORKSPACE, parent]
    seen: list[str] = []
    watch(folder, seen)
    collector = Collector(package)
    arguments = ["-q", "--tb=line", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={parent}"]
    arguments += [f"--confcutdir={folder}", "--import-mode=importlib"]
    arguments += ["--collect-only"] if mode == "collect" else []
    pytest.main([*arguments, folder], plugins=[collector])
    report = {
        "collected": collector.collected,
        "results": collector.results,
        "unfit": collector.unfit,
        "interrupted": collector.interrupted,
        "errors": "\n".join(collector.errors),
        "tamper": sorted(set(seen)),
    }
    os.write(out, f"\n{nonce}{json.dumps(report)}\n".encode())


if __name__ == "__main__":
    main()
