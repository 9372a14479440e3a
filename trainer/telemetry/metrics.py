"""Where a run's numbers go: always a JSON line a record in the run's folder; TensorBoard where asked."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Metrics:
    """Appends to ``metrics.jsonl``; one instance a run."""

    def __init__(self, folder: Path, tensorboard: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "metrics.jsonl").open("a", encoding="utf-8")
        self._board: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"))

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Record ``values`` at ``step`` updates; numbers that are not finite become null."""
        record = {"kind": kind, "update": step, **values}
        self._file.write(json.dumps({name: finite(value) for name, value in record.items()}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float) and math.isfinite(value):
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def finite(value: Any) -> Any:
    """The value, with None for a number that JSON cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): finite(one) for key, one in value.items()}
    return value
