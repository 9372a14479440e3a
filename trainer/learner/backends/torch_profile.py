"""Profiles of a learner's update by ``torch.profiler``: the operations on the processor and on the GPU."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity

LOG = logging.getLogger(__name__)

ROWS = 40
"""Operations in the table."""


@contextmanager
def profiled(folder: Path | None) -> Iterator[None]:
    """Write the profile of the ``with`` block, which runs in this thread, into ``folder``; None profiles nothing.

    The files are ``learner-<pid>.json.gz``, the trace of every operation, and ``learner-<pid>.txt``, the most expensive
    ones.
    """
    if folder is None:
        yield
        return
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
    with torch.profiler.profile(activities=activities) as profile:
        yield
    path = folder / f"learner-{os.getpid()}"
    key = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        profile.export_chrome_trace(f"{path}.json.gz")
        path.with_suffix(".txt").write_text(profile.key_averages().table(sort_by=key, row_limit=ROWS))
    except (OSError, RuntimeError):  # the weights are updated, and the run does not need the profile
        LOG.warning("the profile of the update could not be written", exc_info=True)
