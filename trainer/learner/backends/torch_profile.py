"""Profiles of a learner's update by ``torch.profiler``: the operations on the processor and on the GPU."""

import logging
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch.profiler import ProfilerActivity

LOG = logging.getLogger(__name__)

ROWS = 40
"""Operations in the table."""

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="ProfilesUpdates")


class ProfilesUpdates:
    """A learner whose ``update`` is ``profiled``."""

    _profile_folder: Path | None = None
    """Where the next update is profiled; None profiles none."""

    def profile_next(self, folder: Path) -> None:
        """Profile the next update (``LearnerBackend.profile_next``)."""
        self._profile_folder = folder


def profiled(update: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Return ``update``, which profiles itself after a call of ``profile_next``.

    The trace holds every operation, so one update is profiled, in the thread that runs it.
    """

    @wraps(update)
    def run(self: S, /, *arguments: P.args, **options: P.kwargs) -> T:
        folder, self._profile_folder = self._profile_folder, None
        if folder is None:
            return update(self, *arguments, **options)
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
        with torch.profiler.profile(activities=activities) as profile:
            result = update(self, *arguments, **options)
        try:
            _write(profile, folder / f"learner-{os.getpid()}")
        except (OSError, RuntimeError):  # the weights are updated, and the run does not need the profile
            LOG.warning("the profile of the update could not be written", exc_info=True)
        return result

    return run


def _write(profile: torch.profiler.profile, path: Path) -> None:
    """Write ``<path>.json.gz``, the trace, and ``<path>.txt``, the most expensive operations."""
    path.parent.mkdir(parents=True, exist_ok=True)
    profile.export_chrome_trace(f"{path}.json.gz")
    key = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    path.with_suffix(".txt").write_text(profile.key_averages().table(sort_by=key, row_limit=ROWS))
