"""``check``: does an environment hold to its contract? Every check runs, each against a deadline, and all are
reported."""

import asyncio
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .checks import CHECKS, Check, CheckFailed, Skipped, Subject
from .errors import EnvError
from .registry import spec

CALL_DEADLINE_S = 30.0
CHECK_DEADLINE_S = 120.0


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
        """The report for a person."""
        width = max(len(finding.check) for finding in self.findings)
        lines = [f"{finding.verdict:<7}  {finding.check:<{width}}  {finding.detail}" for finding in self.findings]
        for name, latency in (("reset", self.reset_ms), ("step", self.step_ms)):
            if latency is not None:
                lines.append(f"latency  {name:<{width}}  p50 {latency.p50:.3f} ms, p95 {latency.p95:.3f} ms")
        return lines


async def _run(name: str, check: Check, subject: Subject, deadline: float) -> Finding:
    try:
        async with asyncio.timeout(deadline):
            return Finding(name, Verdict.PASSED, await check(subject))
    except Skipped as skipped:
        return Finding(name, Verdict.SKIPPED, str(skipped))
    except TimeoutError:
        return Finding(name, Verdict.FAILED, f"not finished after {deadline:g} s")
    except (CheckFailed, EnvError) as failure:
        return Finding(name, Verdict.FAILED, str(failure))


def check(
    env_id: str,
    options: dict[str, Any] | None = None,
    *,
    call_deadline: float = CALL_DEADLINE_S,
    check_deadline: float = CHECK_DEADLINE_S,
    deadline: float = 600.0,
) -> Report:
    """Run every check; ``call_deadline`` bounds one call of the environment, ``deadline`` the whole, in seconds.

    Raises:
        UnknownEnvironment: no such id.
    """
    spec(env_id)
    subject = Subject(env_id, dict(options or {}), call_deadline)
    ends = time.monotonic() + deadline

    async def run() -> list[Finding]:
        findings = []
        for name, each in CHECKS.items():
            left = min(check_deadline, ends - time.monotonic())
            if left <= 0:
                findings.append(Finding(name, Verdict.FAILED, f"not begun: the whole took over {deadline:g} s"))
            else:
                findings.append(await _run(name, each, subject, left))
        return findings

    findings = asyncio.run(run())
    return Report(env_id, tuple(findings), Latency.of(subject.reset_ms), Latency.of(subject.step_ms))
