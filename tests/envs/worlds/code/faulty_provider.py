"""A provider of real sandboxes that records its leases and can inject faults."""

from collections.abc import Callable
from typing import Any

from turnwise.sandbox.lease import SandboxLease
from turnwise.sandbox.provider import InProcessProvider
from turnwise.sandbox.spec import SandboxSpec


class FaultyProvider(InProcessProvider):
    """Calls ``fault`` with each new lease, which may change the lease or raise."""

    def __init__(self, backend: str, **options: Any) -> None:
        super().__init__(backend, **options)
        self.leases: list[tuple[str, str]] = []
        """Purpose and sandbox of each lease."""
        self.fault: Callable[[SandboxLease], None] = lambda lease: None

    def lease(self, spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> SandboxLease:
        """Return a real lease."""
        made = super().lease(spec, timeout_s=timeout_s, max_duration_s=max_duration_s)
        self.leases.append((spec.purpose, made.id))
        try:
            self.fault(made)
        except BaseException:
            made.release()
            raise
        return made
