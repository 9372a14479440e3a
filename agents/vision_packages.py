"""torchvision, with which `transformers` and vLLM prepare images, next to a torch without its operators.

The builds of torchvision that package registries hold for x86 link CUDA. Next to a CPU build of torch, its operators do
not load, and the import fails where it declares two of them: declared here, without an implementation, they let the
rest of the package work. ``make install`` keeps it out of the environment, in ``vision/``, so that a policy that reads
text does not import it.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from ..errors import TurnwiseError

FOLDER = "vision"
"""The folder of the package, in that of the environment."""
OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
IMAGE_MODULES = tuple(
    f"transformers.{name}" for name in ("image_utils", "image_processing_utils", "image_processing_backends")
)
"""Modules that import torchvision if they find it, in the order of their imports."""
_declared: list[Any] = []


def refuse_missing() -> None:
    """Raise unless torchvision can be made importable. Imports nothing.

    Raises:
        TurnwiseError: it is not installed.
    """
    if importlib.util.find_spec("torchvision") is None and not (Path(sys.prefix) / FOLDER / "torchvision").is_dir():
        raise TurnwiseError(
            "a policy that reads images needs `torchvision`, which is not installed: run `make install`"
        )


def enable() -> None:
    """Make torchvision importable in this process, and let `transformers` prepare images with it; idempotent. Imports
    torch.

    Modules of `transformers` that were imported before, without it, are imported again. Its classes of image processors
    are to be taken from the module of their family: a name that `transformers` itself resolved before stays as it is.

    Raises:
        TurnwiseError: it is not installed.
    """
    if _declared:
        return
    import torch

    refuse_missing()
    if importlib.util.find_spec("torchvision") is None:
        sys.path.append(str(Path(sys.prefix) / FOLDER))
    library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    _declared.append(library)  # an operator is gone with its library
    if torch.version.cuda is None and not hasattr(torch.ops.torchvision, "nms"):
        for operator in OPERATORS:
            library.define(operator)
    if "transformers" in sys.modules:
        from transformers.utils.import_utils import is_torchvision_available

        is_torchvision_available.cache_clear()
        for name in IMAGE_MODULES:
            if name in sys.modules:
                importlib.reload(sys.modules[name])
