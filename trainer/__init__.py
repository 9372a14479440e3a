"""Train and evaluate language-model agents: load a configuration, ``train`` a run of it, ``evaluate`` any policy.

Invariant: the folders are floors, and each imports only those below it: ``run``, ``evaluation``, ``preflight``,
``cluster`` and ``planning``, ``warmup`` and ``rollout``, ``learner``, ``config``, ``algorithms``, ``telemetry``. The
names below are imported when they are first used, so ``import turnwise.trainer`` imports nothing heavy.

To add a public name, import it under ``TYPE_CHECKING`` and name its module in ``_MODULES``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config.loading import load_config
    from .config.schema import RunConfig
    from .evaluation.tasks import evaluate
    from .run.run import train
    from .run.summary import RunResult
    from .telemetry.events import EvalResult

__all__ = ["EvalResult", "RunConfig", "RunResult", "evaluate", "load_config", "train"]

_MODULES = {
    "EvalResult": ".telemetry.events",
    "RunConfig": ".config.schema",
    "RunResult": ".run.summary",
    "evaluate": ".evaluation.tasks",
    "load_config": ".config.loading",
    "train": ".run.run",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return getattr(import_module(_MODULES[name], __name__), name)
