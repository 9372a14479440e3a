"""Let packages that are built for CUDA stand next to a CPU build of torch.

vLLM requires torchvision, torchaudio and torchcodec, and `transformers` imports them where they are installed. Their
builds on PyPI for x86-64 link CUDA, so next to a CPU build of torch their imports fail:

* torchvision prepares images. It fails only because two of its operators are not loaded; declared here, without an
  implementation, they let the import succeed. turnwise, vLLM and `transformers` do not call them for images.
* torchaudio and torchcodec do not load without their libraries. Nothing here reads sound or video, so empty modules
  take their places, unless a process imports torchaudio before torch.

torch calls `adapt_packages` at the end of its own import (entry point ``torch.backends`` in pyproject.toml), so it
holds in every process, also in those that vLLM starts.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[Any] = []


def adapt_packages() -> None:
    """Make `transformers` and vLLM importable if torch is a build for the CPU; idempotent. Imports torch."""
    import torch

    if torch.version.cuda is not None or _declared:
        return
    if _built_for_cuda("torchvision"):
        library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for operator in OPERATORS:
            library.define(operator)
        _declared.append(library)  # an operator is gone with its library
    for name in ("torchaudio", "torchcodec"):
        if spec := _built_for_cuda(name):
            spec.submodule_search_locations = None  # an import of a submodule raises ModuleNotFoundError
            sys.modules[name] = module_from_spec(spec)


def _built_for_cuda(package: str) -> ModuleSpec | None:
    """Return the spec of a package whose version names CUDA, as in ``0.28.0+cu130``; None if there is none."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    version = Path(spec.origin).with_name("version.py")
    return spec if version.is_file() and "+cu" in version.read_text(encoding="utf-8") else None
