"""Patches of Ray 2.60, for a driver that starts its own Ray or joins a cluster, and its end.

Ray has no setting for any of them. No other module depends on Ray's private names.
"""

import gc
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOG = logging.getLogger(__name__)


def log_errors_of_actors() -> None:
    """Log what Ray's listener prints to stdout when an actor dies, with or without ``log_to_driver``."""
    from ray._private import worker

    def log(data: Mapping[str, Any], *arguments: Any, **options: Any) -> None:
        LOG.warning("Ray: %s", "\n".join(map(str, data["lines"])))

    worker.print_to_stdstream = log


def same_search_path() -> Any:
    """Return settings of a job whose processes look for modules where this one does.

    Ray adds the current folder to the search path of its processes, although a program has its own folder there. A
    project's folder in the current one would then hide the installed package of the same name.
    """
    from ray.job_config import JobConfig

    job: Any = JobConfig()
    serialize = job._serialize

    def with_own_folders() -> Any:
        own = {str(Path(folder).resolve()) for folder in sys.path}
        job._py_driver_sys_path = [folder for folder in job._py_driver_sys_path if folder in own]
        return serialize()

    job._serialize = with_own_folders
    return job


def start_fewer_processes() -> None:
    """Start a local Ray without its log monitor, autoscaler and API server, which no run uses.

    They would take a quarter of Ray's memory, and several seconds of CPU time per start. A cluster has its own.
    """
    from ray._private.node import Node

    def skip(self: Any, **options: Any) -> None:
        """Start nothing."""

    node: Any = Node
    node.start_log_monitor = node.start_monitor = node.start_api_server = skip


def shut_ray_down() -> None:
    """Shut Ray down in this process.

    Ray ends a process that releases an object or an actor while ``ray.shutdown`` runs. The garbage collector may do so
    in any thread, so it runs before, and not meanwhile.
    """
    import ray

    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        ray.shutdown()
    finally:
        if enabled:
            gc.enable()
