"""``check``: does an environment hold to its contract? Every check runs, each against a deadline, and all are
reported, but that after a first reset that failed, or a call that hung, no other is begun."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..errors import EnvError, EnvTimeout
from ..registry import spec
from .checks import CHECKS, RESET, Check, CheckFailed, Skipped, Subject

CALL_DEADLINE_S = 60.0
"""As long as a run waits for a reset."""
CHECK_DEADLINE_S = 120.0
WIDTH = max(map(len, CHECKS))
"""Of the column that names the check."""


class Verdict(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's end."""

    check: str
    verdict: Verdict
    detail: str
    hopeless: str = ""
    """Why no further check is worth its time."""

    def line(self) -> str:
        """The check and its end, for a person."""
        return heading(self.check) + self.ending()

    def ending(self) -> str:
        """The rest of the line that ``heading`` begins."""
        return f"{self.verdict:<7}  {self.detail}"


def heading(check: str) -> str:
    """The beginning of a check's line: the part that is known before the check ends."""
    return f"{check:<{WIDTH}}  "


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds, as the environment's own calls took."""

    p50: float
    p95: float

    @classmethod
    def of(cls, values: list[float]) -> "Latency | None":
        """Of the measured values; None of none."""
        if not values:
            return None
        ordered = sorted(values)
        return cls(ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))])


@dataclass(frozen=True, slots=True)
class Report:
    """What was found."""

    env_id: str
    findings: tuple[Finding, ...]
    reset_ms: Latency | None
    step_ms: Latency | None

    @property
    def ok(self) -> bool:
        """Nothing failed."""
        return all(finding.verdict is not Verdict.FAILED for finding in self.findings)

    def lines(self) -> list[str]:
        """The whole report, for a person."""
        return [*(finding.line() for finding in self.findings), *self.latencies(), self.summary()]

    def summary(self) -> str:
        """How many checks ended in which way, with the names of those that failed."""
        names = {each: [finding.check for finding in self.findings if finding.verdict is each] for each in Verdict}
        skipped = f", {len(names[Verdict.SKIPPED])} skipped" if names[Verdict.SKIPPED] else ""
        failed = f", {len(names[Verdict.FAILED])} failed: {', '.join(names[Verdict.FAILED])}"
        return f"{len(names[Verdict.PASSED])} passed{skipped}{failed if names[Verdict.FAILED] else ''}"

    def latencies(self) -> list[str]:
        """What was measured, for a person."""
        lines = []
        for name, latency in (("reset", self.reset_ms), ("step", self.step_ms)):
            if latency is not None:
                lines.append(f"{heading(f'{name} latency')}p50 {latency.p50:.3f} ms, p95 {latency.p95:.3f} ms")
        return lines


async def _run(name: str, check: Check, subject: Subject, timeout_s: float) -> Finding:
    try:
        async with asyncio.timeout(timeout_s):
            return Finding(name, Verdict.PASSED, await check(subject))
    except Skipped as skipped:
        return Finding(name, Verdict.SKIPPED, str(skipped))
    except TimeoutError:
        return Finding(name, Verdict.FAILED, f"not finished after {timeout_s:g} s")
    except EnvTimeout as hung:
        return Finding(name, Verdict.FAILED, str(hung), hopeless="a call of it hung")
    except (CheckFailed, EnvError) as failure:
        hopeless = "it cannot be reset" if name == RESET else ""
        return Finding(name, Verdict.FAILED, str(failure), hopeless)


def check(
    env_id: str,
    options: dict[str, Any] | None = None,
    *,
    call_deadline: float = CALL_DEADLINE_S,
    check_deadline: float = CHECK_DEADLINE_S,
    timeout_s: float = 600.0,
    begin: Callable[[str], None] = lambda check: None,
    tell: Callable[[Finding], None] = lambda finding: None,
) -> Report:
    """Run every check. ``call_deadline`` bounds one call of the environment, ``timeout_s`` the whole.

    ``begin`` is called with each check's name as the check begins, ``tell`` with its finding as the check ends. After a
    first reset that failed or a call that hung, no other check begins: it would fail or hang again.

    Raises:
        UnknownEnvironment: no such id.
        EnvironmentFailed: it cannot be made with these options.
        EnvTimeout: nor within ``call_deadline``.
    """
    spec(env_id)
    subject = Subject(env_id, dict(options or {}), call_deadline)
    ends = time.monotonic() + timeout_s

    async def run() -> list[Finding]:
        async with subject.made():
            pass
        findings: list[Finding] = []
        hopeless = ""
        for name, each in CHECKS.items():
            begin(name)
            left = min(check_deadline, ends - time.monotonic())
            if hopeless:
                found = Finding(name, Verdict.SKIPPED, f"not begun: {hopeless}")
            elif left <= 0:
                found = Finding(name, Verdict.FAILED, f"not begun: the whole took over {timeout_s:g} s")
            else:
                found = await _run(name, each, subject, left)
                hopeless = found.hopeless
            findings.append(found)
            tell(found)
        return findings

    findings = asyncio.run(run())
    return Report(env_id, tuple(findings), Latency.of(subject.reset_ms), Latency.of(subject.step_ms))
