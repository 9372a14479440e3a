"""The metrics of a run: one JSON line per record in the run's folder, and TensorBoard if configured."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Metrics:
    """Writer of ``metrics.jsonl`` and TensorBoard events; one instance per run."""

    def __init__(self, folder: Path, tensorboard: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "metrics.jsonl"
        self._file = self._path.open("a", encoding="utf-8")
        self._events = folder / "tensorboard"
        self._board = _board(self._events) if tensorboard else None

    def rewind(self, update: int | None) -> None:
        """Drop the records after ``update`` (None: all), which a resume abandons.

        The file is replaced by a rename. TensorBoard hides the steps of earlier event files from there on.
        """
        lines = self._path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if update is not None and _recorded_by(line, update)]
        temporary = self._path.with_suffix(".writing")
        temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        self._file.close()
        temporary.replace(self._path)
        self._file = self._path.open("a", encoding="utf-8")
        if self._board is not None:
            self._board.close()
            self._board = _board(self._events, purge_step=0 if update is None else update + 1)

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


def _board(folder: Path, purge_step: int | None = None) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=purge_step)


def _recorded_by(line: str, update: int) -> bool:
    """Return whether a record is of ``update`` or before; false for a line that a killed process left incomplete."""
    try:
        return int(json.loads(line)["update"]) <= update
    except (ValueError, KeyError, TypeError):
        return False


def finite(value: Any) -> Any:
    """Return the value with None for every number that JSON cannot represent."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): finite(one) for key, one in value.items()}
    return value
