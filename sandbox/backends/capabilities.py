"""Capabilities that a backend declares; the self-check decides by them."""

from dataclasses import dataclass
from enum import StrEnum


class Containment(StrEnum):
    """One area that a backend may contain. A backend without it is for trusted tasks, which do not attack it."""

    NETWORK = "network"
    """No other machine, no listener of this machine and no other sandbox can be reached."""
    TOTALS = "totals"
    """Limits apply to memory, cpu time and files of all processes together, as by a control group."""
    SYSTEM_CALLS = "system calls"
    """A filter refuses system calls that programs do not need, and commands cannot change the guest agent."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Properties of every sandbox of a backend."""

    contains: frozenset[Containment]
    untrusted: bool
    """Whether tasks that are not declared trusted may run in it by default."""
    images: bool
    """Whether ``SandboxSpec.image`` selects the programs; otherwise they are those of this machine."""
    transport: str
    """How the guest agent reaches the host: ``unix`` or ``tcp``."""

    def describe(self) -> str:
        """Return the properties in one line."""
        areas = ", ".join(area for area in Containment if area in self.contains)
        return (
            f"contains {areas or 'no area'}; {'all' if self.untrusted else 'trusted'} tasks; "
            f"programs of {'an image' if self.images else 'this machine'}; {self.transport} transport"
        )
