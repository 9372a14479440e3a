"""``turnwise envs check``: run every check of the environment contract, each with a timeout, and report all of them.

After a first reset that failed, or a call that hung, no further check starts: it would fail or hang again.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from traceback import walk_tb
from typing import Any

from ...base.process import event_loop
from ...sandbox.errors import LeaseTimeout, NodeLost, SandboxBusy, SandboxLost, StartFailed
from ..errors import EnvError, EnvTimeout
from ..registry import spec
from .checks import CHECKS, RESET, Check
from .process_state import left_running, settings, variables
from .subject import CheckFailed, Skipped, Subject

CALL_TIMEOUT_S = 60.0
"""The default timeout of a reset in a run."""
CHECK_TIMEOUT_S = 120.0
OF_MACHINE = (LeaseTimeout, NodeLost, SandboxBusy, SandboxLost, StartFailed)
"""Failures of sandboxes on a busy machine, which decide nothing about an environment."""
WIDTH = max(map(len, CHECKS))
"""Width of the column of check names."""


class Verdict(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNDECIDED = "not decided"
    """It did not finish within its time, or its sandbox did not start or was lost: the machine may be busy."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with its detail."""

    check: str
    verdict: Verdict
    detail: str
    stop_reason: str = ""
    """The reason that no further check starts; empty to continue."""
    same_as: str = ""
    """The first check that failed with the same cause; empty if this check is the first."""

    def ending(self) -> str:
        """Return the rest of the line that ``heading`` begins; a failure like an earlier one names only its check."""
        return f"{self.verdict:<7}  {f'as `{self.same_as}`: the same cause' if self.same_as else self.detail}"


def heading(check: str) -> str:
    """Return the beginning of a check's line, known before the check ends."""
    return f"{check:<{WIDTH}}  "


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds per call of the environment."""

    p50: float
    p95: float

    @classmethod
    def of(cls, values: list[float]) -> "Latency | None":
        """Return the percentiles of the values; None without values."""
        if not values:
            return None
        ordered = sorted(values)
        return cls(ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))])


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all checks."""

    env_id: str
    findings: tuple[Finding, ...]
    reset_ms: Latency | None
    step_ms: Latency | None

    @property
    def ok(self) -> bool:
        """Whether no check failed, and each was decided."""
        return all(one.verdict not in (Verdict.FAILED, Verdict.UNDECIDED) for one in self.findings)

    def lines(self) -> list[str]:
        """Return the whole report as lines of text."""
        return [*(heading(each.check) + each.ending() for each in self.findings), *self.latencies(), self.summary()]

    def summary(self) -> str:
        """Return the number of checks per result, with the names of the failed ones."""
        names = {each: [finding.check for finding in self.findings if finding.verdict is each] for each in Verdict}
        parts = [f"{len(names[Verdict.PASSED])} passed"]
        if names[Verdict.SKIPPED]:
            parts.append(f"{len(names[Verdict.SKIPPED])} skipped")
        for bad in (Verdict.FAILED, Verdict.UNDECIDED):
            if names[bad]:
                parts.append(f"{len(names[bad])} {bad}: {', '.join(names[bad])}")
        return ", ".join(parts) + (" (set a longer `--timeout`)" if names[Verdict.UNDECIDED] else "")

    def latencies(self) -> list[str]:
        """Return the measured latencies as lines of text."""
        lines = []
        for name, latency in (("reset", self.reset_ms), ("step", self.step_ms)):
            if latency is not None:
                lines.append(f"{heading(f'{name} latency')}p50 {latency.p50:.3f} ms, p95 {latency.p95:.3f} ms")
        return lines


async def _run(name: str, check: Check, subject: Subject, timeout_s: float) -> tuple[Finding, object]:
    """Return the finding of a check, and the cause of a failure that a later check may share; None for another end."""
    try:
        async with asyncio.timeout(timeout_s):
            return Finding(name, Verdict.PASSED, await check(subject)), None
    except Skipped as skipped:
        return Finding(name, Verdict.SKIPPED, str(skipped)), None
    except TimeoutError:
        return Finding(name, Verdict.UNDECIDED, f"not finished within {timeout_s:.4g} s"), None
    except EnvTimeout as hung:
        return Finding(name, Verdict.FAILED, str(hung), stop_reason="a call timed out"), None
    except (CheckFailed, EnvError) as failure:
        stop_reason, first = "the environment cannot be reset" if name == RESET else "", _first(failure)
        verdict = Verdict.UNDECIDED if isinstance(first, OF_MACHINE) else Verdict.FAILED
        return Finding(name, verdict, str(failure), stop_reason), _cause(first)


def _first(error: BaseException) -> BaseException:
    """Return the first exception of a chain."""
    return error if error.__cause__ is None else _first(error.__cause__)


def _cause(first: BaseException) -> object:
    """Return the line of code that raised an exception of the environment, and the text of another failure."""
    if isinstance(first, CheckFailed) or (trace := first.__traceback__) is None:
        return str(first)
    *_, (frame, line) = walk_tb(trace)
    return frame.f_code.co_filename, line


def check(
    env_id: str,
    options: dict[str, Any] | None = None,
    *,
    call_timeout_s: float = CALL_TIMEOUT_S,
    check_timeout_s: float = CHECK_TIMEOUT_S,
    timeout_s: float = 600.0,
    on_start: Callable[[str], None] = lambda check: None,
    on_result: Callable[[Finding], None] = lambda finding: None,
) -> Report:
    """Run every check and return the report.

    Args:
        call_timeout_s: limit of one call of the environment.
        check_timeout_s: limit of one check.
        timeout_s: limit of all checks together.
        on_start: called with the name of each check before it runs.
        on_result: called with each finding.

    Raises:
        UnknownEnvironment: the id is not registered.
        EnvironmentFailed: the environment cannot be made with these options.
        EnvTimeout: making it exceeds ``call_timeout_s``.
    """
    subject = Subject(env_id, dict(options or {}), call_timeout_s)

    async def run() -> list[Finding]:
        before = settings()
        spec(env_id)
        subject.before = before | variables()
        subject.running = left_running()
        async with subject.made():
            pass
        ends = time.monotonic() + timeout_s
        findings: list[Finding] = []
        stop_reason = ""
        first: dict[object, str] = {}
        for name, each in CHECKS.items():
            on_start(name)
            left = min(check_timeout_s, ends - time.monotonic())
            if stop_reason:
                found = Finding(name, Verdict.SKIPPED, f"not started: {stop_reason}")
            elif left <= 0:
                found = Finding(name, Verdict.UNDECIDED, f"not started: all checks together exceeded {timeout_s:g} s")
            else:
                found, cause = await _run(name, each, subject, left)
                stop_reason = found.stop_reason
                if cause is not None and first.setdefault(cause, name) != name:
                    found = replace(found, same_as=first[cause])
            findings.append(found)
            on_result(found)
        return findings

    return Report(env_id, tuple(event_loop.run(run())), Latency.of(subject.reset_ms), Latency.of(subject.step_ms))
