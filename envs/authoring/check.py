"""``turnwise envs check``: run every check of the environment contract, each with a timeout, and report all of them.

After a first reset that failed, or a call that hung, no further check starts: it would fail or hang again.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ...process.children import unblock_signals
from ...process.timers import timers_outlived
from ..errors import EnvError, EnvTimeout
from ..registry import spec
from .checks import CHECKS, RESET, Check
from .process_state import LIBRARY_STATE, State, left_running, process_state
from .subject import CheckFailed, Skipped, Subject

CALL_TIMEOUT_S = 60.0
"""The default timeout of a reset in a run."""
CHECK_TIMEOUT_S = 120.0
WIDTH = max(map(len, CHECKS))
"""Width of the column of check names."""


class Verdict(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with its detail."""

    check: str
    verdict: Verdict
    detail: str
    stop_reason: str = ""
    """The reason that no further check starts; empty to continue."""
    same_as: str = ""
    """The first check that failed with the same detail; empty if this check is the first."""

    def ending(self) -> str:
        """Return the rest of the line that ``heading`` begins; a failure like an earlier one names only its check."""
        return f"{self.verdict:<7}  {f'as {self.same_as}' if self.same_as else self.detail}"


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
        """Whether no check failed."""
        return all(finding.verdict is not Verdict.FAILED for finding in self.findings)

    def lines(self) -> list[str]:
        """Return the whole report as lines of text."""
        return [*(heading(each.check) + each.ending() for each in self.findings), *self.latencies(), self.summary()]

    def summary(self) -> str:
        """Return the number of checks per result, with the names of the failed ones."""
        names = {each: [finding.check for finding in self.findings if finding.verdict is each] for each in Verdict}
        skipped = f", {len(names[Verdict.SKIPPED])} skipped" if names[Verdict.SKIPPED] else ""
        failed = f", {len(names[Verdict.FAILED])} failed: {', '.join(names[Verdict.FAILED])}"
        return f"{len(names[Verdict.PASSED])} passed{skipped}{failed if names[Verdict.FAILED] else ''}"

    def latencies(self) -> list[str]:
        """Return the measured latencies as lines of text."""
        lines = []
        for name, latency in (("reset", self.reset_ms), ("step", self.step_ms)):
            if latency is not None:
                lines.append(f"{heading(f'{name} latency')}p50 {latency.p50:.3f} ms, p95 {latency.p95:.3f} ms")
        return lines


def _state_of_calls() -> State:
    """Return the state of the process as a thread finds it that calls environments: no signal is blocked there."""
    unblock_signals()
    return process_state()


async def _run(name: str, check: Check, subject: Subject, timeout_s: float) -> Finding:
    try:
        async with asyncio.timeout(timeout_s):
            return Finding(name, Verdict.PASSED, await check(subject))
    except Skipped as skipped:
        return Finding(name, Verdict.SKIPPED, str(skipped))
    except TimeoutError:
        return Finding(name, Verdict.FAILED, f"not finished within {timeout_s:g} s")
    except EnvTimeout as hung:
        return Finding(name, Verdict.FAILED, str(hung), stop_reason="a call timed out")
    except (CheckFailed, EnvError) as failure:
        stop_reason = "the environment cannot be reset" if name == RESET else ""
        return Finding(name, Verdict.FAILED, str(failure), stop_reason)


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
        before = await asyncio.to_thread(_state_of_calls)
        spec(env_id)
        imported = await asyncio.to_thread(_state_of_calls)
        subject.before = {**before, **{kind: imported[kind] for kind in LIBRARY_STATE}}
        subject.running = left_running()
        async with subject.made():
            pass
        ends = time.monotonic() + timeout_s
        findings: list[Finding] = []
        stop_reason = ""
        first: dict[str, str] = {}
        for name, each in CHECKS.items():
            on_start(name)
            left = min(check_timeout_s, ends - time.monotonic())
            if stop_reason:
                found = Finding(name, Verdict.SKIPPED, f"not started: {stop_reason}")
            elif left <= 0:
                found = Finding(name, Verdict.FAILED, f"not started: all checks together exceeded {timeout_s:g} s")
            else:
                found = await _run(name, each, subject, left)
                stop_reason = found.stop_reason
                if found.verdict is Verdict.FAILED and first.setdefault(found.detail, name) != name:
                    found = replace(found, same_as=first[found.detail])
            findings.append(found)
            on_result(found)
        return findings

    with timers_outlived():
        findings = asyncio.run(run())
    return Report(env_id, tuple(findings), Latency.of(subject.reset_ms), Latency.of(subject.step_ms))
