"""The hash of the model that a LoRA adapter belongs to: an adapter on other weights is another policy."""

import hashlib
import json
from pathlib import Path

from ....agents.weights.adapter_folder import base_model, is_adapter
from ....errors import TurnwiseError
from ....user_files import read_json_object

BASE_DIGEST = "training/base_model.json"
"""The file of a checkpoint with the hash."""
_HASHED_SUFFIXES = frozenset({".safetensors", ".bin"})


def model_digest(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of a model's files of weights, in hex."""
    whole = hashlib.sha256()
    for file in sorted(one for one in folder.iterdir() if one.suffix in _HASHED_SUFFIXES):
        with file.open("rb") as opened:
            whole.update(f"{file.name} {hashlib.file_digest(opened, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def write_base_digest(folder: Path, digest: str) -> None:
    """Write the hash of the model into the folder of an adapter."""
    (folder / BASE_DIGEST).parent.mkdir(exist_ok=True)
    (folder / BASE_DIGEST).write_text(json.dumps({"sha256": digest}))


def verify_base(folder: Path) -> None:
    """Raise if ``folder`` is an adapter whose model changed since the adapter was written. Reads all weights.

    Raises:
        TurnwiseError: the model is not there, or has other weights.
    """
    if not is_adapter(folder) or not (folder / BASE_DIGEST).is_file():
        return
    base = base_model(folder)
    if read_json_object(folder / BASE_DIGEST).get("sha256") != model_digest(base):
        raise TurnwiseError(
            f"the adapter `{folder}` was trained on other weights than those in `{base}`: put the files of its model "
            "back there"
        )
