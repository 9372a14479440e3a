"""Start Ray on this machine or connect to a cluster, and stop it."""

import logging
import os
from collections.abc import Mapping
from typing import Any

from ...errors import TurnwiseError
from .daemons import RayDaemons
from .ray_patches import log_errors_of_actors, same_search_path, start_fewer_processes

RAY_ENVIRONMENT: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Defaults of environment variables for Ray and all its actors."""
LOCAL_RAY_ENVIRONMENT: Mapping[str, str] = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""On any system, this variable restricts a Ray that is started here, and all its actors, to the loopback interface."""
OBJECT_STORE_BYTES = 100 << 20

_started: list[RayDaemons] = []


def start_ray(address: str | None = None) -> None:
    """Connect to the Ray cluster at ``address``, or start Ray on this machine, on the loopback interface.

    Raises:
        TurnwiseError: Ray could not be reached or started.
    """
    for name, value in {**RAY_ENVIRONMENT, **({} if address else LOCAL_RAY_ENVIRONMENT)}.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        return
    logging.getLogger("ray").setLevel(logging.ERROR)
    log_errors_of_actors()
    if not address:
        start_fewer_processes()
    settings: dict[str, Any] = (
        {"address": address}
        if address
        else {
            # Without "local", Ray joins any cluster that it finds on this machine.
            "address": "local",
            "num_cpus": os.cpu_count(),
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_node_ip_address": "127.0.0.1",
        }
    )
    settings |= {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    settings["job_config"] = same_search_path()
    try:
        _started.append(RayDaemons(settings, local=not address))
    except Exception as error:
        raise TurnwiseError(f"Ray could not be {'reached at ' + address if address else 'started'}: {error}") from error


def stop_ray() -> None:
    """Stop what ``start_ray`` started."""
    while _started:
        _started.pop().stop()
