"""The sandbox images of the shipped worlds, registered as entry points in ``pyproject.toml``."""

from pathlib import Path

from ...sandbox.images.reference import ImageRecipe

_WORLDS = Path(__file__).parent
CODE = ImageRecipe(_WORLDS / "code/image")
WEB = ImageRecipe(_WORLDS / "web/image", {"driver": _WORLDS / "web/driver", "apps": _WORLDS / "web/apps/server"})
DESKTOP = ImageRecipe(_WORLDS / "desktop/image", {"driver": _WORLDS / "desktop/driver"})
