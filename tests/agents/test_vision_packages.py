"""torchvision next to a CPU build of torch: importable in the processes that ask for it."""

import subprocess
import sys

SCRIPT = """
import sys
from turnwise.agents import vision_packages
assert "torch" not in sys.modules
vision_packages.enable()
vision_packages.enable()
import torchvision
from transformers import Qwen2VLImageProcessor
print(torchvision.__name__, Qwen2VLImageProcessor.__name__)
"""


def test_torchvision_is_imported_by_those_who_ask() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.split() == ["torchvision", "Qwen2VLImageProcessor"], done.stderr
