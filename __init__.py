"""turnwise: train language-model agents by reinforcement learning in real multi-turn environments.

The repository root is this package. Its folders are the floors of the house, each importing only those below it:
``records`` (0), ``sandbox`` and ``store`` (1), ``envs`` (2), ``agents`` (3), ``trainer`` (4), ``console`` (5).

The public names are imported when they are first used, so ``import turnwise`` imports nothing heavy. To add one, import
it under ``TYPE_CHECKING`` and name its module in ``_MODULES``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import StoreReader, evaluate, open_store, train
    from .trainer.config.loading import load_config
    from .trainer.config.schema import RunConfig
    from .trainer.run.callbacks import Callback, RunEnded, StoppedEarly, StopRun
    from .trainer.run.summary import RunResult
    from .trainer.telemetry.events import EvalResult, UpdateDone

__version__ = "0.1.0"
__all__ = [
    "Callback",
    "EvalResult",
    "RunConfig",
    "RunEnded",
    "RunResult",
    "StopRun",
    "StoppedEarly",
    "StoreReader",
    "UpdateDone",
    "evaluate",
    "load_config",
    "open_store",
    "train",
]

_MODULES = {
    "Callback": ".trainer.run.callbacks",
    "EvalResult": ".trainer.telemetry.events",
    "RunConfig": ".trainer.config.schema",
    "RunEnded": ".trainer.run.callbacks",
    "RunResult": ".trainer.run.summary",
    "StopRun": ".trainer.run.callbacks",
    "StoppedEarly": ".trainer.run.callbacks",
    "StoreReader": ".api",
    "UpdateDone": ".trainer.telemetry.events",
    "evaluate": ".api",
    "load_config": ".trainer.config.loading",
    "open_store": ".api",
    "train": ".api",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return getattr(import_module(_MODULES[name], __name__), name)
