"""Read the report of ``pytest_guest``, which the code under test may have written.

That code can find the nonce and the descriptor of the report in the frames that call it. So whatever the report holds
is the agent's doing: a report that does not parse is not a failure of the environment.
"""

import json
from typing import Self

from pydantic import BaseModel, ConfigDict


class Report(BaseModel):
    """The outcome of one run of pytest."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    collected: list[str]
    """Ids of the collected tests."""
    results: dict[str, str]
    """Worst outcome over the phases of each test, by id."""
    unfit: dict[str, str]
    """Reasons by the id of each test or file whose outcome is no verdict: skipped, expected to fail, not run."""
    errors: str
    """Texts of the test files that could not be imported."""
    tamper: list[str]
    interrupted: bool
    """Whether a KeyboardInterrupt ended the run."""

    @classmethod
    def parse(cls, line: bytes) -> Self | None:
        """Return the report of a line; None if it is not a report."""
        try:
            return cls.model_validate(json.loads(line))
        except (ValueError, RecursionError):
            return None


def reports(output: bytes, nonce: str) -> list[Report | None]:
    """Return the report of each line of ``output`` that begins with the nonce; None for a line that is not a report."""
    lines = (line for line in output.splitlines() if line.startswith(nonce.encode()))
    return [Report.parse(line[len(nonce) :]) for line in lines]
