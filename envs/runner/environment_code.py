"""Calls of an environment's code: what the call changed of the process is undone after it."""

import contextlib
from collections.abc import Iterator

from ...process.children import copies_end
from ...process.limits import limits, raise_again
from ...process.output import check_descriptors
from ..errors import EnvironmentFailed


@contextlib.contextmanager
def environment_code() -> Iterator[None]:
    """Inside the context, code of an environment runs.

    Afterwards a forked copy of the process ends, descriptors 0, 1 and 2 are open, and lowered limits are raised again.

    Raises:
        EnvironmentFailed: a limit stays low.
    """
    before = limits()
    try:
        with copies_end():
            yield
    finally:
        check_descriptors()
        if low := raise_again(before):
            raise EnvironmentFailed(
                f"code of an environment lowered a hard limit of its process ({low}); only root may raise it again: "
                "set limits in a process of the environment"
            )
