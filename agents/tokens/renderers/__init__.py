"""The renderers, one file per family of chat templates.

Invariant: a renderer has no state of a conversation, so that one serves all conversations of a process.
To support a family, add a file with ``RENDERER``, a class with the methods of ``renderer.Renderer`` that takes a model
folder, and ``MODEL_TYPES``, the values of ``model_type`` that it serves. ``text`` serves all others.
"""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from ....errors import TurnwiseError
from ...errors import UnusableChat
from ...model_folder import base_model
from ..encoding import read_json
from ..renderer import Renderer
from . import text


def load_renderer(path: str | Path) -> Renderer:
    """Return the renderer of a model folder, or of the model that an adapter's folder names.

    Raises:
        FileNotFoundError: the folder does not exist.
        UnusableChat: the tokenizer cannot be read or has no fast form, there is no chat template, or the template
            cannot hold a conversation.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise FileNotFoundError(f"no model folder at {folder}")
    config = base_model(folder) / "config.json"
    try:
        model_type = read_json(config).get("model_type")
    except TurnwiseError as error:
        raise UnusableChat(f"`{folder}`: {error}") from error
    families = [import_module(f".{module.name}", __name__) for module in iter_modules(__path__)]
    family = next((family for family in families if model_type in family.MODEL_TYPES), text)
    renderer: Renderer = family.RENDERER(folder)
    return renderer
