"""Commands in forks of one process, for the tests of a command's process."""

from collections.abc import Callable
from pathlib import Path

import pytest
from turnwise.tests.console.forked_commands import Ended, ForkedCommands

Turnwise = Callable[..., Ended]


@pytest.fixture
def turnwise(forked_commands: ForkedCommands, tmp_path: Path) -> Turnwise:
    """Return a function that runs a command, in the test's folder unless it names another one."""

    def run(*arguments: str, folder: Path = tmp_path, environment: dict[str, str | None] | None = None) -> Ended:
        return forked_commands.run(tmp_path, *arguments, folder=str(folder), environment=environment)

    return run
